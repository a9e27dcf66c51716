"""Trainers: in time by their clock, exact about what was trained, and gone when they are not wanted any more."""

import asyncio
import math
import threading

import numpy as np
import pytest

from paceline.learning import aggregated_points
from paceline.learning.aggregated_points import Found, PointsSpec, aggregate
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.trainers import Clock, ThreadTrainer, Trainer, TrainOptions
from tests.learning.small_tasks import are_equal, make_model, make_shards

# Far more than the real seconds that a test takes, which count too: a trainer reads the loop's clock once.
UNIT_SECONDS = 1e6


class HandClock(Clock):
    """Moves only when it is told to."""

    def __init__(self):
        self.now = self.busy = 0.0
        self.pauses = []

    def time(self):
        return self.now

    def busy_time(self):
        return self.busy

    def pause(self, seconds, is_cancelled):
        self.pauses.append(seconds)
        self.now += seconds


class WatchedModel:
    """A model like another, but for what a subclass changes."""

    def __init__(self, model):
        self._model = model

    def __getattr__(self, name):
        return getattr(self._model, name)


class TimedModel(WatchedModel):
    """A model of which each minibatch takes the given units of time, of which the thread works some."""

    def __init__(self, model, clock, units, busy_units=None):
        super().__init__(model)
        self._clock = clock
        self._units = units
        self._busy_units = busy_units or units

    def minibatches(self, *args, **options):
        return self._timed(self._model.minibatches(*args, **options))

    def losses(self, *args):
        return self._timed(self._model.losses(*args))

    def _timed(self, steps):
        for number, step in enumerate(steps):
            self._clock.now += UNIT_SECONDS * self._units[number % len(self._units)]
            self._clock.busy += UNIT_SECONDS * self._busy_units[number % len(self._busy_units)]
            yield step


def train(trainer, shards, *, units=math.inf, state=None, **options):
    """Train for at most so many units of time."""

    async def main():
        until = asyncio.get_running_loop().time() + units * UNIT_SECONDS
        start = trainer.initial_parameters() if state is None else state
        return await trainer.train(start, shards, TrainOptions(until=until, seed=5, **options))

    return asyncio.run(main())


def after_batches(number, shards, *, local_epochs=1, **changes):
    """What `number` minibatches make of a model."""
    model = make_model(**changes)
    minibatches = model.minibatches(model.state(), shards, 5, local_epochs)
    num_samples = sum(next(minibatches) for _ in range(number))
    return model.parameters(), num_samples


@pytest.mark.parametrize(
    ("units", "num_batches"), [(0.5, 1), (1.5, 1), (2.5, 2), (4.5, 4), (6.5, 6), (7.5, 7), (8.5, 8), (100, 8)]
)
def test_halting_returns_exactly_what_was_trained(units, num_batches):
    """Of 8 minibatches in 2 passes, the last of each smaller, that take a unit of time each. The first is tried."""
    clock, shards = HandClock(), make_shards(10, 4)
    trainer = ThreadTrainer(TimedModel(make_model(batch_size=4), clock, [1]), clock=clock)
    trained = train(trainer, shards, local_epochs=2, units=units)
    expected, num_samples = after_batches(num_batches, shards, local_epochs=2, batch_size=4)
    assert are_equal(trained.parameters, expected)
    assert trained.num_samples == num_samples
    assert trained.is_halted == (num_samples < 28)
    assert trained.seconds == num_batches * UNIT_SECONDS


@pytest.mark.parametrize("units", [2.5, 6.5, 10.5, 19.5])
@pytest.mark.parametrize("pattern", [[1], [0.5, 0.6, 0.7], [2, 0.1, 0.1]])
def test_training_ends_in_time_if_minibatches_take_about_as_long_as_before(pattern, units):
    clock = HandClock()
    model = TimedModel(make_model(batch_size=1), clock, pattern)
    trained = train(ThreadTrainer(model, clock=clock), make_shards(200), units=units)
    worst_off = max(pattern) - sum(pattern) / len(pattern)
    assert trained.is_halted
    assert units - 2 * max(pattern) <= trained.seconds / UNIT_SECONDS <= units + worst_off


