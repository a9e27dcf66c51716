"""The tables and sections of a pool: of its own events, and of those of its jobs."""

import pytest

from paceline.topologies.events import LearnerJoined, LearnerLeft, WaitingForLearners
from paceline.topologies.parallel.events import DeviceMeasured, JobEnded, PoolStarted, RoundSpent
from paceline.topologies.parallel.pool_report import PoolReporting
from paceline.topologies.parallel.tables import METRICS
from tests.report.synthetic_pool import POOL, placed, play, pool_events, submitted

REPORTING = PoolReporting()


@pytest.fixture(scope="module")
def summary():
    events, jobs = pool_events()
    return REPORTING.summary(events, POOL, jobs)


def summed_up(*events, **jobs):
    return REPORTING.summary(events, POOL, jobs)


def stays_of(summary):
    rows = [one for one in summary.tables["lanes"].records() if one["state"] == "placed"]
    return [(one["learner"], one["job"], one["num_shards"], one["start"], one["end"]) for one in rows]


def test_metrics_per_job_and_averaged(summary):
    mnist, fashion, digits = summary.tables["jobs"].records()
    means = [15.0, 0.5, 0.8, 0.2, 0.75]
    assert [mnist[name] for name in METRICS] == pytest.approx(means)
    assert [summary[name] for name in METRICS] == pytest.approx(means)
    assert (fashion["satisfaction"], fashion["fulfilment"], digits["satisfaction"]) == pytest.approx((0.0, 0.6, 1.0))
    assert (mnist["accuracy"], mnist["rounds"], mnist["planned_rounds"]) == (0.9, 2, 2)
    assert summary.tables["jobs"].values("state") == ["rounds done", "rounds done", "budget spent"]
    assert (summary.num_jobs, summary.num_over, summary.num_played, summary.num_audits) == (3, 3, 3, 1)
    first = next(one for one in summary.tables["learning"].records() if one["job"] == "mnist")
    assert (first["round"], first["loss"], first["accuracy"]) == (1, pytest.approx(0.4), 0.6)
    assert (first["at"], first["trained"]) == (20.5, 2000)


def test_jobs_without_a_round_do_not_count_in_the_mean():
    events, ledger = play("a", 1, 5.0, {"pi": 4})
    summary = summed_up(submitted(0, "a"), submitted(0, "b"), *ledger, a=events)
    a, b = summary.tables["jobs"].records()
    assert (a["fulfilment"], b["fulfilment"], summary.fulfilment) == (1.0, None, 1.0)
    assert (b["state"], b["rounds"], b["paid"]) == ("under way", 0, 0.0)
    nothing = summed_up()
    assert (nothing.spent, nothing.seconds, nothing.total_budget, nothing.fulfilment) == (0, 0, 120.0, None)
    assert [type(section).__name__ for section in REPORTING.shown(nothing.tables)] == ["Tiles"]


def test_accounts_and_money(summary):
    assert summary.tables["jobs"].values("paid") == pytest.approx([18.4, 30.0, 15.0])
    assert (summary.spent, sum(summary.tables["accounts"].values("paid"))) == pytest.approx((63.4, 63.4))
    tiles = REPORTING.shown(summary.tables)[0].tiles
    assert [tile.note for tile in tiles if tile.column == "spent"] == ["of 120.00, 56.60 left"]
    accounts = {row[0]: row[1:] for row in summary.tables["accounts"].rows}
    assert list(accounts) == ["pi", "guest", "jetson", "laptop"]
    assert accounts["pi"] == ("mnist, digits", 3, 0, 44, 44.0, 4400, pytest.approx(22.0), "there")
    assert accounts["guest"] == ("mnist", 2, 1, 16, 8.0, 800, pytest.approx(6.4), "left: excluded: it cheated")
    assert accounts["jetson"] == ("fashion", 2, 2, 16, 0.0, 0, 0.0, "there")


def test_allocations_and_moves(summary):
    first, second = summary.tables["allocations"].records()
    assert (first["at"], first["expected_seconds"], first["idle"]) == (4.0, 30.0, None)
    assert first["above_bound"] == pytest.approx(0.2)  # of 25 s
    assert (second["idle"], second["waived"], second["cost"]) == ("jetson", "min_shards", 15.0)
    assert summary.num_moves == 2
    jobs = ({"pi": ("a", 4)}, {}, {"pi": ("a", 4)}, {"pi": ("b", 4)})  # to be idle in between is no move
    assert summed_up(*(placed(at, placements) for at, placements in enumerate(jobs))).num_moves == 1


