"""Learners that bill work they did not do: caught, unpaid, excluded. Honest ones pass."""

import pytest

from paceline.allocation import MedAllocation
from paceline.topologies.events import LearnerLeft
from paceline.topologies.parallel.events import JobsAllocated, LearnerPaid, RoundClosed, UpdateAccepted, UpdateAudited
from tests.topologies.parallel.runs import closed, device, of, paid_device, paid_fleet, play, play_pool, small_job


@pytest.mark.parametrize("policy", [MedAllocation(), MedAllocation(held_back=0.5)])
def test_a_cheat_is_caught_unpaid_and_excluded(policy):
    devices = [*paid_fleet(3), paid_device("cheat", 300, skips=0.5)]
    run = play_pool({"a": {"rounds": 4, "audit_rate": 1.0}}, devices, policy=policy, is_time_only=False, min_learners=4)
    audits = run.of(UpdateAudited, "a")
    assert {event.learner for event in audits if not event.is_honest} == {"cheat"}
    assert {event.learner for event in audits if event.is_honest} == {"d0", "d1", "d2"}
    assert len([event for event in audits if event.learner == "cheat"]) == 1  # it has no second chance
    [paid] = [line for line in run.of(LearnerPaid) if line.learner == "cheat"]
    assert (paid.num_samples, paid.amount) == (0, 0.0)
    [left] = [event for event in run.of(LearnerLeft) if event.learner == "cheat"]
    assert "bills work it did not do" in left.reason
    assert "cheat" not in run.of(JobsAllocated)[-1].placements


def test_all_honest_learners_pass_also_if_they_halt():
    job = {"deadline_seconds": 2.0, "local_epochs": 3, "audit_rate": 1.0}
    run = play_pool({"a": job}, paid_fleet(3), is_time_only=False)
    assert any(event.fulfilment < 1 for event in run.of(RoundClosed, "a"))
    audits = run.of(UpdateAudited, "a")
    assert len(audits) >= 6
    assert all(event.is_honest for event in audits)


def test_only_a_part_of_the_updates_is_audited():
    run = play_pool({"a": {"rounds": 20, "audit_rate": 0.3}}, paid_fleet(4), is_time_only=False)
    assert 0.15 < len(run.of(UpdateAudited, "a")) / 80 < 0.45


def test_an_update_of_a_cheat_does_not_count():
    """With everybody cheating, nothing is learned at all."""
    run = play_pool({"a": {"rounds": 1, "audit_rate": 1.0}}, paid_fleet(2, skips=0.9), is_time_only=False)
    [round] = run.of(RoundClosed, "a")
    assert (round.num_updates, round.num_samples, round.fulfilment) == (0, 0, 0.0)


def test_an_audited_update_counts_by_its_samples():
    """Whether updates are averaged as they come or after an audit, learners that train more count for more."""
    devices = [device("a", 200), device("b", 50)]
    plain, audited = (play(small_job(rounds=1, min_learners=2, audit_rate=rate), devices)[1] for rate in (0.0, 1.0))
    samples = {event.learner: event.num_samples for event in of(UpdateAccepted, plain)}
    assert samples["a"] > 2 * samples["b"] > 0
    assert len(of(UpdateAudited, audited)) == 2
    [expected], [found] = closed(plain), closed(audited)
    assert found.num_samples == expected.num_samples
    assert found.loss == pytest.approx(expected.loss, rel=1e-6)


def test_audits_work_for_a_single_job_too():
    job = small_job("dab", rounds=3, audit_rate=1.0, min_learners=2)
    devices = [device("a"), device("b"), device("cheat", skips=0.5)]
    _, events = play(job, devices)
    assert {event.learner for event in of(UpdateAudited, events) if not event.is_honest} == {"cheat"}
    [left] = of(LearnerLeft, events)
    assert (left.learner, left.reason) == ("cheat", "excluded: an audit found that it bills work it did not do")
