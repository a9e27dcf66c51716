"""Flower, run from an environment of its own: its pins are not ours. `make bench-flower` sets it up."""

from peers.flower.engines import Job, Outcome, run_deployment, run_simulation, versions

__all__ = ["Job", "Outcome", "run_deployment", "run_simulation", "versions"]
