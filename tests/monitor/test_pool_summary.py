"""A pool is summed up from its events and those of its jobs."""

import pytest

from paceline.monitor import Footprint, summarise, summarise_pool
from paceline.monitor.pool_figures import Move, Stay
from paceline.monitor.pool_summary import sum_up
from paceline.topologies.events import LearnerJoined, LearnerLeft, WaitingForLearners
from paceline.topologies.parallel.events import (
    DeviceMeasured,
    JobEnded,
    JobsAllocated,
    PoolStarted,
    RoundSpent,
    UpdateAudited,
)
from tests.monitor.synthetic_pool import placed, play, pool_events, submitted


@pytest.fixture
def summary(make_pool):
    """Of the synthetic pool."""
    return summarise_pool(make_pool())


def test_nothing_recorded(make_pool):
    summary = summarise_pool(make_pool([]))
    assert (summary.started, summary.ended, summary.jobs, summary.accounts, summary.stays) == (None, None, (), (), ())
    assert (summary.spent, summary.seconds, summary.total_budget) == (0, 0, None)
    assert set(summary.as_metrics().values()) == {None}


def test_metrics_per_job_and_averaged(summary):
    mnist, fashion, digits = summary.jobs
    assert [job.name for job in summary.jobs] == ["mnist", "fashion", "digits"]
    assert mnist.as_metrics() == pytest.approx(
        {"training_seconds": 15.0, "satisfaction": 0.5, "fulfilment": 0.8, "drop_rate": 0.2, "occupancy": 0.75}
    )
    assert (fashion.satisfaction, fashion.fulfilment, digits.satisfaction) == pytest.approx((0.0, 0.6, 1.0))
    assert summary.as_metrics() == pytest.approx(
        {"training_seconds": 15.0, "satisfaction": 0.5, "fulfilment": 0.8, "drop_rate": 0.2, "occupancy": 0.75}
    )
    assert (mnist.summary.accuracy, len(mnist.summary.rounds)) == (0.9, 2)
    assert [job.ended.reason for job in summary.jobs] == ["rounds done", "rounds done", "budget spent"]


def test_jobs_without_a_round_have_no_metrics_and_do_not_count_in_the_mean():
    (events, ledger) = play("a", 1, 5.0, {"pi": 4})
    summary = sum_up([submitted(0, "a"), submitted(0, "b"), *ledger], {"a": summarise(events)})
    a, b = summary.jobs
    assert (a.fulfilment, b.fulfilment, summary.fulfilment) == (1.0, None, 1.0)
    assert (b.ended, b.summary.rounds, b.paid) == (None, (), 0.0)


def test_money(summary):
    assert [job.paid for job in summary.jobs] == pytest.approx([18.4, 30.0, 15.0])
    assert summary.spent == pytest.approx(63.4) == pytest.approx(summary.ended.spent)
    assert summary.spent == pytest.approx(sum(account.paid for account in summary.accounts))
    assert summary.total_budget == 120.0


def test_accounts(summary):
    accounts = {account.learner: account for account in summary.accounts}
    assert list(accounts) == ["pi", "guest", "jetson", "laptop"]
    pi, guest, jetson = accounts["pi"], accounts["guest"], accounts["jetson"]
    assert (pi.jobs, pi.num_rounds, pi.num_unpaid) == (("mnist", "digits"), 3, 0)
    assert (pi.num_shards, pi.shards, pi.num_samples) == (44, 44.0, 4400)
    assert pi.paid == pytest.approx(22.0)
    assert (guest.num_rounds, guest.num_unpaid, guest.num_shards, guest.shards) == (2, 1, 16, 8.0)
    assert guest.left_because == "excluded: it cheated"
    assert (jetson.jobs, jetson.num_unpaid, jetson.paid, jetson.left_because) == (("fashion",), 2, 0.0, None)


def test_allocations_and_moves(summary):
    first, second = summary.allocations
    assert (first.at, first.expected_seconds, first.bound, first.idle) == (4.0, 30.0, 25.0, ())
    assert (second.idle, second.waived, second.cost) == (("jetson",), ("min_shards",), 15.0)
    assert summary.moves == (
        Move(at=48.0, learner="pi", source="mnist", target="digits"),
        Move(at=48.0, learner="laptop", source="fashion", target="digits"),
    )


