"""`python -m batonpass`: the `baton` command."""

from __future__ import annotations

import sys

from batonpass.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
