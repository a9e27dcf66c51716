"""Aggregated data points: few means in place of many samples, in three steps (EdgeGossip; Han et al., 2021, §3.2).

Samples are reduced to a few features; those of a class are divided into sets that are alike; the mean of a set's
original samples is its point. A model's loss at a point shows how much it can still learn from the whole set.
"""

from paceline.learning.aggregated_points.aggregation import aggregate, average, divide, reduce
from paceline.learning.aggregated_points.cache import Found, cached, default_folder, remembered
from paceline.learning.aggregated_points.division import DIVISIONS
from paceline.learning.aggregated_points.reduction import REDUCTIONS
from paceline.learning.aggregated_points.sets import AggregatedPoints, Sets
from paceline.learning.aggregated_points.specs import COMPARED, PointsSpec
