"""Ranges come from annotations, with one message for Python and for files."""

import math
from typing import Annotated

import msgspec
import pytest
from msgspec import Meta

from paceline.allocation import AdaptiveDabAllocation, EdgeGossipAllocation, MedAllocation, SyncAllocation
from paceline.checks import Count, Positive, PositiveRatio, Ratio, RatioBelowOne, range_of, why_outside, why_refused
from paceline.devices.cell import Cell
from paceline.devices.contention import Usage
from paceline.devices.energy import PowerModel
from paceline.devices.profiles import Profile, Rate
from paceline.devices.states import DeviceState
from paceline.learning.aggregated_points import PointsSpec
from paceline.learning.audits import Auditor
from paceline.learning.datasets import DataSpec
from paceline.learning.junction import JunctionSpec
from paceline.learning.partitions import PartitionSpec
from paceline.learning.views import ViewSpec
from paceline.testing.allocation import TERMS

RATE = Rate(1.0)


@pytest.mark.parametrize(
    ("hint", "wrong", "allowed"),
    [
        (Count, 0, "it must be at least 1"),
        (Count | None, -1, "it must be at least 1"),
        (Positive, 0.0, "it must be above 0"),
        (Positive, math.inf, "it must be above 0"),
        (Positive, math.nan, "it must be above 0"),
        (Ratio, 1.5, "allowed: 0 to 1"),
        (Ratio, math.nan, "allowed: 0 to 1"),
        (PositiveRatio, 0, "it must be above 0 and at most 1"),
        (RatioBelowOne, 1, "it must be at least 0 and below 1"),
        (Annotated[int, Meta(ge=0, le=1 << 60)], -1, "allowed: 0 to 1152921504606846976"),
    ],
)
def test_a_number_outside_its_range(hint, wrong, allowed):
    assert why_outside(wrong, range_of(hint)) == why_refused(wrong, hint) == allowed


@pytest.mark.parametrize(("hint", "value"), [(Count, 1), (Count | None, None), (Count, "1"), (Ratio, True), (int, -1)])
def test_what_is_inside_or_no_number_is_not_refused(hint, value):
    assert why_refused(value, hint) is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AdaptiveDabAllocation(window=0), "window is 0; it must be at least 1"),
        (lambda: EdgeGossipAllocation(max_failed=2.0), "max_failed is 2.0; allowed: 0 to 1"),
        (lambda: MedAllocation(held_back=1.0), "held_back is 1.0; it must be at least 0 and below 1"),
        (lambda: SyncAllocation(min_local_epochs=0), "min_local_epochs is 0; it must be at least 1"),
        (lambda: SyncAllocation(min_shards=5, max_shards=4), "max_shards is 4, below min_shards, 5"),
        (
            lambda: msgspec.structs.replace(TERMS, deadline_seconds=math.nan),
            "deadline_seconds is nan; it must be above",
        ),
        (lambda: msgspec.structs.replace(TERMS, overtime=101.0), "overtime is 101.0; allowed: 0 to 100"),
        (lambda: Cell(station_dbm=101.0), "station_dbm is 101.0; allowed: -200 to 100"),
        (lambda: Usage(cpu_ratio=-0.1), "cpu_ratio is -0.1; allowed: 0 to 1"),
        (lambda: PowerModel(idle_watts=-1.0), "idle_watts is -1.0; it must be at least 0"),
        (lambda: Rate(math.inf), "per_second is inf; it must be above 0"),
        (lambda: Profile(train=RATE, down=RATE, up=RATE, latency_seconds=-1.0), "latency_seconds is -1.0; it must be"),
        (lambda: DeviceState(name="x", probability=1.0, speed=0.0), "speed is 0.0; it must be above 0"),
        (lambda: DataSpec(shard_size=-1), "shard_size is -1; it must be at least 1"),
        (lambda: JunctionSpec(rank=0), "rank is 0; it must be at least 1"),
        (lambda: PartitionSpec(alpha=math.inf), "alpha is inf; it must be above 0"),
        (lambda: PointsSpec(seed=-1), "seed is -1; allowed: 0 to 9223372036854775807"),
        (lambda: PointsSpec(reduction="SVD"), "reduction 'SVD' is unknown; did you mean 'svd'"),
        (lambda: PointsSpec(division="kmeans"), "division 'kmeans' is unknown; did you mean 'k-means'"),
        (lambda: ViewSpec(kind="blurr"), "view 'blurr' is unknown; did you mean 'blur'"),
        (lambda: Auditor(model=None, rate=1.1, chance=None), "rate is 1.1; allowed: 0 to 1"),
        (lambda: Auditor(model=None, rate=1.0, tolerance=0.6, chance=None), "tolerance is 0.6; it must be above 0 and"),
        (lambda: ViewSpec(erased_share=1.0), "erased_share is 1.0; it must be above 0 and below 1"),
    ],
)
def test_what_is_made_in_python_is_checked(make, message):
    with pytest.raises(ValueError, match=message):
        make()
