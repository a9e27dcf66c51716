"""Federated rounds whose updates are summed under masks, hidden by noise, or both."""

from __future__ import annotations

import asyncio

import pytest
import torch

from paceline import VirtualFleet, train
from paceline.axon import loops
from paceline.errors import ConfigError
from paceline.learning.aggregation import FedAvgAggregation, FedAvgMAggregation
from paceline.learning.datasets import DataSpec
from paceline.learning.models import ModelSpec
from paceline.learning.privacy import Masker, PrivacySpec
from paceline.report import RunFolder
from paceline.run import reopen
from paceline.topologies.base import Contact, Environment, Node, serving
from paceline.topologies.job_files import parse_job
from paceline.topologies.parallel.events import RoundSpent, RunEnded, UpdateRefused
from paceline.topologies.parallel.messages import Declaration
from paceline.topologies.parallel.orchestrator import Orchestrator
from paceline.topologies.parallel.prepared import prepare_job
from paceline.topologies.parallel.topology import TOPOLOGY
from tests.topologies.parallel.runs import ByHand, closed, device, of, play, small_job

LOCAL = DataSpec(name="digits", shard_size=32, placement="local")
MASKED = PrivacySpec(secure_aggregation=True)
NAMES = "abcdef"


def federated_job(privacy=MASKED, **changes):
    rules = {"deadline_seconds": 20.0, "rounds": 2, "min_learners": 6, "data": LOCAL, "privacy": privacy}
    return small_job("dab", **{**rules, **changes})


def fleet(**of_one):
    """Six devices; what is said of one by its name differs from the rest."""
    return [device(name, 100.0 + 20 * number, **of_one.get(name, {})) for number, name in enumerate(NAMES)]


@pytest.fixture
def seen(monkeypatch):
    """What the orchestrator is sent of updates."""
    sent = []
    taken = Orchestrator.update

    async def update(self, session, round, parameters, num_samples):
        sent.append(parameters)
        return await taken(self, session, round, parameters, num_samples)

    monkeypatch.setattr(Orchestrator, "update", update)
    return sent


@pytest.mark.parametrize(
    "aggregation", [FedAvgAggregation(), FedAvgAggregation(weight="samples"), FedAvgMAggregation(weight="equal")]
)
def test_learns_what_plain_averaging_learns(aggregation, seen):
    plain, _ = play(federated_job(PrivacySpec(), aggregation=aggregation), fleet())
    assert all(parameters.keys() == {"float32"} for parameters in seen)
    seen.clear()
    masked, events = play(federated_job(aggregation=aggregation), fleet())
    assert len(seen) == 12
    assert all(parameters.keys() == {"masked"} for parameters in seen)
    assert [event.num_updates for event in closed(events)] == [6, 6]
    torch.testing.assert_close(masked.state, plain.state, rtol=1e-5, atol=1e-6)


def test_a_third_may_drop_out_after_they_have_agreed():
    """Two die as they train: the sum of the other four is that of a plain run in which the same two die."""
    dying = {name: {"dies_at_seconds": 2.5, "returns_at_seconds": 60.0} for name in "be"}
    rules = {"rounds": 1, "deadline_seconds": 20.0}
    plain, _ = play(federated_job(PrivacySpec(), **rules), fleet(**dying))
    masked, events = play(federated_job(**rules), fleet(**dying))
    (end,) = closed(events)
    assert (end.num_learners, end.num_updates, end.late) == (6, 4, ("b", "e"))
    assert end.seconds <= 20.0
    torch.testing.assert_close(masked.state, plain.state, rtol=1e-5, atol=1e-6)


def test_halted_and_late_learners_leave_the_others_sum_whole():
    """A slow one halts in time; one whose link fails is late. No round is later for it."""
    slow = {"c": {"link_noise": 0.9}, "d": {"speed_noise": 0.8}}
    _, events = play(federated_job(rounds=6, deadline_seconds=2.0), fleet(**slow))
    assert [event.round for event in closed(events)] == [1, 2, 3, 4, 5, 6]
    assert all(event.seconds <= 2.0 and event.num_updates >= 4 for event in closed(events))
    spent = of(RoundSpent, events)
    assert any(event.is_halted for event in spent)
    assert all(event.start_seconds < 0.5 for event in spent)  # nobody waits for the part that is kept for masks
    assert not [event for event in of(UpdateRefused, events) if not event.is_late]


