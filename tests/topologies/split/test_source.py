"""Sources whose link breaks join again by themselves; a reply that cannot be ends them with one line."""

import asyncio

import msgspec
import pytest

from paceline.errors import BadReply, ConfigError, PacelineError, TransportError
from paceline.learning.models import ModelSpec
from paceline.topologies.events import LearnerJoined, LearnerLeft
from paceline.topologies.split.events import JunctionChanged, NodeSpent, SourceBack, SourceMasked, SplitEpochEnded
from paceline.topologies.split.trunk import Trunk
from tests.topologies.split.trunk_harness import beside_trunk, meanwhile


def spent_epochs(events, learner):
    return [event.epoch for event in events if isinstance(event, NodeSpent) and event.learner == learner]


@pytest.mark.parametrize("seconds", [2.0, 9.0])
@beside_trunk(epochs=40, patience_seconds=0.5)
async def test_who_is_cut_off_goes_on_when_the_link_is_back(harness, seconds):
    events = []
    (one, _), (other, link) = (harness.real_source(name, events) for name in ("one", "other"))
    async with meanwhile(one.run()), meanwhile(other.run()) as playing:
        await asyncio.sleep(1.0)
        link.cut()
        await asyncio.sleep(seconds)
        link.mend()
    assert playing.result().reason == "epochs done"
    assert [event.learner for event in harness.of(SourceMasked)] == ["other"]
    assert [event.learner for event in harness.of(SourceBack)] == ["other"]
    has_joined_again = [event.is_back for event in harness.of(LearnerJoined) if event.learner == "other"][-1]
    assert has_joined_again == (seconds > 5)  # until then, it tried the same call again
    assert sum(event.num_steps for event in harness.of(SplitEpochEnded)) == 40 * 2
    assert spent_epochs(events, "one") == [*range(1, 41), 0]  # the last is the end
    assert spent_epochs(events, "other")[-2:] == [40, 0]


@beside_trunk(sources=1)
async def test_a_source_waits_for_a_trunk_that_is_not_there_yet(harness):
    source, link = harness.real_source("alone", patience_seconds=60.0)
    link.cut()
    async with meanwhile(source.run()) as playing:
        await asyncio.sleep(20)
        link.mend()
    assert playing.result().reason == "epochs done"


@beside_trunk(sources=1)
async def test_but_not_for_ever(harness):
    source, link = harness.real_source("alone", patience_seconds=7.0)
    link.cut()
    start = asyncio.get_running_loop().time()
    with pytest.raises(TransportError, match="the link is cut"):
        await source.run()
    assert 2 < asyncio.get_running_loop().time() - start <= 7
    again, _ = harness.real_source("again")
    await again.run()


@beside_trunk(epochs=30)
async def test_who_says_goodbye_is_let_go(harness):
    (one, _), (other, _) = (harness.real_source(name) for name in ("one", "other"))
    async with meanwhile(one.run()):
        leaving = asyncio.ensure_future(other.run())
        await asyncio.sleep(1.0)
        leaving.cancel()
        await asyncio.wait((leaving,))
        await other.leave()
    await harness.over()
    assert [event.learner for event in harness.of(LearnerLeft)] == ["other"]
    assert harness.of(SourceMasked) == []
    assert harness.of(JunctionChanged)[0].sources == ("one",)


@beside_trunk(sources=1)
async def test_a_goodbye_that_nobody_hears_is_no_error(harness):
    source, link = harness.real_source("alone")
    await source.leave()  # it never joined
    async with meanwhile(source.run()):
        await asyncio.sleep(0.05)
        link.cut()
        await source.leave()
        link.mend()


@beside_trunk(is_abandoned=True, sources=1, model=ModelSpec(import_path="tests.learning.own_models:Digits"), cut="1")
async def test_a_model_that_is_not_allowed_is_not_loaded(harness):
    source, _ = harness.real_source("alone", allowed=())
    with pytest.raises(ConfigError, match="not allowed on this device; to allow it, pass --allow"):
        await source.run()


class Liar(Trunk):
    """Replies to each step with something else than a gradient."""

    async def sync(self, session, epoch, index, tensors):
        reply = await super().sync(session, epoch, index, tensors)
        wrong = {name: tensor / 0 * 0 for name, tensor in reply.tensors.items()}
        return msgspec.structs.replace(reply, tensors=wrong)


@beside_trunk(Liar, is_abandoned=True, sources=1)
async def test_gradients_that_are_none_end_a_source(harness):
    source, _ = harness.real_source("alone")
    with pytest.raises(BadReply, match="answered step 0: values are NaN or infinite"):
        await source.run()


@beside_trunk(epochs=30)
async def test_of_two_with_the_same_name_the_first_ends(harness):
    (one, _), (twin, _), (other, _) = (harness.real_source(name) for name in ("one", "one", "other"))
    async with meanwhile(other.run()):
        first = asyncio.ensure_future(one.run())
        await asyncio.sleep(0.5)
        assert (await twin.run()).reason == "epochs done"
        with pytest.raises(PacelineError, match="another device has joined as 'one'; each needs a name"):
            await first
