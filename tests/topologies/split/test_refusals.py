"""What a source sends that cannot be is refused with a reason; it harms neither the run nor the other sources."""

import asyncio

import pytest
import torch

from paceline.errors import RemoteError
from paceline.topologies.events import LearnerJoined
from paceline.topologies.split.events import SourceBack, SourceMasked, SplitEpochEnded
from paceline.topologies.split.messages import Costs, CutCost
from tests.topologies.split.runs import WIDTH, farthest
from tests.topologies.split.trunk_harness import beside_trunk, meanwhile

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


async def play_two(harness, act=None):
    """Have two sources take part; one of them acts first."""
    good, bad = harness.source("good"), harness.source("bad")
    await asyncio.gather(good.join(), bad.join())
    async with meanwhile(good.take_part()):
        await bad.next_epoch()
        if act is not None:
            await act(bad)
        await bad.take_part()
    await harness.over()
    assert harness.of(SourceMasked) == []
    return harness.trunk.current_state()


@pytest.fixture(scope="module")
def expected_state():
    """What comes of a run of two sources that do nothing wrong."""
    states = []

    @beside_trunk()
    async def play(harness):
        states.append(await play_two(harness))

    play()
    return states[0]


@pytest.mark.parametrize(
    ("index", "rubbish", "said"),
    [
        (0, {"values": torch.ones(32, 20)}, "not torch.float32 of shape (32, 50); is it of another cut"),
        (0, {"values": with_nan(VALUES)}, "values are NaN or infinite: training has diverged there; try a lower"),
        (0, {}, "with 32 bits, values are sent, not nothing"),
        (3, {}, "the copy of a branch does not fit: parameters ['float32'] are missing"),
        (3, {"float32": with_nan(BRANCH)}, "float32 holds NaN or infinity"),
    ],
)
@beside_trunk()
async def test_rubbish_is_refused_and_the_run_goes_on(harness, expected_state, index, rubbish, said):
    state = await play_two(harness, lambda bad: refused(bad.sync(1, index, rubbish), said))
    assert farthest(state, expected_state) == 0


@beside_trunk(sources=1)
async def test_sync_points_that_are_none(harness):
    alone = harness.source("alone")
    await alone.join()
    await refused(alone.sync(1, 0), "epoch 1 has not begun")
    await alone.next_epoch()
    await refused(alone.sync(2, 0), "epoch 2 has not begun")
    await refused(alone.sync(1, 4, {"values": VALUES}), "no sync point 4 in epoch 1; there are 4")
    await refused(alone.sync(1, -1, {"values": VALUES}), "no sync point -1 in epoch 1")
    assert (await alone.sync(0, 0, {"values": VALUES})).status == "late"
    await alone.take_part()


@beside_trunk(sources=1)
async def test_a_session_that_is_not_known_is_refused(harness):
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
    (alone,) = await harness.begin("alone")
    await alone.take_part()


@beside_trunk()
async def test_who_takes_a_name_takes_the_place_of_whoever_had_it(harness):
    first, twin, other = harness.source("a"), harness.source("a"), harness.source("b")
    await asyncio.gather(first.join(), other.join())
    async with meanwhile(other.take_part()):
        await first.next_epoch()
        await first.sync(1, 0)
        assert (await twin.join()).number == 1
        for call in (first.sync(1, 1), first.next_epoch()):
            await refused(call, "another device has joined as 'a'; each needs a name of its own", "RuntimeError")
        await twin.take_part()
    (masked,) = harness.of(SourceMasked)
    assert (masked.learner, masked.step, masked.reason) == ("a", 2, "it joined again")
    assert [event.learner for event in harness.of(SourceBack)] == ["a"]


@beside_trunk(sources=1)
async def test_who_cannot_join_learns_why(harness):
    await refused(harness.source("trunk").join(), "'trunk' cannot be a source's name; it is the trunk's")
    await refused(harness.source("a/b").join(), "'a/b' cannot be a device's name; allowed: 1 to")
    await refused(harness.source("a").join("0.0.1"), "0.0.1")
    (alone,) = await harness.begin("alone")
    await alone.take_part()
    assert [event.learner for event in harness.of(LearnerJoined)] == ["alone"]


@beside_trunk(scheme="images", sources=1)
async def test_images_that_are_not_those_of_the_trunk_are_refused(harness):
    (alone,) = await harness.begin("alone")
    dataset = harness.prepared.dataset
    train, test = (torch.from_numpy(part.take(slice(None)).x) for part in (dataset.train, dataset.test))
    wrong = {
        "images are torch.float32 of shape (64, 1, 8, 8), not torch.uint8": train.float(),
        "of shape (63, 1, 8, 8), not torch.uint8 of shape (64, 1, 8, 8): sources see the same samples": train[1:],
        "images are torch.float32 of shape (0,)": torch.empty(0),
    }
    for said, values in wrong.items():
        await refused(alone.sync(1, 0, {"values": values}), said)
    for index, values in enumerate((train, test)):
        assert (await alone.sync(1, index, {"values": values})).status == "ready"


COST = CutCost(forward_seconds=0.1, backward_seconds=0.2)
CUTS = {"3": COST, "5": CutCost(forward_seconds=2.0, backward_seconds=2.0)}


@beside_trunk(cut="auto", sources=1)
async def test_costs_that_cannot_be_are_refused(harness):
    alone = harness.source("alone")
    await alone.join()
    costs = {"cuts": CUTS, "up_bytes_per_second": 1e6, "down_bytes_per_second": 1e6, "latency_seconds": 0.0}
    for change, said in (
        ({"cuts": {"3": COST}}, "costs are of 3; they are to be of 3, 5"),
        ({"cuts": {**CUTS, "9": COST}}, "costs are of 3, 5, 9; they are to be of 3, 5"),
        ({"up_bytes_per_second": 0.0}, "costs must be at least 0, and rates above 0"),
        ({"latency_seconds": float("nan")}, "costs must be at least 0"),
        ({"cuts": {**CUTS, "3": CutCost(forward_seconds=-1.0, backward_seconds=0.0)}}, "costs must be at least 0"),
    ):
        await refused(alone.trunk.declare.coro(alone.session, Costs(**{**costs, **change})), said)
    await alone.trunk.declare.coro(alone.session, Costs(**costs))
    assert (await alone.next_epoch()).cut == "3"
    await alone.take_part()


@beside_trunk(sources=1)
async def test_an_echo_gives_so_many_bytes_and_no_more(harness):
    (alone,) = await harness.begin("alone")
    assert await alone.trunk.echo.coro(alone.session, b"x" * 100, 7) == bytes(7)
    for num_bytes in (-1, (1 << 24) + 1):
        await refused(alone.trunk.echo.coro(alone.session, b"", num_bytes), "allowed: 0 to 16777216")
    await alone.take_part()


@beside_trunk()
async def test_who_vanishes_after_rubbish_is_masked(harness):
    good, bad = await harness.begin("good", "bad")
    await refused(bad.sync(1, 0, {}), "values are sent")
    await good.take_part()
    (masked,) = harness.of(SourceMasked)
    assert (masked.learner, masked.epoch, masked.step) == ("bad", 1, 1)
    assert [event.num_steps for event in harness.of(SplitEpochEnded)] == [2, 2]
