"""Parallel learning: an orchestrator serves data and averages, learners train what they can by the deadline."""

from paceline.topologies.parallel.conductor import Conductor
from paceline.topologies.parallel.course import Course, Surroundings, in_place, in_thread
from paceline.topologies.parallel.hosting import hosted, reach
from paceline.topologies.parallel.jobs import Job
from paceline.topologies.parallel.learner import CannotKeepUp, Learner, LearnerOptions, TurnedAway
from paceline.topologies.parallel.orchestrator import Orchestrator
from paceline.topologies.parallel.plans import Plan, make_plan

__all__ = [
    "CannotKeepUp",
    "Conductor",
    "Course",
    "Job",
    "Learner",
    "LearnerOptions",
    "Orchestrator",
    "Plan",
    "Surroundings",
    "TurnedAway",
    "hosted",
    "in_place",
    "in_thread",
    "make_plan",
    "reach",
]
