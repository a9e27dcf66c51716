"""Aggregation in runs: what an update counts by, late ones, resuming to the same bits, and methods of a user's own."""

import asyncio
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import paceline
from paceline import run
from paceline.devices.states import DeviceState
from paceline.errors import ConfigError, DivergedError
from paceline.fleets.virtual import VirtualFleet
from paceline.learning import aggregation
from paceline.learning.aggregation import AGGREGATIONS, FedAdamAggregation, FedAvgAggregation, MedianAggregation
from paceline.learning.datasets import DataSpec
from paceline.learning.scores import Scores
from paceline.report import RunFolder
from paceline.topologies.base import Environment
from paceline.topologies.events import LearnerLeft
from paceline.topologies.job_files import parse_submitted
from paceline.topologies.parallel import events
from paceline.topologies.parallel.jobs import Pool
from paceline.topologies.parallel.prepared import prepare_job
from paceline.topologies.parallel.single_job import SingleJob
from tests.topologies.parallel.runs import ByHand, closed, device, of, paid_fleet, play, play_pool, small_job

OWN = Path(__file__).parents[2] / "learning/aggregation/own_methods.py"


def table(name, **fields):
    return {"method": name, **({"mu": 0.1} if name == "fedprox" else {}), **fields}


@pytest.mark.parametrize("name", AGGREGATIONS.members)
def test_every_method_learns(name):
    job = small_job(rounds=6, local_epochs=2, min_learners=3, aggregation=table(name))
    outcome, _ = play(job, [device(one) for one in "abc"])
    assert outcome.metrics["accuracy"] > 0.5


def test_the_default_is_the_average_by_samples_trained():
    """The same to the last bit, whatever it is called."""
    devices = [device("a", 200), device("b", 50)]
    default, named, equal = (
        play(small_job(min_learners=2, **changes), devices)[0].state
        for changes in ({}, {"aggregation": "fedavg"}, {"aggregation": {"weight": "equal"}})
    )
    assert all(tensor.equal(named[name]) for name, tensor in default.items())
    assert not all(tensor.equal(equal[name]) for name, tensor in default.items())


@pytest.mark.parametrize(("weight", "expected"), [("samples", 5 / 8), ("work", 11 / 14), ("equal", 1 / 2)])
def test_updates_count_by_what_the_job_says(weight, expected):
    """A learner that took 10 samples and trained them 1.1 times, and one that took 6, and trained them half."""
    by_hand = ByHand(local_epochs=2, aggregation={"weight": weight})
    sent = {name: vector + 1 for name, vector in by_hand.parameters.items()}

    async def main(orchestrator):
        one, two = await by_hand.take("a", 5), await by_hand.take("b", 3)
        await orchestrator.update(one, 1, sent, 11)
        await orchestrator.update(two, 1, by_hand.parameters, 3)
        await asyncio.sleep(0.1)
        return orchestrator.outcome.state

    state = by_hand.play(main)
    change = state["model.1.weight"] - by_hand.prepared.state["model.1.weight"]
    assert change.mean().item() == pytest.approx(expected, abs=1e-4)


def accuracy_with_two_of_seven_poisoned(method, factor):
    job = small_job(rounds=6, local_epochs=2, min_learners=7, aggregation=method, rolls_back=False)
    return play(job, [device("d", count=5), device("p", count=2, poison_factor=factor)])[0].metrics["accuracy"]


@pytest.mark.parametrize(
    "method",
    [
        {"method": "median"},
        {"method": "trimmed-mean", "trim": 0.3},
        {"method": "krum", "num_byzantine": 2},
        {"method": "multi-krum", "num_byzantine": 2},
    ],
    ids=str,
)
def test_robust_methods_withstand_poisoned_learners(method):
    """A robust method loses next to nothing to two of seven. `benchmarks/poisoning.py` is the same on MNIST."""
    clean, poisoned = (accuracy_with_two_of_seven_poisoned(method, factor) for factor in (1.0, -10.0))
    assert clean > 0.7
    assert poisoned > clean - 0.1


