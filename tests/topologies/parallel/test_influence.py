"""One learner that lies wins no round: it is limited, collapses are rolled back, sizes stay as declared."""

import asyncio
from dataclasses import replace

import pytest
from msgspec import convert

from paceline import run
from paceline.devices.profiles import Profile
from paceline.fleets.virtual import VirtualFleet
from paceline.learning.averaging import widened
from paceline.learning.checkpoints import read
from paceline.learning.datasets import DataSpec
from paceline.learning.partitions import PartitionSpec
from paceline.learning.scores import Scores
from paceline.topologies.parallel import events
from paceline.topologies.parallel.messages import Declaration
from paceline.topologies.parallel.progress import RunProgress, describe
from paceline.topologies.parallel.single_job import SingleJob
from tests.learning.small_tasks import are_equal
from tests.topologies.parallel.runs import ByHand, closed, device, of, play, small_job

LOCAL = DataSpec(name="digits", shard_size=32, placement="local")


def moved(parameters, size):
    return {kind: vector + size if vector.is_floating_point() else vector for kind, vector in parameters.items()}


# Updates that are too heavy, or too far off.


def test_one_huge_update_of_most_of_the_weight_changes_nothing_and_honest_ones_are_not_refused():
    """One update of 9e5 had 60,000 of 66,000 samples' weight; then honest ones were refused."""
    by_hand = ByHand(rounds=2, min_learners=4, deadline_seconds=4.0)

    async def main(orchestrator):
        receipts = []
        keys = {name: await by_hand.join(name) for name in ("x", "a", "b", "c")}
        for number in (1, 2):
            await asyncio.gather(*(orchestrator.next_round(key, number - 1, None) for key in keys.values()))
            for index, (name, key) in enumerate(keys.items()):
                taken = 700 if name == "x" else 25
                work = await orchestrator.take(key, number, taken)
                sent = moved(work.parameters, 9e5 if name == "x" else 0.001 * index)
                receipts.append((await orchestrator.update(key, number, sent, 2 * taken)).is_accepted)
            await asyncio.sleep(0.1)
        return receipts, orchestrator.outcome.state

    receipts, state = by_hand.play(main)
    assert all(receipts)
    change = state["model.1.weight"] - by_hand.prepared.state["model.1.weight"]
    assert change.abs().max() < 0.005
    limited = of(events.UpdateLimited, by_hand.events)
    assert [(event.round, event.learner, event.part) for event in limited] == [(1, "x", 0), (2, "x", 0)]
    assert limited[0].weight == pytest.approx(10 / 28)  # ten times the median, at most
    assert limited[0].distance > 1e5
    assert "does not count" in describe(limited[0])


def test_values_are_limited_by_the_start_not_by_what_was_poisoned_since():
    """Each accepted update of 9e5 would have raised the limit for the next."""
    by_hand = ByHand(make=lambda prepared, env: SingleJob(replace(prepared, evaluate=None), env), rounds=3)

    async def main(orchestrator):
        key, reasons = await by_hand.take("x"), []
        for number, size in ((1, 100.0), (2, 5e7)):
            if number > 1:
                ticket = await orchestrator.next_round(key, number - 1, None)
                await orchestrator.take(key, ticket.round, 32)
            sent = moved(by_hand.parameters, size)
            reasons.append((await orchestrator.update(key, number, sent, 64)).reason)
            await asyncio.sleep(0.1)
        return reasons

    first, second = by_hand.play(main)
    assert first == ""
    assert "1e+06 is the limit" in second


JOB = small_job(rounds=5, local_epochs=2, min_learners=10)


@pytest.fixture(scope="module")
def clean_accuracy():
    return play(JOB, [device("d", count=10, max_shards=5)])[0].metrics["accuracy"]


@pytest.mark.parametrize("poison", [{"poison_factor": -10.0}, {"poison": "zeros"}, {"poison": "stale"}], ids=str)
def test_a_fifth_of_liars_costs_next_to_nothing_by_default(poison, clean_accuracy):
    """`benchmarks/poisoning.py` has all kinds, on MNIST and CIFAR-10."""
    devices = [device("d", count=8, max_shards=5), device("x", count=2, max_shards=5, **poison)]
    outcome, told = play(JOB, devices)
    assert clean_accuracy > 0.7
    assert outcome.metrics["accuracy"] > clean_accuracy - 0.03
    limited = {event.learner for event in of(events.UpdateLimited, told) if event.part < 1}
    assert limited == {"x-1", "x-2"}


