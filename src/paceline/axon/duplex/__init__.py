"""Duplex calls: confirmed at once, they outlive their request, and the result comes in a request of the worker's own.

A caller that the worker cannot reach polls for it. No call of a training run is duplex, so none of this is loaded
before a call is.
"""
