"""What a source sends that cannot be is refused with a reason; it harms neither the run nor the other sources."""

import asyncio

import pytest
import torch

from paceline.errors import RemoteError
from paceline.topologies.events import LearnerJoined
from paceline.topologies.split.events import SourceBack, SourceMasked, SplitEpochEnded
from paceline.topologies.split.messages import Costs, CutCost
from tests.topologies.split.runs import WIDTH, farthest
from tests.topologies.split.trunk_harness import TrunkHarness, meanwhile, together

VALUES = torch.ones(32, WIDTH)
BRANCH = torch.ones(3250)


def with_nan(tensor):
    wrong = tensor.clone()
    wrong.view(-1)[7] = float("nan")
    return wrong


async def refused(call, said, kind="ValueError"):
    """Check that the trunk refuses a call, and says why in one line."""
    with pytest.raises(RemoteError) as caught:
        await call
    assert caught.value.type_name == kind
    assert said in caught.value.remote_message
    assert "\n" not in caught.value.remote_message


@pytest.fixture(scope="module")
def expected_state():
    """What comes of a run of two sources that do nothing wrong."""
    harness = TrunkHarness()

    async def main():
        good, bad = harness.source("good"), harness.source("bad")
        await together(good.join(), bad.join())
        await together(good.take_part(), bad.take_part())

    return harness.play(main).current_state()


@pytest.mark.parametrize(
    ("index", "rubbish", "said"),
    [
        (0, {"values": torch.ones(32, 20)}, "not torch.float32 of shape (32, 50); is it of another cut"),
        (0, {"values": torch.ones(16, WIDTH)}, "of shape (16, 50), not"),
        (0, {"values": VALUES.view(32, 1, 5, 10)}, "of shape (32, 1, 5, 10), not"),
        (0, {"values": VALUES.double()}, "values is torch.float64 of shape (32, 50), not torch.float32"),
        (0, {"values": with_nan(VALUES)}, "values are NaN or infinite: training has diverged there; try a lower"),
        (0, {"values": VALUES / 0}, "values are NaN or infinite"),
        (0, {}, "with 32 bits, values are sent, not nothing"),
        (0, {"values": VALUES, "least": torch.ones(32)}, "with 32 bits, values are sent, not least, values"),
        (3, {}, "the copy of a branch does not fit: parameters ['float32'] are missing"),
        (3, {"float32": BRANCH[1:]}, "float32 has shape (3249,), not (3250,)"),
        (3, {"float32": with_nan(BRANCH)}, "float32 holds NaN or infinity"),
        (3, {"float32": BRANCH.double()}, "float32 has type torch.float64"),
    ],
)
def test_rubbish_is_refused_and_the_run_goes_on(expected_state, index, rubbish, said):
    harness = TrunkHarness()

    async def main():
        good, bad = harness.source("good"), harness.source("bad")
        await together(good.join(), bad.join())
        async with meanwhile(good.take_part()):
            assert (await bad.next_epoch()).status == "open"
            await refused(bad.sync(1, index, rubbish), said)
            await bad.take_part()

    state = harness.play(main).current_state()
    assert harness.of(SourceMasked) == []
    assert farthest(state, expected_state) == 0


def play_alone(main, **rules):
    """Run `main` with a source that has joined, and then does the rest of the run."""
    harness = TrunkHarness(**{"sources": 1, **rules})

    async def whole():
        alone = harness.source("alone")
        await alone.join()
        await main(harness, alone)
        if harness.prepared.job.scheme != "images":
            await alone.take_part()

    harness.play(whole)
    return harness


def test_sync_points_that_are_none():
    async def main(harness, alone):
        await refused(alone.sync(1, 0), "epoch 1 has not begun")
        await alone.next_epoch()
        await refused(alone.sync(2, 0), "epoch 2 has not begun")
        await refused(alone.sync(1, 4, {"values": VALUES}), "no sync point 4 in epoch 1; there are 4")
        await refused(alone.sync(1, -1, {"values": VALUES}), "no sync point -1 in epoch 1")
        assert (await alone.sync(0, 0, {"values": VALUES})).status == "late"

    play_alone(main)


def test_a_session_that_is_not_known_is_refused():
    async def main(harness, alone):
        stranger = harness.source("stranger")
        stranger.session = "made-up"
        costs = Costs(cuts={}, up_bytes_per_second=1, down_bytes_per_second=1, latency_seconds=0)
        for call in (
            stranger.next_epoch(),
            stranger.sync(1, 0),
            stranger.trunk.leave.coro("made-up"),
            stranger.trunk.echo.coro("made-up", b"", 1),
            stranger.trunk.declare.coro("made-up", costs),
        ):
            await refused(call, "this session is not known here; join again", "LookupError")

    play_alone(main)


