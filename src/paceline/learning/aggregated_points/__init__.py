"""Aggregated data points: few means in place of many samples, in three steps (EdgeGossip; Han et al., 2021, §3.2).

Samples are reduced to a few features; those of a class are divided into sets that are alike; the mean of a set's
original samples is its point. A model's loss at a point shows how much it can still learn from the whole set.
"""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
