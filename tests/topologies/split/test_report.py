"""The tables and sections of a split run, by hand."""

import math

import pytest

from paceline.topologies.events import LearnerJoined, LearnerLeft, WaitingForLearners
from paceline.topologies.reporting.sections import Graph
from paceline.topologies.split.events import (
    NodeSpent,
    SourceBack,
    SourceMasked,
    SplitEnded,
    SplitEpochEnded,
    SplitStarted,
)
from paceline.topologies.split.report import SplitReporting
from tests.report.synthetic_split import BYTES, JOB, accuracy_after, loss_after, split_events

REPORTING = SplitReporting()


@pytest.fixture(scope="module")
def summary():
    return REPORTING.summary(split_events(), JOB)


def summed_up(*events):
    return REPORTING.summary(events)


def node(summary, name):
    (record,) = [one for one in summary.tables["totals"].records() if one["learner"] == name]
    return record


def spans_of(summary, name):
    rows = summary.tables["presence"].records()
    return [(one["state"], one["start"], one["end"]) for one in rows if one["learner"] == name]


def ended(epoch, **more):
    return SplitEpochEnded(at=epoch, epoch=epoch, seconds=1.0, num_steps=1, num_samples=1, num_sources=2, **more)


def started(**more):
    return SplitStarted(at=0, job={}, clock="live", num_parameters={}, paceline="0", metric_names=("accuracy",), **more)


def judged(epoch, loss, accuracy):
    return ended(epoch, loss=loss, metrics={"accuracy": accuracy})


def spent(name, epoch, **more):
    figures = {"seconds": 2.0, "compute_seconds": 1.5, "wait_seconds": 0.5, "bytes_sent": 3, "bytes_received": 4}
    return NodeSpent(at=epoch, learner=name, epoch=epoch, **{**figures, **more})


def masked(name, at):
    return SourceMasked(at=at, learner=name, epoch=1, step=2, reason="silent")


def test_nodes(summary):
    assert summary.tables["totals"].values("learner") == ["trunk", "cam-1", "cam-2", "cam-3", "late"]
    camera = node(summary, "cam-2")
    times = [camera[f"mean_{name}seconds"] for name in ("", "compute_", "wait_")]
    assert (camera["epochs"], times, camera["num_masks"]) == (8, [11.0, 4.0, 7.0], 1)
    assert (camera["bytes_sent"], camera["bytes_received"], camera["joules"]) == (8 * BYTES, 8 * BYTES, 160.0)
    assert (node(summary, "cam-1")["end"], node(summary, "cam-3")["end"]) == ("there", "left: it said goodbye")
    assert spans_of(summary, "late") == [("there", 38.0, 93.0)]
    spent_rows = [one for one in summary.tables["spent"].records() if one["learner"] == "cam-1"]
    assert (spent_rows[0]["compute"], spent_rows[0]["wait"], spent_rows[0]["share"]) == (9.0, 2.0, 9 / 11)


def test_the_whole(summary):
    third = summary.tables["progress"].records()[2]
    assert (third["num_masked"], third["bytes_moved"]) == (45, 6 * BYTES)
    assert third["joules"] == 40.0 * 3.0 + 5.0 * (9.0 + 4.0 + 6.0)
    assert (summary.clock, summary.ended, summary.cut) == ("virtual", "no improvement", "f2")
    assert (summary.seconds, summary.mean_seconds, summary.num_samples) == (93.0, 10.0, 8 * 5760)
    assert (summary.num_masked, summary.bytes_moved) == (45, (3 * 6 + 2 * 8 + 3 * 6) * BYTES)
    assert summary.joules == pytest.approx(sum(summary.tables["progress"].values("joules")))
    assert summary.tables["progress"].values("junction") == [3_000_000] * 3 + [4_000_000] * 2 + [3_000_000] * 3
    assert [row[2] for row in summary.tables["cuts"].rows] == [True, False, False]
    happened = [what for _, what in summary.tables["happenings"].rows]
    assert happened[0] == "waiting for devices: 0 of 3 ready"
    assert happened[4].startswith("cut before f2")


def test_what_a_source_hands_over_at_the_end_is_not_of_its_last_epoch():
    joined = [LearnerJoined(at=0, learner=name) for name in ("a", "b")]
    summary = summed_up(
        SplitStarted(at=0, job={}, clock="live", num_parameters={"trunk": 5}, paceline="0"),
        *joined,
        spent("a", 1, bytes_sent=70),
        spent("a", 0, bytes_sent=9),
        spent("b", 0, bytes_sent=9),
    )
    assert summary.tables["links"].rows == [("a", "trunk", 70), ("b", "trunk", None)]