def test_too_few_left_lose_their_round_and_the_run_goes_on():
    dying = {name: {"dies_at_seconds": 2.5, "returns_at_seconds": 30.0} for name in "abcd"}
    _, events = play(federated_job(rounds=2), fleet(**dying))
    first, second = closed(events)
    assert (first.num_learners, first.num_updates) == (6, 0)
    refused = of(UpdateRefused, events)
    assert {event.learner for event in refused} == {"e", "f"}
    assert all("0 learners helped to unmask the sum, and 4 are needed" in event.reason for event in refused)
    assert second.num_updates == 6


def test_who_comes_late_waits_for_the_next_round():
    coming = {"f": {"joins_at_seconds": 0.9}}
    _, events = play(federated_job(min_learners=5, deadline_seconds=15.0), fleet(**coming))
    assert [event.num_learners for event in closed(events)] == [5, 6]


def test_noise_is_accounted_for_and_ends_the_run(tmp_path):
    spec = PrivacySpec(secure_aggregation=True, noise_multiplier=1.0, clip_norm=1.0, max_epsilon=10.0)
    job = federated_job(spec, rounds=9, aggregation=FedAvgAggregation(weight="equal"))
    run = train(job, VirtualFleet(fleet()), folder=tmp_path / "run", progress=False)
    events = list(RunFolder.open(run.folder).events())
    spent = [event.epsilon for event in closed(events)]
    assert spent == sorted(spent)
    assert 4 < spent[0] < 5
    assert spent[-1] <= 10.0
    assert of(RunEnded, events)[-1].reason == "privacy budget spent"
    goes_on = reopen(run.folder)
    goes_on.folder.close()
    assert goes_on.plan.host(Environment())._training.why_over == "privacy budget spent"


@pytest.mark.parametrize("secure", [False, True])
def test_the_sum_has_the_noise_that_was_promised(secure):
    """With changes clipped to almost nothing, all that moves the model is noise: of deviation z C / n in the mean."""
    spec = PrivacySpec(secure_aggregation=secure, noise_multiplier=1e6, clip_norm=1e-6)
    job = federated_job(spec, rounds=1, aggregation=FedAvgAggregation(weight="equal"), model=ModelSpec(name="two-nn"))
    outcome, _ = play(job, fleet())
    before = prepare_job(job).state
    moved = torch.cat([(outcome.state[name] - before[name]).flatten() for name in before if "weight" in name])
    # Each of six adds as much as four of them need.
    expected = 1 / 6 * ((6 / 4) ** 0.5 if secure else 1.0)
    assert float(moved.std()) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": {"name": "digits"}}, 'set .data. placement = "local"'),
        ({"aggregation": "median"}, "method median needs single updates"),
        ({"aggregation": "krum"}, "method krum needs single updates"),
        ({"aggregation": "fednova"}, "method fednova needs single updates"),
        ({"aggregation": {"method": "fedavg", "late": "discount"}}, 'late is "discount"'),
        ({"aggregation": {"method": "fedavg", "compression": "int8"}}, 'compression is "int8"'),
        ({"job": {"deadline_seconds": 9.0, "min_learners": 2}}, "a round may have 2 learners"),
        ({"job": {"deadline_seconds": 9.0, "min_learners": 5, "learners_per_round": 1}}, "a round may have 1 learners"),
        ({"privacy": {"secure_aggregation": True, "noise_multiplier": 1.0, "clip_norm": 1.0}}, 'weight = "equal"'),
        ({"privacy": {"secure_agregation": True}}, "secure_agregation"),
        ({"privacy": {"secure_aggregation": True, "noise_multiplier": 1.0}}, "there is no clip_norm"),
    ],
)
def test_what_does_not_go_together_is_refused(changes, message):
    tables = {
        "job": {"deadline_seconds": 9.0, "min_learners": 3},
        "data": {"name": "digits", "placement": "local"},
        "privacy": {"secure_aggregation": True},
        **changes,
    }
    if isinstance(tables.get("aggregation"), str):
        tables["aggregation"] = {"method": tables["aggregation"]}
    with pytest.raises(ConfigError, match=message):
        parse_job(tables, "job.toml")


