"""The subset benchmark: finds out what a link and a trainer can do, on virtual time, where that is known."""

import asyncio
import contextlib
import itertools
import math
import random
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline import axon
from paceline.axon.transports import FaultyTransport, Link, MemoryNetwork
from paceline.devices import subset_benchmark
from paceline.devices.background_load import BackgroundLoad, StressorLoad
from paceline.devices.states import DeviceState
from paceline.devices.subset_benchmark import (
    Transfer,
    benchmark,
    benchmark_states,
    choose_threads,
    fit_direction,
    measure_training,
)
from paceline.errors import ConfigError
from paceline.learning.shards import Shard
from paceline.learning.trainers import DEFAULT_OPTIONS, Trained, Trainer

SHARD = Shard(np.zeros((100, 1, 28, 28), np.uint8), np.zeros(100, np.uint8))
MODEL_BYTES = 160_000


class PacedTrainer(Trainer):
    """Takes the seconds it is told for each training, on the loop's clock; the last ones again and again."""

    def __init__(self, *seconds):
        self.seconds = list(seconds)
        self.states, self.trained, self.passes = [], [], []

    def initial_parameters(self):
        return {"dummy": len(self.states)}

    async def train(self, state, shards, options=DEFAULT_OPTIONS):
        self.states.append(state)
        self.trained.append(tuple(shards))
        self.passes.append(options.local_epochs)
        seconds = self.seconds.pop(0) if len(self.seconds) > 1 else self.seconds[0]
        await asyncio.sleep(seconds)
        return Trained({}, options.local_epochs * sum(shard.num_samples for shard in shards), seconds, False)


def transfers(latency_seconds, bytes_per_second, sizes, noise=lambda: 1.0):
    return [Transfer(size, (latency_seconds + size / bytes_per_second) * noise()) for size in sizes]


@given(st.floats(1e-6, 10), st.floats(1e3, 1e10), st.integers(0, 10**6), st.integers(2, 64))
def test_bandwidth_and_latency_are_found_exactly(latency_seconds, bytes_per_second, small, ratio):
    large = max(small, 1) * ratio
    found = fit_direction(transfers(latency_seconds, bytes_per_second, [small, small, large, small, large]))
    # What a clock can tell apart limits what can be known of the bandwidth.
    resolution = 1e-13 * (1 + latency_seconds * bytes_per_second / (large - small))
    assert found.rate.per_second == pytest.approx(bytes_per_second, rel=max(1e-9, 10 * resolution))
    assert found.latency_seconds == pytest.approx(latency_seconds, rel=1e-6, abs=1e-6 * large / bytes_per_second)
    assert found.rate.spread == pytest.approx(0, abs=1e-9)


def test_the_spread_is_the_standard_deviation():
    chance = random.Random(0)
    found = fit_direction(transfers(0.0, 1e6, [1000, 8000] * 2000, lambda: chance.gauss(1, 0.05)))
    assert found.rate.spread == pytest.approx(0.05, rel=0.1)
    assert found.rate.per_second == pytest.approx(1e6, rel=0.01)


@pytest.mark.parametrize(
    "transfers",
    [
        [Transfer(8000, 0.5)],  # one size
        [Transfer(8000, 0.4), Transfer(8000, 0.6)],
        [Transfer(1000, 0.5), Transfer(8000, 0.5)],  # equal times
        [Transfer(1000, 0.9), Transfer(8000, 0.5)],  # the larger one was faster
        [Transfer(0, 0.5), Transfer(8000, 0.5)],
    ],
)
def test_sizes_that_cannot_be_told_apart_leave_all_to_the_bandwidth(transfers):
    found = fit_direction(transfers)
    assert found.rate.per_second == pytest.approx(16_000)
    assert found.latency_seconds == 0
    assert found.rate.spread < 0.5


@pytest.mark.parametrize("transfers", [[], [Transfer(0, 0.5)], [Transfer(0, 0.5), Transfer(0, 0.7)]])
def test_a_link_that_carried_nothing_cannot_be_measured(transfers):
    with pytest.raises(ConfigError, match="the link could not be measured: no bytes came"):
        fit_direction(transfers)


def test_the_first_training_is_not_counted(run_virtual):
    trainer = PacedTrainer(1000.0, 0.5)
    rate = run_virtual(measure_training(trainer, [SHARD] * 4))
    assert (rate.per_second, rate.spread) == (pytest.approx(200), pytest.approx(0))
    assert trainer.trained == [(SHARD,)] * 5
    assert trainer.states == [{"dummy": 0}] * 5  # each time the dummy anew


class ThreadedTrainer(PacedTrainer):
    """Takes other seconds with each number of threads, in turn."""

    def __init__(self, seconds, **fixed):
        super().__init__(1.0)
        self.by_threads = {count: itertools.cycle(values) for count, values in seconds.items()}
        self.thread_counts = tuple(fixed.get("counts", seconds))
        self.tried = []

    async def train(self, state, shards, options=DEFAULT_OPTIONS):
        self.tried.append(self.num_threads)
        self.seconds = [next(self.by_threads[self.num_threads])]
        return await super().train(state, shards, options)


