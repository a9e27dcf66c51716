"""Seeded schedules of faults over virtual time, for every topology, and what must be true whatever happens."""
