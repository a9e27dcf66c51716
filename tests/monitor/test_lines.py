"""A run in plain lines."""

import io

import pytest
from rich.console import Console

from paceline.events import LearnerJoined, LearnerLeft, WaitingForLearners
from paceline.monitor import PlainLines
from tests.monitor.synthetic import run_events


@pytest.fixture
def told():
    """What is printed for these events, as lines."""

    def told(events, encoding="utf-8"):
        file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        lines = PlainLines(Console(file=file, width=20))
        for event in events:
            lines.tell(event)
        file.seek(0)
        return file.read().splitlines()

    return told


def test_a_run(told):
    lines = told(run_events())
    assert lines[0] == "round 1 waits for learners: 0 of 2 ready"
    assert "round 2/10  5 learners  3,616 samples  0.939 s of 1.00 s  loss 1.327  accuracy 51.9 %" in lines
    assert "pi-4 left: not heard of for 1.1 s" in lines
    assert sum(line.startswith("round ") and "accuracy" in line for line in lines) == 10
    (late,) = [line for line in lines if line.endswith("late: pi-zero")]
    assert late.startswith("round 7/10")
    assert lines[-1] == "ended: rounds done, 10 rounds in 12.3 s"
    assert "\x1b" not in "".join(lines)


def test_names_cannot_act_on_the_terminal(told):
    assert told([LearnerJoined(at=0, learner="\x1b]0;owned\x07[red]pi[/red]")]) == [
        "\\x1b]0;owned\\x07[red]pi[/red] joined"
    ]


def test_what_an_old_encoding_lacks_is_replaced(told):
    assert told([LearnerJoined(at=0, learner="机")], encoding="ascii") == ["? joined"]


def test_waiting_is_told_once_per_change(told):
    waits = [WaitingForLearners(at=at, round=1, num_ready=ready, min_learners=3) for at, ready in enumerate((0, 0, 1))]
    assert len(told(waits)) == 2


def test_very_many_alike_are_counted(told):
    joins = [LearnerJoined(at=at, learner=f"d{at}") for at in range(1000)]
    lines = told([*joins, LearnerLeft(at=1001, learner="d1", reason="goodbye")])
    assert len(lines) == 22
    assert lines[-2:] == ["... and 980 more like these", "d1 left: goodbye"]
    assert sum("accuracy" in line for line in told(run_events(rounds=60))) == 60
