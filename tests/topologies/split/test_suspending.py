"""A trunk or a source that is told to end finishes the epoch that is open, and begins no other."""

import asyncio

import pytest

from paceline.topologies.split.events import NodeSpent, SplitEnded, SplitEpochEnded
from tests.topologies.split.trunk_harness import beside_trunk


@pytest.mark.parametrize(("backup_epochs", "last"), [(1, 1), (2, 2)])
def test_a_trunk_ends_after_the_next_epoch_that_can_be_gone_on_from(backup_epochs, last):
    @beside_trunk(is_abandoned=True, sources=1, epochs=6, backup_epochs=backup_epochs)
    async def act(harness):
        (alone,) = await harness.begin("alone")
        await alone.sync(1, 0)
        suspending = asyncio.ensure_future(harness.trunk.suspend())
        await asyncio.sleep(1)
        assert not suspending.done()
        playing = asyncio.ensure_future(alone.sync_all(1, 1) if last == 1 else alone.take_part())
        await suspending
        assert [event.epoch for event in harness.of(SplitEpochEnded)] == list(range(1, last + 1))
        await asyncio.sleep(60)
        assert len(harness.of(SplitEpochEnded)) == last
        assert not harness.of(SplitEnded)
        playing.cancel()

    act()


@beside_trunk(is_abandoned=True)
async def test_a_trunk_without_an_open_epoch_ends_at_once(harness):
    alone = harness.source("alone")  # of two
    await alone.join()
    await asyncio.wait_for(harness.trunk.suspend(), 0.001)


@beside_trunk(sources=1, epochs=1)
async def test_a_trunk_that_has_trained_all_ends_the_run(harness):
    (alone,) = await harness.begin("alone")
    await alone.sync(1, 0)
    suspending = asyncio.ensure_future(harness.trunk.suspend())
    await alone.sync_all(1, 1)
    await alone.take_part(1)
    await harness.over()
    suspending.cancel()
    assert [event.reason for event in harness.of(SplitEnded)] == ["epochs done"]


@beside_trunk(is_abandoned=True, sources=1, epochs=50)
async def test_a_source_ends_its_epoch(harness):
    events = []
    source, _ = harness.real_source("a", events)
    running = asyncio.ensure_future(source.run())
    while not harness.of(SplitEpochEnded):
        await asyncio.sleep(0.01)
    await source.suspend()
    spent = [event.epoch for event in events if isinstance(event, NodeSpent)]
    assert spent
    await asyncio.sleep(10)
    assert [event.epoch for event in events if isinstance(event, NodeSpent)] == spent
    running.cancel()
    await asyncio.wait((running,))
