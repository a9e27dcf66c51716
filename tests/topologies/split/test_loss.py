"""Sources that die, return, come late, leave or are too slow: training goes on with those that are there."""

import pytest

from paceline.errors import PacelineError
from paceline.learning.model_parts import learned_by, make_chain
from paceline.topologies.events import LearnerJoined, LearnerLeft
from paceline.topologies.split.events import JunctionChanged, SourceBack, SourceMasked
from tests.topologies.split.runs import CUT, SGD, WIDTH, device, farthest, fleet, play, small_split

BLOCK = WIDTH * WIDTH


def branch_of(source, state):
    prefix = f"branches.{source}."
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}


def others(state, source):
    """What is not of a source."""
    mine = (f"branches.{source}.", f"head.merge.blocks.{source}.")
    return {name: tensor for name, tensor in state.items() if not name.startswith(mine)}


def masked_by_epoch(played):
    return [event.num_masked for event in played.epochs]


@pytest.fixture(scope="module")
def away():
    """A run whose last source dies in the fifth of twelve epochs, and returns some epochs later."""
    devices = fleet(dies_at_seconds=2.1, returns_at_seconds=4.6)
    return play(small_split(epochs=12, patience_seconds=0.5, optimizer=SGD), devices)


def test_a_source_that_dies_is_masked_and_training_goes_on(away):
    (masked,) = away.of(SourceMasked)
    assert (masked.learner, masked.epoch, masked.reason) == ("c", 5, "nothing came of it for 0.5 s")
    assert masked.at == pytest.approx(2.1 + 0.5, abs=0.1)
    assert [event.num_steps for event in away.epochs] == [10] * 12
    assert masked_by_epoch(away)[:8] == [0, 0, 0, 0, 10 - masked.step + 1, 10, 10, 10]
    assert [event.num_sources for event in away.epochs][3:6] == [3, 2, 2]
    assert away.epochs[7].metrics["accuracy"] > away.epochs[3].metrics["accuracy"]


def test_a_source_that_returns_goes_on_from_the_copy_of_its_branch(away):
    (back,) = away.of(SourceBack)
    assert (back.learner, [event.is_back for event in away.of(LearnerJoined, "c")]) == ("c", [False, True])
    assert back.at == pytest.approx(4.6, abs=0.2)
    assert masked_by_epoch(away)[back.epoch :] == [0] * (12 - back.epoch)
    kept = branch_of("c", away.states[4])
    assert farthest(kept, branch_of("c", away.states[back.epoch - 1])) == 0  # none newer came while it was away
    new, initial = (
        branch_of("c", away.states[back.epoch]),
        learned_by(make_chain(small_split().training, None).before(CUT)),
    )
    assert 0 < farthest(new, kept) < 0.5 * farthest(new, initial)
    assert away.epochs[-1].metrics["accuracy"] > 0.8


def test_without_copies_it_begins_anew():
    played = play(
        small_split(epochs=5, backup_epochs=0, patience_seconds=0.3), fleet(dies_at_seconds=0.3, returns_at_seconds=1)
    )
    assert played.of(SourceBack, "c")
    assert branch_of("c", played.states[4]) == {}
    assert branch_of("c", played.state).keys() == {"1.weight", "1.bias"}  # those of the end


def test_a_newcomer_is_taken_in_before_the_next_epoch():
    played = play(small_split(epochs=6), [*fleet(), device("d", joins_at_seconds=1.0)])
    (changed,) = played.of(JunctionChanged)
    assert (changed.sources, changed.num_parameters) == (("a", "b", "c", "d"), 4 * BLOCK + WIDTH)
    assert 1.0 < changed.at < 1.5
    before, then = played.states[changed.epoch - 1], played.changed[changed.epoch]
    assert farthest(before, others(then, "d")) == 0  # the rest is kept
    assert then["head.merge.blocks.d.weight"].count_nonzero() == 0  # and at first nothing changes
    sources = [event.num_sources for event in played.epochs]
    assert sources == [3] * (changed.epoch - 1) + [4] * (7 - changed.epoch)
    assert masked_by_epoch(played) == [0] * 6
    assert played.state["head.merge.blocks.d.weight"].abs().max() > 1e-3  # it learned to heed it
    accuracies = [event.metrics["accuracy"] for event in played.epochs]
    assert accuracies[changed.epoch - 1] > accuracies[changed.epoch - 2] - 0.05