@pytest.mark.parametrize(
    ("slowdown", "units", "busy_units", "expected"),
    [
        (1.0, 1, 1, 1),
        (0.5, 1, 1, 1),
        (2.0, 1, 1, 2),
        (7.5, 1, 1, 7.5),
        (4.0, 3, 1, 4),  # it waited for a core, as it would have on the slower device
        (2.0, 3, 1, 3),
    ],
)
def test_slowdown_is_in_proportion_to_the_work(slowdown, units, busy_units, expected):
    clock, shards = HandClock(), make_shards(12)
    model = TimedModel(make_model(), clock, [units], [busy_units])
    trained = train(ThreadTrainer(model, slowdown, clock), shards)
    assert trained.seconds == pytest.approx(3 * expected * UNIT_SECONDS)
    assert sum(clock.pauses) == pytest.approx(3 * (expected - units) * UNIT_SECONDS)
    assert trained.num_samples == 12


class HeldModel(WatchedModel):
    """A model whose minibatches wait to be let go; the test sees how far it is."""

    def __init__(self, model):
        super().__init__(model)
        self.begun, self.let_go = threading.Semaphore(0), threading.Semaphore(0)
        self.num_begun = self.num_done = 0

    def minibatches(self, *args, **options):
        for num_samples in self._model.minibatches(*args, **options):
            self.num_begun += 1
            self.begun.release()
            assert self.let_go.acquire(timeout=60)
            self.num_done += 1
            yield num_samples


async def begun(model):
    """Wait, without a thread, until a minibatch has begun."""
    while not model.begun.acquire(blocking=False):
        await asyncio.sleep(0)


def test_the_loop_is_not_held_up_and_cancelling_ends_the_thread_within_a_minibatch():
    model = HeldModel(make_model())

    async def main():
        work = asyncio.ensure_future(ThreadTrainer(model).train(model.parameters(), make_shards(40)))
        await begun(model)
        model.let_go.release()
        await begun(model)
        assert not work.done()
        work.cancel()
        await asyncio.sleep(0)
        assert not work.done()  # it waits for the thread: the model is still in use
        model.let_go.release()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert (model.num_begun, model.num_done) == (2, 2)
        # The model is free: it can be trained again at once.
        again = asyncio.ensure_future(ThreadTrainer(model).train(model.parameters(), make_shards(4)))
        await begun(model)
        model.let_go.release()
        return await again

    assert asyncio.run(main()).num_samples == 4
    assert model.num_begun == 3


def test_cancelling_ends_a_pause():
    """This device would have to rest for ages after its first minibatch."""
    paused = threading.Event()

    class Telling(Clock):
        def pause(self, seconds, is_cancelled):
            assert seconds > 1000
            paused.set()
            super().pause(seconds, is_cancelled)

    async def main():
        trainer = ThreadTrainer(make_model(), slowdown=1e12, clock=Telling())
        work = asyncio.ensure_future(trainer.train(trainer.initial_parameters(), make_shards(8)))
        while not paused.is_set():
            await asyncio.sleep(0)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(main())
    assert paused.is_set()


@pytest.mark.parametrize(("slowdown", "num_tried"), [(1, 0), (20, 1)])
def test_what_torch_loads_for_its_first_step_is_not_slowed_down(slowdown, num_tried, monkeypatch):
    tried = []
    monkeypatch.setattr(OptimizerSpec, "try_out", lambda self: tried.append(self))
    model = make_model()
    ThreadTrainer(model, slowdown)
    assert tried == [model.spec.optimizer] * num_tried


MOMENTUM = OptimizerSpec(options={"lr": 0.1, "momentum": 0.9})


