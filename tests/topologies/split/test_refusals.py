"""What a source says that cannot be is refused with a reason; it harms neither the run nor the other sources."""

import asyncio

import pytest
import torch

from paceline.errors import RemoteError
from paceline.topologies.events import LearnerJoined
from paceline.topologies.split.events import SourceBack, SourceMasked, SplitEpochEnded
from paceline.topologies.split.messages import Costs, CutCost
from tests.topologies.split.runs import WIDTH, farthest
from tests.topologies.split.table import Table, meanwhile, together

VALUES = torch.ones(32, WIDTH)


def with_nan(tensor):
    wrong = tensor.clone()
    wrong.view(-1)[7] = float("nan")
    return wrong


STEPS = {
    "another cut": ({"values": torch.ones(32, 20)}, "not torch.float32 of shape (32, 50); is it of another cut"),
    "another batch size": ({"values": torch.ones(16, WIDTH)}, "of shape (16, 50), not"),
    "as images": ({"values": VALUES.view(32, 1, 5, 10)}, "of shape (32, 1, 5, 10), not"),
    "doubles": ({"values": VALUES.double()}, "values is torch.float64 of shape (32, 50), not torch.float32"),
    "halves": ({"values": VALUES.half()}, "values is torch.float16"),
    "NaN": ({"values": with_nan(VALUES)}, "values are NaN or infinite: training has diverged there; try a lower"),
    "infinite": ({"values": VALUES / 0}, "values are NaN or infinite"),
    "nothing": ({}, "with 32 bits, values are sent, not nothing"),
    "more": ({"values": VALUES, "least": torch.ones(32)}, "with 32 bits, values are sent, not least, values"),
}  # fmt: skip


def refused(caught):
    """The type and message of an error at the trunk."""
    return caught.value.type_name, caught.value.remote_message


def expected_state(**rules):
    """What comes of a run of two sources that do nothing wrong."""
    table = Table(**rules)

    async def main():
        good, bad = table.source("good"), table.source("bad")
        await together(good.join(), bad.join())
        await together(good.take_part(), bad.take_part())

    return table.play(main).state


@pytest.mark.parametrize(("rubbish", "said"), STEPS.values(), ids=STEPS)
def test_rubbish_is_refused_and_the_run_goes_on(rubbish, said):
    table = Table()

    async def main():
        good, bad = table.source("good"), table.source("bad")
        await together(good.join(), bad.join())
        async with meanwhile(good.take_part()):
            assert (await bad.next_epoch()).status == "open"
            with pytest.raises(RemoteError) as caught:
                await bad.bring(1, 0, rubbish)
            kind, message = refused(caught)
            assert (kind, "\n" in message) == ("ValueError", False)
            assert said in message
            await bad.take_part()

    state = table.play(main).state
    assert table.of(SourceMasked) == []
    assert farthest(state, expected_state()) == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda branch: {}, "the copy of a branch does not fit: parameters ['float32'] are missing"),
        (lambda branch: {"float32": branch["float32"][1:]}, "float32 has shape (3249,), not (3250,)"),
        (lambda branch: {"float32": with_nan(branch["float32"])}, "float32 holds NaN or infinity"),
        (lambda branch: {"float32": branch["float32"].double()}, "float32 has type torch.float64"),
    ],
)
def test_copies_that_do_not_fit_are_refused(change, said):
    table = Table()

    async def main():
        good, bad = table.source("good"), table.source("bad")
        await together(good.join(), bad.join())
        async with meanwhile(good.take_part()):
            await bad.next_epoch()
            with pytest.raises(RemoteError) as caught:
                await bad.bring(1, 3, change(bad.branch()))
            assert refused(caught)[0] == "ValueError"
            assert said in refused(caught)[1]
            await bad.take_part()

    assert farthest(table.play(main).state, expected_state()) == 0