@pytest.mark.parametrize(
    ("seconds", "best"),
    [
        ({1: [1.0], 2: [0.7]}, 2),
        ({1: [1.0], 2: [0.97]}, 1),  # hardly faster
        ({1: [0.01], 8: [15.0]}, 1),  # others keep the cores busy
        ({1: [9.0, 1.0, 1.0, 9.0], 4: [2.0]}, 1),  # the warm-up and a stray do not count
    ],
)
def test_the_number_of_threads_is_the_one_that_trains_fastest(run_virtual, seconds, best):
    trainer = ThreadedTrainer(seconds)
    run_virtual(measure_training(trainer, [SHARD] * 2))
    assert trainer.num_threads == best
    assert trainer.tried[:8] == [*seconds] * 4  # by turns
    assert set(trainer.tried[8:]) == {best}
    num_tried = len(trainer.tried)
    run_virtual(choose_threads(trainer, [SHARD]))
    assert len(trainer.tried) == num_tried  # once is enough


@pytest.mark.parametrize(("counts", "threads"), [((), None), ((2,), 2)])
def test_where_there_is_no_choice_no_time_is_spent_on_it(run_virtual, counts, threads):
    trainer = ThreadedTrainer({None: [1.0], 2: [1.0]}, counts=counts)
    run_virtual(measure_training(trainer, [SHARD] * 2))
    assert trainer.tried == [threads] * 3


def test_strays_are_not_counted_but_what_is_slow_at_times_is(run_virtual):
    """As on a processor that is taken away for a while, now and then: the median would not notice."""
    seconds = [1.0, 0.9, 1.1, 1.0, 60.0, 0.9, 1.1]
    rate = run_virtual(measure_training(PacedTrainer(1.0, *seconds), [SHARD] * 7))
    assert (rate.per_second, rate.spread) == (pytest.approx(100), pytest.approx(0.148, abs=0.001))
    rate = run_virtual(measure_training(PacedTrainer(9.0, 1.0, 1.0, 2.5, 1.0, 1.0, 2.5), [SHARD] * 6))
    assert rate.per_second == pytest.approx(100 / 1.5)


def test_a_fast_device_trains_all_shards_together_and_for_longer(run_virtual):
    trainer = PacedTrainer(9.0, *[0.002] * 5, 0.2, 0.22, 0.18)
    rate = run_virtual(measure_training(trainer, [SHARD] * 5))
    assert trainer.trained == [(SHARD,)] * 6 + [(SHARD,) * 5] * 3
    assert trainer.passes == [1] * 6 + [15] * 3  # a pass takes 10 ms
    assert trainer.states == [{"dummy": 0}] * 9
    assert rate.per_second == pytest.approx(15 * 500 / 0.2)
    assert rate.spread == pytest.approx(0.148, abs=0.001)


@pytest.mark.parametrize(("shard_seconds", "num_more"), [(0.0749, 3), (0.0751, 0)])
def test_a_slow_device_trains_each_shard_once(run_virtual, shard_seconds, num_more):
    trainer = PacedTrainer(9.0, shard_seconds)
    run_virtual(measure_training(trainer, [SHARD] * 2))
    assert len(trainer.passes) == 3 + num_more


def test_training_that_takes_no_time_has_a_rate_all_the_same(run_virtual):
    trainer = PacedTrainer(0.0)
    assert 0 < run_virtual(measure_training(trainer, [SHARD] * 2)).per_second < math.inf
    assert max(trainer.passes) <= 64


class AxonLink(subset_benchmark.MeasuredLink):
    """Through Axon, as learners do."""

    def __init__(self, far):
        self._far = far

    async def fetch(self, num_shards, *, with_parameters):
        arrays, parameters = await self._far.give.coro(num_shards, with_parameters)
        shards = [Shard(*pair) for pair in arrays]
        return shards, sum(shard.x.nbytes + shard.y.nbytes for shard in shards) + len(parameters)

    async def send(self, num_bytes):
        await self._far.discard.coro(bytes(num_bytes))


@contextlib.asynccontextmanager
async def reached(link):
    """An orchestrator at the other end of a link."""
    network, worker = MemoryNetwork(), axon.Worker("orchestrator")

    @worker.rpc()
    async def give(num_shards: int, with_parameters: bool) -> tuple[list[tuple[np.ndarray, np.ndarray]], bytes]:
        return [tuple(SHARD)] * num_shards, bytes(MODEL_BYTES if with_parameters else 0)

    @worker.rpc()
    async def discard(data: bytes) -> None:
        return None

    @worker.rpc()
    async def matrix() -> np.ndarray:
        return np.zeros((900, 900), np.float32)

    async with worker.serving(port=0, transport=network.host("orchestrator")) as address:
        yield axon.connect(str(address), transport=FaultyTransport(network.host("pi"), link))


async def over(link, num_shards=8, trainer=None):
    """A benchmark over a link."""
    async with reached(link) as far:
        trainer = trainer or PacedTrainer(0.5)
        return await benchmark(AxonLink(far), trainer, num_shards=num_shards, up_bytes=MODEL_BYTES)


