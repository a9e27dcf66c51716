"""What goes wrong in one job of a pool, or in the solver, and that the other jobs and the learners go on."""

import math

import pytest

from paceline.allocation import MedAllocation
from paceline.allocation.pool import PoolPolicy
from paceline.errors import DivergedError, PacelineError
from paceline.topologies.parallel import events
from paceline.topologies.parallel.learner import Learner
from tests.topologies.parallel.runs import PoolRun, paid_device, paid_fleet, play_pool

HOPELESS = {"deadline_seconds": 1e-4}  # not even with 256 times as much


def ends(run):
    return {event.job: (event.reason, event.rounds) for event in run.of(events.JobEnded)}


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_job_that_nobody_can_do_ends_alone(place):
    names = ["a", "b"]
    names.insert(place, "hopeless")
    jobs = {name: HOPELESS if name == "hopeless" else {} for name in names}
    run = play_pool(jobs, paid_fleet(4))
    assert ends(run) == {"a": ("rounds done", 3), "b": ("rounds done", 3), "hopeless": ("infeasible", 0)}
    assert list(ends(run))[-1] == "hopeless"  # it waits as long as there is something else to do
    first = run.of(events.JobsAllocated)[0]
    assert (first.waiting, {job for job, _ in first.placements.values()}) == (("hopeless",), {"a", "b"})
    assert "all learners together can do 0 of its 23 shards" in first.hindered["hopeless"]
    [ended] = [event for event in run.of(events.JobEnded) if event.job == "hopeless"]
    assert "all learners together can do 0" in ended.detail


def test_a_job_that_is_too_dear_waits_and_a_cheaper_one_that_came_later_goes_on():
    """A round of the large job costs 92, and a budget of 60 is enough for one of the small."""
    large = {"deadline_seconds": 60.0, "data": {"name": "digits", "shard_size": 16}}
    run = play_pool({"large": large, "small": {}}, paid_fleet(3), policy=MedAllocation(budget=60.0))
    assert ends(run) == {"small": ("rounds done", 3), "large": ("infeasible", 0)}
    assert "budget, 60, is at least" in run.of(events.JobsAllocated)[0].hindered["large"]


def test_a_job_waits_for_a_learner_that_can_do_it():
    slow = paid_device("slow", 0.05, states=())  # measures itself for an hour or two
    fast = paid_device("fast", 400, joins_at_seconds=20_000.0)
    run = play_pool({"a": {}}, [slow, fast], min_learners=1, patience_seconds=30_000.0)
    assert ends(run) == {"a": ("rounds done", 3)}
    assert run.of(events.JobsAllocated)[0].hindered.keys() == {"a"}
    assert {name for event in run.of(events.JobsAllocated) for name in event.placements} == {"fast"}


def test_a_pool_in_which_no_job_could_be_done_fails_and_says_why():
    with pytest.raises(PacelineError, match="only: task 'only': all learners together can do 0 of its 23 shards"):
        play_pool({"only": HOPELESS}, paid_fleet(2))


class FailingPolicy(MedAllocation):
    """Solves the first so many problems."""

    num_solved = 1
    calls = 0

    def assign(self, demands, budget=None):
        type(self).calls += 1
        if type(self).calls > self.num_solved:
            raise ZeroDivisionError("float division by zero")
        return super().assign(demands, budget)


@pytest.mark.parametrize("num_solved", [0, 1])
def test_where_the_solver_fails_learners_stay_where_they_are_or_do_one_job(num_solved, monkeypatch):
    monkeypatch.setattr(FailingPolicy, "calls", 0)
    monkeypatch.setattr(FailingPolicy, "num_solved", num_solved)
    run = play_pool({"a": {}, "b": {"rounds": 5}}, paid_fleet(4), policy=FailingPolicy(), total_budget=1000.0)
    assert ends(run) == {"a": ("rounds done", 3), "b": ("rounds done", 5)}
    allocated = run.of(events.JobsAllocated)
    failures = [event.failure for event in allocated]
    assert failures == [""] * num_solved + ["ZeroDivisionError: float division by zero"] * (len(failures) - num_solved)
    assert len(failures) > num_solved
    jobs = [{job for job, _ in event.placements.values()} for event in allocated]
    assert jobs[:2] == ([{"a", "b"}, {"b"}] if num_solved else [{"a"}, {"b"}])
    assert all(event.cost <= 1000.0 for event in allocated)


def test_no_more_is_placed_without_a_solver_than_can_be_paid(monkeypatch):
    monkeypatch.setattr(PoolPolicy, "assign", lambda *arguments: 1 / 0)
    devices = [paid_device("dear", 400, price=5.0), paid_device("cheap", 100)]
    run = play_pool({"a": {"deadline_seconds": 60.0}}, devices, policy=MedAllocation(budget=20.0))
    assert ends(run) == {"a": ("rounds done", 3)}
    assert all(0 < event.cost <= 20.0 for event in run.of(events.JobsAllocated))


def cancelling(name, *, times=1):
    async def cancel(pool):
        for _ in range(times):
            progress = await pool.cancel(name)
            assert (progress.job, progress.status, progress.reason) == (name, "over", "cancelled")

    return cancel