def test_meetings_that_are_none():
    table = Table(sources=1)

    async def main():
        alone = table.source("alone")
        await alone.join()
        with pytest.raises(RemoteError, match="epoch 1 has not begun"):
            await alone.bring(1, 0)
        await alone.next_epoch()
        for epoch, index, said in ((2, 0, "epoch 2 has not begun"), (1, 4, "no meeting 4 of epoch 1; there are 4"),
                                   (1, -1, "no meeting -1 of epoch 1")):  # fmt: skip
            with pytest.raises(RemoteError) as caught:
                await alone.bring(epoch, index, {"values": VALUES})
            assert refused(caught)[0] == "ValueError"
            assert said in refused(caught)[1]
        assert (await alone.bring(0, 0, {"values": VALUES})).status == "late"
        await alone.take_part()

    table.play(main)


def test_a_session_that_is_not_known_is_told_so():
    table = Table(sources=1)

    async def main():
        alone, stranger = table.source("alone"), table.source("stranger")
        await alone.join()
        stranger.session = "made-up"
        costs = Costs(cuts={}, up_bytes_per_second=1, down_bytes_per_second=1, latency_seconds=0)
        for call in (
            stranger.next_epoch(),
            stranger.bring(1, 0),
            stranger.trunk.leave.coro("made-up"),
            stranger.trunk.echo.coro("made-up", b"", 1),
            stranger.trunk.declare.coro("made-up", costs),
        ):
            with pytest.raises(RemoteError) as caught:
                await call
            assert refused(caught) == ("LookupError", "this session is not known here; join again")
        await alone.take_part()

    table.play(main)


def test_who_takes_a_name_takes_the_place_of_whoever_had_it():
    table = Table()

    async def main():
        first, twin, other = table.source("a"), table.source("a"), table.source("b")
        await together(first.join(), other.join())
        async with meanwhile(other.take_part()):
            await first.next_epoch()
            await first.bring(1, 0)
            welcome = await twin.join()
            assert welcome.number == 1
            for call in (first.bring(1, 1), first.next_epoch()):
                with pytest.raises(RemoteError) as caught:
                    await call
                assert "another learner has joined as 'a'; each needs a name of its own" in refused(caught)[1]
            await twin.take_part()

    table.play(main)
    (masked,) = table.of(SourceMasked)
    assert (masked.learner, masked.step, masked.reason) == ("a", 2, "it joined again")
    assert [event.learner for event in table.of(SourceBack)] == ["a"]


@pytest.mark.parametrize(
    ("name", "version", "said"),
    [
        ("trunk", None, "'trunk' cannot be a source's name; it is the trunk's"),
        ("a/b", None, "'a/b' cannot be a learner's name; allowed: 1 to"),
        ("", None, "'' cannot be a learner's name"),
        ("a", "0.0.1", "0.0.1"),
    ],
)
def test_who_cannot_join_is_told_why(name, version, said):
    table = Table(sources=1)

    async def main():
        with pytest.raises(RemoteError) as caught:
            await table.source(name).join(*([version] if version else []))
        kind, message = refused(caught)
        assert (kind, said in message) == ("ValueError", True), message
        good = table.source("good")
        assert (await good.join()).number == 1
        await good.take_part()

    table.play(main)
    assert [event.learner for event in table.of(LearnerJoined)] == ["good"]


