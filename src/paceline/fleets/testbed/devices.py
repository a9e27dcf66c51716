"""A device of the testbed, as a fleet file has it."""

from __future__ import annotations

import math
from typing import Annotated

from msgspec import Meta

from paceline.checks import NotNegative
from paceline.fleets.devices import EmulatedDevice
from paceline.fleets.processes import device_options

LEAST_CPU_SHARE = 0.01

_PATIENCE_SECONDS = 300.0  # as by default


class TestbedDevice(EmulatedDevice, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A learner's process in a network namespace of its own, or `count` alike.

    Attributes:
        cpu_share: the most it gets of one core of this machine; above 1, it trains on several.
        states: kept by real stressors, so their names are those of `paceline.devices.stressors`, and what is said of
            speed and bandwidth is not needed.
        data: path, or import path, of its own data, for federated jobs.
        device: what it computes on, see `find_accelerator`; the processor if None. `cpu_share` limits that alone.
        cut_at_seconds: when its link goes dead, in seconds since the first round opened.
        mended_at_seconds: when its link is alive again.
    """

    data: str | None = None
    device: str | None = None
    cpu_share: Annotated[float, Meta(ge=LEAST_CPU_SHARE, le=1e6)] = 1.0
    cut_at_seconds: NotNegative | None = None
    mended_at_seconds: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mended_at_seconds is not None and (
            self.cut_at_seconds is None or not self.cut_at_seconds < self.mended_at_seconds < math.inf
        ):
            raise ValueError("mended_at_seconds needs a cut_at_seconds before it")

    @property
    def num_threads(self) -> int:
        """Number of threads to train with: as many as cores."""
        return math.ceil(self.cpu_share)

    def options(self) -> list[str]:
        """Write the device as options of ``paceline join``; a cut that will be mended is no reason to give up."""
        patience_seconds = _PATIENCE_SECONDS
        if self.cut_at_seconds is not None and self.mended_at_seconds is not None:
            patience_seconds += self.mended_at_seconds - self.cut_at_seconds
        return device_options(self, patience_seconds=patience_seconds, latency_ms=self.latency_ms)
