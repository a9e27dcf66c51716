"""Pools on virtual time: several jobs, one crowd of learners, money."""

import itertools

import msgspec
import pytest

from paceline.allocation import MedAllocation, MmttAllocation
from paceline.allocation.med.limit import Limit
from paceline.devices.states import DeviceState
from paceline.errors import ConfigError
from paceline.topologies.events import LearnerLeft
from paceline.topologies.multitask import Pool, PoolSpec
from paceline.topologies.parallel.events import (
    JobEnded,
    JobsAllocated,
    JobSubmitted,
    LearnerPaid,
    RoundClosed,
    RoundOpened,
    ShardsAdded,
    UpdateAccepted,
)
from paceline.topologies.parallel.messages import Standing
from tests.topologies.multitask.pools import TABLES, device, fleet, play

THREE = {"a": {}, "b": {"rounds": 5}, "c": {"local_epochs": 2}}


def check_books(pool, told, jobs):
    """The ledger adds up to what was accepted, learner by learner, and never to more than there is."""
    lines = told.of(LearnerPaid)
    for name in jobs:
        accepted = {(event.round, event.learner): event.num_samples for event in told.of(UpdateAccepted, name)}
        assert {
            (line.round, line.learner): line.num_samples for line in lines if line.job == name and line.num_samples
        } == accepted
    assert all(line.amount == pytest.approx(line.shards * line.price) for line in lines)
    assert all(0 <= line.shards <= line.num_shards for line in lines)
    assert pool.ledger.spent == pytest.approx(sum(line.amount for line in lines))
    assert pool.ended.spent == pool.ledger.spent


@pytest.mark.parametrize(
    "policy", [MedAllocation(), MmttAllocation(knowledge="uncertain"), MmttAllocation(knowledge="ideal")]
)
def test_all_jobs_end_and_the_books_are_in_order(policy):
    pool, told = play(THREE, fleet(6), policy=policy)
    ends = {event.job: (event.reason, event.rounds) for event in told.of(JobEnded)}
    assert ends == {"a": ("rounds done", 3), "b": ("rounds done", 5), "c": ("rounds done", 3)}
    check_books(pool, told, THREE)
    for allocated in told.of(JobsAllocated):
        shards = {}
        for job, num_shards in allocated.placements.values():
            shards[job] = shards.get(job, 0) + num_shards
        assert set(shards.values()) == {23}  # all of the digits, in shards of 64
        assert allocated.bound <= allocated.expected_seconds * (1 + 1e-9)


def test_a_learner_is_in_one_job_at_a_time():
    _, told = play(THREE, fleet(5))
    stretches = []
    for name in THREE:
        opened = {event.round: event.at for event in told.of(RoundOpened, name)}
        for event in told.of(UpdateAccepted, name):
            stretches.append((event.learner, opened[event.round], event.at))
    for learner, of_learner in itertools.groupby(sorted(stretches), key=lambda stretch: stretch[0]):
        times = [(start, end) for _, start, end in of_learner]
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(times)), learner


def test_with_ideal_knowledge_rounds_take_what_was_foreseen():
    _, told = play(THREE, fleet(6), policy=MmttAllocation(knowledge="ideal"))
    allocated, seconds = told.of(JobsAllocated), [0.0] * 3
    for name in THREE:
        for event in told.of(RoundClosed, name)[:3]:
            seconds[event.round - 1] += event.seconds
    assert seconds == pytest.approx([event.expected_seconds for event in allocated[:3]], rel=0.01)


def test_the_same_seed_gives_the_same_run_however_slow_the_machine_is(monkeypatch):
    """Each look at the solver's clock takes an hour the second time; placings end after so many steps both times."""
    policy = MedAllocation(max_steps=3)
    first = play(THREE, fleet(6), policy=policy)[1]
    assert any(event.bound < 0.99 * event.expected_seconds for event in first.of(JobsAllocated))
    hours = itertools.count(step=3600.0)
    monkeypatch.setitem(Limit.__init__.__kwdefaults__, "clock", lambda: next(hours))
    second = play(THREE, fleet(6), policy=policy)[1]
    assert first.pool == second.pool
    assert first.jobs == second.jobs