def test_stays_end_with_the_job_the_learner_or_the_next_allocation(summary):
    stays = {(stay.learner, stay.job): (stay.start, stay.end) for stay in summary.stays}
    assert stays == {
        ("pi", "mnist"): (4.0, 37.6),
        ("guest", "mnist"): (4.0, 37.5),
        ("jetson", "fashion"): (4.0, 46.6),
        ("laptop", "fashion"): (4.0, 46.6),
        ("pi", "digits"): (48.0, 60.7),
        ("laptop", "digits"): (48.0, 60.7),
    }


def test_a_stay_goes_on_as_long_as_nothing_changes_and_ends_with_the_record():
    events = [
        placed(1, {"pi": ("a", 4), "jetson": ("b", 4)}),
        placed(2, {"pi": ("a", 4), "jetson": ("b", 6)}),
        placed(3, {"pi": ("a", 4)}, idle=("jetson",)),
        placed(3, {"pi": ("a", 5)}),
        JobEnded(at=9, job="b", reason="rounds done", rounds=1),
    ]
    assert sum_up(events, {}).stays == (
        Stay(learner="pi", job="a", num_shards=4, start=1, end=3),
        Stay(learner="jetson", job="b", num_shards=4, start=1, end=2),
        Stay(learner="jetson", job="b", num_shards=6, start=2, end=3),
        Stay(learner="pi", job="a", num_shards=5, start=3, end=9),
    )


def test_a_learner_that_was_idle_in_between_has_moved():
    events = [placed(1, {"pi": ("a", 4)}), placed(2, {}), placed(3, {"pi": ("a", 4)}), placed(4, {"pi": ("b", 4)})]
    assert sum_up(events, {}).moves == (Move(at=4, learner="pi", source="a", target="b"),)


def test_what_happened_is_told_in_order_with_its_job(summary):
    kinds = [type(one.event).__name__ for one in summary.happenings]
    assert kinds[:3] == ["JobSubmitted", "JobSubmitted", "WaitingForLearners"]
    assert [one.event.at for one in summary.happenings] == sorted(one.event.at for one in summary.happenings)
    (cheat,) = [one for one in summary.happenings if isinstance(one.event, UpdateAudited)]
    (left,) = [one for one in summary.happenings if isinstance(one.event, LearnerLeft)]
    assert (cheat.job, left.job) == ("mnist", "")
    assert summary.happenings.index(cheat) < summary.happenings.index(left)
    assert not any(isinstance(one.event, JobsAllocated) for one in summary.happenings)


def test_waiting_is_told_once_until_learners_are_placed():
    waits = [WaitingForLearners(at=at, round=0, num_ready=at % 2, min_learners=3) for at in range(5)]
    summary = sum_up([*waits, placed(6, {"pi": ("a", 1)}), waits[0]], {})
    assert [one.event for one in summary.happenings] == [waits[0], waits[0]]


def test_who_is_back_is_there(make_pool):
    events = [
        LearnerJoined(at=1, learner="pi"),
        LearnerLeft(at=2, learner="pi", reason="nothing was heard of it"),
        LearnerJoined(at=3, learner="pi", is_back=True),
    ]
    (account,) = sum_up(events, {}).accounts
    assert (account.left_because, account.jobs, account.paid) == (None, (), 0.0)


def test_a_pool_under_way_lasts_until_the_last_event_of_a_job():
    started = PoolStarted(at=0, pool={"pool": {"total_budget": "much"}}, clock="live", paceline="0")
    jobs = {name: summarise(own) for name, own in pool_events()[1].items()}
    summary = sum_up([started, submitted(0, "mnist"), placed(4, {"pi": ("mnist", 12)})], jobs)
    assert (summary.ended, summary.total_budget) == (None, None)
    assert summary.seconds == summary.stays[0].end == pytest.approx(37.6)


def test_what_a_learner_used_is_summed_over_jobs():
    spent = {"deadline_seconds": 20, "start_seconds": 0, "num_shards": 1, "num_samples": 1, "download_seconds": 1}
    jobs = {
        name: summarise(
            [
                DeviceMeasured(at=1, learner="pi", profile={}, seconds=1, power={"source": "model"}),
                RoundSpent(at=2, learner="pi", round=1, train_seconds=1, bytes_sent=5, joules=joules, **spent),
            ]
        )
        for name, joules in (("a", 2.0), ("b", 3.0))
    }
    joined = [LearnerJoined(at=0, learner=name) for name in ("pi", "guest")]
    summary = sum_up([submitted(0, "a"), submitted(0, "b"), *joined], jobs)
    pi, guest = summary.accounts
    assert (pi.footprint, pi.power) == (Footprint(bytes_sent=10, joules=5.0), {"source": "model"})
    assert (guest.footprint, guest.power) == (Footprint(), None)
    assert summary.footprint == pi.footprint
