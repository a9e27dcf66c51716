"""Files that outlast the process: every durable write of a run goes through the one `Disk` here.

Files are private to their owner (0600, in folders of 0700; a umask can only take away more). Tests put another disk in
its place, to have writes fail, and to see what a crash between any two of them would leave.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import TypeAlias

from paceline.errors import in_one_line

_FILE_MODE, _FOLDER_MODE = 0o600, 0o700

_CANNOT_SYNC = (errno.EINVAL, errno.ENOTSUP)  # of folders, on some file systems in a network

_syncs = ContextVar("syncs", default=True)

NEW = ".new"
"""End of the name of a file until it is whole."""

Content: TypeAlias = bytes | Callable[[Path], object]
"""What goes into a file: bytes, or a function that writes to a path."""


class Disk:
    """What is done to a disk, one method for each kind of change; all raise `OSError`."""

    def fill(self, path: Path, content: Content) -> None:
        """Write a whole file that nobody else reads yet."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with open(os.open(path, flags, _FILE_MODE), "wb") as file:
            os.fchmod(file.fileno(), os.fstat(file.fileno()).st_mode & _FILE_MODE)  # it may be left from a crash
            if isinstance(content, bytes):
                file.write(content)
        if not isinstance(content, bytes):
            content(path)

    def append(self, path: Path, file: int, content: bytes | memoryview) -> int:
        """Write to the end of a file, by its descriptor; returns how many bytes it took."""
        return os.write(file, content)

    def cut(self, path: Path, file: int, size: int) -> None:
        """Cut a file back to so many bytes, by its descriptor."""
        os.ftruncate(file, size)

    def sync(self, path: Path) -> None:
        """Wait until the disk has a file, or the names in a folder."""
        if not _syncs.get():
            return
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in _CANNOT_SYNC:
                raise
        finally:
            os.close(descriptor)

    def rename(self, old: Path, new: Path) -> None:
        """Give a file another name, in place of what had it."""
        os.replace(old, new)

    def remove(self, path: Path) -> None:
        """Remove a file, if it is there."""
        path.unlink(missing_ok=True)

    def make_folder(self, path: Path) -> None:
        """Make a folder; raises `FileExistsError` if something has that name."""
        path.mkdir(_FOLDER_MODE)


_disk = Disk()


def disk() -> Disk:
    """Return the disk that is written to."""
    return _disk


@contextlib.contextmanager
def written_to(other: Disk) -> Iterator[None]:
    """Have all that is written while the block runs, in any thread, go through another disk."""
    global _disk
    before, _disk = _disk, other
    try:
        yield
    finally:
        _disk = before


@contextlib.contextmanager
def unsynced() -> Iterator[None]:
    """Do not wait for the disk while the block runs: then only the end of the process is survived."""
    token = _syncs.set(False)
    try:
        yield
    finally:
        _syncs.reset(token)


def replace(path: Path, content: Content, *, is_synced: bool = True) -> None:
    """Write a file such that it is whole at any time; raises `OSError`.

    Args:
        is_synced: whether to wait until the disk has it; not needed for what can be made again.
    """
    partial = path.with_name(path.name + NEW)
    try:
        _disk.fill(partial, content)
        if is_synced:
            _disk.sync(partial)
        _disk.rename(partial, path)
        if is_synced:
            _disk.sync(path.parent)
    except OSError:
        with contextlib.suppress(OSError):
            _disk.remove(partial)
        raise


def make_folder(path: Path, *, exist_ok: bool = True) -> None:
    """Make a folder, and those it is to be in; raises `OSError`."""
    if exist_ok and path.is_dir():
        return
    if not path.parent.exists():
        make_folder(path.parent)
    try:
        _disk.make_folder(path)
    except FileExistsError:
        if not exist_ok or not path.is_dir():
            raise


def reason_of(error: OSError) -> str:
    """Say why a file could not be written, without its name."""
    return error.strerror or in_one_line(error)


class GrowingFile:
    """A file to which pieces are added at the end, each of them whole or not at all; they may be read at any time.

    Args:
        path: a file that is there, and that nobody else writes to.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._size = os.fstat(self._file).st_size
        self._is_torn = False

    def append(self, piece: bytes) -> None:
        """Add a piece; raises `OSError`, after which all earlier ones are still whole, and it can be tried again."""
        self._mend()
        self._is_torn = True
        try:
            self._write(piece)
        except OSError:
            with contextlib.suppress(OSError):
                self._mend()
            raise
        self._is_torn, self._size = False, self._size + len(piece)

    def _write(self, piece: bytes) -> None:
        left = memoryview(piece)
        while left:  # a disk that is nearly full takes a part, and gives a reason only the next time
            left = left[_disk.append(self._path, self._file, left) :]

    def _mend(self) -> None:
        """Cut off a piece that was not written to its end."""
        if self._is_torn:
            _disk.cut(self._path, self._file, self._size)
            self._is_torn = False

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)