def test_an_average_does_not_withstand_poisoned_learners_without_its_limits():
    unlimited = {"clip": 0, "max_weight": 0}
    clean, poisoned = (accuracy_with_two_of_seven_poisoned(unlimited, factor) for factor in (1.0, -3.0))
    assert clean > 0.7
    assert poisoned < 0.3
    with pytest.raises(DivergedError):
        accuracy_with_two_of_seven_poisoned(unlimited, -10.0)


# Late updates.

DISCOUNT = FedAvgAggregation(late="discount")


def by_hand_with_a_late_one(**changes):
    """Learner "b" delivers a change of 0.01 to round 1 when round 2 is open; "a" delivers no change in each round."""
    by_hand = ByHand(rounds=3, min_learners=1, **{"aggregation": DISCOUNT, **changes})

    async def main(orchestrator):
        a, b = await by_hand.take("a"), await by_hand.take("b")
        start = by_hand.parameters
        await orchestrator.update(a, 1, start, 64)
        await asyncio.sleep(5)
        ticket = await orchestrator.next_round(a, 1, None)
        await orchestrator.take(a, ticket.round, 32)
        late = {name: vector + 0.01 for name, vector in start.items()}
        receipts = [await orchestrator.update(b, 1, late, 64) for _ in range(2)]
        await orchestrator.update(a, 2, start, 64)
        await asyncio.sleep(5)
        return receipts, orchestrator.outcome.state["model.1.weight"] - by_hand.prepared.state["model.1.weight"]

    return by_hand, *by_hand.play(main)


def test_a_late_update_counts_discounted_and_once():
    by_hand, receipts, change = by_hand_with_a_late_one()
    assert [receipt.is_accepted for receipt in receipts] == [True, False]
    assert change.mean().item() == pytest.approx(0.01 * 0.5 * 2**-0.5, rel=1e-4)  # half the weight, by (1 + 1) ** -0.5
    [kept], first, second = of(events.UpdateKept, by_hand.events), *closed(by_hand.events)[:2]
    assert (kept.round, kept.learner, kept.counts_in, kept.num_samples) == (1, "b", 2, 64)
    assert kept.part == pytest.approx(2**-0.5)
    assert (first.late, first.num_kept, second.num_kept, second.num_updates) == (("b",), 0, 1, 1)
    [refused] = of(events.UpdateRefused, by_hand.events)
    assert (refused.reason, refused.is_late) == ("round 1 is closed", False)


def test_late_updates_are_dropped_by_default():
    by_hand, receipts, change = by_hand_with_a_late_one(aggregation=FedAvgAggregation())
    assert [receipt.is_accepted for receipt in receipts] == [False, False]
    assert change.abs().max() == 0
    assert not of(events.UpdateKept, by_hand.events)
    assert [event.is_late for event in of(events.UpdateRefused, by_hand.events)] == [True, False]


def test_a_late_update_is_rebased_for_robust_methods_too():
    _, _, change = by_hand_with_a_late_one(aggregation=MedianAggregation(late="discount", staleness_exponent=1.0))
    assert change.mean().item() == pytest.approx(0.0025, rel=1e-4)


def late_by_hand(main, **changes):
    by_hand = ByHand(**{"rounds": 9, "min_learners": 1, "aggregation": DISCOUNT, **changes})
    return by_hand, by_hand.play(lambda orchestrator: main(by_hand, orchestrator))


@pytest.mark.parametrize(("factor", "num_samples", "reason"), [(float("nan"), 64, "NaN"), (1.0, 65, "impossible")])
def test_late_updates_are_validated(factor, num_samples, reason):
    async def main(by_hand, orchestrator):
        await by_hand.take("a")
        late = await by_hand.take("b")
        await asyncio.sleep(5)
        sent = {name: vector * factor for name, vector in by_hand.parameters.items()}
        return [await orchestrator.update(late, 1, sent, num_samples) for _ in range(2)]

    by_hand, receipts = late_by_hand(main)
    assert reason in receipts[0].reason
    assert receipts[1].reason == "round 1 is closed"  # no second try
    assert not of(events.UpdateKept, by_hand.events)


