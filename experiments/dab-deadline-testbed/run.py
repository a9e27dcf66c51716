"""One deadline of dab-deadline on an emulated testbed: real processes, real time, limited processors and links."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from paceline.fleets.fleet_files import load_fleet
from paceline.fleets.testbed import TestbedDevice, TestbedFleet
from paceline.learning.datasets import DataSpec
from paceline.topologies.parallel.events import RoundClosed, UpdateAccepted
from papers.dab import MNIST, TESTBED, job_of
from reproduction import About, Row
from reproduction.rows import where
from reproduction.trials import Trial, drawn_part, play_job

ABOUT = About(
    figure="Mays, Fig. 3.6 and 3.7, at 105 s",
    claim="DAB follows the deadline; CSA is far too late.",
    duration="6 minutes",
    num_seeds=3,
)
FLEET = TESTBED / "four-jetsons.toml"
SAMPLES, ROUNDS = 3_000, 5
CSA_DEADLINE_SECONDS, CSA_OVERTIME = 1.5, 50.0  # too short to do anything but to hand out all, and to wait for it
DEADLINE_OF_CSA = 105 / 172  # how long the thesis gives, for one second that CSA takes
OTHERS = ("dab", "adaptive-dab")
QUICK_SAMPLES, QUICK_ROUNDS, QUICK_DEVICES, QUICK_DEADLINE_SECONDS = 600, 2, 2, 1.5


def run(seed: int, *, is_quick: bool) -> Iterator[Row]:
    """A row per policy and round. CSA goes first: the deadline of the others follows from the time that it takes."""
    (jetson,) = load_fleet(FLEET, TestbedDevice)
    if is_quick:
        fleet = TestbedFleet([msgspec.structs.replace(jetson, count=QUICK_DEVICES)])
        with drawn_part(MNIST, num_samples=QUICK_SAMPLES, num_test_samples=100) as data:
            trial = _play("dab", fleet, data, deadline_seconds=QUICK_DEADLINE_SECONDS, seed=seed, rounds=QUICK_ROUNDS)
            yield from _rows("dab", trial, QUICK_DEADLINE_SECONDS)
        return
    fleet, rules = TestbedFleet([jetson]), {"seed": seed, "rounds": ROUNDS}
    with drawn_part(MNIST, num_samples=SAMPLES, num_test_samples=100) as data:
        trial = _play("csa", fleet, data, deadline_seconds=CSA_DEADLINE_SECONDS, overtime=CSA_OVERTIME, **rules)
        deadline_seconds = DEADLINE_OF_CSA * statistics.fmean(closed.seconds for closed in trial.events_of(RoundClosed))
        yield from _rows("csa", trial, deadline_seconds)
        for policy in OTHERS:
            trial = _play(policy, fleet, data, deadline_seconds=deadline_seconds, **rules)
            yield from _rows(policy, trial, deadline_seconds)


def _play(policy: str, fleet: TestbedFleet, data: DataSpec, **rules: Any) -> Trial:
    return play_job(job_of(policy, "deadline-net", data, min_learners=len(fleet.devices), **rules), fleet)


def _rows(policy: str, trial: Trial, deadline_seconds: float) -> Iterator[Row]:
    updates = trial.events_of(UpdateAccepted)
    for closed in trial.events_of(RoundClosed):
        late = [update for update in updates if update.round == closed.round and update.seconds > deadline_seconds]
        yield {
            "policy": policy,
            "round": closed.round,
            "deadline": round(deadline_seconds, 3),
            "seconds": round(closed.seconds, 3),
            "learners": closed.num_learners,
            "late": len(late) + len(closed.late),
            "shards": closed.num_shards,
            "samples": closed.num_samples,
        }


def measures(rows: Sequence[Row]) -> dict[str, float]:
    """What the thesis' text says of the figures, and the same of ours."""
    found: dict[str, float] = {}
    for policy in ("csa", *OTHERS):
        own = where(rows, policy=policy)
        if own:
            deadline, seconds = sum(row["deadline"] for row in own), sum(row["seconds"] for row in own)
            found[f"{policy}: truancy"] = 100 * (seconds / deadline - 1)
            found[f"{policy}: late updates"] = (
                100 * sum(row["late"] for row in own) / sum(row["learners"] for row in own)
            )
    return found
