"""Split runs on virtual time: they learn what one process would, and lost messages change nothing of it."""

import pytest

from paceline.errors import DivergedError
from paceline.learning.junction import JunctionSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.topologies.events import LearnerJoined
from paceline.topologies.split.events import NodeSpent, SourceMasked
from tests.topologies.split.runs import ADAM, SGD, device, farthest, fleet, in_one_process, play, small_split

RULES = {
    "SGD": {"optimizer": SGD},
    "Adam": {"optimizer": ADAM},
    "plain": {"optimizer": SGD, "junction": JunctionSpec(start="plain")},
    "low-rank": {"optimizer": SGD, "junction": JunctionSpec(form="low-rank", rank=4)},
    "grouped": {"optimizer": SGD, "junction": JunctionSpec(form="grouped", groups=5)},
    "side by side": {"optimizer": SGD, "scheme": "split-learning"},
}


def joined(played):
    return [event.learner for event in played.of(LearnerJoined)]


def test_all_parts_follow_the_schedule_of_learning_rates():
    split = small_split(epochs=2, optimizer=OptimizerSpec(name="SGD", schedule="cosine", options={"lr": 0.1}))
    played = play(split, fleet())
    assert farthest(played.state, in_one_process(split, joined(played))) < 1e-6


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_with_a_depth_of_1_a_run_learns_what_one_process_would(rules):
    split = small_split(epochs=2, **rules)
    played = play(split, fleet())
    assert [event.num_steps for event in played.epochs] == [10, 10]
    assert farthest(played.state, in_one_process(split, joined(played))) < 1e-6
    assert farthest(played.state, in_one_process(split, joined(played), epochs=1)) > 1e-2


@pytest.mark.parametrize("rules", [{}, {"test_epochs": 9, "backup_epochs": 0}, {"scheme": "gfl"}], ids=str)
def test_lost_messages_change_nothing_of_what_is_learned(rules):
    split = small_split(epochs=3, **rules)
    whole, lossy = (
        play(split, [device(name, joins_at_seconds=number, packet_loss=loss) for number, name in enumerate("abc")])
        for loss in (0.0, 0.2)
    )
    assert lossy.ended.at > whole.ended.at + 0.2  # many were lost
    assert lossy.of(SourceMasked) == []
    assert farthest(whole.state, lossy.state) == 0


@pytest.mark.parametrize("loss", [0.2, 0.3])
def test_no_source_is_left_behind_on_links_that_lose_one_in_three(loss):
    for seed in range(10):
        split = small_split(epochs=2, seed=seed, patience_seconds=5.0)
        played = play(split, [device(name, packet_loss=loss) for name in "abc"])
        assert [event.num_masked for event in played.epochs] == [0, 0], seed


def test_the_same_seed_gives_the_same_events():
    noisy = {"speed_noise": 0.2, "link_noise": 0.2, "packet_loss": 0.05}
    devices = [device("a", **noisy), device("b", 400.0, **noisy)]
    devices.append(device("c", **noisy, dies_at_seconds=0.6, returns_at_seconds=2))
    first, second = (play(small_split(bits=8), devices) for _ in range(2))
    assert first.events == second.events
    assert first.of(SourceMasked, "c")
    assert farthest(first.state, second.state) == 0


@pytest.fixture(scope="module")
def whole():
    """A run that sends all bits."""
    return play(small_split(epochs=4, backup_epochs=0), fleet())


@pytest.mark.parametrize("bits", [16, 8, 4])
def test_fewer_bits_are_fewer_bytes_and_still_learn(whole, bits):
    played = play(small_split(epochs=4, bits=bits, backup_epochs=0), fleet())
    fewer, all_bytes = (sum(event.bytes_sent for event in one.of(NodeSpent, "a")) for one in (played, whole))
    assert fewer < all_bytes * (bits / 32 + 0.15)  # heads, and the copy of the branch, which is not cut short
    assert played.epochs[-1].metrics["accuracy"] > whole.epochs[-1].metrics["accuracy"] - 0.1


