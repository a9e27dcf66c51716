"""Tables of jobs in Python: a name, a table, or a class does where a file has a table."""

from pathlib import Path

import pytest
from torch import nn

from paceline import (
    AllDataAllocation,
    DabAllocation,
    DataSpec,
    EdgeGossipAllocation,
    FedAvgAggregation,
    GossipJob,
    Job,
    JunctionSpec,
    MmttAllocation,
    ModelSpec,
    OptimizerSpec,
    PartitionSpec,
    PointsSpec,
    Pool,
    SplitJob,
    ViewSpec,
)
from paceline.topologies.job_files import parse_job


class Net(nn.Module):
    """A model of the user's."""


def make_net():
    return Net()


def job(**fields):
    return Job(deadline_seconds=1, **fields)


TRAIN, TEST = [(0.0, 0), (1.0, 1)], [(2.0, 0)]


def test_names_stand_for_tables():
    assert job(model="lenet-5", data="mnist", optimizer="Adam", allocation="dab", aggregation="fedavg") == job(
        model=ModelSpec(name="lenet-5"),
        data=DataSpec(name="mnist"),
        optimizer=OptimizerSpec(name="Adam", options={}),
        allocation=DabAllocation(),
        aggregation=FedAvgAggregation(),
    )


@pytest.mark.parametrize(
    ("given", "same"),
    [
        (job(model="nets.own:Net"), job(model=ModelSpec(import_path="nets.own:Net"))),
        (job(model="nets/own.py:Net"), job(model=ModelSpec(import_path="nets/own.py:Net"))),
        (job(model=Net), job(model=ModelSpec(import_path=f"{__name__}:Net"))),
        (job(model=make_net), job(model=ModelSpec(import_path=f"{__name__}:make_net"))),
        (job(data="own.npz"), job(data=DataSpec(path="own.npz"))),
        (job(data=Path("data/own")), job(data=DataSpec(path="data/own"))),
        (job(data="./photos"), job(data=DataSpec(path="./photos"))),
        (job(data="own.py:Parts"), job(data=DataSpec(import_path="own.py:Parts"))),
        (job(data=make_net), job(data=DataSpec(import_path=f"{__name__}:make_net"))),
        (job(data=(TRAIN, TEST)), job(data=DataSpec.of(TRAIN, TEST))),
        (job(data=TRAIN), job(data=DataSpec.of(TRAIN))),
        (job(data={"path": "a.csv", "target": ["y"]}), job(data=DataSpec(path="a.csv", target=("y",)))),
        (job(data={"name": "mnist", "shard_size": 7}), job(data=DataSpec(name="mnist", shard_size=7))),
        (job(optimizer={"lr": 0.5}), job(optimizer=OptimizerSpec(options={"lr": 0.5}))),
        (
            job(optimizer={"name": "Adam", "lr": 0.5}),
            job(optimizer=OptimizerSpec(name="Adam", options={"lr": 0.5})),
        ),
        (job(allocation=DabAllocation), job(allocation=DabAllocation())),
        (Pool(allocation="mmtt"), Pool(allocation=MmttAllocation())),
        (Pool(jobs=[job(name="a")]), Pool(jobs=(job(name="a"),))),
        (GossipJob(allocation="edge-gossip"), GossipJob(allocation=EdgeGossipAllocation())),
        (GossipJob(allocation=AllDataAllocation), GossipJob()),
        (GossipJob(partition="dirichlet"), GossipJob(partition=PartitionSpec(kind="dirichlet"))),
        (GossipJob(points="pca"), GossipJob(points=PointsSpec(reduction="pca"))),
        (GossipJob(points={}), GossipJob(points=PointsSpec())),
        (SplitJob(junction="low-rank"), SplitJob(junction=JunctionSpec(form="low-rank"))),
        (
            SplitJob(view=["blur", {"kind": "crop"}, ViewSpec()]),
            SplitJob(view=(ViewSpec(kind="blur"), ViewSpec(kind="crop"), ViewSpec())),
        ),
    ],
)  # fmt: skip
def test_what_stands_for_a_table(given, same):
    assert given == same
    if not given.nested:
        assert parse_job(given.described(), "record") == given


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: job(model="two"), "model: model 'two' is unknown; did you mean 'two-nn'?"),
        (
            lambda: job(model=3),
            "model: it must be a name, a table, a class or function of yours, or a ModelSpec, not 3",
        ),
        (lambda: job(model=Net()), r"model: it must be a name, .* a class .*, or a ModelSpec, not Net\(\)"),
        (lambda: job(model=None), "model is None; it must be a table, or a ModelSpec"),
        (lambda: job(data=3), "data: it must be a name, a table, a class or function of yours, or a DataSpec, not 3"),
        (lambda: job(data={"shard_size": 0}), "data: shard_size is 0; allowed: 1 to 16777216"),
        (lambda: job(data={"shards": 0}), "data: unknown key 'shards'; did you mean 'shard_size'?"),
        (lambda: job(optimizer="adam"), "optimizer: optimizer 'adam' is unknown; did you mean 'Adam'?"),
        (lambda: job(optimizer={"lr": []}), "optimizer: SGD does not work with"),
        (lambda: job(allocation="dap"), "allocation: policy 'dap' is unknown; did you mean 'dab'?"),
        (lambda: job(allocation=MmttAllocation(knowledge="ideel")), "knowledge is 'ideel'; did you mean 'ideal'?"),
        (
            lambda: Pool(allocation=DabAllocation()),
            "allocation: policy 'dab' is not for such a job; allowed: med, mmtt",
        ),
        (lambda: Pool(allocation="dab"), "allocation: policy 'dab' is not for such a job; allowed: med, mmtt"),
        (lambda: Pool(jobs=[3]), "jobs 1 is 3; it must be a table, or a Job"),
        (lambda: SplitJob(view="blur"), "view: it must be a list of tables, not 'blur'"),
        (lambda: SplitJob(view=["blur", "blurr"]), "view: entry 2: view 'blurr' is unknown; did you mean 'blur'?"),
        (lambda: SplitJob(averaging="conv1"), "averaging: layers is 'conv1'; it must be a list"),
    ],
)
def test_what_stands_for_no_table(make, message):
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
