"""The tables and sections of a gossip run, by hand."""

import pytest

from paceline.topologies.events import PhaseStarted
from paceline.topologies.gossip.events import (
    ConsensusMeasured,
    EpochEnded,
    GossipStarted,
    PeerEnded,
    PeerLost,
    PeerSeen,
    PeerStarted,
    StoreLost,
)
from paceline.topologies.gossip.report import GossipReporting
from tests.report.synthetic_gossip import JOB, accuracy_after, gossip_events

REPORTING = GossipReporting()


BEGUN = GossipStarted(at=0.0, job=JOB, clock="live", metric_names=("accuracy",), num_parameters=1, paceline="0")


@pytest.fixture(scope="module")
def summary():
    return REPORTING.summary(gossip_events(), JOB)


def summed_up(*events):
    return REPORTING.summary(events, JOB)


def started(name, at, epoch=1, known=()):
    return PeerStarted(at=at, learner=name, address=f"http://{name}", epoch=epoch, num_samples=100, known=known)


def epoch(name, number, at, **more):
    figures = {"seconds": 2.0, "num_samples": 10, "ratio": 0.5, "samples_per_second": 5.0, "train_seconds": 1.0}
    more = {**figures, "bytes_sent": 3, "bytes_received": 4, **more}
    return EpochEnded(at=at, learner=name, epoch=number, **more)


def lost(name, other, at):
    return PeerLost(at=at, learner=name, other=other, reason="silent")


def row_of(summary, name, table="peers"):
    (record,) = [one for one in summary.tables[table].records() if one["learner"] == name]
    return record


def stays_of(summary, name):
    rows = summary.tables["presence"].records()
    return [(one["start"], one["end"]) for one in rows if (one["learner"], one["state"]) == (name, "there")]


def test_peers(summary):
    assert summary.tables["peers"].values("learner") == ["jetson", "pi-4", "pi-zero", "laptop", "late"]
    pi = row_of(summary, "pi-4")
    assert (pi["own_samples"], pi["epochs"], pi["num_samples"], pi["mean_ratio"]) == (500, 6, 6 * 250, 0.5)
    times = [pi[f"{name}_seconds"] for name in ("mean", "train", "rank", "exchange")]
    assert (times, pi["num_points"]) == ([6.0, 5.0, 0.5, 0.5], 50)
    assert (pi["accuracy"], pi["end"]) == (accuracy_after(6, -0.1), "epochs done")
    used = row_of(summary, "pi-4", "usage")
    assert (used["bytes_sent"], used["cpu_seconds"], used["joules"]) == (480_000, 33.0, 66.0)
    assert used["power"] == "2 W per busy core"


def test_who_was_there_when_and_did_what(summary):
    assert stays_of(summary, "jetson") == [(3.0, 39.5)]
    assert stays_of(summary, "laptop") == [(3.0, 26.0)]  # it died at 22 s, and was missed at 26 s
    assert row_of(summary, "laptop")["end"] == "gone: it did not answer"
    assert stays_of(summary, "late") == [(21.0, 39.5)]
    assert (summary.num_lost, summary.num_joined) == (1, 1)
    phases = [row for row in summary.tables["phases"].rows if row[0] == "pi-4"]
    assert [row[1:] for row in phases[:3]] == [
        ("benchmark", 0, 1.0, 2.0),
        ("aggregate", 0, 2.0, 2.5),
        ("rank", 1, 3.0, 3.5),
    ]
    assert ("laptop", "train", 4, 21.5, 26.0) in summary.tables["phases"].rows
    away = [row for row in summary.tables["presence"].rows if row[1] == "without the store"]
    assert ("jetson", "without the store", None, 10.0, 20.0, "connection refused") in away


def test_epochs_over_all_peers(summary):
    table = summary.tables["all_epochs"]
    first, last = table.records()[0], table.records()[-1]
    assert table.values("epoch") == [1, 2, 3, 4, 5, 6]
    assert (first["num_learners"], first["num_samples"], first["ended_at"]) == (4, 500 + 250 + 62 + 400, 9.0)
    assert first["mean_ratio"] == pytest.approx((1 + 0.5 + 0.125 + 0.8) / 4)
    assert (first["max_seconds"], first["bytes_sent"], first["distance"]) == (6.0, 320_000, 0.1)
    assert last["mean_accuracy"] == pytest.approx(sum(accuracy_after(6, h) for h in (-0.05, -0.1, -0.2, -0.12)) / 4)


