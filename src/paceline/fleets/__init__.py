"""Fleets: where roles run."""
