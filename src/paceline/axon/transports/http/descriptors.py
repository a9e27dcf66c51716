"""How many files and connections this process may have open, and how many of them may be connections."""

from __future__ import annotations

import contextlib
import os
import resource
from dataclasses import dataclass

_MOST = 1 << 16  # more would only make memory the limit
_RESERVED = 256  # for files, and connections of our own to others
_OPEN = "/dev/fd"  # lists what this process has open, on Linux and macOS


@dataclass(frozen=True)
class DescriptorLimit:
    """How far connections may go.

    Attributes:
        total: number of descriptors that this process may have open.
        reserved: how many of them are kept free of connections.
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

    def room(self, num_connections: int) -> int:
        """Return how many connections there may be, given those that are open now and all else that is."""
        num_others = len(os.listdir(_OPEN)) - num_connections
        return max(1, self.total - self.reserved - num_others)
