"""The figures of a split run, by hand."""

import math

import pytest

from paceline.monitor import summarise_split
from paceline.monitor.figures import Presence
from paceline.monitor.split_figures import Mask, Part
from paceline.topologies.events import LearnerJoined, LearnerLeft, WaitingForLearners
from paceline.topologies.split.events import (
    NodeSpent,
    SourceBack,
    SourceMasked,
    SplitEnded,
    SplitEpochEnded,
    SplitStarted,
)
from tests.monitor.synthetic_split import BYTES, accuracy_after, loss_after, split_events


@pytest.fixture(scope="module")
def summary():
    return summarise_split(split_events())


def by_name(summary):
    return {node.name: node for node in summary.nodes}


def ended(epoch, **more):
    return SplitEpochEnded(at=epoch, epoch=epoch, seconds=1.0, num_steps=1, num_samples=1, num_sources=2, **more)


def spent(name, epoch, **more):
    figures = {"seconds": 2.0, "compute_seconds": 1.5, "wait_seconds": 0.5, "bytes_sent": 3, "bytes_received": 4}
    return NodeSpent(at=epoch, learner=name, epoch=epoch, **{**figures, **more})


def masked(name, at):
    return SourceMasked(at=at, learner=name, epoch=1, step=2, reason="silent")


def test_nodes(summary):
    assert [node.name for node in summary.nodes] == ["trunk", "cam-1", "cam-2", "cam-3", "late"]
    assert [node.name for node in summary.sources] == ["cam-1", "cam-2", "cam-3", "late"]
    camera, trunk = by_name(summary)["cam-2"], by_name(summary)["trunk"]
    assert (len(camera.epochs), camera.mean_seconds) == (8, 11.0)
    assert (camera.mean_compute_seconds, camera.mean_wait_seconds) == (4.0, 7.0)
    assert (camera.bytes_sent, camera.bytes_received) == (8 * BYTES, 8 * BYTES)
    assert (camera.cpu_seconds, camera.joules) == (32.0, 160.0)
    assert trunk.bytes_received == sum(node.bytes_sent for node in summary.sources)
    assert (trunk.presences, trunk.masks) == ((), ())


def test_who_was_there_and_who_was_masked(summary):
    nodes = by_name(summary)
    assert nodes["cam-1"].presences == (Presence(start=1.0, end=93.0),)
    assert nodes["cam-3"].presences == (Presence(start=1.0, end=60.0),)
    assert nodes["late"].presences == (Presence(start=38.0, end=93.0),)
    assert (nodes["cam-1"].left_because, nodes["cam-3"].left_because) == (None, "it said goodbye")
    assert nodes["cam-2"].masks == (Mask(epoch=3, step=46, reason="nothing came within 0.5 s", start=32.0, end=38.0),)


def test_epochs(summary):
    assert [one.ended.epoch for one in summary.epochs] == list(range(1, 9))
    third = summary.epochs[2]
    assert (third.ended.num_masked, third.bytes_moved) == (45, 6 * BYTES)
    assert third.joules == 40.0 * 3.0 + 5.0 * (9.0 + 4.0 + 6.0)


def test_the_whole(summary):
    assert (summary.started.clock, summary.ended.reason, summary.cut.cut) == ("virtual", "no improvement", "f2")
    assert (summary.seconds, summary.mean_seconds, summary.num_samples) == (93.0, 10.0, 8 * 5760)
    assert (summary.num_masked, summary.bytes_moved) == (45, (3 * 6 + 2 * 8 + 3 * 6) * BYTES)
    assert summary.bytes_moved == sum(one.bytes_moved for one in summary.epochs)
    assert summary.joules == pytest.approx(sum(one.joules for one in summary.epochs))
    assert summary.cpu_seconds == sum(node.cpu_seconds for node in summary.nodes)
    assert [one.epoch for one in summary.junctions] == [4, 6]
    assert [type(event).__name__ for event in summary.happenings[:5]] == [
        *("WaitingForLearners", "LearnerJoined", "LearnerJoined", "LearnerJoined", "CutChosen")
    ]


def test_parts_are_those_of_the_last_junction(summary):
    assert summary.parts == (
        Part(name="branch", num_parameters=52_096, num_copies=3),
        Part(name="junction", num_parameters=3_000_000),
        Part(name="trunk", num_parameters=127_038),
    )
    assert summary.num_parameters == 3 * 52_096 + 3_000_000 + 127_038


