"""Gossip jobs: what can be, what cannot, and which peers train the same."""

import functools
import json
import math

import numpy as np
import pytest

from paceline.allocation import DabAllocation
from paceline.allocation.edge_gossip import EdgeGossipAllocation
from paceline.errors import ConfigError
from paceline.learning.aggregated_points import PointsSpec
from paceline.learning.datasets import DataSpec
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.partitions import PartitionSpec
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.gossip.prepared import prepare_job
from paceline.topologies.job_files import parse_job
from paceline.topologies.parallel.jobs import Job

FLOATS = np.linspace(-1, 1, 24, dtype=np.float32).reshape(12, 2)
TOKENS = np.arange(36).reshape(12, 3)

JOBS = [
    GossipJob(),
    GossipJob(
        exchange="push-sum",
        sends=("*", "!*.bias"),
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
    ("rules", "said"),
    [
        ({"epochs": 0}, "epochs.*at least 1"),
        ({"patience_seconds": math.nan}, "patience_seconds.*above 0"),
        ({"patience_seconds": math.inf}, "patience_seconds.*above 0"),
        ({"push_probability": 1.5}, "push_probability.*above 0 and at most 1"),
        ({"evaluate_samples": -1}, "evaluate_samples.*at least 0"),
        ({"target": "accuracy > 0.9"}, "target is 'accuracy > 0.9'; it must be a metric, >= or <=, and a number"),
        ({"watch": "max accuracy"}, "there is no patience"),
        ({"patience": 3, "evaluate_samples": 0}, "target and patience need evaluate_samples, which is 0"),
        ({"exchange": "push-sum", "overlaps": True}, "for mixing"),
        ({"exchange": "push-sum", "compression": "int8"}, "for mixing"),
        ({"partition": PartitionSpec(replicas=65)}, "replicas is 65; a peer holds at most 64 parts"),
        ({"allocation": DabAllocation()}, "is for an orchestrator"),
    ],
)
def test_what_cannot_be_is_refused(rules, said):
    with pytest.raises(ValueError, match=said):
        GossipJob(**rules)


@pytest.mark.parametrize("job", JOBS, ids=["plain", "push-sum", "mixing"])
def test_a_job_is_described_so_that_it_can_be_read_again(job):
    described = json.loads(json.dumps(job.described()))
    assert parse_job(described, "a run") == job


def test_jobs_that_differ_in_a_rule_differ_in_their_fingerprints():
    different = [
        *JOBS,
        GossipJob(seed=1),
        GossipJob(sends="trainable"),
        GossipJob(sends=("*", "!*.bn.*")),
        GossipJob(model=ModelSpec(name="lenet-5")),
        GossipJob(partition=PartitionSpec(replicas=64)),  # as many as a peer may hold
        GossipJob(allocation=EdgeGossipAllocation()),
    ]
    assert len({job.fingerprint for job in different}) == len(different)


def test_which_data_it_is_makes_a_difference_and_where_it_lies_does_not():
    one, other = (GossipJob(data=DataSpec(path=path)).fingerprint for path in ("/here.npz", "/there.npz"))
    assert one == other
    named = [GossipJob(data=DataSpec(name=name)).fingerprint for name in ("digits", "mnist")]
    assert len({one, *named}) == 3


@pytest.mark.parametrize(
    ("task", "arrays", "said"),
    [
        (
            {"kind": "regression"},
            {"x": FLOATS, "y": FLOATS[:, 0]},
            "a task of kind 'regression' has none in x: float32",
        ),
        ({"kind": "multi-label"}, {"x": FLOATS, "y": FLOATS > 0}, "a task of kind 'multi-label' has none in"),
        ({}, {"x": TOKENS, "y": TOKENS[:, 0]}, "are means of images or of real numbers, .* samples are x: int64"),
    ],
)
def test_points_need_classes_and_samples_that_have_means(task, arrays, said, tmp_path):
    parts = {f"{name}_{part}": array for name, array in arrays.items() for part in ("train", "test")}
    np.savez(tmp_path / "data.npz", **parts)
    model = "bag-of-tokens" if not task else "two-nn"
    job = GossipJob(task=task, model=model, data={"path": str(tmp_path / "data.npz")}, points={})
    with pytest.raises(ConfigError, match=f"^.points. .*{said}"):
        prepare_job(job)


@pytest.mark.parametrize("kind", ["dirichlet", "classes"])
@pytest.mark.parametrize("job", [GossipJob, functools.partial(Job, deadline_seconds=1, data={"placement": "local"})])
def test_samples_without_classes_are_not_split_by_them(job, kind):
    with pytest.raises(ValueError, match=f"kind of .partition. is '{kind}', .* a task of kind 'regression' has none"):
        job(task="regression", partition=kind)
    assert job(task="classification", partition=kind).partition.kind == kind
