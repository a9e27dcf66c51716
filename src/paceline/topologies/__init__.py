"""Topologies: who sends what to whom, and when."""
