"""Pools on virtual time: several jobs, one crowd of learners, money."""

import itertools

import msgspec
import pytest

from paceline.allocation import MedAllocation, MmttAllocation
from paceline.allocation.med.limit import Limit
from paceline.devices.states import DeviceState
from paceline.errors import ConfigError
from paceline.topologies.events import LearnerLeft
from paceline.topologies.parallel import events
from paceline.topologies.parallel.jobs import Pool
from paceline.topologies.parallel.messages import Declaration
from paceline.topologies.parallel.pool import JobPool
from tests.topologies.parallel.runs import paid_device, paid_fleet, play_pool

LATER = {
    "job": {"name": "later", "deadline_seconds": 20, "rounds": 2, "benchmark_shards": 2},
    "data": {"name": "digits", "shard_size": 64},
}
THREE = {"a": {}, "b": {"rounds": 5}, "c": {"local_epochs": 2}}


def check_books(run, jobs):
    """The ledger adds up to what was accepted, learner by learner, and never to more than there is."""
    lines = run.of(events.LearnerPaid)
    for name in jobs:
        accepted = {(event.round, event.learner): event.num_samples for event in run.of(events.UpdateAccepted, name)}
        paid = [line for line in lines if line.job == name and line.num_samples]
        assert {(line.round, line.learner): line.num_samples for line in paid} == accepted
    assert all(line.amount == pytest.approx(line.shards * line.price) for line in lines)
    assert all(0 <= line.shards <= line.num_shards for line in lines)
    assert run.host.ledger.spent == pytest.approx(sum(line.amount for line in lines))
    assert run.of(events.PoolEnded)[0].spent == run.host.outcome.metrics["spent"] == run.host.ledger.spent


def check_one_job_at_a_time(run, jobs):
    times = {}
    for name in jobs:
        opened = {event.round: event.at for event in run.of(events.RoundOpened, name)}
        for event in run.of(events.UpdateAccepted, name):
            times.setdefault(event.learner, []).append((opened[event.round], event.at))
    for learner, stretches in times.items():
        pairs = itertools.pairwise(sorted(stretches))
        assert all(end <= start for (_, end), (start, _) in pairs), learner


@pytest.mark.parametrize(
    "policy", [MedAllocation(), MmttAllocation(knowledge="uncertain"), MmttAllocation(knowledge="ideal")]
)
def test_all_jobs_end_and_the_books_are_in_order(policy):
    run = play_pool(THREE, paid_fleet(6), policy=policy)
    ends = {event.job: (event.reason, event.rounds) for event in run.of(events.JobEnded)}
    assert ends == {"a": ("rounds done", 3), "b": ("rounds done", 5), "c": ("rounds done", 3)}
    check_books(run, THREE)
    check_one_job_at_a_time(run, THREE)
    for allocated in run.of(events.JobsAllocated):
        shards = {}
        for job, num_shards in allocated.placements.values():
            shards[job] = shards.get(job, 0) + num_shards
        assert set(shards.values()) == {23}  # all of the digits, in shards of 64
        assert allocated.bound <= allocated.expected_seconds * (1 + 1e-9)


def test_with_ideal_knowledge_rounds_take_what_was_foreseen():
    run = play_pool(THREE, paid_fleet(6), policy=MmttAllocation(knowledge="ideal"))
    allocated, seconds = run.of(events.JobsAllocated), [0.0] * 3
    for name in THREE:
        for event in run.of(events.RoundClosed, name)[:3]:
            seconds[event.round - 1] += event.seconds
    assert seconds == pytest.approx([event.expected_seconds for event in allocated[:3]], rel=0.01)


def test_the_same_seed_gives_the_same_run_however_slow_the_machine_is(monkeypatch):
    """Each look at the solver's clock takes an hour the second time; placings end after so many steps both times."""
    policy = MedAllocation(max_steps=3)
    first = play_pool(THREE, paid_fleet(6), policy=policy)
    assert any(event.bound < 0.99 * event.expected_seconds for event in first.of(events.JobsAllocated))
    hours = itertools.count(step=3600.0)
    monkeypatch.setitem(Limit.__init__.__kwdefaults__, "clock", lambda: next(hours))
    second = play_pool(THREE, paid_fleet(6), policy=policy)
    assert first.pool == second.pool
    assert first.jobs == second.jobs


def test_learners_of_a_job_that_is_over_move_to_others_if_they_may():
    jobs = {"short": {"rounds": 1}, "long": {"rounds": 4}}
    run = play_pool(jobs, paid_fleet(4))
    first, last = run.of(events.JobsAllocated)[0], run.of(events.JobsAllocated)[-1]
    assert {job for job, _ in first.placements.values()} == {"short", "long"}
    assert {job for job, _ in last.placements.values()} == {"long"}
    assert len(last.placements) == 4
    closed = run.of(events.RoundClosed, "long")
    assert closed[-1].seconds < 0.75 * closed[0].seconds
    run = play_pool(jobs, paid_fleet(4), moves_learners=False)
    assert len(run.of(events.JobsAllocated)) == 1
    assert [event.job for event in run.of(events.JobEnded)] == ["short", "long"]