def test_pipelined_runs_are_faster_and_still_learn():
    devices = [device(name, 2000.0, latency_ms=20) for name in "abc"]
    exact, ahead = (play(small_split(num_samples=640, epochs=4, depth=depth), devices) for depth in (1, 4))
    assert ahead.epochs[-1].seconds < 0.4 * exact.epochs[-1].seconds
    assert ahead.epochs[-1].metrics["accuracy"] > exact.epochs[-1].metrics["accuracy"] - 0.1
    assert [event.num_masked for event in ahead.epochs] == [0] * 4
    assert farthest(exact.state, ahead.state) > 1e-3  # gradients came late


def test_each_node_reports_how_it_spent_an_epoch_and_a_slow_trunk_takes_its_time():
    played = play(small_split(epochs=1), fleet())
    first = {event.learner: event for event in played.of(NodeSpent) if event.epoch == 1}
    assert set(first) == {"a", "b", "c", "trunk"}
    values = 320 * 50 * 4  # of a source in an epoch, each way
    tested, copied = 300 * 50 * 4, (64 * 50 + 50) * 4 * 3 + 2 * 4  # with what Adam remembers
    assert first["trunk"].bytes_received == 3 * (values + tested + copied)
    assert first["trunk"].bytes_sent == 3 * values
    assert values + tested + copied < first["a"].bytes_sent < 1.2 * (values + tested + copied)
    assert values < first["a"].bytes_received < 1.3 * values
    assert first["a"].compute_seconds + first["a"].wait_seconds == pytest.approx(first["a"].seconds)
    assert first["a"].joules > 0
    slow = play(small_split(epochs=1), [*fleet(), device("edge", 500.0, is_server=True)])
    assert slow.epochs[0].seconds > 1.2 * played.epochs[0].seconds
    assert [event.compute_seconds > 0 for event in slow.of(NodeSpent, "trunk") if event.epoch == 1] == [True]
    assert [event.compute_seconds for event in played.of(NodeSpent, "trunk")] == [0.0]
    assert farthest(played.state, slow.state) == 0


@pytest.mark.parametrize(
    ("rules", "reason", "epochs"),
    [
        ({"epochs": 20, "target": "accuracy >= 0.5"}, "target reached", None),
        ({"epochs": 20, "patience": 2, "optimizer": OptimizerSpec(options={"lr": 0.0})}, "no improvement", 3),
        ({"epochs": 4, "test_epochs": 3}, "epochs done", 4),
    ],
)
def test_runs_end_for_a_reason(rules, reason, epochs):
    played = play(small_split(**rules), fleet())
    ended = played.ended
    assert ended.reason == reason
    assert ended.epochs == len(played.epochs) == (epochs or ended.epochs) < 20
    if "target" in rules:
        *before, last = [event.metrics["accuracy"] for event in played.epochs]
        assert last >= 0.5 > max(before)
    if "test_epochs" in rules:
        assert [bool(event.metrics) for event in played.epochs] == [False, False, True, True]
    assert played.state["branches.a.1.weight"].shape == (50, 64)  # taken in the end, in any case


def test_training_that_diverges_ends_with_a_reason():
    wild = OptimizerSpec(name="SGD", options={"lr": 1e15})
    with pytest.raises(DivergedError, match="in epoch 1, step 2, with a, b, c: the loss is .*; try a lower learning"):
        play(small_split(optimizer=wild), fleet())


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        ("gfl", "training diverged in epoch 1 on [abc]: its parameters hold NaN or infinity"),
        ("images", "training diverged in epoch 1, with images of a, b, c: parameters hold NaN or infinity"),
    ],
)
def test_other_schemes_notice_that_training_diverges(scheme, message):
    wild = OptimizerSpec(name="SGD", options={"lr": 1e6})
    with pytest.raises(DivergedError, match=message):
        play(small_split(scheme=scheme, optimizer=wild), fleet())


@pytest.mark.parametrize("name", ["keys", "pop", "training", "a.b", "café @ home"])
def test_sources_may_have_any_name(name):
    played = play(small_split(epochs=1, sources=2), [device("a"), device(name)])
    assert f"branches.{name}.1.weight" in played.state
    assert played.epochs[0].num_masked == 0