def test_parts_without_a_junction():
    sizes = {"branch": 10, "junction": 0, "trunk": 5}
    begun = SplitStarted(at=0, job={}, clock="live", num_parameters=sizes, paceline="0")
    joined = [LearnerJoined(at=1, learner=name) for name in "abc"]
    parts = (Part(name="branch", num_parameters=10, num_copies=3), Part(name="trunk", num_parameters=5))
    assert summarise_split([begun, *joined]).parts == parts
    assert summarise_split([begun, *joined, ended(1)]).parts[0].num_copies == 2


def test_the_best_epoch_is_told_beside_what_came_last(summary):
    assert summary.best.ended.epoch == 6
    assert (summary.loss, summary.accuracy) == (loss_after(6), accuracy_after(6))


def test_the_best_so_far_has_the_lowest_loss():
    events = [ended(1, loss=0.9, accuracy=0.5), ended(2, loss=0.6, accuracy=0.8), ended(3, loss=0.7, accuracy=0.9)]
    summary = summarise_split(events)
    assert (summary.best.ended.epoch, summary.loss, summary.accuracy) == (2, 0.7, 0.9)
    assert summarise_split([*events, ended(4, loss=math.nan), ended(5)]).best.ended.epoch == 2
    assert summarise_split([ended(1, accuracy=0.5), ended(2, accuracy=0.7)]).best.ended.epoch == 2
    over = SplitEnded(at=9, reason="epochs done", epochs=3, loss=0.7, accuracy=0.9)
    summary = summarise_split([*events, over])
    assert (summary.best.ended.epoch, summary.accuracy) == (2, 0.9)


def test_what_came_before_the_first_epoch_counts_but_is_no_epoch():
    summary = summarise_split([spent("a", 0, bytes_sent=1000, joules=2.0), spent("a", 1)])
    (node,) = summary.nodes
    assert (len(node.epochs), node.mean_seconds, node.bytes_sent, node.joules) == (1, 2.0, 1003, 2.0)
    assert summary.bytes_moved == 1007 + 4


def test_bytes_are_those_of_the_trunk_if_it_told():
    sources = [spent("a", 1), spent("b", 1)]
    assert summarise_split(sources).bytes_moved == 14
    assert summarise_split([*sources, spent("trunk", 1, bytes_sent=8, bytes_received=7)]).bytes_moved == 15
    assert summarise_split([spent("trunk", 1), spent("a", 2)]).bytes_moved == 14


def test_a_source_that_is_masked_to_the_end_or_leaves_masked():
    joined = [LearnerJoined(at=1, learner=name) for name in "ab"]
    events = [*joined, masked("a", 2), masked("b", 3), masked("b", 4), LearnerLeft(at=5, learner="b", reason="gone")]
    nodes = by_name(summarise_split([*events, ended(9)]))
    assert [mask.end for mask in nodes["a"].masks] == [None]
    assert [(mask.start, mask.end) for mask in nodes["b"].masks] == [(3, 5)]
    assert nodes["b"].presences == (Presence(start=1, end=5),)


def test_a_source_that_comes_back():
    events = [
        *(LearnerJoined(at=1, learner="a"), LearnerLeft(at=3, learner="a", reason="gone")),
        *(LearnerJoined(at=6, learner="a", is_back=True), SourceBack(at=6, learner="a", epoch=2, step=1), ended(9)),
    ]
    (node,) = summarise_split(events).nodes
    assert node.presences == (Presence(start=1, end=3), Presence(start=6, end=9))
    assert (node.left_because, node.masks) == (None, ())


def test_waits_are_told_once():
    waits = [
        WaitingForLearners(at=at, round=0, num_ready=ready, min_learners=3) for at, ready in ((1, 0), (2, 0), (3, 1))
    ]
    assert [event.at for event in summarise_split(waits).happenings] == [1, 3]


def test_nothing():
    summary = summarise_split([])
    assert (summary.nodes, summary.epochs, summary.best, summary.parts) == ((), (), None, ())
    assert (summary.seconds, summary.mean_seconds, summary.bytes_moved, summary.accuracy) == (0.0, None, 0, None)
