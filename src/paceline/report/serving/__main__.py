"""The process with a page, which gives way to whoever trains.

    python -m paceline.report.serving PATH PORT

It reads a token from standard input, which may be empty, prints its port, and ends when standard input does.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path

from paceline.axon import loops
from paceline.axon.processes import end_with_parent
from paceline.errors import PacelineError, one_line
from paceline.report.serving.process import serving_page

_NICENESS = 5


async def _serve(path: Path, port: int, token: str | None) -> None:
    async with serving_page(path, port=port, token=token) as address:
        print(address.port, flush=True)
        await asyncio.Event().wait()


def main(path: Path, port: int) -> None:
    """Serve until standard input ends."""
    token = sys.stdin.readline().strip() or None
    threading.Thread(target=end_with_parent, daemon=True).start()
    os.nice(_NICENESS)
    try:
        loops.new_event_loop().run_until_complete(_serve(path, port, token))
    except (PacelineError, OSError) as error:
        sys.exit(f"paceline: the page cannot be shown: {one_line(str(error))}")


main(Path(sys.argv[1]), int(sys.argv[2]))