LINKS = [(5e6, 1e6, 0.02), (1e5, 1e4, 0.5), (1e8, 1e8, 0.001), (1e6, 1e8, 0.0)]


@pytest.mark.parametrize(("down", "up", "latency_seconds"), LINKS)
def test_a_steady_link_is_measured_exactly_but_for_the_headers(run_virtual, down, up, latency_seconds):
    link = Link(down_bytes_per_second=down, up_bytes_per_second=up, latency_seconds=latency_seconds)
    profile = run_virtual(over(link))
    assert profile.train.per_second == pytest.approx(200)
    assert profile.down.per_second == pytest.approx(down, rel=0.002)
    assert profile.up.per_second == pytest.approx(up, rel=0.002)
    headers = 1000 / down + 1000 / up
    assert 2 * latency_seconds <= profile.latency_seconds <= 2 * latency_seconds + headers
    assert max(profile.train.spread, profile.down.spread, profile.up.spread) < 1e-6


def test_a_link_that_varies_is_measured_within_a_few_per_cent(run_virtual):
    offs, spreads = [], []
    for seed in range(12):
        jittery = Link(down_bytes_per_second=1e6, up_bytes_per_second=1e6, latency_seconds=0.01, jitter=0.05, seed=seed)
        profile = run_virtual(over(jittery))
        offs += [abs(rate.per_second / 1e6 - 1) for rate in (profile.down, profile.up)]
        spreads += [profile.down.spread, profile.up.spread]
    assert statistics.median(offs) < 0.03
    assert max(offs) < 0.07
    # Uniform within ± 5 % has a standard deviation of 2.9 %; five transfers tell little of it.
    assert 0.01 < statistics.mean(spreads) < 0.06


class PlainLink(subset_benchmark.MeasuredLink):
    """Sends whatever shards it is told, a tenth of a second each."""

    def __init__(self, shard=SHARD):
        self._shard = shard

    async def fetch(self, num_shards, *, with_parameters):
        await asyncio.sleep(0.1 * num_shards)
        shards = [self._shard] * num_shards if self._shard else []
        return shards, sum(shard.x.nbytes for shard in shards)

    async def send(self, num_bytes):
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("shard", [None, Shard(SHARD.x[:0], SHARD.y[:0])])
def test_an_orchestrator_that_sends_nothing_is_told(run_virtual, shard):
    with pytest.raises(ConfigError, match="no bytes came"):
        run_virtual(benchmark(PlainLink(shard), PacedTrainer(0.5), num_shards=2, up_bytes=100))


class SlowerLoad(BackgroundLoad):
    """A device that trains slower in each state than in the one before, and slowest when it is held in none."""

    states = ("idle", "training", "downloading")
    probabilities = None
    state = "downloading"

    def __init__(self, trainer):
        self._trainer, self.told = trainer, []

    def begin_round(self):
        raise AssertionError("no round begins while a device is measured")

    @contextlib.contextmanager
    def held_in(self, state):
        self.told.append(f"into {state}")
        before, self.state = self.state, state
        self._trainer.seconds = [0.5 * (1 + self.states.index(state))]
        try:
            yield
        finally:
            self.told.append(f"out of {state}")
            self.state, self._trainer.seconds = before, [60.0]


def test_a_device_is_measured_in_each_state(run_virtual):
    trainer = PacedTrainer(60.0)
    load = SlowerLoad(trainer)
    profiles = run_virtual(benchmark_states(load, PlainLink(), trainer, num_shards=2, up_bytes=800))
    assert [profile.train.per_second for profile in profiles] == pytest.approx([200, 100, 200 / 3])
    assert load.told == [f"{way} {state}" for state in load.states for way in ("into", "out of")]
    assert load.state == "downloading"


def test_a_device_that_cannot_be_measured_is_held_no_longer(run_virtual):
    trainer = PacedTrainer(0.5)
    load = SlowerLoad(trainer)
    with pytest.raises(ConfigError, match="no bytes came"):
        run_virtual(benchmark_states(load, PlainLink(None), trainer, num_shards=2, up_bytes=800))
    assert (load.state, load.told) == ("downloading", ["into idle", "out of idle"])


def test_downloads_beside_are_felt_by_the_link(run_virtual):
    """Over a link that carries one thing after the other, a download has to wait for a matrix first."""
    states = [DeviceState(name="idle", probability=0.5), DeviceState(name="downloading", probability=0.5)]

    async def main():
        async with reached(Link(down_bytes_per_second=1e6, up_bytes_per_second=1e6)) as far:
            load = StressorLoad(states, far.matrix.coro, random.Random(0))
            load.enter_phase("benchmark")
            try:
                return await benchmark_states(
                    load, AxonLink(far), PacedTrainer(0.5), num_shards=8, up_bytes=MODEL_BYTES
                )
            finally:
                await load.aclose()

    idle, downloading = run_virtual(main())
    assert idle.down.per_second == pytest.approx(1e6, rel=0.002)
    matrix_seconds = 900 * 900 * 4 / 1e6
    assert idle.latency_seconds < 0.01
    assert 0.5 * matrix_seconds < downloading.latency_seconds < 2 * matrix_seconds
    assert downloading.train == idle.train