def test_updates_may_be_a_few_rounds_late():
    async def main(by_hand, orchestrator):
        late, other = await by_hand.take("b"), await by_hand.join("a")
        for number in range(1, 3):
            ticket = await orchestrator.next_round(other, number - 1, None)
            await orchestrator.take(other, ticket.round, 1)
            await asyncio.sleep(4)
        return await orchestrator.update(late, 1, by_hand.parameters, 64)

    by_hand, receipt = late_by_hand(main)
    assert receipt.is_accepted
    [kept] = of(events.UpdateKept, by_hand.events)
    assert (kept.counts_in, kept.part) == (3, pytest.approx(3**-0.5))


def test_what_comes_after_the_last_round_is_dropped():
    async def main(by_hand, orchestrator):
        late = await by_hand.take("b")
        await asyncio.sleep(5)
        return await orchestrator.update(late, 1, by_hand.parameters, 64)

    by_hand, receipt = late_by_hand(main, rounds=1)
    assert not receipt.is_accepted
    assert [event.is_late for event in of(events.UpdateRefused, by_hand.events)] == [True]


def late_job(**changes):
    return small_job(rounds=8, local_epochs=4, **{"aggregation": DISCOUNT, **changes})


def late_fleet(**changes):
    """The link of "b" is slow in every other round or so, and its uploads take longer than it expects."""
    states = (DeviceState(name="idle", probability=0.5), DeviceState(name="busy", probability=0.5, bandwidth=0.1))
    return [device("a"), device("b", up_mbit=0.6, states=states, **changes)]


def test_late_updates_count_on_virtual_time_and_the_report_says_so(tmp_path):
    ended = run.train(late_job(), VirtualFleet(late_fleet()), folder=tmp_path / "run")
    told = list(RunFolder.open(ended.folder).events())
    kept = of(events.UpdateKept, told)
    assert kept
    assert sum(event.num_kept for event in closed(told)) == len(kept)
    summary = ended.summary()
    assert summary.num_kept == len(kept)
    lines = [str(row) for row in summary.tables["happenings"].rows]
    assert any("counts in round 3, discounted to 70.7 %" in line for line in lines), lines
    outcomes = summary.tables["work"].values("outcome")
    assert outcomes.count("discounted") == len(kept)
    assert "counted later, discounted" in ended.report().read_text()


def test_late_updates_count_on_the_real_clock_also_while_a_round_closes():
    """Live, the model is tested in a thread, and updates come meanwhile."""
    job = small_job(rounds=2, deadline_seconds=0.3, aggregation=DISCOUNT, data=DataSpec(name="digits", shard_size=2))
    prepared, recorded, is_testing = prepare_job(job), [], threading.Event()

    def test_slowly(state):
        is_testing.set()
        time.sleep(0.3)
        return Scores(1.0, {})

    host = SingleJob(replace(prepared, evaluate=test_slowly), Environment(emit=recorded.append))
    start = prepared.model.parameters()

    async def main():
        running = asyncio.ensure_future(host.run(""))
        sessions = [(await host.join(name, paceline.__version__, 0.0)).session for name in "ab"]
        tickets = [await host.next_round(session, 0, None) for session in sessions]
        for session, ticket in zip(sessions, tickets, strict=True):
            await host.take(session, ticket.round, 8)
        await host.update(sessions[0], 1, start, 16)
        await asyncio.to_thread(is_testing.wait, 10)
        receipt = await host.update(sessions[1], 1, {name: vector + 1 for name, vector in start.items()}, 16)
        await host.next_round(sessions[0], 1, None)
        await asyncio.wait_for(running, 10)
        return receipt, host.outcome.state["model.1.weight"] - prepared.state["model.1.weight"]

    receipt, change = asyncio.run(main())
    assert receipt.is_accepted
    assert [(event.round, event.counts_in) for event in of(events.UpdateKept, recorded)] == [(1, 2)]
    assert [event.num_kept for event in closed(recorded)] == [0, 1]
    assert change.mean().item() == pytest.approx(2**-0.5, abs=1e-4)


def test_late_updates_are_audited():
    job = late_job(audit_rate=1.0)
    _, told = play(job, late_fleet())
    kept = {(event.round, event.learner) for event in of(events.UpdateKept, told)}
    audits = {(event.round, event.learner): event.is_honest for event in of(events.UpdateAudited, told)}
    assert kept and kept <= audits.keys()
    assert all(audits.values())
    _, told = play(job, late_fleet(skips=0.5))
    assert not [event for event in of(events.UpdateAudited, told) if event.learner == "b" and event.is_honest]
    assert "b" in {event.learner for event in of(LearnerLeft, told)}


