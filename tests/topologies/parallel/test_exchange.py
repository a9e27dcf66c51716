"""What of a model travels in runs: frozen parts at most once, and what is a device's own not at all."""

import numpy as np
import pytest
import torch

from paceline import DataSpec, Job, LocalDevice, LocalFleet, ModelSpec, VirtualFleet, load, run, train
from paceline.errors import BadReply, ConfigError
from paceline.fleets import modelled
from paceline.learning.aggregation import AGGREGATIONS
from paceline.learning.local_model import LocalModel
from paceline.learning.shards import Shard
from paceline.learning.tasks import TaskSpec
from paceline.learning.trainers import KeptTraining, ThreadTrainer
from paceline.report import RunFolder
from paceline.topologies.base import Environment
from paceline.topologies.parallel.enrolment import Enrolment
from paceline.topologies.parallel.events import RoundClosed, RoundSpent
from paceline.topologies.parallel.orchestrator import Orchestrator
from paceline.topologies.parallel.prepared import prepare_job
from paceline.topologies.parallel.topology import TOPOLOGY, JobPlan
from tests.topologies.parallel import own_models
from tests.topologies.parallel.own_models import Frozen
from tests.topologies.parallel.runs import closed, device, of, play, small_job
from tests.topologies.parallel.test_resuming import Crash, crash_at

OWN = "tests.topologies.parallel.own_models:"
FROZEN = {"model": ModelSpec(import_path=f"{OWN}Frozen"), "optimizer": {"name": "SGD", "lr": 0.1}}
HEAD_BYTES, BODY_BYTES = 4 * 257 * 10, 4 * 65 * 256
FLEET = [device("a"), device("b"), device("c")]


@pytest.fixture
def start():
    """A state to start from that nobody can make by themselves."""
    torch.manual_seed(77)
    return Frozen().state_dict()


def is_body_of(state, start):
    return all(state[f"model.body.{name}"].equal(start[f"body.{name}"]) for name in ("weight", "bias"))


# What is frozen.


def test_what_is_frozen_is_sent_once_where_a_run_starts_from_something(start, tmp_path):
    job = small_job(rounds=6, local_epochs=2, min_learners=3, aggregation={"exchange": "trainable"}, **FROZEN)
    found = train(job, VirtualFleet(FLEET), start=start, folder=tmp_path / "run", progress=False)
    events = list(RunFolder.open(found.folder).events())
    for event in closed(events):
        assert event.up_bytes == 3 * HEAD_BYTES
        assert event.down_bytes <= 3 * HEAD_BYTES + 65 * 1438  # all shards, at most
    assert found.accuracy > 0.8
    assert is_body_of(found.state, start)
    assert all(value.equal(found.state[name]) for name, value in load(found.folder).state_dict().items())


@pytest.mark.long
def test_processes_are_sent_what_is_frozen_over_http(start, tmp_path):
    job = small_job(
        rounds=4, deadline_seconds=1.0, local_epochs=3, min_learners=2, aggregation={"exchange": "trainable"}, **FROZEN
    )
    fleet = LocalFleet([LocalDevice(name="pi", count=2)])
    found = train(job, fleet, start=start, folder=tmp_path / "run", progress=False)
    spent = of(RoundSpent, RunFolder.open(found.folder).events())
    assert len(spent) == 8
    assert all(event.bytes_sent < 2 * HEAD_BYTES < BODY_BYTES for event in spent)
    assert found.accuracy > 0.8  # with another body than theirs, the heads would be of no use
    assert is_body_of(found.state, start)


def test_another_model_than_was_offered_is_refused(start, tmp_path):
    given = {f"model.{name}": tensor for name, tensor in start.items()}
    prepared = prepare_job(small_job(aggregation={"exchange": "trainable"}, **FROZEN), given)
    assert prepared.base_bytes == BODY_BYTES
    enrolment = Enrolment.of(prepared.offer, ThreadTrainer(LocalModel(prepared.training, allowed=None)), None)
    base = prepared.model.base()
    enrolment.load_base(base)
    for wrong in (
        {**base, "model.body.bias": base["model.body.bias"] + 1e-3},
        {name: tensor for name, tensor in base.items() if "bias" not in name},
        {**base, "model.head.bias": torch.ones(10)},
    ):
        with pytest.raises(BadReply, match="sent another model than it offered"):
            enrolment.load_base(wrong)