def test_a_source_that_leaves_takes_its_columns_along():
    played = play(small_split(epochs=6), fleet(leaves_at_seconds=1.0))
    (left,) = played.of(LearnerLeft)
    (changed,) = played.of(JunctionChanged)
    assert (left.learner, left.reason) == ("c", "it said goodbye")
    assert (changed.sources, changed.num_parameters) == (("a", "b"), 2 * BLOCK + WIDTH)
    before, then = others(played.states[changed.epoch - 1], "c"), played.changed[changed.epoch]
    assert farthest(before, then) == 0
    assert not any(".c." in name for name in played.state)
    assert max(event.seconds for event in played.epochs) < 0.4  # nobody waited for it
    assert played.epochs[-1].metrics["accuracy"] > played.epochs[0].metrics["accuracy"]


def test_who_leaves_before_training_begins_is_no_part_of_it():
    leaving = [device("a", leaves_at_seconds=0.5), device("b", joins_at_seconds=1), device("c", joins_at_seconds=2)]
    played = play(small_split(epochs=1, sources=2), leaving)
    assert played.of(JunctionChanged) == []
    assert not any(".a." in name for name in played.state)
    assert masked_by_epoch(played) == [0]


@pytest.mark.parametrize("way", ["dies_at_seconds", "leaves_at_seconds"])
def test_when_all_are_gone_for_good_the_run_fails(way):
    devices = [device(name, **{way: 0.5 + number}) for number, name in enumerate("abc")]
    with pytest.raises(PacelineError, match="0 of 3 devices are left, and the run needs 1"):
        play(small_split(epochs=20), devices)


@pytest.mark.parametrize("dies_at_seconds", [0.05, 0.2, 0.36, 0.44, 0.86, 1.3])
def test_the_only_source_may_die_and_return_at_any_time(dies_at_seconds):
    alone = device("a", dies_at_seconds=dies_at_seconds, returns_at_seconds=3.0)
    played = play(small_split(sources=1), [alone])
    assert [event.num_steps for event in played.epochs] == [10] * 3
    assert masked_by_epoch(played) == [0] * 3  # the trunk waited for it
    assert played.ended.at > 3.0


@pytest.mark.parametrize("second_dies_at", [0.52, 0.6, 1.2])
def test_all_may_die_and_return(second_dies_at):
    devices = [device("a", dies_at_seconds=0.5, returns_at_seconds=3.0)]
    devices.append(device("b", dies_at_seconds=second_dies_at, returns_at_seconds=3.2))
    played = play(small_split(sources=2, epochs=6, patience_seconds=0.5), devices)
    assert len(played.epochs) == 6
    assert {event.learner for event in played.of(SourceBack)} == {"a", "b"}
    assert masked_by_epoch(played)[-1] == 0


def test_a_newcomer_goes_on_when_all_others_are_gone():
    mortal = device("a", dies_at_seconds=0.6), device("b", dies_at_seconds=0.62)
    devices = [*mortal, device("new", joins_at_seconds=0.55)]
    played = play(small_split(sources=2, epochs=6, patience_seconds=0.1), devices)
    (changed,) = played.of(JunctionChanged)
    assert (changed.epoch, changed.sources) == (3, ("a", "b", "new"))
    assert [event.num_steps for event in played.epochs][2:] == [10] * 4  # the rest of the second was nobody's
    assert [event.num_sources for event in played.epochs][2:] == [1] * 4
    assert played.epochs[-1].metrics["accuracy"] > 0.5


def test_one_that_is_always_too_slow_does_not_stop_the_others():
    rules = {"num_samples": 640, "epochs": 4, "patience_seconds": 0.3}
    alone = play(small_split(sources=2, **rules), fleet()[:2])
    played = play(small_split(**rules), fleet(samples_per_second=10.0))
    assert [event.num_steps for event in played.epochs] == [20] * 4
    masks = played.of(SourceMasked)
    assert {event.learner for event in masks} == {"c"}
    assert sum(masked_by_epoch(played)) > 0.9 * 4 * 20
    # It is sent ever farther ahead, so that it seldom lets the others wait.
    assert len(masks) <= 12
    assert played.ended.at < alone.ended.at + (len(masks) + 1) * 0.3 + 1
    assert played.epochs[-1].metrics["accuracy"] > alone.epochs[-1].metrics["accuracy"] - 0.1


