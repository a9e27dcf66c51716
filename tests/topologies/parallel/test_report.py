"""The tables and sections of a run of one job, by hand."""

import pytest
from msgspec.structs import replace

from paceline.errors import ConfigError
from paceline.topologies.events import LearnerJoined, LearnerLeft, PhaseStarted, WaitingForLearners
from paceline.topologies.parallel import events as happened
from paceline.topologies.parallel.live_table import RunLiveTable
from paceline.topologies.parallel.report import RunReporting
from paceline.topologies.reporting.sections import Tiles
from tests.report.synthetic import FLEET, JOB, FakeLearner, run_events

REPORTING = RunReporting()
COUNTS = {"num_updates": 0, "num_samples": 0, "num_shards": 0}


def summed_up(*events, settings=None):
    return REPORTING.summary(events, settings)


def record_of(summary, table, name):
    (record,) = [one for one in summary.tables[table].records() if one["learner"] == name]
    return record


def opened(number=1, at=0.0, deadline_seconds=2.0):
    return happened.RoundOpened(at=at, round=number, deadline_seconds=deadline_seconds, num_learners=1)


def closed(number=1, at=2.0, seconds=2.0, late=(), **more):
    counts = {**COUNTS, "num_learners": 1, **more}
    return happened.RoundClosed(at=at, round=number, seconds=seconds, truancy=seconds / 2 - 1, late=late, **counts)


def taken(name="pi", number=1, num_shards=3, seconds=0.25, local_epochs=2):
    work = {"num_shards": num_shards, "seconds": seconds, "local_epochs": local_epochs}
    return happened.ShardsTaken(at=seconds, round=number, learner=name, **work)


def accepted(name="pi", number=1, seconds=1.5):
    return happened.UpdateAccepted(at=seconds, round=number, learner=name, num_samples=96, seconds=seconds)


def refused(name="pi", number=1, seconds=1.5, is_late=False):
    return happened.UpdateRefused(
        at=3.0, round=number, learner=name, reason="rubbish", seconds=seconds, is_late=is_late
    )


def test_the_whole_of_a_run():
    events = run_events()
    summary = REPORTING.summary(events, JOB)
    rounds = [event for event in events if isinstance(event, happened.RoundClosed)]
    assert (
        summary.about
        == "digits-cnn on digits · 61,706 parameters · shares by adaptive-dab · aggregation by fedavg · virtual clock"
    )
    assert (summary.ended, summary.rounds, summary.planned_rounds) == ("rounds done", 10, 10)
    assert (summary.accuracy, summary.loss) == (rounds[-1].metrics["accuracy"], rounds[-1].loss)
    assert summary.seconds == events[-1].at
    assert summary.num_samples == sum(event.num_samples for event in rounds)
    assert (summary.num_late, summary.num_learner_rounds) == (3, sum(event.num_learners for event in rounds))
    assert summary.fulfilment == pytest.approx(sum(event.fulfilment for event in rounds) / 10)
    assert summary.satisfaction == 0.7
    assert (summary.num_shards, summary.num_parameters, summary.num_learners) == (480, 61_706, len(FLEET))
    late = next(event.seconds for event in events if isinstance(event, happened.UpdateRefused) and event.is_late)
    assert summary.truancy_max == pytest.approx(late - 1)  # the round itself closed at its deadline


def test_learners_and_devices():
    summary = REPORTING.summary(run_events(), JOB)
    late = {one["learner"]: one["num_late"] for one in summary.tables["learners"].records()}
    assert late == {"pi-zero": 1, "pi-4": 1, "jetson": 0, "laptop": 0, "old-pc": 0, "guest": 1}
    guest, died = record_of(summary, "learners", "guest"), record_of(summary, "learners", "pi-4")
    assert (guest["num_refused"], guest["rounds"], guest["download_seconds"]) == (1, 9, None)
    assert (died["rounds"], died["end"]) == (6, "left: not heard of for 1.1 s")
    laptop = record_of(summary, "devices", "laptop")
    assert (laptop["train_rate"], laptop["down_rate"], laptop["latency_ms"]) == (2048, 16_000_000, 4.0)
    used = record_of(summary, "usage", "laptop")
    assert (used["bytes_sent"], used["power"]) == (2_400_000, "2 W per busy core")
    assert record_of(summary, "usage", "guest")["joules"] is None


