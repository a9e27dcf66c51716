"""Small pools on virtual time for the tests here."""

import asyncio
from dataclasses import dataclass, field

from paceline import config
from paceline.allocation import MedAllocation
from paceline.devices.states import DeviceState
from paceline.events import Event
from paceline.fleets.base import PoolLaunch
from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.virtual import VirtualFleet
from paceline.learning.datasets import DataSpec
from paceline.topologies.multitask import Admitted, Pool, PoolSpec
from paceline.topologies.parallel import Job, make_plan

STATES = (
    DeviceState(name="idle", probability=0.6),
    DeviceState(name="training", probability=0.25, speed=0.5),
    DeviceState(name="downloading", probability=0.15, bandwidth=0.4),
)
TABLES = {
    "job": {"name": "later", "deadline_seconds": 20, "rounds": 2, "benchmark_shards": 2},
    "data": {"name": "digits", "shard_size": 64},
}


def job(name, policy, **changes):
    rules = {"deadline_seconds": 12.0, "rounds": 3, "benchmark_shards": 2}
    data = changes.pop("data", DataSpec(name="digits", shard_size=64))
    return Job(name=name, data=data, allocation=policy, **{**rules, **changes})


def device(name, samples_per_second=200.0, **changes):
    rules = {"down_mbit": 20, "up_mbit": 10, "latency_ms": 5, "price": 1.0, "states": STATES}
    return VirtualDevice(name=name, samples_per_second=samples_per_second, **{**rules, **changes})


def fleet(num_devices, **changes):
    return [device(f"d{number}", 150 + 25 * number, **changes) for number in range(num_devices)]


@dataclass
class Told:
    """All that was told: of the pool, and of its jobs."""

    pool: list[Event] = field(default_factory=list)
    jobs: dict[str, list[Event]] = field(default_factory=dict)

    def of(self, kind, job=None):
        told = self.pool if job is None else self.jobs[job]
        return [event for event in told if isinstance(event, kind)]

    def everywhere(self, kind):
        return [event for told in (self.pool, *self.jobs.values()) for event in told if isinstance(event, kind)]


@dataclass(frozen=True, kw_only=True)
class LaunchWithGuests(PoolLaunch):
    """At a moment of virtual time, something is done to the pool besides."""

    at_seconds: float
    guest: object

    def orchestrator(self, around):
        pool = super().orchestrator(around)
        loop = asyncio.get_running_loop()
        loop.call_later(self.at_seconds, lambda: self.running.append(loop.create_task(self.guest(pool))))
        return pool

    @property
    def running(self):
        return self.guest.tasks


def play(jobs, devices, *, policy=None, guest=None, at_seconds=0.0, is_time_only=True, **rules) -> tuple[Pool, Told]:
    """Run jobs (keyword arguments, by name) on virtual devices; returns the pool and what was told."""
    policy, told = policy or MedAllocation(), Told()

    def admitted(made):
        plan, state = make_plan(made)
        events = told.jobs.setdefault(made.name, [])
        return Admitted(plan=plan, state=state, emit=events.append)

    def admit(tables):
        return admitted(config.parse_submitted(tables, policy))

    launch = {
        "emit": told.pool.append,
        "spec": PoolSpec(allocation=policy, **{"min_learners": len(devices), **rules}),
        "jobs": [admitted(job(name, policy, **changes)) for name, changes in jobs.items()],
        "admit": admit,
    }
    fleet = VirtualFleet(devices, is_time_only=is_time_only)
    if guest is None:
        return fleet.run(PoolLaunch(**launch)), told
    guest.tasks = []
    pool = fleet.run(LaunchWithGuests(**launch, at_seconds=at_seconds, guest=guest))
    for task in guest.tasks:
        task.result()
    return pool, told
