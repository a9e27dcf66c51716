"""Aggregation: how the updates of a round become the next parameters. One file per method."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