def test_one_round_beyond_the_budget_is_refused_before_it_begins():
    spec = PrivacySpec(noise_multiplier=0.5, clip_norm=1.0, max_epsilon=3.0)
    with pytest.raises(ConfigError, match=r"max_epsilon is 3, and one round takes 10\.7"):
        prepare_job(federated_job(spec, aggregation=FedAvgAggregation(weight="equal")))


def test_statistics_that_travel_are_refused_beside_noise():
    spec = PrivacySpec(noise_multiplier=1.0, clip_norm=1.0)
    model = ModelSpec(import_path="tests.topologies.parallel.own_models:Normalised")
    with pytest.raises(ConfigError, match="buffers that travel"):
        prepare_job(federated_job(spec, aggregation=FedAvgAggregation(weight="equal"), model=model))


def test_updates_of_no_data_from_the_network_are_refused():
    """What comes from a learner has to be what the round waits for, in size and in kind; nothing ends the round."""
    by_hand = ByHand(data=LOCAL, privacy=MASKED, min_learners=3)

    async def main(orchestrator):
        learners = {}
        for name in "abc":
            learners[name] = (await orchestrator.join(name, "0.2.0", 0.0)).session
        waiting = [asyncio.ensure_future(orchestrator.next_round(key, 0, None)) for key in learners.values()]
        await asyncio.gather(*waiting)
        a = learners["a"]
        maskers = {name: Masker(name) for name in "abc"}
        with pytest.raises(ValueError, match="keys of masks are 64 bytes"):
            await orchestrator.show_keys(a, 1, b"short", bytes(32))
        with pytest.raises(ValueError, match="not agreed"):
            await orchestrator.share_secrets(a, 1, {})
        shown = [
            asyncio.ensure_future(orchestrator.show_keys(key, 1, maskers[name].keys, maskers[name].commitment))
            for name, key in learners.items()
        ]
        keys = (await asyncio.gather(*shown))[0]
        assert keys == {name: masker.keys for name, masker in maskers.items()}
        with pytest.raises(ValueError, match="agreed on their masks already"):
            await orchestrator.show_keys(a, 1, Masker("a").keys, bytes(32))
        for sealed in ({}, {"b": bytes(148)}, {"b": bytes(148), "c": bytes(1)}, {"b": bytes(148), "z": bytes(148)}):
            with pytest.raises(ValueError, match="shared with each of the others"):
                await orchestrator.share_secrets(a, 1, sealed)
        for name, key in learners.items():
            await orchestrator.share_secrets(key, 1, maskers[name].seal(keys, 3))
        for name, key in learners.items():
            maskers[name].open(await orchestrator.sealed_secrets(key, 1))
        with pytest.raises(ValueError, match="once all have come"):
            await orchestrator.reveal(a, 1, {})
        for key in learners.values():
            await orchestrator.declare(key, Declaration(num_shards=1))
            await orchestrator.take(key, 1, 1, 32)
        for wrong in (by_hand.parameters, {"masked": torch.zeros(3)}, {"masked": torch.zeros(3, dtype=torch.int64)}):
            receipt = await orchestrator.update(a, 1, wrong, 32)
            assert not receipt.is_accepted
            assert "masked update" in receipt.reason

    by_hand.play(main)


def test_real_learners_agree_over_http():
    job = federated_job(rounds=2, deadline_seconds=5.0, min_learners=3, benchmark_shards=1)
    recorded = []

    async def run():
        plan = TOPOLOGY.prepare(job)
        host = plan.host(Environment(emit=recorded.append))
        async with serving(host, plan, "host", port=0, token="S3cret") as address:
            rules = {"contacts": [Contact(address)], "trust": {"token": "S3cret"}, "num_devices": 3}
            nodes = [Node(name=name, number=number, **rules) for number, name in enumerate("abc")]
            members = [asyncio.ensure_future(plan.member(node, None).run("")) for node in nodes]
            await host.run(address)
            await asyncio.gather(*members)
        return host.outcome

    loop = loops.new_event_loop()
    try:
        outcome = loop.run_until_complete(run())
    finally:
        loops.shut_down(loop)
    assert [event.num_updates for event in closed(recorded)] == [3, 3]
    assert not of(UpdateRefused, recorded)
    assert outcome.metrics["loss"] < 2.3
