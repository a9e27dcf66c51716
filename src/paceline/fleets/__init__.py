"""Fleets: where learners run."""