@pytest.mark.parametrize("scheme", ["split-learning", "images"])
def test_newcomers_are_refused_where_none_can_be_taken_in(scheme):
    table = Table(scheme=scheme, sources=1)

    async def main():
        first, early = table.source("first"), table.source("early")
        await together(first.join(), early.join())
        ticket = await first.next_epoch()
        for call in (table.source("late").join(), early.next_epoch()):
            with pytest.raises(RemoteError) as caught:
                await call
            assert refused(caught) == ("ValueError", f"training has begun, and {scheme} takes no further sources")
        if scheme == "images":
            data = table.plan.dataset
            for index, x in enumerate((data.x_train, data.x_test)):
                assert (await first.bring(ticket.epoch, index, {"values": torch.from_numpy(x)})).status == "ready"
        else:
            await first.take_part()

    table.play(main)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda x: x.float(), "images are torch.float32 of shape (64, 1, 8, 8), not torch.uint8"),
        (
            lambda x: x[1:],
            "of shape (63, 1, 8, 8), not torch.uint8 of shape (64, 1, 8, 8): sources see the same samples",
        ),
        (lambda x: x.bfloat16(), "images are torch.bfloat16"),
        (lambda x: torch.empty(0), "images are torch.float32 of shape (0,)"),
    ],
)
def test_images_that_are_not_those_of_the_trunk_are_refused(change, said):
    table = Table(scheme="images", sources=1)

    async def main():
        alone = table.source("alone")
        await alone.join()
        await alone.next_epoch()
        train, test = (torch.from_numpy(x) for x in (table.plan.dataset.x_train, table.plan.dataset.x_test))
        with pytest.raises(RemoteError) as caught:
            await alone.bring(1, 0, {"values": change(train)})
        assert refused(caught)[0] == "ValueError"
        assert said in refused(caught)[1]
        assert (await alone.bring(1, 0, {"values": train})).status == "ready"
        assert (await alone.bring(1, 1, {"values": test})).status == "ready"

    table.play(main)


COST = CutCost(forward_seconds=0.1, backward_seconds=0.2)
CUTS = {"3": COST, "5": CutCost(forward_seconds=2.0, backward_seconds=2.0)}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cuts": {"3": COST}}, "costs are of 3; they are to be of 3, 5"),
        ({"cuts": {**CUTS, "9": COST}}, "costs are of 3, 5, 9; they are to be of 3, 5"),
        ({"up_bytes_per_second": 0.0}, "costs must be at least 0, and rates above 0"),
        ({"down_bytes_per_second": -1.0}, "costs must be at least 0"),
        ({"latency_seconds": float("nan")}, "costs must be at least 0"),
        ({"cuts": {**CUTS, "3": CutCost(forward_seconds=-1.0, backward_seconds=0.0)}}, "costs must be at least 0"),
    ],
)
def test_costs_that_cannot_be_are_refused(change, said):
    table = Table(cut="auto", sources=1)
    costs = {"cuts": CUTS, "up_bytes_per_second": 1e6, "down_bytes_per_second": 1e6, "latency_seconds": 0.0}

    async def main():
        alone = table.source("alone")
        assert (await alone.join()).terms.cuts == ("3", "5")
        with pytest.raises(RemoteError) as caught:
            await alone.trunk.declare.coro(alone.session, Costs(**{**costs, **change}))
        assert refused(caught)[0] == "ValueError"
        assert said in refused(caught)[1]
        await alone.trunk.declare.coro(alone.session, Costs(**costs))
        assert (await alone.next_epoch()).cut == "3"
        await alone.take_part()

    table.play(main)


@pytest.mark.parametrize("num_bytes", [-1, (1 << 24) + 1])
def test_an_echo_gives_so_many_bytes_and_no_more(num_bytes):
    table = Table(sources=1)

    async def main():
        alone = table.source("alone")
        await alone.join()
        assert await alone.trunk.echo.coro(alone.session, b"x" * 100, 7) == bytes(7)
        with pytest.raises(RemoteError, match="0 to 16777216 are given"):
            await alone.trunk.echo.coro(alone.session, b"", num_bytes)
        await alone.take_part()

    table.play(main)


def test_who_vanishes_after_rubbish_is_masked():
    table = Table()

    async def main():
        good, bad = table.source("good"), table.source("bad")
        await together(good.join(), bad.join())
        async with meanwhile(good.take_part()):
            await bad.next_epoch()
            with pytest.raises(RemoteError):
                await bad.bring(1, 0, {})
            await asyncio.sleep(0)

    table.play(main)
    (masked,) = table.of(SourceMasked)
    assert (masked.learner, masked.epoch, masked.step) == ("bad", 1, 1)
    assert [event.num_steps for event in table.of(SplitEpochEnded)] == [2, 2]
