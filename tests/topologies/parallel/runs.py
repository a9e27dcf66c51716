"""Small runs on virtual time for the tests here."""

from dataclasses import replace

from paceline import allocation
from paceline.fleets.base import JobLaunch
from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.virtual import VirtualFleet
from paceline.learning.datasets import DataSpec
from paceline.topologies.parallel import Job, make_plan
from paceline.topologies.parallel.events import RoundClosed


def small_job(policy="dab", **changes):
    rules = {"deadline_seconds": 4.0, "rounds": 4, "local_epochs": 1, "min_learners": 1, "benchmark_shards": 4}
    data = changes.pop("data", DataSpec(name="digits", shard_size=32))
    table = policy if isinstance(policy, dict) else {"policy": policy}
    return Job(**{**rules, **changes}, data=data, allocation=allocation.from_config(table))


def device(name, samples_per_second=200.0, **changes):
    rules = {"down_mbit": 20, "up_mbit": 10, "latency_ms": 5}
    return VirtualDevice(name=name, samples_per_second=samples_per_second, **{**rules, **changes})


def play(job, devices, *, is_time_only=False, **launch):
    """Run a job on virtual devices; returns the outcome and all events."""
    plan, state = make_plan(job)
    if is_time_only:
        plan = replace(plan, evaluate=None)
    told = []
    fleet = VirtualFleet(devices, is_time_only=is_time_only)
    outcome = fleet.run(JobLaunch(plan=plan, state=state, emit=told.append, **launch))
    return outcome, told


def of(kind, told):
    return [event for event in told if isinstance(event, kind)]


def closed(told):
    return of(RoundClosed, told)
