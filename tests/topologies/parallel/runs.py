"""Small runs of jobs and pools on virtual time for the tests here."""

import asyncio
import contextlib
from collections import defaultdict
from dataclasses import dataclass, field

import paceline
from paceline import allocation
from paceline.allocation import MedAllocation
from paceline.axon.transports import CountedTransport
from paceline.axon.transports.memory import MemoryNetwork
from paceline.devices.states import DeviceState
from paceline.fleets import virtual_loop
from paceline.fleets.modelled import ModelledMachine, SharedModels, VirtualDevice
from paceline.fleets.virtual import VirtualFleet
from paceline.learning.datasets import DataSpec
from paceline.topologies.base import Contact, DeviceOptions, Environment, Node, run_in_place, save_nothing, serving
from paceline.topologies.parallel.events import RoundClosed
from paceline.topologies.parallel.jobs import Job, Pool
from paceline.topologies.parallel.messages import Declaration
from paceline.topologies.parallel.prepared import prepare_job
from paceline.topologies.parallel.single_job import SingleJob
from paceline.topologies.parallel.topology import TOPOLOGY, JobPlan

STATES = (
    DeviceState(name="idle", probability=0.6),
    DeviceState(name="training", probability=0.25, speed=0.5),
    DeviceState(name="downloading", probability=0.15, bandwidth=0.4),
)


def small_job(policy="dab", **changes):
    rules = {"deadline_seconds": 4.0, "rounds": 4, "local_epochs": 1, "min_learners": 1, "benchmark_shards": 4}
    data = changes.pop("data", DataSpec(name="digits", shard_size=32))
    table = policy if isinstance(policy, dict) else {"policy": policy}
    return Job(**{**rules, **changes}, data=data, allocation=allocation.from_config(table))


def device(name, samples_per_second=200.0, **changes):
    rules = {"down_mbit": 20, "up_mbit": 10, "latency_ms": 5}
    return VirtualDevice(name=name, samples_per_second=samples_per_second, **{**rules, **changes})


def play(job, devices, *, is_time_only=False, first_round=1, script=None, **env):
    """Run a job on virtual devices; returns the outcome and all events."""
    events = []
    plan = JobPlan(prepare_job(job), first_round)
    fleet = VirtualFleet(devices, is_time_only=is_time_only, script=script)
    return fleet.run(plan, Environment(**{"emit": events.append, **env})), events


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]


def closed(events):
    return of(RoundClosed, events)


class ByHand:
    """An orchestrator of one job, to be called by hand on virtual time."""

    def __init__(self, policy="dab", make=SingleJob, run_blocking=run_in_place, **changes):
        data = DataSpec(name="digits", shard_size=2)  # divides the data: all shards are full
        self.prepared = prepare_job(small_job(policy, **{"data": data, **changes}))
        self.parameters = self.prepared.model.parameters()
        self.events = []
        env = Environment(clock="virtual", emit=self.events.append, run_blocking=run_blocking)
        self.orchestrator = make(self.prepared, env)

    def play(self, main):
        """Call a coroutine function with the orchestrator while that runs; returns what it returns."""

        async def both():
            running = asyncio.ensure_future(self.orchestrator.run(""))
            try:
                return await main(self.orchestrator)
            finally:
                running.cancel()
                await asyncio.wait((running,))

        return virtual_loop.run(both())

    async def join(self, name="a"):
        """Join; returns the key of the session."""
        return (await self.orchestrator.join(name, paceline.__version__, 0.0)).session

    async def take(self, name="a", num_shards=32):
        """Join, and take shards in the first round; returns the key of the session."""
        session = await self.join(name)
        if self.prepared.store is None:
            await self.orchestrator.declare(session, Declaration(num_shards=num_shards))
        ticket = await self.orchestrator.next_round(session, 0, None)
        await self.orchestrator.take(session, ticket.round, num_shards)
        return session


@contextlib.asynccontextmanager
async def node_of(host, plan, events, **options):
    """Serve a host to a modelled device "a" with a perfect link, on virtual time."""
    network = MemoryNetwork()
    async with serving(host, plan, "host", transport=network.host("host")) as address:
        transport = network.host("a")
        yield Node(
            name="a",
            contacts=[Contact(address)],
            transport=CountedTransport(transport),
            options=DeviceOptions(**options),
            emit=events.append,
            run_blocking=run_in_place,
            machine=ModelledMachine(device("a"), transport.link, 0, SharedModels(is_trained=True)),
        )


# Pools.


def paid_device(name, samples_per_second=200.0, **changes):
    return device(name, samples_per_second, **{"price": 1.0, "states": STATES, **changes})


def paid_fleet(num_devices, **changes):
    return [paid_device(f"d{number}", 150 + 25 * number, **changes) for number in range(num_devices)]


@dataclass
class PoolRun:
    """A pool that is over: its host, and the events of the pool and of its jobs."""

    host: object = None
    pool: list = field(default_factory=list)
    jobs: dict = field(default_factory=lambda: defaultdict(list))

    def of(self, kind, job=None):
        return of(kind, self.pool if job is None else self.jobs[job])


def play_pool(jobs, devices, *, policy=None, visit=None, at_seconds=0.0, is_time_only=True, run=None, **rules):
    """Run jobs (changes to a small one, by name) on virtual devices.

    Args:
        visit: called with the host at a moment of virtual time; a coroutine function.
        run: takes what happens, also if it fails.
    """
    run, visits = run or PoolRun(), []
    small = {"deadline_seconds": 12.0, "rounds": 3, "benchmark_shards": 2}
    data = DataSpec(name="digits", shard_size=64)
    pool = Pool(
        jobs=tuple(Job(**{"name": name, "data": data, **small, **changes}) for name, changes in jobs.items()),
        allocation=policy or MedAllocation(),
        **{"min_learners": len(devices), **rules},
    )
    plan = TOPOLOGY.prepare(pool)
    make_host = plan.host

    def host(env):
        run.host = make_host(env)
        if visit is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(at_seconds, lambda: visits.append(loop.create_task(visit(run.host))))
        return run.host

    plan.host = host
    env = Environment(emit=run.pool.append, open_nested=lambda job: (run.jobs[job.name].append, save_nothing))
    VirtualFleet(devices, is_time_only=is_time_only).run(plan, env)
    for task in visits:
        task.result()
    return run
