"""Serves pages of runs, live and finished, to browsers: whoever looks never holds up who trains.

A process of its own reads run folders (`PageApp`); where it may be seen from other machines, a `Door` stands before it.
"""
