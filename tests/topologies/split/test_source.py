"""Sources whose link breaks join again by themselves; what a trunk says that cannot be ends them with one line."""

import asyncio

import msgspec
import pytest
import torch

from paceline.errors import BadReply, ConfigError, PacelineError, TransportError
from paceline.learning.models import ModelSpec
from paceline.topologies.events import LearnerJoined, LearnerLeft
from paceline.topologies.split import Trunk
from paceline.topologies.split.events import JunctionChanged, NodeSpent, SourceBack, SourceMasked, SplitEpochEnded
from tests.topologies.split.table import Table, meanwhile, together


def spent_epochs(told, learner):
    return [event.epoch for event in told if isinstance(event, NodeSpent) and event.learner == learner]


@pytest.mark.parametrize("seconds", [2.0, 9.0])
def test_who_is_cut_off_goes_on_when_the_link_is_back(seconds):
    table, told = Table(epochs=40, patience_seconds=0.5), []

    async def main():
        (one, _), (other, link) = (table.real_source(name, told) for name in ("one", "other"))
        async with meanwhile(one.run()), meanwhile(other.run()) as playing:
            await asyncio.sleep(1.0)
            link.cut()
            await asyncio.sleep(seconds)
            link.mend()
        assert playing.result() == "epochs done"

    table.play(main)
    assert [event.learner for event in table.of(SourceMasked)] == ["other"]
    assert [event.learner for event in table.of(SourceBack)] == ["other"]
    has_joined_again = [event.is_back for event in table.of(LearnerJoined) if event.learner == "other"][-1]
    assert has_joined_again == (seconds > 5)  # until then, it tried the same call again
    assert sum(event.num_steps for event in table.of(SplitEpochEnded)) == 40 * 2
    assert spent_epochs(told, "one") == [*range(1, 41), 0]  # the last is the end
    assert spent_epochs(told, "other")[-2:] == [40, 0]


def test_a_source_waits_for_a_trunk_that_is_not_there_yet():
    table = Table(sources=1)

    async def main():
        source, link = table.real_source("alone", [], patience_seconds=60.0)
        link.cut()
        async with meanwhile(source.run()) as playing:
            await asyncio.sleep(20)
            link.mend()
        assert playing.result() == "epochs done"

    table.play(main)


def test_but_not_for_ever():
    table = Table(sources=1)

    async def main():
        source, link = table.real_source("alone", [], patience_seconds=7.0)
        link.cut()
        start = asyncio.get_running_loop().time()
        with pytest.raises(TransportError, match="the link is cut"):
            await source.run()
        assert 2 < asyncio.get_running_loop().time() - start <= 7
        again, _ = table.real_source("again", [])
        await again.run()

    table.play(main)


def test_who_says_goodbye_is_let_go():
    table = Table(epochs=30)

    async def main():
        (one, _), (other, _) = (table.real_source(name, []) for name in ("one", "other"))
        async with meanwhile(one.run()):
            leaving = asyncio.ensure_future(other.run())
            await asyncio.sleep(1.0)
            leaving.cancel()
            await asyncio.wait((leaving,))
            await other.leave()

    table.play(main)
    assert [event.learner for event in table.of(LearnerLeft)] == ["other"]
    assert table.of(SourceMasked) == []
    assert table.of(JunctionChanged)[0].sources == ("one",)


def test_a_goodbye_that_nobody_hears_is_no_error():
    table = Table(sources=1)

    async def main():
        source, link = table.real_source("alone", [])
        await source.leave()  # it never joined
        async with meanwhile(source.run()):
            await asyncio.sleep(0.05)
            link.cut()
            await source.leave()
            link.mend()

    table.play(main)


def test_a_model_that_is_not_allowed_is_not_loaded():
    table = Table(sources=1, model=ModelSpec(import_path="tests.learning.own_models:Digits"), cut="1")

    async def main():
        source, _ = table.real_source("alone", [], allowed=())
        with pytest.raises(ConfigError, match="not allowed on this device; to allow it, pass --allow-model"):
            await source.run()
        hand = table.source("hand")
        await hand.join()

    with pytest.raises(AssertionError, match="the run goes on, and nobody is there"):
        table.play(main)


class Liar(Trunk):
    """Answers each step with something else than a gradient."""

    lie = staticmethod(lambda tensors: tensors)

    async def bring(self, session, epoch, index, tensors):
        answer = await super().bring(session, epoch, index, tensors)
        if "values" not in answer.tensors:
            return answer
        return msgspec.structs.replace(answer, tensors=self.lie(answer.tensors))


LIES = {
    "nothing": (lambda tensors: {}, "with 32 bits, values are sent, not nothing"),
    "another shape": (lambda tensors: {"values": tensors["values"][1:]}, "of shape (31, 50), not torch.float32"),
    "NaN": (lambda tensors: {"values": tensors["values"] / 0 * 0}, "values are NaN or infinite"),
    "another type": (lambda tensors: {"values": tensors["values"].to(torch.float64)}, "values is torch.float64"),
}


@pytest.mark.parametrize(("lie", "said"), LIES.values(), ids=LIES)
def test_gradients_that_are_none_end_a_source_with_one_line(lie, said):
    table = Table(type("Lying", (Liar,), {"lie": staticmethod(lie)}), sources=1)

    async def main():
        source, _ = table.real_source("alone", [])
        with pytest.raises(BadReply) as caught:
            await source.run()
        assert "answered step 0: " in str(caught.value)
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)

    with pytest.raises(AssertionError, match="the run goes on, and nobody is there"):
        table.play(main)


def test_two_of_the_same_name_are_told_apart():
    table = Table(epochs=30)

    async def main():
        (one, _), (twin, _), (other, _) = (table.real_source(name, []) for name in ("one", "one", "other"))
        async with meanwhile(other.run()):
            first = asyncio.ensure_future(one.run())
            await asyncio.sleep(0.5)
            reason, *_ = await together(twin.run())
            assert reason
            with pytest.raises(
                PacelineError, match="another learner has joined as 'one'; each needs a name of its own"
            ):
                await first

    table.play(main)