def test_stays_end_with_the_job_the_learner_or_the_next_allocation(summary):
    assert sorted(stays_of(summary)) == [
        ("guest", "mnist", 8, 4.0, 37.5),
        ("jetson", "fashion", 8, 4.0, 46.6),
        ("laptop", "digits", 4, 48.0, 60.7),
        ("laptop", "fashion", 12, 4.0, 46.6),
        ("pi", "digits", 20, 48.0, 60.7),
        ("pi", "mnist", 12, 4.0, 37.6),
    ]
    states = {(one["learner"], one["round"]): one["state"] for one in summary.tables["lanes"].records() if one["round"]}
    assert (states["pi", 2], states["guest", 2], states["jetson", 1]) == ("worked", "not counted", "not counted")


def test_a_stay_goes_on_as_long_as_nothing_changes_and_ends_with_the_record():
    summary = summed_up(
        placed(1, {"pi": ("a", 4), "jetson": ("b", 4)}),
        placed(2, {"pi": ("a", 4), "jetson": ("b", 6)}),
        placed(3, {"pi": ("a", 4)}, idle=("jetson",)),
        placed(3, {"pi": ("a", 5)}),
        JobEnded(at=9, job="b", reason="rounds done", rounds=1),
    )
    assert sorted(stays_of(summary)) == [
        *(("jetson", "b", 4, 1, 2), ("jetson", "b", 6, 2, 3), ("pi", "a", 4, 1, 3), ("pi", "a", 5, 3, 9))
    ]


def test_what_happened_is_listed_in_order_with_its_job(summary):
    table = summary.tables["happenings"]
    assert table.values("at") == sorted(table.values("at"))
    texts = table.values("what")
    (cheat,) = [text for text in texts if text.startswith("mnist, ") and "guest" in text]
    assert texts.index(cheat) < texts.index("guest left: excluded: it cheated")
    waits = [WaitingForLearners(at=at, round=0, num_ready=at % 2, min_learners=3) for at in range(5)]
    again = WaitingForLearners(at=8, round=0, num_ready=1, min_learners=3)
    joined = LearnerJoined(at=7, learner="pi")
    happened = summed_up(*waits, placed(6, {"pi": ("a", 1)}), joined, again).tables["happenings"]
    assert happened.values("at") == [0, 7, 8]  # a wait counts once until learners are placed


def test_who_is_back_is_there():
    left = LearnerLeft(at=2, learner="pi", reason="nothing was heard of it")
    back = LearnerJoined(at=3, learner="pi", is_back=True)
    (account,) = summed_up(LearnerJoined(at=1, learner="pi"), left, back).tables["accounts"].rows
    assert (account[0], account[1], account[-1]) == ("pi", None, "there")


def test_a_pool_under_way_lasts_until_the_last_event_of_a_job():
    started = PoolStarted(at=0, pool=POOL, clock="live", paceline="0")
    events = [started, submitted(0, "mnist"), placed(4, {"pi": ("mnist", 12)})]
    summary = REPORTING.summary(events, {"pool": {"total_budget": "much"}}, pool_events()[1])
    assert (summary.ended, summary.total_budget) == (None, None)
    assert summary.seconds == stays_of(summary)[0][-1] == pytest.approx(37.6)


def test_what_a_learner_used_is_summed_over_jobs():
    spent = {"deadline_seconds": 20, "start_seconds": 0, "num_shards": 1, "num_samples": 1, "download_seconds": 1}
    jobs = {
        name: [
            DeviceMeasured(at=1, learner="pi", profile={}, seconds=1, power={"source": "model", "busy_watts": 2.0}),
            RoundSpent(at=2, learner="pi", round=1, train_seconds=1, bytes_sent=5, joules=joules, **spent),
        ]
        for name, joules in (("a", 2.0), ("b", 3.0))
    }
    joined = [LearnerJoined(at=0, learner=name) for name in ("pi", "guest")]
    pi, guest = summed_up(submitted(0, "a"), submitted(0, "b"), *joined, **jobs).tables["usage"].records()
    assert (pi["bytes_sent"], pi["joules"], pi["power"]) == (10, 5.0, "2 W per busy core")
    assert (guest["bytes_sent"], guest["power"]) == (None, None)