def test_the_whole(summary):
    assert REPORTING.notices(summary.tables) == []
    assert "10,000 parameters · mixing on a ring graph · shares by edge-gossip · virtual clock" in summary.about
    assert (summary.seconds, summary.loss, summary.accuracy, summary.ended) == (41.0, 0.09, 0.931, "4 peers averaged")
    num_epochs = sum(summary.tables["peers"].values("epochs"))
    assert (summary.bytes_sent, summary.joules, summary.mean_seconds) == (80_000 * num_epochs, 11.0 * num_epochs, 6.0)
    assert summary.tables["missing"].rows == [(5, "laptop", 500, None, "jetson"), (5, "old", 700, 0.25, "nobody")]
    assert (summary.num_taken_over, summary.num_missing) == (1, 700)
    assert summary.tables["outages"].rows[0] == ("jetson", "redis://shelf", 10.0, 10.0, "connection refused")


def test_peers_that_come_back_or_were_never_gone():
    back = [started("a", 1.0), started("b", 1.0), epoch("b", 1, 4.0), lost("a", "b", 6.0)]
    back += [started("b", 9.0, epoch=3), epoch("b", 3, 12.0), epoch("a", 3, 13.0)]
    summary = summed_up(*back)
    assert (stays_of(summary, "b"), row_of(summary, "b")["end"]) == ([(1.0, 6.0), (9.0, 13.0)], "there")
    restarted = summed_up(started("a", 1.0), epoch("a", 1, 4.0), started("a", 9.0, epoch=2), epoch("a", 2, 12.0))
    assert stays_of(restarted, "a") == [(1.0, 4.0), (9.0, 12.0)]
    cut_off = (started("a", 1.0), started("b", 1.0), lost("a", "b", 3.0), epoch("b", 1, 4.0), epoch("b", 2, 6.0))
    summary = summed_up(*cut_off)
    assert (stays_of(summary, "b"), row_of(summary, "b")["end"], summary.num_lost) == ([(1.0, 6.0)], "there", 1)
    ended = PeerEnded(at=3.0, learner="b", reason="stopped early", epochs=1)
    summary = summed_up(started("a", 1.0), started("b", 1.0), ended, lost("a", "b", 4.0), epoch("a", 1, 5.0))
    assert (stays_of(summary, "b"), row_of(summary, "b")["end"], summary.num_lost) == ([(1.0, 3.0)], ended.reason, 0)


def test_the_record_of_a_lone_peer():
    summary = summed_up(
        BEGUN,
        PhaseStarted(at=0.5, learner="a", round=0, phase="benchmark"),
        PeerSeen(at=0.6, learner="a", other="b"),
        started("a", 1.0, known=("b",)),
        PeerSeen(at=2.0, learner="a", other="c"),
        epoch("a", 1, 4.0),
        lost("a", "c", 5.0),
        PeerSeen(at=7.0, learner="a", other="c"),
        epoch("a", 2, 8.0, loss=0.5, metrics={"accuracy": 0.8}),
    )
    assert stays_of(summary, "b") == [(0.6, 8.0)]
    assert stays_of(summary, "c") == [(2.0, 5.0), (7.0, 8.0)]
    assert (row_of(summary, "c")["own_samples"], row_of(summary, "c")["mean_ratio"]) == (None, None)
    assert summary.tables["happenings"].values("at") == [1.0, 2.0, 5.0, 7.0]
    (notice,) = REPORTING.notices(summary.tables)
    assert notice.startswith("This is the run as a saw it: other peers keep their epochs to themselves")
    states = {one["learner"]: one["state"] for one in summary.tables["now"].records()}
    assert (states["b"], states["c"]) == ("there", "back")
    assert (summary.loss, summary.accuracy) == (0.5, 0.8)  # without an average, that of its own
    titles = [section.title for section in REPORTING.shown(summary.tables)]
    assert "Accuracy" in titles
    assert "Loss" in titles
    assert "Distance of the peers from their average" not in titles


def test_the_last_average_that_was_evaluated_counts():
    summary = summed_up(
        BEGUN,
        ConsensusMeasured(at=5.0, number=1, epoch=1, num_learners=2, distance=0.1, loss=0.4, metrics={"accuracy": 0.7}),
        ConsensusMeasured(at=9.0, number=2, epoch=2, num_learners=2, distance=0.1),
    )
    assert (summary.loss, summary.accuracy, summary.seconds) == (0.4, 0.7, 9.0)


def test_a_store_that_never_came_back_and_nothing_at_all():
    gone = summed_up(started("a", 1.0), StoreLost(at=2.0, learner="a", store="s", reason="r"), epoch("a", 1, 4.0))
    assert gone.tables["outages"].rows == [("a", "s", 2.0, None, "r")]
    nothing = summed_up()
    assert (nothing.seconds, nothing.mean_ratio, nothing.tables["peers"].rows) == (0.0, None, [])
    assert [type(section).__name__ for section in REPORTING.shown(nothing.tables)] == ["Tiles"]