def test_an_optimizer_that_is_kept_goes_on_with_what_it_remembers():
    """Two trainings of one pass each are then one training of two passes."""
    shards = make_shards(12)
    whole = train(ThreadTrainer(make_model(optimizer=MOMENTUM)), shards, local_epochs=2, is_shuffled=False)
    trainer = ThreadTrainer(make_model(optimizer=MOMENTUM))
    start = trainer.initial_parameters()
    first = train(trainer, shards, state=start, is_shuffled=False, keeps_optimizer=True)
    train(trainer, shards, state=start)  # in between, such as a benchmark: it neither uses nor changes what is kept
    second = train(trainer, shards, state=first.parameters, is_shuffled=False, keeps_optimizer=True)
    assert are_equal(second.parameters, whole.parameters)
    anew = train(trainer, shards, state=first.parameters, is_shuffled=False)
    assert not are_equal(anew.parameters, whole.parameters)


def test_losses_are_those_of_the_model_and_take_their_time():
    clock, (shard,) = HandClock(), make_shards(600)
    model = make_model("two-nn")
    trainer = ThreadTrainer(TimedModel(model, clock, [2], [1]), 4.0, clock)
    found = asyncio.run(trainer.losses(trainer.initial_parameters(), shard))
    assert np.array_equal(found.values, np.concatenate(list(model.losses(model.state(), shard))))
    assert found.seconds == 3 * 4 * UNIT_SECONDS  # three parts
    assert clock.pauses == [2 * UNIT_SECONDS] * 3


POINTS = PointsSpec(reduction="hash", division="lsh", ratio=4)


def test_points_are_aggregated_once_and_then_found(tmp_path):
    trainer, (shard,) = ThreadTrainer(make_model(), cache=tmp_path), make_shards(40)
    made, found = (asyncio.run(trainer.aggregate(shard, POINTS)) for _ in range(2))
    assert (made.is_cached, found.is_cached) == (False, True)
    assert np.array_equal(made.points.x, aggregate(*shard, POINTS).x)
    assert np.array_equal(made.points.x, found.points.x)
    assert made.seconds >= 0


def test_a_slower_device_takes_longer_to_aggregate(monkeypatch):
    clock, (shard,) = HandClock(), make_shards(40)

    def cached(x, y, spec, folder, progress):
        """Each of three classes takes a unit of time, and then what is left another."""
        for number in (1, 2, 3, None):
            clock.now += UNIT_SECONDS
            clock.busy += UNIT_SECONDS
            if number:
                progress(number, 3)
        return Found(aggregate(x, y, spec), False)

    monkeypatch.setattr(aggregated_points, "cached", cached)
    made = asyncio.run(ThreadTrainer(make_model(), 3.0, clock).aggregate(shard, POINTS))
    assert made.seconds == 4 * 3 * UNIT_SECONDS
    assert clock.pauses == [2 * UNIT_SECONDS] * 4


def test_cancelling_ends_aggregation_within_a_class(monkeypatch):
    begun, let_go, done = threading.Event(), threading.Event(), []

    def cached(x, y, spec, folder, progress):
        for number in (1, 2, 3):
            begun.set()
            assert let_go.wait(60)
            done.append(number)
            progress(number, 3)

    monkeypatch.setattr(aggregated_points, "cached", cached)

    async def main():
        work = asyncio.ensure_future(ThreadTrainer(make_model()).aggregate(make_shards(40)[0], POINTS))
        while not begun.is_set():
            await asyncio.sleep(0)
        work.cancel()
        await asyncio.sleep(0)
        assert not work.done()
        let_go.set()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(main())
    assert done == [1]


def test_a_trainer_of_learners_need_not_know_of_points():
    class Plain(Trainer):
        async def train(self, parameters, shards, options=None):
            return None

        def initial_parameters(self):
            return {}

    (shard,) = make_shards(4)
    with pytest.raises(NotImplementedError, match="Plain computes no losses"):
        asyncio.run(Plain().losses({}, shard))
    with pytest.raises(NotImplementedError, match="Plain aggregates no points"):
        asyncio.run(Plain().aggregate(shard, POINTS))