@pytest.mark.parametrize("is_same", [True, False], ids=["same", "another"])
def test_a_device_that_makes_other_frozen_parts_is_sent_the_right_ones(is_same, monkeypatch):
    job = small_job(rounds=6, local_epochs=2, min_learners=3, aggregation={"exchange": "trainable"}, **FROZEN)
    plan = TOPOLOGY.prepare(job)
    sent = []
    monkeypatch.setattr(Orchestrator, "base", counted(Orchestrator.base, sent))
    if not is_same:  # from here on, as if another version of a package were installed
        monkeypatch.setattr(own_models, "Frozen", Upturned)
    outcome = VirtualFleet(FLEET).run(plan, Environment(emit=lambda event: None))
    assert len(sent) == (0 if is_same else 3)
    assert outcome.metrics["accuracy"] > 0.8  # heads that were trained behind another body would be of no use
    assert is_body_of(outcome.state, {name.removeprefix("model."): one for name, one in plan.prepared.state.items()})


class Upturned(Frozen):
    """The same model with other weights."""

    def __init__(self):
        super().__init__()
        self.body.weight.data.neg_()


def counted(method, calls):
    async def count(self, session):
        calls.append(session)
        return await method(self, session)

    return count


def test_an_interrupted_run_ends_as_if_it_had_not_been(start, tmp_path):
    job = small_job(rounds=4, aggregation={"method": "fedadam", "exchange": "trainable"}, **FROZEN)
    fleet, given = VirtualFleet([device("a", max_shards=2)]), {"start": start, "progress": False}
    whole = train(job, fleet, folder=tmp_path / "whole", **given)
    with pytest.raises(Crash):
        train(job, fleet, folder=tmp_path / "run", callbacks=[crash_at(RoundClosed, 2)], **given)
    ended = run.resume(tmp_path / "run", fleet, progress=False)
    assert all(ended.state[name].equal(tensor) for name, tensor in whole.state.items())
    assert is_body_of(ended.state, start)


@pytest.mark.parametrize("name", AGGREGATIONS.members)
@pytest.mark.parametrize("exchange", ["trainable", ("*", "!*.2.*")], ids=["frozen", "local"])
def test_every_method_learns_from_what_travels(name, exchange):
    """Of frozen bodies; and of models whose batch normalisation stays where it is."""
    changes = FROZEN if exchange == "trainable" else {"model": ModelSpec(import_path=f"{OWN}Normalised")}
    table = {"method": name, **({"mu": 0.1} if name == "fedprox" else {}), "exchange": exchange}
    job = small_job(rounds=6, local_epochs=2, min_learners=3, aggregation=table, **changes)
    prepared = prepare_job(job)
    outcome, events = play(job, FLEET)
    assert all(event.num_updates == 3 for event in closed(events))
    stays = prepared.state.keys() - prepared.model.layout.names
    assert stays
    assert all(outcome.state[name].equal(prepared.state[name]) for name in stays)
    assert closed(events)[-1].loss < closed(events)[0].loss
    assert exchange != "trainable" or outcome.metrics["accuracy"] > 0.5


def test_what_travels_is_compressed():
    job = {"rounds": 6, "local_epochs": 2, "min_learners": 3, **FROZEN}
    plain, small = (
        play(small_job(**job, aggregation={"exchange": "trainable", "compression": method}), FLEET)
        for method in ("none", "int8")
    )
    assert 3.7 < closed(plain[1])[-1].up_bytes / closed(small[1])[-1].up_bytes < 4
    assert small[0].metrics["accuracy"] == pytest.approx(plain[0].metrics["accuracy"], abs=0.03)


def test_audits_need_all_that_is_trained():
    local = {"model": ModelSpec(import_path=f"{OWN}Normalised"), "aggregation": {"exchange": ["*", "!*.2.*"]}}
    with pytest.raises(ConfigError, match=r"what is trained in model\.2\.bias stays on the devices, but audit_rate"):
        prepare_job(small_job(audit_rate=0.5, **local))
    frozen = small_job(audit_rate=1.0, rounds=2, aggregation={"exchange": "trainable"}, **FROZEN)
    assert all(event.num_updates == 1 for event in closed(play(frozen, [device("a")])[1]))


# What stays on a device: FedBN.

