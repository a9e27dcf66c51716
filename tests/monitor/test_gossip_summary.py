"""The figures of a gossip run, by hand."""

import pytest

from paceline.monitor import Footprint, summarise_gossip
from paceline.monitor.figures import Presence
from paceline.monitor.gossip_figures import Outage, PhaseSpan
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
from tests.monitor.synthetic_gossip import JOB, accuracy_after, gossip_events


@pytest.fixture(scope="module")
def summary():
    return summarise_gossip(gossip_events())


def started(name, at, epoch=1, known=()):
    return PeerStarted(at=at, learner=name, address="", epoch=epoch, num_samples=10, known=known)


def epoch(name, number, at, **more):
    figures = {"seconds": 2.0, "num_samples": 5, "ratio": 0.5, "samples_per_second": 3.0, "train_seconds": 1.0}
    return EpochEnded(at=at, learner=name, epoch=number, **{**figures, **more})


def lost(name, other, at):
    return PeerLost(at=at, learner=name, other=other, reason="silent")


def by_name(summary):
    return {peer.name: peer for peer in summary.peers}


def test_peers(summary):
    assert [peer.name for peer in summary.peers] == ["jetson", "pi-4", "pi-zero", "laptop", "late"]
    pi = by_name(summary)["pi-4"]
    assert (pi.own_samples, len(pi.epochs), pi.num_samples) == (500, 6, 6 * 250)
    assert (pi.mean_ratio, pi.mean_seconds, pi.mean_train_seconds) == (0.5, 6.0, 5.0)
    assert (pi.mean_rank_seconds, pi.mean_exchange_seconds) == (0.5, 0.5)
    assert pi.footprint == Footprint(bytes_sent=480_000, bytes_received=480_000, cpu_seconds=33.0, joules=66.0)
    assert pi.power["busy_watts"] == 2.0
    assert pi.accuracy == accuracy_after(6, -0.1)
    assert (pi.ended.accuracy, pi.lost_because, pi.points.num_points) == (0.93, None, 50)


def test_who_was_there_when(summary):
    peers = by_name(summary)
    assert peers["jetson"].presences == (Presence(start=3.0, end=39.5),)
    assert peers["laptop"].presences == (Presence(start=3.0, end=26.0),)  # it died at 22 s, and was missed at 26 s
    assert peers["laptop"].lost_because == "it did not answer"
    assert peers["late"].presences == (Presence(start=21.0, end=39.5),)
    assert (summary.num_lost, summary.num_joined) == (1, 1)


def test_phases_follow_each_other(summary):
    phases = by_name(summary)["pi-4"].phases
    assert phases[:4] == (
        PhaseSpan(phase="benchmark", epoch=0, start=1.0, end=2.0),
        PhaseSpan(phase="aggregate", epoch=0, start=2.0, end=2.5),
        PhaseSpan(phase="idle", epoch=0, start=2.5, end=3.0),
        PhaseSpan(phase="rank", epoch=1, start=3.0, end=3.5),
    )
    assert phases[-1] == PhaseSpan(phase="exchange", epoch=6, start=38.5, end=39.0)
    cut = by_name(summary)["laptop"].phases[-1]
    assert cut == PhaseSpan(phase="train", epoch=4, start=21.5, end=26.0)


def test_epochs_over_all_peers(summary):
    assert [one.epoch for one in summary.epochs] == [1, 2, 3, 4, 5, 6]
    first, last = summary.epochs[0], summary.epochs[-1]
    assert (first.num_learners, first.num_samples, first.ended_at) == (4, 500 + 250 + 62 + 400, 9.0)
    assert first.mean_ratio == pytest.approx((1 + 0.5 + 0.125 + 0.8) / 4)
    assert (first.mean_seconds, first.max_seconds, first.bytes_sent) == (6.0, 6.0, 320_000)
    assert first.consensus.distance == 0.1
    assert last.mean_accuracy == pytest.approx(sum(accuracy_after(6, h) for h in (-0.05, -0.1, -0.2, -0.12)) / 4)


def test_the_whole(summary):
    assert summary.started.clock == "virtual"
    assert (summary.seconds, summary.loss, summary.accuracy) == (41.0, 0.09, 0.931)
    assert summary.num_samples == sum(peer.num_samples for peer in summary.peers)
    num_epochs = sum(len(peer.epochs) for peer in summary.peers)
    assert (summary.footprint.bytes_sent, summary.footprint.joules) == (80_000 * num_epochs, 11.0 * num_epochs)
    assert summary.mean_seconds == 6.0
    assert [(one.other, one.learner) for one in summary.taken_over] == [("laptop", "jetson")]
    assert [(one.others, one.num_samples) for one in summary.missing] == [(("old",), 700)]
    assert summary.outages[0] == Outage(
        learner="jetson", store="redis://shelf", reason="connection refused", start=10.0, end=20.0
    )
    assert len(summary.outages) == 2


