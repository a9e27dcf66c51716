"""Gossip jobs: what can be, what cannot, and which peers train the same."""

import json
import math

import pytest

from paceline.allocation import DabAllocation
from paceline.allocation.edge_gossip import EdgeGossipAllocation
from paceline.learning.aggregated_points import PointsSpec
from paceline.learning.datasets import DataSpec
from paceline.learning.models import ModelSpec
from paceline.learning.partitions import PartitionSpec
from paceline.learning.tasks import OptimizerSpec
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.job_files import parse_job

JOBS = [
    GossipJob(),
    GossipJob(
        exchange="push-sum",
        push_probability=0.5,
        min_peers=3,
        model=ModelSpec(name="two-nn"),
        optimizer=OptimizerSpec(name="Adam", options={"lr": 0.01}),
        data=DataSpec(name="digits"),
        partition=PartitionSpec(kind="dirichlet", alpha=0.3, replicas=2),
        points=PointsSpec(),
        allocation=EdgeGossipAllocation(max_failed=0.5),
    ),
    GossipJob(overlaps=True, compression="int8", graph="regular", degree=3, ranks="class", order="ranked"),
]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("epochs", 0, "at least 1"),
        ("patience_seconds", math.nan, "above 0"),
        ("patience_seconds", math.inf, "above 0"),
        ("push_probability", 1.5, "above 0 and at most 1"),
        ("evaluate_samples", -1, "at least 0"),
    ],
)
def test_what_cannot_be_is_refused(field, value, said):
    with pytest.raises(ValueError, match=rf"{field}.*{said}"):
        GossipJob(**{field: value})


@pytest.mark.parametrize("rules", [{"overlaps": True}, {"compression": "int8"}])
def test_what_belongs_to_mixing_is_refused_for_pushes(rules):
    with pytest.raises(ValueError, match="for mixing"):
        GossipJob(exchange="push-sum", **rules)


def test_more_copies_than_a_record_can_hold_are_refused():
    assert GossipJob(partition=PartitionSpec(replicas=64)).partition.replicas == 64
    with pytest.raises(ValueError, match="replicas is 65; a peer holds at most 64 parts"):
        GossipJob(partition=PartitionSpec(replicas=65))


def test_a_policy_for_an_orchestrator_is_refused():
    with pytest.raises(ValueError, match="needs an orchestrator"):
        GossipJob(allocation=DabAllocation())


@pytest.mark.parametrize("job", JOBS, ids=["plain", "push-sum", "mixing"])
def test_a_job_is_described_so_that_it_can_be_read_again(job):
    described = json.loads(json.dumps(job.described()))
    assert parse_job(described, "a run") == job


def test_jobs_that_differ_in_a_rule_differ_in_their_fingerprints():
    different = [
        *JOBS,
        GossipJob(seed=1),
        GossipJob(model=ModelSpec(name="lenet-5")),
        GossipJob(partition=PartitionSpec(replicas=2)),
        GossipJob(allocation=EdgeGossipAllocation()),
    ]
    assert len({job.fingerprint for job in different}) == len(different)


def test_which_data_it_is_makes_a_difference_and_where_it_lies_does_not():
    one, other = (GossipJob(data=DataSpec(path=path)).fingerprint for path in ("/here.npz", "/there.npz"))
    assert one == other
    named = [GossipJob(data=DataSpec(name=name)).fingerprint for name in ("digits", "mnist")]
    assert len({one, *named}) == 3