def test_learners_of_a_job_that_is_over_move_to_others():
    _, told = play({"short": {"rounds": 1}, "long": {"rounds": 4}}, fleet(4))
    first, last = told.of(JobsAllocated)[0], told.of(JobsAllocated)[-1]
    assert {job for job, _ in first.placements.values()} == {"short", "long"}
    assert {job for job, _ in last.placements.values()} == {"long"}
    assert len(last.placements) == 4
    closed = told.of(RoundClosed, "long")
    assert closed[-1].seconds < 0.75 * closed[0].seconds


def test_learners_stay_where_they_are_if_so_told():
    _, told = play({"short": {"rounds": 1}, "long": {"rounds": 4}}, fleet(4), moves_learners=False)
    assert len(told.of(JobsAllocated)) == 1
    assert [event.job for event in told.of(JobEnded)] == ["short", "long"]


def held(value):
    return MedAllocation(held_back=value, budget=80.0)


def test_shards_that_are_held_back_go_to_whoever_is_done_first():
    """One device is four times slower every other round: then its mate does most of the work."""
    busy = DeviceState(name="training", probability=0.5, speed=0.25)
    moody = (DeviceState(name="idle", probability=0.5), busy)
    devices = [device("steady", 300, states=()), device("moody", 300, states=moody)]
    plain, shared = (play({"a": {"rounds": 12}}, devices, policy=held(value))[1] for value in (0.0, 0.5))
    mean = [sum(event.seconds for event in told.of(RoundClosed, "a")) / 12 for told in (plain, shared)]
    assert mean[1] < 0.9 * mean[0]
    assert all(event.fulfilment == 1 and event.num_shards == 23 for event in shared.of(RoundClosed, "a"))
    assert shared.of(ShardsAdded, "a")
    assert not plain.of(ShardsAdded, "a")


def test_the_books_are_in_order_also_with_shards_held_back():
    pool, told = play(THREE, fleet(6), policy=held(0.5), total_budget=700.0)
    check_books(pool, told, THREE)
    assert pool.ledger.spent <= 700.0
    for allocated in told.of(JobsAllocated):
        assert allocated.cost <= 80.0
    for name in THREE:
        for number in range(1, 4):
            paid = [line.amount for line in told.of(LearnerPaid) if (line.job, line.round) == (name, number)]
            assert sum(paid) <= 80.0


def test_a_job_that_is_submitted_in_mid_run_is_trained():
    async def submit(pool):
        assert await pool.submit(TABLES) == "later"
        with pytest.raises(ValueError, match="there is a job 'later' in this pool already"):
            await pool.submit(TABLES)

    pool, told = play({"a": {"rounds": 6}}, fleet(4), guest=submit, at_seconds=25.0)
    [later] = [event for event in told.of(JobSubmitted) if event.job == "later"]
    assert later.at == pytest.approx(25.0)
    assert {event.job: event.rounds for event in told.of(JobEnded)} == {"a": 6, "later": 2}
    shared = [event for event in told.of(JobsAllocated) if len({job for job, _ in event.placements.values()}) == 2]
    assert shared, "they were trained side by side"
    check_books(pool, told, ("a", "later"))


def test_a_learner_that_dies_is_done_without():
    jobs = {"a": {"rounds": 5}, "b": {"rounds": 5}}
    _, told = play(jobs, [*fleet(4), device("mortal", 400)])
    job, _ = told.of(JobsAllocated)[0].placements["mortal"]
    dies_at = told.of(RoundOpened, job)[1].at + 0.5
    pool, told = play(jobs, [*fleet(4), device("mortal", 400, dies_at_seconds=dies_at)])
    assert {event.job: event.rounds for event in told.of(JobEnded)} == {"a": 5, "b": 5}
    assert "mortal" not in told.of(JobsAllocated)[-1].placements
    [late] = [event for name in "ab" for event in told.of(RoundClosed, name) if "mortal" in event.late]
    assert late.round == 2
    assert late.fulfilment < 1
    assert not late.is_satisfied
    assert [(event.learner, event.reason) for event in told.of(LearnerLeft)] == [("mortal", "nothing was heard of it")]
    check_books(pool, told, "ab")


def test_a_learner_that_comes_later_is_placed_too():
    devices = [*fleet(2), device("newcomer", 400, joins_at_seconds=40.0)]
    _, told = play({"a": {"rounds": 15, "deadline_seconds": 30.0}}, devices, min_learners=2)
    sizes = [len(event.placements) for event in told.of(JobsAllocated)]
    assert (sizes[0], sizes[-1]) == (2, 3)


