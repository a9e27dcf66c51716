"""Paceline trains PyTorch models on fleets of unequal edge devices, all done by the deadline.

The names of this package are listed in its stub, ``__init__.pyi``. Each is loaded when it is first used, so that what
needs no PyTorch starts without it.
"""

from __future__ import annotations

import lazy_loader

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
