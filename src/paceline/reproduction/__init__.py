"""Figures of papers, made again: an experiment's rows, its plot, and a verdict on each number that the paper gives.

An experiment is a folder outside the package, loaded by path; what experiments have in common is here.
"""

from paceline.reproduction.experiments import About, Experiment, find_experiments, load_experiment, read_about
from paceline.reproduction.rows import Row
from paceline.reproduction.running import Outcome, redraw, reproduce
from paceline.reproduction.statistics import Estimate, estimate
from paceline.reproduction.verdicts import Expectation, Verdict

__all__ = [
    "About",
    "Estimate",
    "Expectation",
    "Experiment",
    "Outcome",
    "Row",
    "Verdict",
    "estimate",
    "find_experiments",
    "load_experiment",
    "read_about",
    "redraw",
    "reproduce",
]