def test_a_round_of_a_learner_that_reports_its_phases():
    seconds = {"start_seconds": 0.25, "download_seconds": 0.25, "train_seconds": 0.75, "upload_seconds": 0.25}
    counts = {"deadline_seconds": 2.0, "num_shards": 3, "num_samples": 96, "is_halted": True}
    spent = happened.RoundSpent(at=1.6, learner="pi", round=1, **counts, **seconds)
    record = record_of(summed_up(opened(at=10.0), taken(), accepted(), spent, closed(at=12.0)), "work", "pi")
    parts = [record[name] for name in ("wait", "download", "train", "upload", "working", "lost", "idle")]
    assert parts == [0.25, 0.25, 0.75, 0.25, 0.0, 0.0, 0.5]
    assert (record["started_at"], record["ended_at"]) == (10.25, 11.5)
    assert (record["num_shards"], record["local_epochs"], record["num_samples"]) == (3, 2, 96)
    assert (record["use"], record["outcome"], record["is_halted"]) == (0.75, "accepted", True)


def test_a_round_of_one_that_does_not_and_of_one_whose_update_never_came():
    added = happened.ShardsAdded(at=1.0, round=1, learner="pi", num_shards=2, seconds=1.0)
    summary = summed_up(
        *(opened(), taken(), added, accepted(), taken("gone"), closed(at=2.5, late=("gone",), num_learners=2))
    )
    record = record_of(summary, "work", "pi")
    assert record["num_shards"] == 5  # those added included
    assert [record[name] for name in ("wait", "working", "lost", "idle")] == [0.25, 1.25, 0.0, 0.5]
    record = record_of(summary, "work", "gone")
    assert [record[name] for name in ("wait", "working", "lost", "idle")] == [0.25, 0.0, 1.75, 0.0]
    assert (record["outcome"], record["use"], record["ended_at"]) == ("missing", None, 2.5)
    assert record_of(summary, "learners", "gone")["deadline_use"] is None
    assert (summary.num_late, summary.late_share, summary.deadline_use) == (1, 0.5, 0.625)


def test_late_and_refused_updates_and_cheats():
    summary = summed_up(opened(), taken(), closed(late=("pi",)), refused(seconds=3.0, is_late=True))
    assert (record_of(summary, "work", "pi")["outcome"], summary.truancy_max) == ("late", 0.5)
    assert summary.tables["metrics"].values("truancy") == [0.0]  # as it was when the round closed
    summary = summed_up(opened(), taken(), refused(), closed())
    assert record_of(summary, "work", "pi")["outcome"] == "refused"
    assert record_of(summary, "learners", "pi")["num_refused"] == 1
    # A second copy does not undo the first, and work that nobody took makes no learner.
    summary = summed_up(opened(), taken(), accepted(), refused(), refused("mallory"), closed())
    assert record_of(summary, "work", "pi")["outcome"] == "accepted"
    assert summary.tables["learners"].values("learner") == ["pi"]
    assert len(summary.tables["happenings"].rows) == 2
    for is_honest, outcome in ((True, "accepted"), (False, "refused")):
        audited = happened.UpdateAudited(at=1.9, round=1, learner="pi", is_honest=is_honest)
        summary = summed_up(opened(), taken(), accepted(), audited, closed())
        assert (record_of(summary, "work", "pi")["outcome"], summary.num_audits) == (outcome, 1)


def test_a_resumed_run_and_one_that_is_not_over():
    facts = {"job": JOB, "clock": "live", "num_parameters": 1, "num_shards": 1, "paceline": "0"}
    started, again = (happened.RunStarted(at=at, first_round=number, **facts) for at, number in ((0, 1), (5, 2)))
    summary = summed_up(started, opened(), closed(), again, settings=JOB)
    assert summary.tables["happenings"].records() == [{"at": 5, "what": "run resumed after round 1"}]
    assert (summary.ended, summary.seconds) == (None, 5)
    nothing = summed_up(settings=JOB)
    assert nothing.about == "digits-cnn on digits · shares by adaptive-dab · aggregation by fedavg · nothing recorded"
    assert (nothing.loss, nothing.truancy_max) == (None, None)


def test_events_that_contradict_each_other_and_a_profile_that_holds_anything():
    with pytest.raises(ConfigError, match="round 1 was closed and never opened"):
        summed_up(closed())
    with pytest.raises(ConfigError, match="a deadline of 0 s, not above 0"):
        summed_up(opened(deadline_seconds=0))
    profile = {"train": 7, "down": {"per_second": "fast"}, "latency_seconds": None}
    summary = summed_up(happened.DeviceMeasured(at=1, learner="pi", profile=profile, seconds=0.5))
    assert summary.tables["devices"].rows == [("pi", 0.5, None, None, None, None, None)]


