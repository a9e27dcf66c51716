"""What the paper's Table I tells, and how processor time is turned into energy here."""

from __future__ import annotations

from typing import NamedTuple

from paceline.devices.energy import JOULES_PER_KWH, PowerModel
from papers.fpl.setting import FPL_F1, FPL_F2, GFL_CFF, GFL_FF, IMAGES, SPLIT

# Ours: an Intel Xeon E5-2690 v2, as the paper has two of, is specified with 130 W for ten cores. It tells no power.
POWER = PowerModel(busy_watts=13.0)
GRAMS_PER_KWH = 243.0
"""Of CO2, as the paper states it for its place and supplier."""


class Told(NamedTuple):
    """A line of Table I."""

    kwh: float
    grams: float


TABLE = {
    SPLIT: Told(0.11, 38.74),
    IMAGES: Told(0.13, 45.07),
    GFL_FF: Told(0.23, 77.97),
    GFL_CFF: Told(0.33, 112.68),
    FPL_F2: Told(0.21, 71.45),
    FPL_F1: Told(0.25, 84.98),
}
"""Table I, by scheme."""


def kwh(cpu_seconds: float) -> float:
    """Energy of so much processor time."""
    return POWER.joules(cpu_seconds, 0.0, 0) / JOULES_PER_KWH