def test_jobs_of_a_pool_have_methods_of_their_own():
    jobs = {"a": {"aggregation": "median"}, "b": {"aggregation": FedAdamAggregation(late="discount")}}
    played = play_pool(jobs, paid_fleet(4), is_time_only=False)
    assert all(len(played.of(events.RoundClosed, name)) == 3 for name in jobs)


# Resuming.


class Crash(Exception):
    """Ends the process, as it were."""


@pytest.mark.parametrize("name", AGGREGATIONS.members)
def test_a_resumed_run_goes_on_with_the_same_bits(name, tmp_path):
    job = small_job(rounds=6, aggregation=table(name))
    fleet = VirtualFleet([device("a", max_shards=2)])

    def crash(event):
        if isinstance(event, events.RoundOpened) and event.round == 5:
            raise Crash

    whole = run.train(job, fleet, folder=tmp_path / "whole")
    with pytest.raises(Crash):
        run.train(job, fleet, folder=tmp_path / "run", callbacks=[crash])
    ended = run.reopen(tmp_path / "run").start(fleet)
    assert all(ended.state[name].equal(tensor) for name, tensor in whole.state.items())
    files = {path.name for path in (ended.folder / "checkpoints").iterdir()}
    assert {f"round-0000{number}.safetensors" for number in (4, 5, 6)} <= files
    remembers = aggregation.from_config(table(name)).remembers
    assert len(files) == (7 if remembers else 4)  # old ones are removed with their rounds, but for the best


def test_a_lost_memory_is_no_quiet_start_from_nothing(tmp_path):
    job, fleet = small_job(rounds=2, aggregation="fedadam"), VirtualFleet([device("a", max_shards=2)])
    ended = run.train(job, fleet, folder=tmp_path / "run")
    lines = (ended.folder / "events.jsonl").read_text().splitlines(keepends=True)
    second = next(index for index, line in enumerate(lines) if '"round_opened"' in line and '"round":2' in line)
    (ended.folder / "events.jsonl").write_text("".join(lines[:second]))
    for number in (1, 2):
        (ended.folder / f"checkpoints/round-0000{number}.aggregation.safetensors").unlink()
    with pytest.raises(ConfigError, match="no round is whole, .*aggregation.safetensors: cannot be read as a checkpo"):
        run.reopen(tmp_path / "run")


# Methods of a user's own.


def test_a_method_of_a_users_own_trains_and_resumes(tmp_path):
    job = small_job(rounds=2, aggregation={"method": f"{OWN}:PartOfTheWay", "part": 0.5})
    ended = run.train(job, VirtualFleet([device("a")]), folder=tmp_path / "run")
    plain = run.train(small_job(rounds=2), VirtualFleet([device("a")]), folder=tmp_path / "plain")
    assert not torch.equal(ended.state["model.1.weight"], plain.state["model.1.weight"])
    assert RunFolder.open(ended.folder).settings["aggregation"]["method"] == f"{OWN}:PartOfTheWay"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (
            {},
            "aggregation Broken: it returned parameters that do not fit the model: "
            "parameters ['model.1.bias'] are missing",
        ),
        (
            {"is_nan": True},
            "aggregation Broken: its parameters after round 1 are of no use: float32 holds NaN or infinity",
        ),
    ],
)
def test_a_broken_method_is_named(fields, reason):
    with pytest.raises(ConfigError) as caught:
        play(small_job(aggregation={"method": f"{OWN}:Broken", **fields}), [device("a")])
    assert str(caught.value) == reason


def test_submitted_jobs_load_no_method():
    tables = {"job": {"name": "x", "deadline_seconds": 1}, "aggregation": {"method": f"{OWN}:PartOfTheWay"}}
    with pytest.raises(ConfigError, match=r"\[aggregation\] method: a submitted job cannot load files"):
        parse_submitted(tables, Pool)
    tables["aggregation"] = {"method": "median"}
    assert parse_submitted(tables, Pool).aggregation == MedianAggregation()