def test_shards_that_are_held_back_go_to_whoever_is_done_first():
    """One device is four times slower every other round: then the other does most of the work."""
    busy = DeviceState(name="training", probability=0.5, speed=0.25)
    moody = (DeviceState(name="idle", probability=0.5), busy)
    devices = [paid_device("steady", 300, states=()), paid_device("moody", 300, states=moody)]
    policies = [MedAllocation(held_back=ratio, budget=80.0) for ratio in (0.0, 0.5)]
    plain, shared = (play_pool({"a": {"rounds": 12}}, devices, policy=policy) for policy in policies)
    mean = [sum(event.seconds for event in run.of(events.RoundClosed, "a")) / 12 for run in (plain, shared)]
    assert mean[1] < 0.9 * mean[0]
    assert all(event.fulfilment == 1 and event.num_shards == 23 for event in shared.of(events.RoundClosed, "a"))
    assert shared.of(events.ShardsAdded, "a")
    assert not plain.of(events.ShardsAdded, "a")


def test_no_portion_of_what_is_held_back_is_lost_with_an_answer():
    """Before, whoever asked again got the next portion, and nobody trained the one that was lost on its way."""
    devices = [paid_device(name, 300, packet_loss=0.3, states=()) for name in ("a", "b")]
    run = play_pool({"a": {"rounds": 6}}, devices, policy=MedAllocation(held_back=0.5, budget=80.0))
    assert len(run.of(events.ShardsAdded, "a")) > 6
    closed = run.of(events.RoundClosed, "a")
    assert [event.fulfilment for event in closed if not event.late] == [1.0] * len([e for e in closed if not e.late])
    assert any(not event.late for event in closed)


def test_the_books_are_in_order_also_with_shards_held_back():
    run = play_pool(THREE, paid_fleet(6), policy=MedAllocation(held_back=0.5, budget=80.0), total_budget=700.0)
    check_books(run, THREE)
    assert run.host.ledger.spent <= 700.0
    for allocated in run.of(events.JobsAllocated):
        assert allocated.cost <= 80.0
    for name in THREE:
        for number in range(1, 4):
            paid = [line.amount for line in run.of(events.LearnerPaid) if (line.job, line.round) == (name, number)]
            assert sum(paid) <= 80.0


def test_a_job_that_is_submitted_in_mid_run_is_trained():
    async def submit(pool):
        assert await pool.submit(LATER) == "later"
        with pytest.raises(ValueError, match="there is a job 'later' in this pool already"):
            await pool.submit(LATER)

    run = play_pool({"a": {"rounds": 6}}, paid_fleet(4), visit=submit, at_seconds=25.0)
    [later] = [event for event in run.of(events.JobSubmitted) if event.job == "later"]
    assert later.at == pytest.approx(25.0)
    assert {event.job: event.rounds for event in run.of(events.JobEnded)} == {"a": 6, "later": 2}
    placed = [{job for job, _ in event.placements.values()} for event in run.of(events.JobsAllocated)]
    assert {"a", "later"} in placed  # side by side
    check_books(run, ("a", "later"))


def test_a_learner_that_dies_is_done_without():
    jobs = {"a": {"rounds": 5}, "b": {"rounds": 5}}
    run = play_pool(jobs, [*paid_fleet(4), paid_device("mortal", 400)])
    job, _ = run.of(events.JobsAllocated)[0].placements["mortal"]
    dies_at = run.of(events.RoundOpened, job)[1].at + 0.5
    run = play_pool(jobs, [*paid_fleet(4), paid_device("mortal", 400, dies_at_seconds=dies_at)])
    assert {event.job: event.rounds for event in run.of(events.JobEnded)} == {"a": 5, "b": 5}
    assert "mortal" not in run.of(events.JobsAllocated)[-1].placements
    [late] = [event for name in "ab" for event in run.of(events.RoundClosed, name) if "mortal" in event.late]
    assert late.round == 2
    assert late.fulfilment < 1
    assert not late.is_satisfied
    assert [(event.learner, event.reason) for event in run.of(LearnerLeft)] == [("mortal", "nothing was heard of it")]
    check_books(run, "ab")


