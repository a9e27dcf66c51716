"""What learners used up: bytes, processor time and energy, as plain data, and by what that is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from paceline.devices import energy

_Number = TypeVar("_Number", int, float)


class Footprint(msgspec.Struct, frozen=True, kw_only=True):
    """What was used up, as far as it was told; None for what nobody told.

    Attributes:
        bytes_sent: by learners; likewise `bytes_received`.
        cpu_seconds: of their processors, and what that took in `joules`.
    """

    bytes_sent: int | None = None
    bytes_received: int | None = None
    cpu_seconds: float | None = None
    joules: float | None = None

    @classmethod
    def total(cls, parts: Iterable[Any]) -> Footprint:
        """Of anything that has these four: footprints, or events."""
        listed = list(parts)
        return cls(
            bytes_sent=_total(part.bytes_sent for part in listed),
            bytes_received=_total(part.bytes_received for part in listed),
            cpu_seconds=_total(part.cpu_seconds for part in listed),
            joules=_total(part.joules for part in listed),
        )

    @property
    def kwh(self) -> float | None:
        """The energy in kilowatt hours."""
        return None if self.joules is None else energy.kwh(self.joules)

    def grams_co2(self, grams_per_kwh: float = energy.GRAMS_CO2_PER_KWH) -> float | None:
        """What it emits to make that energy, in grams of CO2 equivalents, by a carbon intensity."""
        return None if self.joules is None else energy.grams_co2(self.joules, grams_per_kwh)


def _total(numbers: Iterable[_Number | None]) -> _Number | None:
    known = [number for number in numbers if number is not None]
    return sum(known[1:], known[0]) if known else None


class Metered(msgspec.Struct, frozen=True, kw_only=True):
    """A learner with what it used up.

    Attributes:
        power: what its energy is told by, as `DeviceMeasured` has it; None if it did not tell.
    """

    name: str
    footprint: Footprint
    power: Mapping[str, Any] | None