def test_jobs_wait_if_there_are_fewer_learners():
    _, told = play({"first": {}, "second": {}}, fleet(1))
    allocated = told.of(JobsAllocated)
    assert allocated[0].waiting == ("second",)
    assert [event.job for event in told.of(JobEnded)] == ["first", "second"]


def test_what_had_to_be_given_up_is_told_and_learners_halt_in_time():
    _, told = play({"a": {"deadline_seconds": 1.5, "local_epochs": 3}}, fleet(3))
    assert set(told.of(JobsAllocated)[0].waived) == {"min_shards", "deadlines"}
    for event in told.of(RoundClosed, "a"):
        assert event.seconds <= 1.5
        assert 0 < event.fulfilment < 1
        assert not event.is_satisfied
        assert 0 < event.occupancy <= 1


def test_the_budget_of_a_round_is_kept():
    dear, cheap = [device(f"dear-{n}", 400, price=3.0) for n in range(2)], [device(f"cheap-{n}", 150) for n in range(3)]
    rules = {"a": {"deadline_seconds": 60.0}, "b": {"deadline_seconds": 60.0}}
    pool, told = play(rules, [*dear, *cheap], policy=MedAllocation(budget=60.0, min_shards=0))
    assert all(event.cost <= 60.0 for event in told.of(JobsAllocated))
    assert told.of(JobsAllocated)[0].cost > 46.0  # those alone that are cheap would cost less, and take longer
    check_books(pool, told, "ab")


def test_nothing_is_paid_beyond_the_total_budget():
    pool, told = play({"a": {"rounds": 9}, "b": {"rounds": 9}}, fleet(4), total_budget=100.0)
    assert pool.ledger.spent <= 100.0
    assert pool.ledger.spent > 100.0 - 2 * 23
    ends = {event.job: event.reason for event in told.of(JobEnded)}
    assert "budget spent" in ends.values()
    check_books(pool, told, "ab")


def test_budget_for_nothing_ends_at_once():
    pool, told = play({"a": {}}, fleet(2), total_budget=1.0)
    assert pool.ledger.spent == 0
    assert [(event.job, event.reason, event.rounds) for event in told.of(JobEnded)] == [("a", "budget spent", 0)]


def test_states_are_learned_where_nobody_knows_them(monkeypatch):
    told_by = {}
    plain = Pool.declare

    async def declare(self, session: str, standing: Standing) -> None:
        told_by.setdefault(self._roster.find(session).name, []).append([one.probability for one in standing.outlook])
        await plain(self, session, standing)

    monkeypatch.setattr(Pool, "declare", declare)
    play({"a": {"rounds": 40, "deadline_seconds": 30.0}}, fleet(3, are_states_known=False))
    for history in told_by.values():
        assert history[0] == pytest.approx([1 / 3] * 3)
        assert history[-1] == pytest.approx([0.6, 0.25, 0.15], abs=0.2)


def test_learners_are_placed_anew_when_their_states_prove_to_be_others():
    """Two devices are alike but for a state that is nearly always on in one of them, which nobody knew."""
    rarely, mostly = (
        (DeviceState(name="idle", probability=1 - p), DeviceState(name="training", probability=p, speed=0.25))
        for p in (0.02, 0.98)
    )
    devices = [device("free", 300, states=rarely), device("busy", 300, states=mostly)]
    devices = [msgspec.structs.replace(one, are_states_known=False) for one in devices]
    _, told = play({"a": {"rounds": 12, "deadline_seconds": 30.0}}, devices)
    first, *_, last = told.of(JobsAllocated)
    assert abs(first.placements["free"][1] - first.placements["busy"][1]) <= 1
    assert last.placements["free"][1] > 1.8 * last.placements["busy"][1]
    assert len(told.of(JobsAllocated)) < 8  # not after each round


def test_real_training_works_in_all_jobs():
    pool, told = play({"a": {"rounds": 8}, "b": {"rounds": 8, "local_epochs": 2}}, fleet(4), is_time_only=False)
    accuracies = {event.job: event.accuracy for event in told.of(JobEnded)}
    assert min(accuracies.values()) > 0.8
    assert set(pool.courses) == {"a", "b"}


def test_a_model_that_is_too_large_for_the_pool_is_refused():
    with pytest.raises(ConfigError, match="the model has 2000 bytes; this pool allows 1000"):
        PoolSpec(max_model_bytes=1000).check_size(2000)