def test_a_learner_that_comes_later_is_placed_and_jobs_wait_if_there_are_fewer_learners():
    devices = [*paid_fleet(2), paid_device("newcomer", 400, joins_at_seconds=40.0)]
    run = play_pool({"a": {"rounds": 15, "deadline_seconds": 30.0}}, devices, min_learners=2)
    sizes = [len(event.placements) for event in run.of(events.JobsAllocated)]
    assert (sizes[0], sizes[-1]) == (2, 3)
    run = play_pool({"first": {}, "second": {}}, paid_fleet(1))
    assert run.of(events.JobsAllocated)[0].waiting == ("second",)
    assert [event.job for event in run.of(events.JobEnded)] == ["first", "second"]


def test_what_had_to_be_given_up_is_recorded_and_learners_halt_in_time():
    run = play_pool({"a": {"deadline_seconds": 1.5, "local_epochs": 3}}, paid_fleet(3))
    assert set(run.of(events.JobsAllocated)[0].waived) == {"min_shards", "deadlines"}
    for event in run.of(events.RoundClosed, "a"):
        assert event.seconds <= 1.5
        assert 0 < event.fulfilment < 1
        assert not event.is_satisfied
        assert 0 < event.occupancy <= 1


def test_the_budget_of_a_round_is_kept():
    dear = [paid_device(f"dear-{n}", 400, price=3.0) for n in range(2)]
    cheap = [paid_device(f"cheap-{n}", 150) for n in range(3)]
    rules = {"a": {"deadline_seconds": 60.0}, "b": {"deadline_seconds": 60.0}}
    run = play_pool(rules, [*dear, *cheap], policy=MedAllocation(budget=60.0, min_shards=0))
    assert all(event.cost <= 60.0 for event in run.of(events.JobsAllocated))
    assert run.of(events.JobsAllocated)[0].cost > 46.0  # those alone that are cheap would cost less, and take longer
    check_books(run, "ab")


def test_nothing_is_paid_beyond_the_total_budget():
    run = play_pool({"a": {"rounds": 9}, "b": {"rounds": 9}}, paid_fleet(4), total_budget=100.0)
    assert 100.0 - 2 * 23 < run.host.ledger.spent <= 100.0
    assert "budget spent" in [event.reason for event in run.of(events.JobEnded)]
    check_books(run, "ab")
    run = play_pool({"a": {}}, paid_fleet(2), total_budget=1.0)  # enough for nothing
    assert run.host.ledger.spent == 0
    assert [(event.job, event.reason, event.rounds) for event in run.of(events.JobEnded)] == [("a", "budget spent", 0)]


def test_states_are_learned_where_nobody_knows_them(monkeypatch):
    declared = {}
    plain = JobPool.declare

    async def declare(self, session: str, declaration: Declaration) -> None:
        probabilities = [one.probability for one in declaration.outlook]
        declared.setdefault(self._roster.find(session).name, []).append(probabilities)
        await plain(self, session, declaration)

    monkeypatch.setattr(JobPool, "declare", declare)
    play_pool({"a": {"rounds": 40, "deadline_seconds": 30.0}}, paid_fleet(3, are_states_known=False))
    for history in declared.values():
        assert history[0] == pytest.approx([1 / 3] * 3)
        assert history[-1] == pytest.approx([0.6, 0.25, 0.15], abs=0.2)


def test_learners_are_placed_anew_when_their_states_prove_to_be_others():
    """Two devices are alike but for a state that is nearly always on in one of them, which nobody knew."""
    rarely, mostly = (
        (DeviceState(name="idle", probability=1 - p), DeviceState(name="training", probability=p, speed=0.25))
        for p in (0.02, 0.98)
    )
    devices = [paid_device("free", 300, states=rarely), paid_device("busy", 300, states=mostly)]
    devices = [msgspec.structs.replace(one, are_states_known=False) for one in devices]
    run = play_pool({"a": {"rounds": 12, "deadline_seconds": 30.0}}, devices)
    first, *_, last = run.of(events.JobsAllocated)
    assert abs(first.placements["free"][1] - first.placements["busy"][1]) <= 1
    assert last.placements["free"][1] > 1.8 * last.placements["busy"][1]
    assert len(run.of(events.JobsAllocated)) < 8  # not after each round


def test_real_training_works_in_all_jobs():
    run = play_pool({"a": {"rounds": 8}, "b": {"rounds": 8, "local_epochs": 2}}, paid_fleet(4), is_time_only=False)
    accuracies = {event.job: event.metrics["accuracy"] for event in run.of(events.JobEnded)}
    assert min(accuracies.values()) > 0.8
    assert {name: one.metrics["accuracy"] for name, one in run.host.outcome.jobs.items()} == accuracies


def test_a_model_that_is_too_large_for_the_pool_is_refused():
    with pytest.raises(ConfigError, match="the model has 2000 bytes; this pool allows 1000"):
        Pool(max_model_bytes=1000).check_size(2000)
