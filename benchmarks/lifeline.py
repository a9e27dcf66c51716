"""Runs a command that knows nothing of our lifeline: `python -m lifeline COMMAND ...`.

When standard input closes, or the command ends, all that it started ends too: detached and orphaned processes as well.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import psutil

_GRACE_SECONDS = 2.0
_PR_SET_CHILD_SUBREAPER = 36  # see prctl(2)


def main() -> None:
    """Run the command of the arguments; its exit code, if it ended by itself, is ours."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)  # orphans become our children, so none is lost
    command = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    is_over = threading.Event()

    def then_over(wait: Callable[[], object]) -> None:
        wait()
        is_over.set()

    for wait in (command.wait, _wait_for_end_of_input):
        threading.Thread(target=then_over, args=(wait,), daemon=True).start()
    is_over.wait()
    code = command.returncode
    end_children()
    sys.exit(code or 0)


def end_children() -> None:
    """Ask every process below this one to end; kill what is left after a while."""
    this, asked = psutil.Process(), set()
    give_up = time.monotonic() + _GRACE_SECONDS
    while children := this.children(recursive=True):
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                if time.monotonic() > give_up:
                    child.kill()
                elif child not in asked:
                    asked.add(child)
                    child.terminate()
        psutil.wait_procs(children, timeout=0.2)


def _wait_for_end_of_input() -> None:
    while os.read(0, 4096):
        pass


if __name__ == "__main__":
    main()
