"""Numbers that testbeds are known by: each belongs to one living process, and what the dead left behind is removed."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from paceline.errors import PacelineError

MOST_TESTBEDS = 256


@contextlib.contextmanager
def claimed(folder: Path, remove: Callable[[int], None]) -> Iterator[int]:
    """A number that is this process's own while the block runs.

    A file per number is locked by its owner; the kernel takes the lock away however the owner ends.

    Args:
        folder: where the files are.
        remove: removes all that there is of a testbed; called for each whose owner is dead, and after the block.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PacelineError(f"{folder} cannot be made: {error.strerror}") from error
    for path in folder.glob("testbed[0-9]*"):
        with _locked(path) as is_ours:
            if is_ours:
                remove(int(path.name.removeprefix("testbed")))
                path.unlink()
    for number in range(MOST_TESTBEDS):
        path = folder / f"testbed{number}"
        with _locked(path) as is_ours:
            if is_ours:
                try:
                    yield number
                finally:
                    remove(number)
                    path.unlink()
                return
    raise PacelineError(f"{MOST_TESTBEDS} testbeds are running; there is no room for another")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Lock a file for the block; yields whether that was possible, or somebody else has it."""
    lock = _lock(path)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            os.close(lock)


def _lock(path: Path) -> int | None:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                    return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        os.close(descriptor)  # its owner removed it between the opening and the locking
