"""Runs of tasks with metrics of their own: recorded, stopped and resumed by them."""

import csv
from dataclasses import replace

import msgspec
import pytest

from paceline import GossipJob, SplitJob
from paceline.errors import ConfigError
from paceline.fleets.virtual import VirtualFleet
from paceline.learning.local_model import LocalModel
from paceline.learning.scores import Scores
from paceline.report import RunFolder
from paceline.run import PreparedRun, Run
from paceline.topologies.gossip.prepared import prepare_job as prepare_gossip
from paceline.topologies.gossip.topology import GossipPlan
from paceline.topologies.parallel.prepared import prepare_job
from paceline.topologies.parallel.topology import JobPlan
from paceline.topologies.split.prepared import prepare_split
from tests.topologies.parallel.runs import device, small_job


class Regressor(LocalModel):
    """Measures its error as a regression does; it falls from one evaluation to the next."""

    metric_names = ("mae", "r2")
    _num_tests = 0

    def evaluate(self, state, table):
        self._num_tests += 1
        return Scores(1 / self._num_tests, {"mae": 100 / self._num_tests, "r2": 1 - 1 / self._num_tests})


def train(plan, devices, folder, callbacks=()) -> Run:
    made = RunFolder.create(folder.parent, folder.name, plan.job.described())
    return PreparedRun(made, plan).start(VirtualFleet(devices), callbacks)


def regression(**rules):
    """A plan of a job whose task has these metrics."""
    prepared = prepare_job(small_job(rounds=20))
    model = Regressor(prepared.training)
    job = msgspec.structs.replace(prepared.job, **rules)

    def evaluate(state):
        return model.evaluate(state, None)

    return JobPlan(replace(prepared, job=job, model=model, evaluate=evaluate))


@pytest.mark.parametrize(
    ("rules", "reason", "rounds"),
    [
        ({"target": "mae <= 25"}, "target reached", 4),
        ({"target": "r2 >= 0.6"}, "target reached", 3),
        ({"target": "loss <= 0.5"}, "target reached", 2),
        ({"patience": 3, "watch": "max mae"}, "no improvement", 4),
    ],
)
def test_a_job_is_stopped_by_any_metric(rules, reason, rounds, tmp_path):
    run = train(regression(**rules), [device("a")], tmp_path / "run")
    assert run.metrics == {"loss": 1 / rounds, "mae": 100 / rounds, "r2": 1 - 1 / rounds, "rounds": rounds}
    assert run.accuracy is None
    assert run.summary().ended == reason
    with (run.folder / "metrics.csv").open() as file:
        assert [float(row["mae"]) for row in csv.DictReader(file)] == [100 / number for number in range(1, rounds + 1)]


def test_peers_are_measured_by_any_metric(tmp_path):
    job = GossipJob(epochs=2, model="two-nn", data="digits", probe_seconds=1.0, patience_seconds=0.5)
    prepared = prepare_gossip(job)
    plan = GossipPlan(replace(prepared, model=Regressor(prepared.training)))
    run = train(plan, [device("a"), device("b")], tmp_path / "run")
    assert run.metrics.keys() == {"loss", "mae", "r2", "averaged"}
    assert run.summary().tables["consensus"].values("mae") == [100, 50]
    assert run.summary().mae == run.metrics["mae"] == pytest.approx(100 / 3)


def test_a_metric_that_the_task_does_not_have_is_refused_before_anything_is_trained():
    with pytest.raises(ConfigError, match="target: the task has no metric 'f1'; allowed: loss, accuracy"):
        prepare_job(small_job(target="f1 >= 0.5"))
    with pytest.raises(ConfigError, match="watch: the task has no metric 'mae'; allowed: loss, accuracy"):
        prepare_split(SplitJob(data="digits", model="two-nn", patience=2, watch="min mae"))
