"""Learners that bill work they did not do: caught, unpaid, excluded. Honest ones pass."""

import pytest

import paceline
from paceline.allocation import MedAllocation
from paceline.fleets import virtual_loop
from paceline.topologies.events import LearnerLeft
from paceline.topologies.parallel.events import JobsAllocated, LearnerPaid, RoundClosed, UpdateAccepted, UpdateAudited
from tests.topologies.multitask.pools import device, fleet, play
from tests.topologies.parallel.runs import device as plain_device
from tests.topologies.parallel.runs import play as play_one
from tests.topologies.parallel.runs import small_job


@pytest.mark.parametrize("policy", [MedAllocation(), MedAllocation(held_back=0.5)])
def test_a_cheat_is_caught_unpaid_and_excluded(policy):
    devices = [*fleet(3), device("cheat", 300, skips=0.5)]
    pool, told = play(
        {"a": {"rounds": 4, "audit_rate": 1.0}}, devices, policy=policy, is_time_only=False, min_learners=4
    )
    audits = told.of(UpdateAudited, "a")
    assert {event.learner for event in audits if not event.is_honest} == {"cheat"}
    assert {event.learner for event in audits if event.is_honest} == {"d0", "d1", "d2"}
    assert len([event for event in audits if event.learner == "cheat"]) == 1  # it has no second chance
    [paid] = [line for line in told.of(LearnerPaid) if line.learner == "cheat"]
    assert (paid.num_samples, paid.amount) == (0, 0.0)
    [left] = [event for event in told.of(LearnerLeft) if event.learner == "cheat"]
    assert "bills work it did not do" in left.reason
    assert "cheat" not in told.of(JobsAllocated)[-1].placements
    assert pool.ended.spent == pytest.approx(sum(line.amount for line in told.of(LearnerPaid)))


def test_all_honest_learners_pass_also_if_they_halt():
    _, told = play({"a": {"deadline_seconds": 2.0, "local_epochs": 3, "audit_rate": 1.0}}, fleet(3), is_time_only=False)
    assert any(event.fulfilment < 1 for event in told.of(RoundClosed, "a"))
    audits = told.of(UpdateAudited, "a")
    assert len(audits) >= 6
    assert all(event.is_honest for event in audits)


def test_only_a_part_of_the_updates_is_audited():
    _, told = play({"a": {"rounds": 20, "audit_rate": 0.3}}, fleet(4), is_time_only=False)
    assert 0.15 < len(told.of(UpdateAudited, "a")) / 80 < 0.45


def test_an_update_of_a_cheat_does_not_count():
    """With everybody cheating, nothing is learned at all."""
    _, told = play({"a": {"rounds": 1, "audit_rate": 1.0}}, fleet(2, skips=0.9), is_time_only=False, total_budget=1e6)
    [closed] = told.of(RoundClosed, "a")
    assert (closed.num_updates, closed.num_samples, closed.fulfilment) == (0, 0, 0.0)


def test_an_audited_update_counts_by_its_samples():
    """Whether updates are averaged as they come or after an audit, learners that train more count for more."""
    devices = [plain_device("a", 200), plain_device("b", 50)]
    plain, audited = (play_one(small_job(rounds=1, min_learners=2, audit_rate=rate), devices)[1] for rate in (0.0, 1.0))
    samples = {event.learner: event.num_samples for event in plain if isinstance(event, UpdateAccepted)}
    assert samples["a"] > 2 * samples["b"] > 0
    assert len([event for event in audited if isinstance(event, UpdateAudited)]) == 2
    [expected], [closed] = (
        [event for event in events if isinstance(event, RoundClosed)] for events in (plain, audited)
    )
    assert closed.num_samples == expected.num_samples
    assert closed.loss == pytest.approx(expected.loss, rel=1e-6)


def test_audits_work_for_a_single_job_too():
    job = small_job("dab", rounds=3, audit_rate=1.0, min_learners=2)
    devices = [plain_device("a"), plain_device("b"), plain_device("cheat", skips=0.5)]
    outcome, told = play_one(job, devices)
    assert {event.learner for event in told if isinstance(event, UpdateAudited) and not event.is_honest} == {"cheat"}
    with pytest.raises(ValueError, match="'cheat' is excluded from this run: an audit found"):
        virtual_loop.run(outcome.join("cheat", paceline.__version__, 0.0))