SHIFTS = (-6.0, 0.0, 6.0)


def domain(shift, num_samples, seed):
    """Two classes by the product of two features; all features are shifted."""
    chance = np.random.default_rng(seed)
    x = chance.normal(size=(num_samples, 4))
    return Shard((x + shift).astype(np.float32), (x[:, 0] + x[:, 1] > 0).astype(np.uint8))


@pytest.fixture
def domains(tmp_path):
    """A file of samples whose features are shifted on each of three devices."""
    train_parts = [domain(shift, 240, seed) for seed, shift in enumerate(SHIFTS)]
    test_parts = [domain(shift, 80, 10 + seed) for seed, shift in enumerate(SHIFTS)]
    path = tmp_path / "domains.npz"
    np.savez(
        path,
        x_train=np.concatenate([part.x for part in train_parts]),
        y_train=np.concatenate([part.y for part in train_parts]),
        key_train=np.repeat(np.arange(3), 240),
        x_test=np.concatenate([part.x for part in test_parts]),
        y_test=np.concatenate([part.y for part in test_parts]),
    )
    return path


def domains_job(path, exchange, **changes):
    rules = {"rounds": 8, "deadline_seconds": 20.0, "local_epochs": 3, "batch_size": 16, "min_learners": 3}
    data = DataSpec(path=str(path), shard_size=40, placement="local")
    job = {"optimizer": {"name": "SGD", "lr": 0.1}, "aggregation": {"exchange": exchange}, "partition": {"kind": "key"}}
    model = {} if "task" in changes else {"model": ModelSpec(import_path=f"{OWN}Domains")}
    return Job(**{**rules, **job, **model, "data": data, **changes})


@pytest.fixture
def devices(monkeypatch):
    """What virtual devices keep, in the order in which they join."""
    made = []

    class Kept(KeptTraining):
        def __init__(self, initial):
            super().__init__(initial)
            made.append(self)

    monkeypatch.setattr(modelled, "KeptTraining", Kept)
    return made


@pytest.mark.parametrize("exchange", ["all", ("*", "!*.bn.*")], ids=["averaged", "local"])
def test_statistics_are_averaged_or_stay_on_each_virtual_device(domains, devices, exchange):
    prepared = prepare_job(domains_job(domains, exchange))
    outcome = VirtualFleet(FLEET).run(JobPlan(prepared), Environment())
    model = prepared.model
    shared = model.layout.pack(outcome.state)
    own = [kept.state(model, shared) for kept in devices]
    means = sorted(float(state["model.bn.running_mean"].mean()) for state in own)
    tests = [domain(shift, 200, 99) for shift in SHIFTS]
    best = [max(model.evaluate(state, test).metrics["accuracy"] for state in own) for test in tests]
    if exchange == "all":
        assert means[0] == means[2]
        assert min(best) < 0.7
        assert not outcome.state["model.bn.running_mean"].equal(prepared.state["model.bn.running_mean"])
    else:
        assert means == pytest.approx([-1.2, 0, 1.2], abs=0.1)  # of features that are standardised over all devices
        assert outcome.state["model.bn.running_mean"].equal(prepared.state["model.bn.running_mean"])
        assert min(best) > 0.9


@pytest.mark.long
@pytest.mark.parametrize("exchange", ["all", ("*", "!bn.*")], ids=["averaged", "local"])
def test_statistics_are_averaged_or_stay_in_each_process(domains, exchange, tmp_path):
    """Minibatches are counted by batch normalisation: the count goes on in each process, or is that of all."""
    (tmp_path / "seen").mkdir()
    task = TaskSpec(import_path=f"{OWN}Recorded", options={"folder": str(tmp_path / "seen")})
    job = domains_job(domains, exchange, task=task, rounds=3, deadline_seconds=2.0)
    fleet = LocalFleet([LocalDevice(name="pi", count=3)])
    found = train(job, fleet, folder=tmp_path / "run", progress=False)
    lines = [path.read_text().splitlines() for path in (tmp_path / "seen").iterdir()]
    last = sorted(np.array([one[-1].split() for one in lines], float)[:, 1].tolist())
    if exchange == "all":
        assert int(found.state["bn.num_batches_tracked"]) > 0
    else:
        assert last == pytest.approx(SHIFTS, abs=1)
        assert int(found.state["bn.num_batches_tracked"]) == 0
