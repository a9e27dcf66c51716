"""Devices: what they can do, and how it is measured."""

from paceline.devices.profiles import Profile, Rate

__all__ = ["Profile", "Rate"]
