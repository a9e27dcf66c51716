"""Many learners in one process, for many_learners.py: real ones, that sleep for the time their training would take.

Run as a module it is that process: `python -m crowd LEARN|CALL|IDLE URL TOKEN COUNT [FIRST]`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import ssl
import sys
import time
from collections.abc import Sequence

import processes

JOIN_SECONDS = 10.0  # over which learners join, so that they do not measure themselves all at once
CALL_SECONDS = 0.05  # between two calls of the probe
SPEEDS = (40.0, 400.0)  # samples per second


async def learn(url: str, token: str, count: int, first: int) -> None:
    """Take part as so many learners until the run is over."""
    from paceline.axon.keys import DeviceKey
    from paceline.axon.transports import CountedTransport, HttpTransport
    from paceline.devices.machines import LiveMachine
    from paceline.learning.local_model import LocalModel
    from paceline.learning.shards import Shard
    from paceline.learning.trainers import DEFAULT_OPTIONS, Trained, Trainer, TrainOptions
    from paceline.learning.training_spec import TrainingSpec
    from paceline.learning.vectors import Vectors
    from paceline.topologies.base import Contact, DeviceOptions, Node
    from paceline.topologies.parallel.learner import Learner

    initial: dict[str, Vectors] = {}

    class SleepingTrainer(Trainer):
        def __init__(self, spec: TrainingSpec, samples_per_second: float) -> None:
            self._samples_per_second = samples_per_second
            self._initial = initial.get(spec.name) or initial.setdefault(spec.name, LocalModel(spec).parameters())

        def initial_parameters(self) -> Vectors:
            return self._initial

        async def train(
            self, parameters: Vectors, shards: Sequence[Shard], options: TrainOptions = DEFAULT_OPTIONS
        ) -> Trained:
            wanted = options.local_epochs * sum(shard.num_samples for shard in shards)
            left = options.until - asyncio.get_running_loop().time()
            done = int(min(wanted, max(0.0, left * self._samples_per_second)))
            seconds = done / self._samples_per_second
            await asyncio.sleep(seconds)
            return Trained(parameters, done, seconds, done < wanted)

    class SleepingMachine(LiveMachine):
        def __init__(self, number: int) -> None:
            super().__init__(threads=1)
            self._samples_per_second = random.Random(number).uniform(*SPEEDS)

        def trainer(self, spec: TrainingSpec) -> Trainer:
            return SleepingTrainer(spec, self._samples_per_second)

    async def one(number: int) -> None:
        await asyncio.sleep(JOIN_SECONDS * (number - first) / count)
        address, _, fingerprint = url.partition("#")
        node = Node(
            name=f"learner-{number:04}",
            contacts=[Contact(address, fingerprint or None)],
            transport=CountedTransport(HttpTransport()),  # a connection of its own, as a device has
            trust={"token": token},
            key=DeviceKey.generate(),
            options=DeviceOptions(patience_seconds=120.0),
            machine=SleepingMachine(number),
        )
        await Learner(node).run()

    await asyncio.gather(*(one(number) for number in range(first, first + count)))


async def call(url: str, token: str) -> None:
    """Make a small call now and then, printing what each took in milliseconds; failed ones as null."""
    from paceline import axon
    from paceline.errors import PacelineError
    from paceline.topologies.base import RoleService

    address, _, fingerprint = url.partition("#")
    host = axon.connect(address, interface=RoleService, token=token, fingerprint=fingerprint, timeout_seconds=10.0)
    while True:
        start, took = time.perf_counter(), None
        with contextlib.suppress(PacelineError):
            await host.describe.coro()
            took = (time.perf_counter() - start) * 1e3
        print(json.dumps({"at": time.time(), "ms": took}), flush=True)
        await asyncio.sleep(CALL_SECONDS)


async def idle(url: str, count: int) -> None:
    """Hold so many connections open without a word."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, _, port = url.partition("#")[0].removeprefix("https://").rpartition(":")
    held = [await asyncio.open_connection(host, int(port), ssl=context) for _ in range(count)]
    print(json.dumps({"held": len(held)}), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    from paceline.axon import loops

    processes.exit_with_parent()
    role, url, token, count, *rest = sys.argv[1:]
    work = {
        "learn": lambda: learn(url, token, int(count), *map(int, rest)),
        "call": lambda: call(url, token),
        "idle": lambda: idle(url, int(count)),
    }
    loop = loops.new_event_loop()
    with contextlib.suppress(KeyboardInterrupt):
        loop.run_until_complete(work[role]())
