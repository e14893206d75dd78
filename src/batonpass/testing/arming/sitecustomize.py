"""Run by every Python process that has this folder on its path: arms the points the test named."""  # noqa: INP001 — Python looks for it in a plain folder

from __future__ import annotations

import os

if spec := os.environ.get("BATON_TEST_POINTS"):
    from batonpass.testing.points import arm

    arm(spec)
