"""Sources of split jobs have names of their own, too."""

from dataclasses import replace

import paceline
from paceline.axon.keys import DeviceKey
from paceline.topologies.access import HTTP, HostAccess, prove
from paceline.topologies.events import LearnerLeft
from paceline.topologies.split.trunk import Trunk
from tests.topologies.split.test_refusals import refused
from tests.topologies.split.trunk_harness import beside_trunk

KEY, OTHER = DeviceKey.generate(), DeviceKey.generate()


def guarded(prepared, env):
    return Trunk(prepared, replace(env, access=HostAccess({})))


async def join(source, key):
    proof = prove(key, HTTP, await source.trunk["challenge"].coro(), source.name)
    source.session = (await source.trunk.join.coro(source.name, paceline.__version__, proof)).session


@beside_trunk(make=guarded, sources=1)
async def test_a_source_cannot_be_thrown_out_by_another_key(harness):
    first, thief = harness.source("a"), harness.source("a")
    await refused(first.join(), "a device joins with a key of its own")
    await join(first, KEY)
    await first.next_epoch()
    await refused(join(thief, OTHER), "this name belongs to another device")
    assert harness.trunk.connected() == ["a"]
    await first.take_part()


@beside_trunk(make=guarded, is_abandoned=True, sources=2)
async def test_a_source_that_is_revoked_is_out(harness):
    source = harness.source("a")
    await join(source, KEY)
    harness.trunk.dismiss("a", "it was revoked")
    harness.trunk.dismiss("nobody", "it was revoked")
    await refused(source.next_epoch(), "this session is not known here; join again", "LookupError")
    assert [(event.learner, event.reason) for event in harness.of(LearnerLeft)] == [("a", "it was revoked")]
    assert harness.trunk.connected() == []
