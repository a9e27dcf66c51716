"""A split run in plain lines."""

import pytest

from paceline.topologies.events import LearnerJoined, PhaseStarted
from paceline.topologies.reporting.base import Milestone
from paceline.topologies.split import events
from paceline.topologies.split.progress import SplitProgress
from tests.report.synthetic_split import FLEET, JOB, epoch_of, spent, split_events


def lines_of(events):
    progress = SplitProgress()
    return [line for event in events for line in progress.lines(event)]


def started(job, **sizes):
    return events.SplitStarted(at=0, job=job, clock="live", num_parameters=sizes, paceline="0")


def ended(epoch, **more):
    return events.SplitEpochEnded(
        at=9 * epoch, epoch=epoch, seconds=8, num_steps=1, num_samples=64, num_sources=2, **more
    )


def test_a_fleet():
    lines = lines_of(split_events())
    assert lines[0] == (
        "fpl: branch 52,096 parameters × 3 sources, junction 3,000,000 parameters, trunk 127,038 parameters"
    )
    assert lines[1:6] == [
        "waiting for devices: 0 of 3 ready",
        "cam-1 joined",
        "cam-2 joined",
        "cam-3 joined",
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
    epochs = [line for line in lines if line.startswith("epoch") and "samples" in line]
    assert [isinstance(line, Milestone) for line in epochs] == [True] * 8  # never left out


@pytest.mark.parametrize(
    ("job", "line"),
    [
        ({"split": {"scheme": "gfl", "sources": ["a", "b"]}}, "gfl: branch 10 parameters × 2 sources"),
        ({"split": {}, "view": [{}, {}, {}]}, "split: branch 10 parameters × 3 sources"),
        ({"split": 7}, "split: branch 10 parameters per source"),
    ],
)
def test_a_job_need_not_say_its_sources(job, line):
    assert lines_of([started(job, branch=10, junction=0)]) == [line]


def test_the_parts_are_shown_once_the_cut_is_chosen():
    chosen = events.CutChosen(at=1, cut="f2", expected_seconds={}, num_parameters={"branch": 10, "junction": 7})
    assert lines_of([started(JOB), chosen]) == [
        "fpl: the cut is chosen when sources have measured themselves",
        "cut before f2",
        "fpl: branch 10 parameters × 3 sources, junction 7 parameters",
    ]


def test_an_epoch_waits_for_the_bytes_of_the_trunk():
    of_trunk = spent("trunk", 1, 9.0, 3.0, 1000, watts=1.0)
    begun = [started(JOB, trunk=1), ended(1)]
    assert len(lines_of(begun)) == 1
    assert lines_of([*begun, of_trunk])[1] == "epoch 1/8  2 sources  1 step  64 samples  8.00 s  sent 2 kB"
    assert lines_of([begun[0], of_trunk, begun[1]]) == lines_of([*begun, of_trunk])


def test_a_trunk_that_reports_nothing_is_not_waited_for_to_the_end():
    of_source = spent("cam", 1, 9.0, 3.0, 1000, watts=1.0)
    lines = lines_of([started(JOB), ended(1), of_source, ended(2, train_loss=0.5)])
    assert [line.split("  ")[0] for line in lines[1:]] == ["epoch 1/8"]
    assert lines[1].endswith("sent 2 kB")
    over = events.SplitEnded(at=20, reason="epochs done", epochs=2)
    lines = lines_of([started(JOB), ended(1), ended(2, train_loss=0.5), over])
    assert lines[2:] == [
        "epoch 2/8  2 sources  1 step  64 samples  8.00 s  training loss 0.500",
        "ended: epochs done, 2 epochs in 20.0 s",
    ]


def test_a_source_alone_shows_how_it_spent_its_epochs():
    spent_epochs = [
        event for event in epoch_of(FLEET, 1) if isinstance(event, events.NodeSpent) and event.learner == "cam-1"
    ]
    lines = lines_of([PhaseStarted(at=0, learner="cam-1", round=0, phase="benchmark"), *spent_epochs])
    assert lines == ["joining …", "epoch 1  11.0 s: computed 9.00 s, waited 2.00 s  sent 5 MB  received 5 MB"]
    assert lines_of([spent("cam-1", 0, 9.0, 3.0, 1000, watts=1.0)])[0].startswith("at the end  11.0 s")


def test_names_cannot_act_on_the_terminal():
    nasty = "\x1b]0;owned\x07"
    masked = events.SourceMasked(at=1, learner=nasty, epoch=1, step=1, reason=nasty)
    lines = lines_of([started({"split": {"scheme": nasty}}, **{nasty: 1}), LearnerJoined(at=0, learner=nasty), masked])
    assert len(lines) == 3
    assert "\x1b" not in "".join(lines)