def test_who_takes_a_name_takes_the_place_of_whoever_had_it():
    harness = TrunkHarness()

    async def main():
        first, twin, other = harness.source("a"), harness.source("a"), harness.source("b")
        await together(first.join(), other.join())
        async with meanwhile(other.take_part()):
            await first.next_epoch()
            await first.sync(1, 0)
            assert (await twin.join()).number == 1
            for call in (first.sync(1, 1), first.next_epoch()):
                said = "another learner has joined as 'a'; each needs a name of its own"
                await refused(call, said, "RuntimeError")
            await twin.take_part()

    harness.play(main)
    (masked,) = harness.of(SourceMasked)
    assert (masked.learner, masked.step, masked.reason) == ("a", 2, "it joined again")
    assert [event.learner for event in harness.of(SourceBack)] == ["a"]


def test_who_cannot_join_learns_why():
    async def main(harness, alone):
        await refused(harness.source("trunk").join(), "'trunk' cannot be a source's name; it is the trunk's")
        await refused(harness.source("a/b").join(), "'a/b' cannot be a learner's name; allowed: 1 to")
        await refused(harness.source("a").join("0.0.1"), "0.0.1")

    assert [event.learner for event in play_alone(main).of(LearnerJoined)] == ["alone"]


async def hand_over(harness, source):
    """Send the images that the trunk waits for."""
    for index, x in enumerate((harness.prepared.dataset.x_train, harness.prepared.dataset.x_test)):
        assert (await source.sync(1, index, {"values": torch.from_numpy(x)})).status == "ready"


@pytest.mark.parametrize("scheme", ["split-learning", "images"])
def test_newcomers_are_refused_where_none_can_be_taken_in(scheme):
    async def main(harness, alone):
        early = harness.source("early")
        await early.join()
        await alone.next_epoch()
        for call in (harness.source("late").join(), early.next_epoch()):
            await refused(call, f"training has begun, and {scheme} takes no further sources")
        if scheme == "images":
            await hand_over(harness, alone)

    play_alone(main, scheme=scheme)


def test_images_that_are_not_those_of_the_trunk_are_refused():
    async def main(harness, alone):
        await alone.next_epoch()
        x = torch.from_numpy(harness.prepared.dataset.x_train)
        wrong = {
            "images are torch.float32 of shape (64, 1, 8, 8), not torch.uint8": x.float(),
            "of shape (63, 1, 8, 8), not torch.uint8 of shape (64, 1, 8, 8): sources see the same samples": x[1:],
            "images are torch.bfloat16": x.bfloat16(),
            "images are torch.float32 of shape (0,)": torch.empty(0),
        }
        for said, values in wrong.items():
            await refused(alone.sync(1, 0, {"values": values}), said)
        await hand_over(harness, alone)

    play_alone(main, scheme="images")


COST = CutCost(forward_seconds=0.1, backward_seconds=0.2)
CUTS = {"3": COST, "5": CutCost(forward_seconds=2.0, backward_seconds=2.0)}


def test_costs_that_cannot_be_are_refused():
    costs = {"cuts": CUTS, "up_bytes_per_second": 1e6, "down_bytes_per_second": 1e6, "latency_seconds": 0.0}

    async def main(harness, alone):
        for change, said in (
            ({"cuts": {"3": COST}}, "costs are of 3; they are to be of 3, 5"),
            ({"cuts": {**CUTS, "9": COST}}, "costs are of 3, 5, 9; they are to be of 3, 5"),
            ({"up_bytes_per_second": 0.0}, "costs must be at least 0, and rates above 0"),
            ({"down_bytes_per_second": -1.0}, "costs must be at least 0"),
            ({"latency_seconds": float("nan")}, "costs must be at least 0"),
            ({"cuts": {**CUTS, "3": CutCost(forward_seconds=-1.0, backward_seconds=0.0)}}, "costs must be at least 0"),
        ):
            await refused(alone.trunk.declare.coro(alone.session, Costs(**{**costs, **change})), said)
        await alone.trunk.declare.coro(alone.session, Costs(**costs))
        assert (await alone.next_epoch()).cut == "3"

    play_alone(main, cut="auto")


def test_an_echo_gives_so_many_bytes_and_no_more():
    async def main(harness, alone):
        assert await alone.trunk.echo.coro(alone.session, b"x" * 100, 7) == bytes(7)
        for num_bytes in (-1, (1 << 24) + 1):
            await refused(alone.trunk.echo.coro(alone.session, b"", num_bytes), "0 to 16777216 are given")

    play_alone(main)


def test_who_vanishes_after_rubbish_is_masked():
    harness = TrunkHarness()

    async def main():
        good, bad = harness.source("good"), harness.source("bad")
        await together(good.join(), bad.join())
        async with meanwhile(good.take_part()):
            await bad.next_epoch()
            await refused(bad.sync(1, 0, {}), "values are sent")
            await asyncio.sleep(0)

    harness.play(main)
    (masked,) = harness.of(SourceMasked)
    assert (masked.learner, masked.epoch, masked.step) == ("bad", 1, 1)
    assert [event.num_steps for event in harness.of(SplitEpochEnded)] == [2, 2]
