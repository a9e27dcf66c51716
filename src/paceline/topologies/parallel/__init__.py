"""Parallel learning: an orchestrator serves data and averages, learners train what they can by the deadline."""
