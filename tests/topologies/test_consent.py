"""What leaves a device is said before it joins, and a private device sends nothing of what it can do."""

import dataclasses

import pytest

from paceline import allocation, topologies
from paceline.allocation import POLICIES
from paceline.errors import ConfigError
from paceline.learning.datasets import DataSpec
from paceline.topologies.base import DeviceOptions, Node
from paceline.topologies.consent import check_consent
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.parallel.jobs import Job, Pool
from paceline.topologies.parallel.topology import TOPOLOGY, JobPlan
from paceline.topologies.split.jobs import SplitJob
from tests.topologies.parallel.runs import ByHand, node_of

PRIVATE = DeviceOptions(is_private=True)


def disclosed(job, options=DeviceOptions()):  # noqa: B008  (frozen)
    """What leaves a device of a job, by the tables that its host shows."""
    topology = topologies.of_job(job)
    return topology.disclosures(topology.prepare(job).public_tables, options)


def refused(job):
    return [one.what for one in disclosed(job) if one.is_private]


@pytest.mark.parametrize("policy", [name for name, kind in POLICIES.members.items() if kind.decided_by != "peers"])
@pytest.mark.parametrize("placement", ["served", "local"])
def test_what_a_policy_needs_is_what_is_said(policy, placement):
    made = allocation.from_config({"policy": policy})
    if policy in ("med", "mmtt"):
        if placement == "local":
            return
        job = Pool(allocation=made)
    else:
        job = Job(deadline_seconds=9, allocation=made, data=DataSpec(placement=placement))
    what = "; ".join(one.what for one in disclosed(job, DeviceOptions(price=2.5, max_shards=7)))
    assert "its price for a shard: 2.5" in what
    assert ("its profile, measured when it joins" in what) == made.needs_profiles
    assert ("how likely the states are" in what) == made.needs_outlook
    assert ("the state that it is in, when it joins" in what) == (made.state_reports == "once")
    assert ("the most shards that it takes in a round: 7" in what) == (made.decided_by == "orchestrator")
    is_local = placement == "local"
    assert ("not the data" in what) == is_local
    assert ("how many shards of its own data it has" in what) == is_local
    assert bool(refused(job)) == made.needs_profiles


def test_what_leaves_a_source_depends_on_the_scheme():
    assert refused(SplitJob(cut="f1")) == []
    assert "the time of its layers for each cut" in refused(SplitJob())[0]
    assert refused(SplitJob(scheme="images")) == ["its samples themselves, all of them"]
    assert refused(SplitJob(scheme="gfl")) == []
    assert "much of a sample can show in them" in disclosed(SplitJob(cut="f1"))[0].what
    unknown = topologies.named("split").disclosures({"split": {"scheme": "new"}}, PRIVATE)
    assert unknown[0].is_private


def test_peers_send_their_speed_whatever_the_policy():
    for policy in ("all-data", "edge-gossip"):
        job = GossipJob(allocation=allocation.from_config({"policy": policy}))
        assert refused(job)[0].startswith("its speed, in samples per second")
        with pytest.raises(ConfigError, match="this device is private, and would have to send its speed"):
            topologies.of_job(job).prepare(job).member(Node(name="a", options=PRIVATE), None)


def test_a_host_that_says_less_than_it_wants_gets_no_profile():
    by_hand = ByHand("csa")

    async def main(orchestrator):
        async with node_of(orchestrator, JobPlan(by_hand.prepared), []) as node:
            learner = TOPOLOGY.join(dataclasses.replace(node, options=PRIVATE))
            with pytest.raises(ConfigError, match="this device is private, and would have to send its profile"):
                await learner.run("")
        return [session.declarations for session in orchestrator._roster]

    assert by_hand.play(main) == [{}]


@pytest.mark.parametrize("tables", [{}, {"allocation": 3}, {"allocation": {"policy": "new"}}])
def test_tables_that_do_not_say_what_is_needed_are_refused(tables):
    with pytest.raises(ConfigError):
        TOPOLOGY.disclosures(tables, PRIVATE)


def test_what_a_device_does_not_allow_is_not_imported_to_see_what_it_needs(tmp_path):
    (tmp_path / "mine.py").write_text("raise AssertionError")
    tables = {"allocation": {"policy": f"{tmp_path}/mine.py:Mine"}}
    with pytest.raises(ConfigError, match="is not allowed on this device; to allow it, pass --allow .*mine.py:Mine"):
        TOPOLOGY.disclosures(tables, DeviceOptions(allowed=()))


def test_a_topology_that_does_not_say_is_refused_by_a_private_device():
    class Silent(type(TOPOLOGY)):
        name = "silent"
        disclosures = topologies.base.Topology.disclosures

    with pytest.raises(ConfigError, match="whatever the topology silent sends: it does not say"):
        check_consent(Silent().disclosures({}, PRIVATE), is_private=True)
