"""What a device does besides: states are drawn round by round, and stress follows the learner's phases."""

import asyncio
import random
import threading
from typing import get_args

import pytest

from paceline.devices.background_load import StressorLoad
from paceline.devices.states import DeviceState, draw_state
from paceline.devices.stressors import STRESSORS, ComputeStressor, Stressor, TransferStressor
from paceline.errors import ConfigError
from paceline.events import Phase

STATES = (
    DeviceState(name="idle", probability=0.5),
    DeviceState(name="training", probability=0.3, speed=0.5),
    DeviceState(name="downloading", probability=0.2),
)
STRESSED = {("training", "benchmark"), ("training", "train"), ("downloading", "benchmark"), ("downloading", "download")}


async def fetch():
    await asyncio.sleep(1)


def stressed(states=STATES, seed=0, **options):
    return StressorLoad(states, fetch, random.Random(seed), **options)


@pytest.fixture
def running(monkeypatch):
    """The states whose stressors run; those are fakes, in whose place nothing runs."""
    running = set()

    def fake(name, disturbed):
        class FakeStressor(Stressor):
            phases = disturbed

            def start(self):
                running.add(name)

            def stop(self):
                running.discard(name)

            async def aclose(self):
                self.stop()

        return lambda fetch: FakeStressor()

    monkeypatch.setitem(STRESSORS, "training", fake("training", ComputeStressor.phases))
    monkeypatch.setitem(STRESSORS, "downloading", fake("downloading", TransferStressor.phases))
    return running


def test_probabilities_may_be_unknown_and_are_followed_all_the_same():
    downloading = DeviceState(name="downloading", probability=0.7)
    load = stressed([DeviceState(name="idle", probability=0), STATES[1], downloading], are_known=False)
    assert load.probabilities is None
    drawn = set()
    for _ in range(200):
        load.begin_round()
        drawn.add(load.state)
    assert drawn == {"training", "downloading"}


def test_the_state_of_each_round_is_drawn():
    load, chance = stressed(seed=7), random.Random(7)
    drawn = []
    for _ in range(2000):
        load.begin_round()
        drawn.append(load.state)
    assert drawn == [draw_state(STATES, chance).name for _ in drawn]
    assert drawn.count("training") / len(drawn) == pytest.approx(0.3, abs=0.04)
    fives = {tuple(drawn[start : start + 5]) for start in range(0, 2000, 5)}
    assert len(fives) > 50  # one round says nothing of the next


@pytest.mark.parametrize("phase", get_args(Phase))
@pytest.mark.parametrize("state", [state.name for state in STATES])
def test_stress_follows_state_and_phase(running, state, phase):
    load = stressed([DeviceState(name=state, probability=1)])
    load.begin_round()
    load.enter_phase(phase)
    assert running == ({state} if (state, phase) in STRESSED else set())
    load.enter_phase("idle")
    assert running == set()


def test_a_device_is_held_in_each_state_and_then_as_before(running):
    load = stressed()
    load.enter_phase("benchmark")
    told = []
    for state in load.states:
        with load.held_in(state):
            told.append((load.state, set(running)))
        assert (load.state, running) == ("idle", set())
    assert told == [("idle", set()), ("training", {"training"}), ("downloading", {"downloading"})]


@pytest.mark.parametrize("state", ["training", "downloading"])
def test_a_learner_that_is_cancelled_leaves_nothing_behind(state):
    async def learn(load, is_training):
        try:
            load.begin_round()
            load.enter_phase("benchmark")
            is_training.set()
            await asyncio.Event().wait()
        finally:
            await load.aclose()

    async def main():
        threads, is_training = set(threading.enumerate()), asyncio.Event()
        learner = asyncio.ensure_future(learn(stressed([DeviceState(name=state, probability=1)]), is_training))
        await is_training.wait()
        beside = asyncio.all_tasks() - {learner, asyncio.current_task()}, set(threading.enumerate()) - threads
        assert list(map(len, beside)) == ([0, 1] if state == "training" else [1, 0])
        learner.cancel()
        with pytest.raises(asyncio.CancelledError):
            await learner
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert not any(thread.is_alive() for thread in beside[1])

    asyncio.run(main())


def test_it_can_be_closed_at_any_time_and_used_again(run_virtual):
    async def main():
        load = stressed([DeviceState(name="downloading", probability=1)])
        await load.aclose()
        for _ in range(2):
            load.enter_phase("download")
            assert len(asyncio.all_tasks()) == 2
            await load.aclose()
            await load.aclose()
            assert asyncio.all_tasks() == {asyncio.current_task()}

    run_virtual(main())


@pytest.mark.parametrize(
    ("states", "told"),
    [
        ({"trainig": 1}, "state 'trainig' is unknown; did you mean 'training'. Allowed: idle, training, downloading"),
        ({"idle": 0.5, "gaming": 0.5}, "state 'gaming' is unknown; .*[Aa]llowed: idle, training, downloading"),
        ({}, "a device has at least one state; allowed: idle, training, downloading"),
        ({"idle": 0.5, "training": 0.4}, r"the probabilities of states \['idle', 'training'\] add up to 0.9"),
    ],
)
def test_states_that_cannot_be(states, told):
    with pytest.raises(ConfigError, match=told) as caught:
        stressed([DeviceState(name=name, probability=probability) for name, probability in states.items()])
    assert "\n" not in str(caught.value)
