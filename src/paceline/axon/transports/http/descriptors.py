"""How many files and connections this process may have open, and how many of them may be connections."""

from __future__ import annotations

import contextlib
import resource
from dataclasses import dataclass

_MOST = 1 << 16  # more would only make memory the limit
_RESERVED = 256  # for files, and connections of our own to others


@dataclass(frozen=True)
class DescriptorLimit:
    """How far connections may go.

    The system gives a new descriptor the lowest free number, so the number of an accepted connection shows how many
    are in use, whoever uses them.

    Attributes:
        total: number of descriptors that this process may have open.
        reserved: how many of them are not for connections.
    """

    total: int
    reserved: int

    @classmethod
    def raised(cls) -> DescriptorLimit:
        """Raise the limit of this process as far as it may, and return it."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
        if soft != resource.RLIM_INFINITY and soft < most:
            with contextlib.suppress(ValueError, OSError):  # macOS allows less than it says
                resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
                soft = most
        total = most if soft == resource.RLIM_INFINITY else soft
        return cls(total, min(_RESERVED, total // 4))

    def is_reached(self, descriptor: int) -> bool:
        """Return whether a connection of that number takes what is reserved."""
        return descriptor >= self.total - self.reserved
