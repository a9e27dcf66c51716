"""Allocation: policies that decide how many shards each learner trains, and solvers of allocation problems.

Plain data in, plain data out: no PyTorch, no I/O, no clock.
"""

import lazy_loader  # type: ignore[import-untyped]

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
