"""One round of a worker in a process that does nothing else, so that it can be paused and killed like the real one.

``python -m batonpass.testing.round -- COMMAND…`` is what `batonpass.testing.fleet` starts. It loads no server: most
of what such a process costs is what it loads.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from batonpass.client.client import Client
from batonpass.testing.points import VARIABLE
from batonpass.worker.app import run_once
from batonpass.worker.crew import Graces
from batonpass.worker.dispatch.handover import ByProcess
from batonpass.worker.dispatch.launch import Order
from batonpass.worker.server_graph import ServerGraph
from batonpass.worker.settings import Settings

BRISK: Final = Graces(interrupt_s=0.3, terminate_s=0.5, kill_s=5)
"""How long the processes of a test's run are asked, politely, to end."""


def main(arguments: Sequence[str]) -> None:
    """Do one round as a worker of the box that the environment describes."""
    _, *command = arguments
    settings = Settings(home=Path(os.environ["BATON_HOME"]), inherited=dict(os.environ), graces=BRISK)
    order = Order(tuple(command), Path.cwd(), project=os.environ["BATON_PROJECT"])
    with Client(os.environ["BATON_SERVER"], os.environ["BATON_TOKEN"]) as client:
        # Its supervisor is armed as this process is: whichever comes to a point first is the one that is meant.
        armed = {name: os.environ[name] for name in (VARIABLE,) if name in os.environ}
        starter = ByProcess(server=client.server, token=os.environ["BATON_TOKEN"], extra=armed)
        say = partial(print, flush=True)
        run_once(ServerGraph(client), settings, order, starter=starter, say=say, owns_process=True)


if __name__ == "__main__":
    main(sys.argv[1:])