@pytest.mark.parametrize("at_seconds", [1.0, 18.0, 24.0])  # while learners measure themselves, and in open rounds
def test_a_job_that_is_cancelled_ends_and_its_learners_go_on_with_others(at_seconds):
    run = play_pool(
        {"a": {"rounds": 50}, "b": {"rounds": 8}}, paid_fleet(4), visit=cancelling("a"), at_seconds=at_seconds
    )
    reasons = {event.job: event for event in run.of(events.JobEnded)}
    assert (reasons["a"].reason, reasons["b"].reason) == ("cancelled", "rounds done")
    assert reasons["a"].at < at_seconds + 1
    assert {job for job, _ in run.of(events.JobsAllocated)[-1].placements.values()} == {"b"}
    assert len(run.of(events.JobsAllocated)[-1].placements) == 4
    closed = [event.round for event in run.of(events.RoundClosed, "a")]
    assert closed == list(range(1, reasons["a"].rounds + 1))
    paid = sum(line.amount for line in run.of(events.LearnerPaid))
    assert run.of(events.PoolEnded)[0].spent == pytest.approx(paid)


def test_only_jobs_that_are_there_can_be_cancelled():
    async def cancel(pool):
        with pytest.raises(LookupError, match="there is no job 'c' in this pool"):
            await pool.cancel("c")
        await pool.cancel("a")
        with pytest.raises(ValueError, match="job 'a' is over already: cancelled"):
            await pool.cancel("a")

    run = play_pool({"a": {}, "b": {}}, paid_fleet(2), visit=cancel, at_seconds=20.0)
    assert ends(run)["b"] == ("rounds done", 3)


def test_a_pool_whose_jobs_are_all_cancelled_waits_for_nobody():
    late = paid_device("late", 200, joins_at_seconds=10_000.0)
    run = play_pool({"a": {}}, [late], visit=cancelling("a"), at_seconds=5.0)
    assert ends(run) == {"a": ("cancelled", 0)}
    assert run.of(events.PoolEnded)[0].at == pytest.approx(5.0)


def failing_in(monkeypatch, job, error, *, learners=None, at="train"):
    """Have learners fail in a job, in training or as they enrol."""
    trained, enrolled = Learner._train, Learner._enrol_in

    async def train(self, enrolment, *arguments):
        if at == "train" and enrolment.offer.training.name == job and (learners is None or self._name in learners):
            raise error
        return await trained(self, enrolment, *arguments)

    async def enrol(self, offer):
        if at == "enrol" and offer.training.name == job and (learners is None or self._name in learners):
            raise error
        await enrolled(self, offer)

    monkeypatch.setattr(Learner, "_train", train)
    monkeypatch.setattr(Learner, "_enrol_in", enrol)


@pytest.mark.parametrize("at", ["train", "enrol"])
@pytest.mark.parametrize("error", [MemoryError("cannot allocate 8 GB"), ValueError("bad\nloss")], ids=repr)
def test_a_job_that_no_learner_can_train_costs_them_that_job_only(at, error, monkeypatch):
    failing_in(monkeypatch, "bad", error, at=at)
    run = play_pool({"bad": {}, "good": {}}, paid_fleet(4))
    assert ends(run)["good"] == ("rounds done", 3)
    assert ends(run)["bad"] == ("failed", 0) or at == "train"
    [ended] = [event for event in run.of(events.JobEnded) if event.job == "bad"]
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    assert (ended.reason, ended.detail) == ("failed", text)
    failed = run.of(events.TrainingFailed)
    assert {event.reason for event in failed} == {text}
    assert {len([event for event in failed if event.learner == name]) for name in ("d0", "d1", "d2")} <= {0, 1, 2}
    assert len(run.of(events.JobsAllocated)[-1].placements) == 4  # nobody has gone


def test_a_learner_on_which_a_job_fails_does_others_and_the_job_goes_on_with_the_others(monkeypatch):
    failing_in(monkeypatch, "bad", RuntimeError("not enough memory"), learners=["d3"])
    run = play_pool({"bad": {"rounds": 6}, "good": {"rounds": 6}}, paid_fleet(4))
    assert ends(run) == {"bad": ("rounds done", 6), "good": ("rounds done", 6)}
    assert len(run.of(events.TrainingFailed)) <= 2
    if run.of(events.TrainingFailed):
        assert run.of(events.JobsAllocated)[-1].placements.get("d3", ("good", 0))[0] == "good"


def test_what_breaks_a_round_at_the_orchestrator_ends_its_job_alone(monkeypatch):
    run = PoolRun()

    async def ruin(pool):
        async def close(*arguments):
            raise RuntimeError("the loss is of no use")

        pool._by_name["bad"].training.close = close

    play_pool({"bad": {}, "good": {}}, paid_fleet(4), visit=ruin, run=run)
    assert ends(run) == {"bad": ("failed", 0), "good": ("rounds done", 3)}
    assert not math.isinf(run.host.ledger.spent)
    with pytest.raises(PacelineError, match="bad: the loss is of no use") as raised:
        play_pool({"bad": {}}, paid_fleet(2), visit=ruin)
    assert not isinstance(raised.value, DivergedError)