def test_what_sources_keep_to_themselves_is_said_and_what_the_trunk_sees_is_shown(summary):
    assert REPORTING.notices(summary.tables) == []
    joined = LearnerJoined(at=0, learner="a")
    alone = summed_up(started(), joined, spent("trunk", 1, bytes_received=8e6, bytes_sent=2e6), judged(1, 0.5, 0.9))
    (notice,) = REPORTING.notices(alone.tables)
    assert notice.startswith("Sources that join over the network keep to themselves")
    (graph,) = (one for one in REPORTING.sections(alone.tables) if isinstance(one, Graph))
    assert graph.note == "8 MB came through it in the last epoch, 2 MB went back"


def test_parts_are_those_of_the_last_junction(summary):
    rows = [("branch", 52_096, 3, 156_288), ("junction", 3_000_000, 1, 3_000_000), ("trunk", 127_038, 1, 127_038)]
    assert summary.tables["parts"].rows == rows
    assert summary.num_parameters == sum(row[3] for row in rows)
    sizes = {"branch": 10, "junction": 0, "trunk": 5}
    begun = SplitStarted(at=0, job={}, clock="live", num_parameters=sizes, paceline="0")
    joined = [LearnerJoined(at=1, learner=name) for name in "abc"]
    assert summed_up(begun, *joined).tables["parts"].rows == [("branch", 10, 3, 30), ("trunk", 5, 1, 5)]
    assert summed_up(begun, *joined, ended(1)).tables["parts"].values("num_copies")[0] == 2


def test_the_best_epoch_has_the_lowest_loss(summary):
    assert (summary.best_epoch, summary.loss, summary.accuracy) == (6, loss_after(6), accuracy_after(6))
    events = [started(), judged(1, 0.9, 0.5), judged(2, 0.6, 0.8), judged(3, 0.7, 0.9)]
    so_far = summed_up(*events)
    assert (so_far.best_epoch, so_far.loss, so_far.accuracy) == (2, 0.7, 0.9)
    assert summed_up(*events, ended(4, loss=math.nan), ended(5)).best_epoch == 2
    over = summed_up(*events, SplitEnded(at=9, reason="epochs done", epochs=3, loss=0.7, metrics={"accuracy": 0.9}))
    assert (over.best_epoch, over.accuracy) == (2, 0.9)


def test_bytes_are_those_of_the_trunk_if_it_reported():
    sources = [spent("a", 1), spent("b", 1)]
    assert summed_up(*sources).bytes_moved == 14
    assert summed_up(*sources, spent("trunk", 1, bytes_sent=8, bytes_received=7)).bytes_moved == 15
    assert summed_up(spent("trunk", 1), spent("a", 2)).bytes_moved == 14
    # What came before the first epoch counts but is no epoch.
    early = summed_up(spent("a", 0, bytes_sent=1000, joules=2.0), spent("a", 1))
    one = node(early, "a")
    assert (one["epochs"], one["mean_seconds"], one["bytes_sent"], one["joules"]) == (1, 2.0, 1003, 2.0)
    assert early.bytes_moved == 1007 + 4


def test_sources_that_leave_masked_or_come_back():
    joined = [LearnerJoined(at=1, learner=name) for name in "ab"]
    gone = LearnerLeft(at=5, learner="b", reason="gone")
    summary = summed_up(*joined, masked("a", 2), masked("b", 3), masked("b", 4), gone, ended(9))
    assert sorted(spans_of(summary, "a")) == [("masked", 2, 9), ("there", 1, 9)]
    assert sorted(spans_of(summary, "b")) == [("masked", 3, 5), ("there", 1, 5)]
    back = [LearnerJoined(at=6, learner="b", is_back=True), SourceBack(at=6, learner="b", epoch=2, step=1)]
    summary = summed_up(*joined, gone, *back, ended(9))
    assert (spans_of(summary, "b"), node(summary, "b")["end"]) == ([("there", 1, 5), ("there", 6, 9)], "there")


def test_waits_are_listed_once_and_nothing_at_all():
    waits = [
        WaitingForLearners(at=at, round=0, num_ready=ready, min_learners=3) for at, ready in ((1, 0), (2, 0), (3, 1))
    ]
    assert summed_up(*waits).tables["happenings"].values("at") == [1, 3]
    nothing = summed_up()
    assert (nothing.seconds, nothing.mean_seconds, nothing.bytes_moved, nothing.loss) == (0.0, None, 0, None)
    assert [type(section).__name__ for section in REPORTING.shown(nothing.tables)] == ["Tiles"]
