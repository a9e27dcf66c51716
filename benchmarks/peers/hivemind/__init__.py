"""hivemind, run from an environment of its own: `make bench-hivemind` sets it up."""

from peers.hivemind.engine import measure_rounds, versions

__all__ = ["measure_rounds", "versions"]
