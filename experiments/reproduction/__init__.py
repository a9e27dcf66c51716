"""Figures of papers, made again: an experiment's rows, its plot, and a verdict on each number that the paper gives.

An experiment is a folder outside the package, loaded by path; what experiments have in common is here.
"""

from reproduction.experiments import About, Experiment, find_experiments, load_experiment, read_about
from reproduction.rows import Row
from reproduction.running import Outcome, redraw, reproduce
from reproduction.statistics import Estimate, estimate
from reproduction.verdicts import Expectation, Verdict

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
