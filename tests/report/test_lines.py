"""A run, and a pool, in plain lines."""

import io

import pytest
from rich.console import Console

from paceline.report import LinePrinter
from paceline.topologies.events import LearnerJoined, LearnerLeft, WaitingForLearners
from paceline.topologies.parallel.events import UpdateAudited, UpdateRefused
from paceline.topologies.parallel.pool_report import PoolReporting
from paceline.topologies.parallel.report import RunReporting
from tests.report.synthetic import run_events
from tests.report.synthetic_pool import placed, play, pool_events, submitted


@pytest.fixture
def told():
    """What is printed for these events, or tuples of event and job, as lines."""

    def told(events, encoding="utf-8", reporting=RunReporting()):
        file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        lines = LinePrinter(Console(file=file, width=20), reporting.progress())
        for event in events:
            lines.feed(*event) if isinstance(event, tuple) else lines.feed(event)
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


def test_a_cheat(told):
    cheat = UpdateAudited(at=1, round=2, learner="pi", is_honest=False)
    assert told([cheat]) == ["round 2: update of pi is a cheat: it could not be trained again as reported"]


def test_a_pool(told):
    events, jobs = pool_events()
    tagged = [(event, "") for event in events] + [(event, name) for name, own in jobs.items() for event in own]
    lines = told(sorted(tagged, key=lambda one: one[0].at), reporting=PoolReporting())
    assert lines[0] == "mnist submitted: 2 rounds of 20.0 s, 20 shards"
    assert (
        "placed mnist: pi 12, guest 8; fashion: jetson 8, laptop 12; expected: 30.0 s and 35.40 for a round of each"
    ) in lines
    rounds = [line for line in lines if "  round " in line]
    assert rounds[0] == (
        "mnist  round 1/2  2 learners  2,000 samples  15.0 s of 20.0 s  fulfilled 100.0 %  accuracy 60.0 %"
    )
    assert rounds[1].startswith("fashion  round 1/2  ")
    assert rounds[1].endswith("fulfilled 60.0 %  accuracy 90.0 %  late: jetson")
    assert rounds[-1].startswith("digits  round 1/3  ")
    assert sum(line.endswith("jetson is paid nothing") for line in lines) == 2
    assert any(line.startswith("mnist, round 2: update of guest is a cheat") for line in lines)
    assert "digits ended: budget spent, 1 round, accuracy 90.0 %" in lines
    assert lines[-1] == "ended: all jobs are over, 63.40 paid in 60.8 s"
    assert len(lines) == len(rounds) + 3 + 1 + 4 + 2 + 3 + 2 + 3 + 1


def test_names_in_a_pool_cannot_act_on_the_terminal(told):
    job, learner = "\x1b[2Jmnist", "\x1bpi"
    (*_, closed), _ = play(job, 1, 5.0, {"jetson": 1})
    refused = UpdateRefused(at=9, round=1, learner=learner, reason="\x1b")
    lines = told([(submitted(0, job), ""), (closed, job), (refused, job)], reporting=PoolReporting())
    assert "\x1b" not in "".join(lines)
    assert lines[1].startswith("\\x1b[2Jmnist  round 1/2  1 learner  100 samples  15.0 s  ")
    assert lines[2] == "\\x1b[2Jmnist, round 1: update of \\x1bpi refused: \\x1b"


def test_a_pool_tells_of_waiting_when_there_are_more_learners_than_ever_since_they_were_placed(told):
    def waits(*ready):
        return [WaitingForLearners(at=0, round=0, num_ready=number, min_learners=4) for number in ready]

    lines = told([*waits(0, 1, 0, 1, 2, 1), placed(3, {"pi": ("mnist", 4)}), *waits(1, 0)], reporting=PoolReporting())
    assert [line.split(": ")[1][0] for line in lines if line.startswith("waiting")] == ["0", "1", "2", "1"]