def test_unequal_and_unlike_honest_devices_are_not_clipped():
    rules = {"rounds": 6, "local_epochs": 2, "data": LOCAL}
    unlike = PartitionSpec(kind="dirichlet", alpha=0.1)
    for partition, speeds in ((PartitionSpec(), (50, 100, 200, 400)), (unlike, (100, 100, 100, 100))):
        devices = [device(f"d{n}", speed) for n, speed in enumerate(speeds * 2)]
        _, told = play(small_job(partition=partition, min_learners=8, **rules), devices)
        clipped = [event for event in of(events.UpdateLimited, told) if event.part < 1]
        assert len(clipped) <= 2  # of 48
        assert not [event for event in clipped if event.part == 0]


def test_masked_sums_are_as_they_were():
    """The orchestrator cannot see single updates, so it limits none."""
    privacy = {"secure_aggregation": True}
    job = small_job(rounds=2, min_learners=4, data=LOCAL, privacy=privacy, deadline_seconds=30.0)
    _, told = play(job, [device("d", count=3), device("x", poison_factor=-2.0)])
    assert [event.num_updates for event in closed(told)] == [4, 4]
    assert not of(events.UpdateLimited, told)


# Rounds that are rolled back.


class Losses:
    """Makes up the losses of one round after another, and 20 for what has learned nothing; the accuracy follows."""

    def __init__(self, *losses):
        self.losses = list(losses)
        self.untrained = {}

    def __call__(self, state):
        loss = 20.0 if are_equal(state, self.untrained) else self.losses.pop(0)
        return Scores(loss, {"accuracy": 1 - loss / 100})


def by_hand_with(losses, names="a", **changes):
    """Play rounds that come to these losses; returns the orchestrator's events, and its parameters after each round."""
    losses_of, states = Losses(*losses), []

    def make(prepared, env):
        losses_of.untrained = prepared.state
        return SingleJob(replace(prepared, evaluate=losses_of), env)

    by_hand = ByHand(make=make, **{"rounds": len(losses), "min_learners": len(names), **changes})

    async def main(orchestrator):
        keys = [await by_hand.join(name) for name in names]
        for number in range(1, changes.get("rounds", len(losses)) + 1):
            for key in keys:
                ticket = await orchestrator.next_round(key, number - 1, None)
                if ticket.status == "over":
                    return ticket.reason
            for index, key in enumerate(keys):
                work = await orchestrator.take(key, number, 1)
                await orchestrator.update(key, number, moved(work.parameters, number + index), 2)
            await asyncio.sleep(0.1)
            state = orchestrator.outcome.state["model.1.weight"] - by_hand.prepared.state["model.1.weight"]
            states.append(round(float(widened(state).mean()), 4))
        return ""

    return by_hand.play(main), by_hand.events, states


def test_a_round_that_ruins_the_model_is_rolled_back_and_the_run_goes_on():
    _, told, states = by_hand_with([2.0, 1.0, 30.0, 0.9])
    assert states == [1, 3, 3, 7]
    [event] = of(events.RoundRolledBack, told)
    assert (event.round, event.loss, event.lowest_loss, event.kept) == (3, 30.0, 1.0, "before")
    assert event.weights == {"a": 1.0}
    assert event.norms["a"] > 0
    assert [event.loss for event in closed(told)] == [2.0, 1.0, 1.0, 0.9]
    [line] = list(RunProgress().lines(event))
    assert line.startswith(
        "round 3: the loss would be 30, and was 1, so it is rolled back; most of it came from a (100"
    )


def test_the_median_of_the_updates_is_tried_first():
    _, told, states = by_hand_with([1.0, 30.0, 0.9], names="abc", rounds=2)
    assert states == [2, 5]  # the median of 2, 3 and 4 more
    [event] = of(events.RoundRolledBack, told)
    assert (event.kept, sorted(event.weights)) == ("median", ["a", "b", "c"])
    assert [event.loss for event in closed(told)] == [1.0, 0.9]


def test_too_many_rollbacks_in_a_row_are_divergence():
    reason, told, states = by_hand_with([1.0, 30.0, 30.0, 0.9, 30.0, 30.0, 30.0, 30.0, 30.0])
    assert "training diverged in round 8 on a: the loss of the averaged model is 30" in reason
    assert states[:7] == [1, 1, 1, 5, 5, 5, 5]
    assert [event.round for event in of(events.RoundRolledBack, told)] == [2, 3, 5, 6, 7]
    assert of(events.RunEnded, told)[0].reason == "diverged"


