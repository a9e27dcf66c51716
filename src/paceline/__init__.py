"""Paceline trains PyTorch models on fleets of unequal edge devices, all done by the deadline."""

__version__ = "0.1.0"
__all__ = ["__version__"]
