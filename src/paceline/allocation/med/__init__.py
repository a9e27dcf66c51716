"""MED: shards of several tasks for learners whose speed is uncertain, by deadlines and within a budget."""

from paceline.allocation.med.problem import GreedyProblem, MedLearner, MedProblem, MedState, MedTask, MmttProblem

__all__ = ["GreedyProblem", "MedLearner", "MedProblem", "MedState", "MedTask", "MmttProblem"]