def test_time_to_an_accuracy(summary):
    assert accuracy_after(3) < 0.8 < accuracy_after(4)
    assert summary.average_seconds_to(0.8) == pytest.approx(3 + 24 - 0.1)
    # After epoch 3, at 21 s, the models of jetson and laptop have 0.7, and that of pi-4 just 0.69.
    assert summary.median_seconds_to(0.7) == 27.0
    assert summary.median_seconds_to(0.69) == 21.0
    assert summary.average_seconds_to(0.99) is None
    assert summary.median_seconds_to(0.9) is None
    assert summarise_gossip([]).median_seconds_to(0.1) is None


def test_half_of_an_even_number_is_enough():
    events = [started("a", 1.0), started("b", 1.0), epoch("a", 1, 3.0, accuracy=0.9), epoch("b", 1, 4.0, accuracy=0.1)]
    assert summarise_gossip(events).median_seconds_to(0.9) == 3.0


def test_a_peer_that_comes_back():
    events = [
        *(started("a", 1.0), started("b", 1.0), epoch("b", 1, 4.0)),
        *(lost("a", "b", 6.0), started("b", 9.0, epoch=3), epoch("b", 3, 12.0), epoch("a", 3, 13.0)),
    ]
    summary = summarise_gossip(events)
    back = by_name(summary)["b"]
    assert back.presences == (Presence(start=1.0, end=6.0), Presence(start=9.0, end=13.0))
    assert back.lost_because is None
    assert (summary.num_lost, summary.num_joined) == (1, 1)


def test_one_that_was_restarted_before_it_was_missed():
    events = [started("a", 1.0), epoch("a", 1, 4.0), started("a", 9.0, epoch=2), epoch("a", 2, 12.0)]
    assert summarise_gossip(events).peers[0].presences == (
        Presence(start=1.0, end=4.0),
        Presence(start=9.0, end=12.0),
    )


def test_one_that_was_cut_off_but_went_on():
    events = [started("a", 1.0), started("b", 1.0), lost("a", "b", 3.0), epoch("b", 1, 4.0), epoch("b", 2, 6.0)]
    summary = summarise_gossip(events)
    assert by_name(summary)["b"].presences == (Presence(start=1.0, end=6.0),)
    assert by_name(summary)["b"].lost_because is None
    assert summary.num_lost == 1


def test_the_record_of_a_lone_peer():
    events = [
        *(PhaseStarted(at=0.5, learner="a", round=0, phase="benchmark"), PeerSeen(at=0.6, learner="a", other="b")),
        *(started("a", 1.0, known=("b",)), PeerSeen(at=2.0, learner="a", other="c"), epoch("a", 1, 4.0)),
        *(lost("a", "c", 5.0), PeerSeen(at=7.0, learner="a", other="c"), epoch("a", 2, 8.0, loss=0.5, accuracy=0.8)),
    ]
    summary = summarise_gossip(events)
    peers = by_name(summary)
    assert peers["b"].presences == (Presence(start=0.6, end=8.0),)
    assert peers["c"].presences == (Presence(start=2.0, end=5.0), Presence(start=7.0, end=8.0))
    assert (peers["c"].own_samples, peers["c"].mean_ratio, peers["c"].epochs) == (None, None, ())
    assert [type(event).__name__ for event in summary.happenings] == [
        *("PeerStarted", "PeerSeen", "PeerLost", "PeerSeen")
    ]
    assert (summary.loss, summary.accuracy) == (0.5, 0.8)  # without an average, that of its own
    assert (summary.started, summary.ended, summary.consensus) == (None, None, ())


def test_the_last_average_that_was_evaluated_counts():
    events = [
        GossipStarted(at=2.0, job=JOB, clock="live", num_parameters=1, paceline="0"),
        ConsensusMeasured(at=5.0, epoch=1, num_learners=2, distance=0.1, loss=0.4, accuracy=0.7),
        ConsensusMeasured(at=9.0, epoch=2, num_learners=2, distance=0.1),
    ]
    summary = summarise_gossip(events)
    assert (summary.loss, summary.accuracy, summary.seconds) == (0.4, 0.7, 7.0)
    assert summary.average_seconds_to(0.7) == 3.0


def test_a_store_that_never_came_back():
    events = [started("a", 1.0), StoreLost(at=2.0, learner="a", store="s", reason="r"), epoch("a", 1, 4.0)]
    assert summarise_gossip(events).outages == (Outage(learner="a", store="s", reason="r", start=2.0, end=None),)


def test_nothing():
    summary = summarise_gossip([])
    assert (summary.peers, summary.epochs, summary.seconds, summary.mean_ratio) == ((), (), 0.0, None)


def test_one_that_ended_is_not_lost():
    ended = PeerEnded(at=3.0, learner="b", reason="stopped", epochs=1)
    summary = summarise_gossip([started("a", 1.0), started("b", 1.0), ended, lost("a", "b", 4.0), epoch("a", 1, 5.0)])
    assert by_name(summary)["b"].lost_because is None
    assert by_name(summary)["b"].presences == (Presence(start=1.0, end=3.0),)
    assert summary.num_lost == 0