@pytest.mark.parametrize("depth", [2, 8])
def test_a_source_may_be_lost_from_a_pipeline(depth):
    rules = {"epochs": 8, "depth": depth, "patience_seconds": 0.3}
    played = play(small_split(**rules), fleet(dies_at_seconds=0.5, returns_at_seconds=1.5))
    assert [event.num_steps for event in played.epochs] == [10] * 8
    assert played.of(SourceBack, "c")
    assert masked_by_epoch(played)[-1] == 0
    assert played.epochs[-1].metrics["accuracy"] > 0.5


@pytest.mark.parametrize("scheme", ["split-learning", "gfl", "images"])
def test_other_schemes_go_on_without_a_source_too(scheme):
    played = play(
        small_split(scheme=scheme, epochs=8, patience_seconds=0.5), fleet(dies_at_seconds=1.0, returns_at_seconds=3)
    )
    assert len(played.epochs) == 8
    assert {event.learner for event in played.of(SourceMasked)} <= {"c"}
    assert played.epochs[-1].num_sources == 3
    assert played.epochs[-1].metrics["accuracy"] > played.epochs[0].metrics["accuracy"]


@pytest.mark.parametrize("scheme", ["split-learning", "images"])
def test_where_no_source_can_be_added_one_too_many_ends_the_run(scheme):
    split, edge = small_split(scheme=scheme, epochs=40), device("edge", 500.0, is_server=True)
    said = f"'d'.*: training has begun, and {scheme} takes no further sources"
    with pytest.raises(PacelineError, match=said):
        play(split, [*fleet(), device("d", joins_at_seconds=0.5), edge])
    with pytest.raises(PacelineError, match=said):  # it joined before, but was not ready yet
        play(split, [*fleet(), device("d", latency_ms=3.4), edge])


def test_with_split_learning_one_that_left_counts_as_zeros():
    played = play(small_split(scheme="split-learning", epochs=4), fleet(leaves_at_seconds=0.6))
    assert masked_by_epoch(played)[2:] == [10, 10]
    assert played.state["head.layers.3.weight"].shape == (20, 3 * WIDTH)
    assert played.of(JunctionChanged) == []


@pytest.mark.parametrize("of_last", [{"dies_at_seconds": 0.1}, {"leaves_at_seconds": 0.1}], ids=str)
def test_a_run_that_cannot_begin_ends(of_last):
    """Before, the trunk of a simulation asked for the third source for ever."""
    late = [device("a", joins_at_seconds=1.0), device("b", joins_at_seconds=1.0), device("c", **of_last)]
    with pytest.raises(PacelineError, match="2 of 3 devices are left, and the run needs 3: the others died"):
        play(small_split(), late)


def test_a_run_whose_sources_are_all_gone_for_long_ends_and_can_be_resumed():
    gone = {"dies_at_seconds": 1.0, "returns_at_seconds": 10_000.0}
    devices = [device(name, **gone) for name in "abc"]
    message = (
        r"nothing was heard of any source for 600 s \(abandon_seconds\); once they are back, the run can be resumed"
    )
    with pytest.raises(PacelineError, match=message):
        play(small_split(epochs=50), devices)


def test_sources_that_are_back_in_time_go_on():
    devices = [device(name, dies_at_seconds=1.0, returns_at_seconds=300.0) for name in "abc"]
    assert play(small_split(epochs=5), devices).ended.epochs == 5


def test_at_the_end_nobody_is_waited_for_for_ever():
    """The trunk takes copies after the last epoch; without a source, it keeps the one that it has."""
    last = play(small_split(epochs=2, sources=1), [device("a")]).epochs[-1].at
    gone = device("a", dies_at_seconds=last + 1e-6, returns_at_seconds=last + 9000.0)
    played = play(small_split(epochs=2, sources=1), [gone])
    assert played.ended.reason == "epochs done"
    assert played.ended.at == pytest.approx(last + 10.0, abs=0.1)  # ten times the patience