def test_rolling_back_can_be_turned_off():
    _, told, states = by_hand_with([1.0, 30.0], rolls_back=False)
    assert states == [1, 3]
    reason, _, _ = by_hand_with([1.0, 1e9, 0.0], rolls_back=False)
    assert "training diverged in round 2" in reason
    assert not of(events.RoundRolledBack, told)


def test_nobody_stops_a_run_that_has_learned_by_saying_that_training_diverged():
    by_hand = ByHand(rounds=6)

    async def main(orchestrator):
        key = await by_hand.take("a", 1)
        await orchestrator.update(key, 1, by_hand.parameters, 2)
        await asyncio.sleep(0.1)
        for number in range(2, 6):
            ticket = await orchestrator.next_round(key, number - 1, None)
            await orchestrator.take(key, ticket.round, 1)
            await orchestrator.report_divergence(key, number, "so it says")
            await asyncio.sleep(0.1)
        return (await orchestrator.next_round(key, 5, None)).reason

    assert "training diverged in round 5 on a: so it says" in by_hand.play(main)
    assert len(closed(by_hand.events)) == 4


@pytest.mark.parametrize("loss", [1.5, 1.99])
def test_losses_that_go_up_and_down_are_left_alone(loss):
    """Above the first loss, but not twice the lowest; or the other way round."""
    _, told, _ = by_hand_with([1.2, 1.0, loss])
    _, others, _ = by_hand_with([9.0, 1.0, 8.9])
    assert not of(events.RoundRolledBack, [*told, *others])


# Sizes and speeds that learners declare.


def profile_of(samples_per_second):
    rate = {"per_second": samples_per_second, "spread": 0.0}
    return convert({"train": rate, "down": rate, "up": rate}, Profile)


def test_declared_sizes_stay_in_a_session_and_bound_what_is_taken():
    by_hand = ByHand(rounds=1, data=LOCAL)

    async def main(orchestrator):
        key = await by_hand.join()
        await orchestrator.next_round(key, 0, None)
        with pytest.raises(ValueError, match="is to be declared before it takes any"):
            await orchestrator.take(key, 1, 3, 70)
        await orchestrator.declare(key, Declaration(num_shards=3))
        with pytest.raises(ValueError, match="it declared 3 shards, and now 51200; that stays in a session"):
            await orchestrator.declare(key, Declaration(num_shards=51_200))
        with pytest.raises(ValueError, match="at least 1 and at most 3 can"):
            await orchestrator.take(key, 1, 4, 100)
        await orchestrator.take(key, 1, 3, 70)

    by_hand.play(main)


def test_more_samples_than_there_was_time_for_do_not_count():
    by_hand = ByHand("eta", rounds=1, min_learners=2, data=LOCAL, deadline_seconds=10.0)

    async def main(orchestrator):
        keys = {name: await by_hand.join(name) for name in "ax"}
        for name, key in keys.items():
            await orchestrator.declare(
                key, Declaration(num_shards=4 if name == "a" else 51_200, profile=profile_of(50.0))
            )
        for key in keys.values():
            await orchestrator.next_round(key, 0, None)
        await orchestrator.take(keys["a"], 1, 4, 128)
        await orchestrator.take(keys["x"], 1, 51_200, 1_638_400)
        await asyncio.sleep(2.0)
        for name, count in (("a", 128), ("x", 1_638_400)):
            receipt = await orchestrator.update(keys[name], 1, by_hand.parameters, count)
            assert receipt.is_accepted
        await asyncio.sleep(0.1)

    by_hand.play(main)
    [event] = of(events.ClaimLimited, by_hand.events)
    assert (event.learner, event.num_samples) == ("x", 1_638_400)
    assert event.num_plausible == pytest.approx(300, abs=2)  # three times 50 a second, for two seconds
    assert describe(event).endswith("it can have trained 300, which count")
    assert not of(events.UpdateLimited, by_hand.events)


# The best model.


def test_the_best_model_is_kept_beside_the_last_ones(tmp_path):
    """Training goes on with a wild learning rate, so that later models are worse."""
    by_round = {}

    def watch(event):
        if isinstance(event, events.RoundClosed):
            by_round[event.round] = event.loss

    job = small_job(rounds=8, local_epochs=3, optimizer={"name": "SGD", "lr": 0.9})
    ended = run.train(job, VirtualFleet([device("a", max_shards=3)]), folder=tmp_path / "run", callbacks=[watch])
    best = read(tmp_path / "run/checkpoints/best.safetensors")
    number = min(by_round, key=by_round.get)
    assert number < 8
    model = run.load(tmp_path / "run/checkpoints/best.safetensors")
    assert model is not None
    assert not all(tensor.equal(ended.state[name]) for name, tensor in best.items())
