"""A split run in plain lines."""

import io

import pytest
from rich.console import Console

from paceline.monitor import SplitLines
from paceline.topologies.events import LearnerJoined
from paceline.topologies.split.events import (
    CutChosen,
    NodeSpent,
    SourceMasked,
    SplitEnded,
    SplitEpochEnded,
    SplitStarted,
)
from tests.monitor.synthetic_split import FLEET, JOB, epoch_of, spent, split_events


@pytest.fixture
def told():
    """What is printed for these events, as lines."""

    def told(events):
        file = io.StringIO()
        lines = SplitLines(Console(file=file, width=20))
        for event in events:
            lines.tell(event)
        return file.getvalue().splitlines()

    return told


def started(job, **sizes):
    return SplitStarted(at=0, job=job, clock="live", num_parameters=sizes, paceline="0")


def ended(epoch, **more):
    return SplitEpochEnded(at=9 * epoch, epoch=epoch, seconds=8, num_steps=1, num_samples=64, num_sources=2, **more)


def test_a_fleet(told):
    lines = told(split_events())
    assert lines[0] == (
        "fpl: branch 52,096 parameters × 3 sources, junction 3,000,000 parameters, trunk 127,038 parameters"
    )
    assert lines[1:6] == [
        "waiting for learners: 0 of 3 ready",
        *("cam-1 joined", "cam-2 joined", "cam-3 joined"),
        "cut before f2, 10.2 s expected for an epoch; instead: f1 14.5 s, c2 45.0 s",
    ]
    work = "3 sources  90 steps  5,760 samples  10.0 s  sent 30 MB"
    assert lines[6] == f"epoch 1/8  {work}  loss 1.000  accuracy 54.0 %"
    assert f"epoch 3/8  {work}  45 inputs missing  loss 0.680  accuracy 77.0 %" in lines
    assert "epoch 3, step 46: cam-2 is masked: nothing came within 0.5 s" in lines
    assert "epoch 4, step 1: cam-2 is back" in lines
    assert "epoch 4: the junction merges 4 sources (cam-1, cam-2, cam-3, late), 4,000,000 parameters" in lines
    assert "cam-3 left: it said goodbye" in lines
    assert lines[-1] == "ended: no improvement, 8 epochs in 93.0 s, accuracy 87.2 %"
    assert sum(line.startswith("epoch") and "samples" in line for line in lines) == 8


@pytest.mark.parametrize(
    ("job", "line"),
    [
        ({"split": {"scheme": "gfl", "sources": ["a", "b"]}}, "gfl: branch 10 parameters × 2 sources"),
        ({"split": {}, "view": [{}, {}, {}]}, "split: branch 10 parameters × 3 sources"),
        ({"split": 7}, "split: branch 10 parameters per source"),
    ],
)
def test_a_job_need_not_tell_its_sources(told, job, line):
    assert told([started(job, branch=10, junction=0)]) == [line]


def test_the_parts_are_told_once_the_cut_is_chosen(told):
    chosen = CutChosen(at=1, cut="f2", expected_seconds={}, num_parameters={"branch": 10, "junction": 7})
    assert told([started(JOB), chosen]) == [
        "fpl: the cut is chosen when sources have measured themselves",
        "cut before f2",
        "fpl: branch 10 parameters × 3 sources, junction 7 parameters",
    ]


def test_an_epoch_waits_for_the_trunk_to_tell_its_bytes(told):
    of_trunk = spent("trunk", 1, 9.0, 3.0, 1000, watts=1.0)
    begun = [started(JOB, trunk=1), ended(1)]
    assert len(told(begun)) == 1
    assert told([*begun, of_trunk])[1] == "epoch 1/8  2 sources  1 step  64 samples  8.00 s  sent 2 kB"
    assert told([begun[0], of_trunk, begun[1]]) == told([*begun, of_trunk])


def test_a_trunk_that_does_not_tell_is_not_waited_for_to_the_end(told):
    of_source = spent("cam", 1, 9.0, 3.0, 1000, watts=1.0)
    lines = told([started(JOB), ended(1), of_source, ended(2, train_loss=0.5)])
    assert [line.split("  ")[0] for line in lines[1:]] == ["epoch 1/8"]
    assert lines[1].endswith("sent 2 kB")
    over = SplitEnded(at=20, reason="epochs done", epochs=2)
    lines = told([started(JOB), ended(1), ended(2, train_loss=0.5), over])
    assert lines[2:] == [
        "epoch 2/8  2 sources  1 step  64 samples  8.00 s  training loss 0.500",
        "ended: epochs done, 2 epochs in 20.0 s",
    ]


def test_a_source_alone_tells_how_it_spent_its_epochs(told):
    events = [event for event in epoch_of(FLEET, 1) if isinstance(event, NodeSpent) and event.learner == "cam-1"]
    assert told(events) == ["epoch 1  11.0 s: computed 9.00 s, waited 2.00 s  sent 5 MB  received 5 MB"]


def test_names_cannot_act_on_the_terminal(told):
    nasty = "\x1b]0;owned\x07"
    masked = SourceMasked(at=1, learner=nasty, epoch=1, step=1, reason=nasty)
    lines = told([started({"split": {"scheme": nasty}}, **{nasty: 1}), LearnerJoined(at=0, learner=nasty), masked])
    assert len(lines) == 3
    assert "\x1b" not in "".join(lines)


def test_many_epochs_are_all_told(told):
    assert sum("samples" in line for line in told([ended(epoch) for epoch in range(1, 62)])) == 60
