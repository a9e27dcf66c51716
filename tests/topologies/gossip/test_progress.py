"""A gossip run in plain lines."""

import io

from rich.console import Console

from paceline.report import LinePrinter
from paceline.topologies.gossip.events import ConsensusMeasured, PeerEnded, PeerLost, PeerStarted
from paceline.topologies.gossip.progress import GossipProgress
from tests.report.synthetic_gossip import Peer, epoch_of, gossip_events, start_of


def printed(events):
    """What is printed for these events, as lines."""
    file = io.StringIO()
    lines = LinePrinter(Console(file=file, width=20), GossipProgress())
    for event in events:
        lines.feed(event)
    return file.getvalue().splitlines()


def peers(names):
    return [Peer(name=name, samples_per_second=50.0) for name in names]


def starts(fleet):
    return [start_of(peer, 3.0)[-1] for peer in fleet]


def ended(peer, epoch):
    """That a peer ended an epoch."""
    return epoch_of(peer, epoch, 6.0 * epoch)[-1]


def test_a_fleet():
    lines = printed(gossip_events())
    epochs = [line for line in lines if line.startswith("epoch ") and "accuracy" in line]
    work, result = "epoch 1/6  4 peers  1,212 samples  6.00 s, at most 6.00 s", "distance 0.1  accuracy 53.0 %"
    assert epochs[0] == f"{work}  kept 60.6 %  sent 320 kB  {result}"
    assert len(epochs) == 6
    assert "late joined with 500 samples, from epoch 4 on" in lines
    assert [line for line in lines if " is gone" in line] == ["laptop is gone: it did not answer (reported by jetson)"]
    assert lines.index("the store redis://shelf is back") > lines.index(
        "jetson cannot reach the store redis://shelf: connection refused"
    )
    assert "epoch 5: jetson trains the 500 samples of laptop, too" in lines
    assert "epoch 5: 25.0 % of all peers failed; 700 samples of old are missing" in lines
    assert lines[-1] == "ended: average of 4 peers, accuracy 93.1 %, in 41.0 s"
    assert len(lines) == 5 + 6 + 1 + 2 + 2 + 1


def test_a_lone_peer_reports_each_epoch_as_it_ends():
    (peer,) = peers(["pi"])
    events = [*start_of(peer, 3.0), *epoch_of(peer, 1, 3.0), *epoch_of(peer, 2, 9.0)]
    lines = printed(events)
    assert lines[0] == "pi joined with 500 samples"
    assert lines[1] == "epoch 1  1 peer  250 samples  6.00 s  kept 50.0 %  sent 80 kB  accuracy 48.0 %"
    assert len(lines) == 3


def test_an_epoch_is_printed_when_all_have_ended_it_or_most_the_next():
    fleet = peers("abc")
    first, second = ([ended(peer, epoch) for peer in fleet] for epoch in (1, 2))
    assert len(printed([*starts(fleet), *first[:2]])) == 3
    assert printed([*starts(fleet), *first])[3].startswith("epoch 1  3 peers")
    assert len(printed([*starts(fleet), *first[:2], second[0]])) == 3
    assert printed([*starts(fleet), *first[:2], *second[:2]])[3].startswith("epoch 1  2 peers")


def test_a_peer_that_joins_late_is_not_waited_for_before():
    early, late = Peer(name="a", samples_per_second=50.0), Peer(name="b", samples_per_second=50.0, first=3)
    events = [*starts([early, late]), *(ended(early, epoch) for epoch in (1, 2, 3))]
    assert [line[:7] for line in printed(events)[2:]] == ["epoch 1", "epoch 2"]
    assert printed([*events, ended(late, 3)])[-1].startswith("epoch 3  2 peers")


def test_the_dead_and_those_that_ended_are_not_waited_for():
    fleet = peers("abcd")
    gone = [PeerLost(at=15.0, learner="a", other=name, reason="silent") for name in "cd"]
    lines = printed([*starts(fleet), ended(fleet[0], 1), ended(fleet[1], 1), *gone])
    assert lines[4:] == ["c is gone: silent (reported by a)", lines[5], "d is gone: silent (reported by a)"]
    assert lines[5].startswith("epoch 1  2 peers")
    ends = [PeerEnded(at=20.0, learner=name, reason="stopped early", epochs=1) for name in "bcd"]
    lines = printed([*starts(fleet), ended(fleet[0], 1), *ends])
    assert len(lines) == 5
    assert lines[4].startswith("epoch 1  1 peer")


def test_the_end_of_one_of_many_is_no_news_if_it_has_done_all():
    fleet = peers("ab")
    ends = [PeerEnded(at=20.0, learner=name, reason="epochs done", epochs=2) for name in "ab"]
    assert len(printed([*starts(fleet), *ends])) == 2
    assert printed([*starts(fleet[:1]), ends[0]])[-1] == "a ended: epochs done, 2 epochs"


def test_names_cannot_act_on_the_terminal():
    nasty = "\x1b]0;owned\x07"
    started = PeerStarted(at=0, learner=nasty, address="", epoch=1, num_samples=1)
    gone = PeerLost(at=1, learner=nasty, other=nasty, reason=nasty)
    lines = printed([started, gone])
    assert len(lines) == 2
    assert "\x1b" not in "".join(lines)


def test_many_epochs_are_all_printed():
    (peer,) = peers(["pi"])
    events = [*starts([peer]), *(ended(peer, epoch) for epoch in range(1, 61))]
    assert sum(line.startswith("epoch") for line in printed(events)) == 60


def test_an_average_that_was_not_evaluated():
    one, other = peers("ab")
    measured = ConsensusMeasured(at=15.0, number=1, epoch=1, num_learners=2, distance=0.25)
    lines = printed([*starts([one, other]), ended(one, 1), measured, ended(other, 1)])
    assert lines[-1].endswith("distance 0.25  accuracy 48.0 %")