def test_a_fleet_too_large_to_be_shown_one_by_one():
    fleet = [FakeLearner(name=f"d{index}", shards_per_second=9) for index in range(60)]
    summary = REPORTING.summary(run_events(fleet, rounds=2), JOB)
    work = summary.tables["work"].records()
    fleet_records = summary.tables["fleet"].records()
    assert [one["learner"] for one in fleet_records] == ["all 60", "all 60"]
    assert fleet_records[0]["train"] == pytest.approx(sum(one["train"] for one in work if one["round"] == 1) / 60)
    assert sum(summary.tables["deadline_use"].values("num_learners")) == 60
    titles = [section.title for section in REPORTING.shown(summary.tables)]
    assert "Learners by their use of the deadline" in titles


def row_of(live, name="pi", now=11.0):
    (row,) = [one for one in live.view(now, 40, 4).rows if one.name == name]
    return row


def live_table_of(*events):
    live = RunLiveTable()
    for event in events:
        live.feed(event)
    return live


def test_bad_news_stays_on_the_live_table_until_the_next_round():
    joined, begun = LearnerJoined(at=1, learner="pi"), opened(at=10.0)
    live = live_table_of(joined, begun, taken(), closed(at=12.0, late=("pi",)))
    live.feed(PhaseStarted(at=12.3, learner="pi", round=1, phase="idle"))
    assert (row_of(live).status, row_of(live).style) == ("late", "bad")
    live.feed(opened(2, at=13.0))
    live.feed(taken(number=2))
    assert row_of(live).style != "bad"
    live.feed(refused(number=2))
    live.feed(happened.UpdateAudited(at=14, round=2, learner="pi", is_honest=False, distance=0.9))
    assert row_of(live).status == "failed audit"
    live.feed(LearnerLeft(at=15, learner="pi", reason="good\nbye"))
    assert (row_of(live).status, row_of(live).style) == ("gone: good\\nbye", "gone")
    assert len(live.view(15, 5, 4).messages) == 3
    live.feed(refused("mallory", number=2))  # a stranger gets no row
    assert live.view(15, 5, 4).num_rows == 1


def test_trouble_is_on_the_live_table_first_and_those_long_gone_last():
    fleet = [FakeLearner(name=f"d{i:02}", shards_per_second=9, dies_in=1 if i < 5 else None) for i in range(50)]
    fleet[40] = FakeLearner(name="d40", shards_per_second=9, refused_in=(3,))
    live = live_table_of(*run_events(fleet, rounds=3, is_ended=False))
    came = [row.name for row in live.view(5.0, 100, 4).rows]
    shown = [row.name for row in live.view(5.0, 10, 4).rows]
    assert "d40" in shown
    assert not {"d00", "d01", "d02", "d03", "d04"} & set(shown)
    assert shown == [name for name in came if name in shown]
    assert (len(shown), len(came)) == (10, 50)


def test_staleness_is_drawn_where_there_is_any():
    titles = []
    for staleness in (0.0, 3.0):
        events = [
            replace(one, staleness=staleness) if isinstance(one, happened.RoundClosed) else one for one in run_events()
        ]
        summary = REPORTING.summary(events)
        titles.append({section.title for section in REPORTING.shown(summary.tables)})
    assert titles[1] - titles[0] == {"Staleness of each round"}


def test_a_run_that_waits_for_devices_says_so_first():
    waits = WaitingForLearners(at=3.0, round=2, num_ready=1, min_learners=3)
    waiting, going_on = summed_up(opened(), closed(), waits), summed_up(opened(), closed(), waits, opened(2, at=4.0))
    assert REPORTING.notices(waiting.tables) == ["Round 2 waits for devices: 1 of 3 ready."]
    assert REPORTING.notices(going_on.tables) == []


def test_what_no_device_reports_has_no_tile():
    (tiles,) = (one for one in REPORTING.shown(summed_up(opened(), closed()).tables) if isinstance(one, Tiles))
    assert not {"bytes_sent", "joules", "grams"} & {tile.column for tile in tiles.tiles}
    (tiles,) = (one for one in REPORTING.shown(REPORTING.summary(run_events(), JOB).tables) if isinstance(one, Tiles))
    assert {"bytes_sent", "joules", "grams"} <= {tile.column for tile in tiles.tiles}
