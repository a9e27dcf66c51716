"""A run, and a pool, in plain lines."""

import io

from rich.console import Console

from paceline.report import LinePrinter
from paceline.topologies.events import LearnerJoined, LearnerLeft, WaitingForLearners
from paceline.topologies.parallel.events import RoundSpent, UpdateAudited, UpdateRefused
from paceline.topologies.parallel.pool_progress import PoolProgress
from paceline.topologies.parallel.progress import LearnerProgress, RunProgress
from tests.report.synthetic import run_events
from tests.report.synthetic_pool import placed, play, pool_events, submitted


def printed(events, encoding="utf-8", progress=None):
    """Return what is printed for these events, or tuples of event and job, as lines."""
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    lines = LinePrinter(Console(file=file, width=20), progress or RunProgress())
    for event in events:
        lines.feed(*event) if isinstance(event, tuple) else lines.feed(event)
    file.seek(0)
    return file.read().splitlines()


def test_a_run():
    lines = printed(run_events())
    assert lines[0] == "round 1 waits for devices: 0 of 2 ready"
    assert "round 2/10  5 learners  3,616 samples  0.939 s of 1.00 s  loss 1.327  accuracy 51.9 %" in lines
    assert "pi-4 left: not heard of for 1.1 s" in lines
    assert sum(line.startswith("round ") and "accuracy" in line for line in lines) == 10
    (late,) = [line for line in lines if line.endswith("late: pi-zero")]
    assert late.startswith("round 7/10")
    assert lines[-1] == "ended: rounds done, 10 rounds in 12.3 s"
    cheat = UpdateAudited(at=1, round=2, learner="pi", is_honest=False)
    assert printed([cheat]) == ["round 2: update of pi failed its audit: it could not be trained again as reported"]


def test_names_cannot_act_on_the_terminal_and_what_an_encoding_lacks_is_replaced():
    joined = LearnerJoined(at=0, learner="\x1b]0;owned\x07[red]机[/red]")
    assert printed([joined], encoding="ascii") == ["\\x1b]0;owned\\x07[red]?[/red] joined"]
    job, learner = "\x1b[2Jmnist", "\x1bpi"
    (*_, closed), _ = play(job, 1, 5.0, {"jetson": 1})
    refused = UpdateRefused(at=9, round=1, learner=learner, reason="\x1b")
    lines = printed([(submitted(0, job), ""), (closed, job), (refused, job)], progress=PoolProgress())
    assert "\x1b" not in "".join(lines)
    assert lines[1].startswith("\\x1b[2Jmnist  round 1/2  1 learner  100 samples  15.0 s  ")
    assert lines[2] == "\\x1b[2Jmnist, round 1: update of \\x1bpi refused: \\x1b"


def test_very_many_alike_are_counted():
    joins = [LearnerJoined(at=at, learner=f"d{at}") for at in range(1000)]
    lines = printed([*joins, LearnerLeft(at=1001, learner="d1", reason="goodbye")])
    assert len(lines) == 22
    assert lines[-2:] == ["... and 980 more like these", "d1 left: goodbye"]
    assert sum("accuracy" in line for line in printed(run_events(rounds=60))) == 60


def test_a_device_shows_all_its_rounds():
    rounds = [event for event in run_events(rounds=60) if isinstance(event, RoundSpent)]
    assert len(rounds) > 20
    assert len(printed(rounds, progress=LearnerProgress())) == len(rounds)


def test_a_pool():
    events, jobs = pool_events()
    tagged = [(event, "") for event in events] + [(event, name) for name, own in jobs.items() for event in own]
    lines = printed(sorted(tagged, key=lambda one: one[0].at), progress=PoolProgress())
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
    assert sum(line.endswith("jetson is paid nothing") for line in lines) == 2
    assert any(line.startswith("mnist, round 2: update of guest failed its audit") for line in lines)
    assert "digits ended: budget spent, 1 round, accuracy 90.0 %" in lines
    assert lines[-1] == "ended: all jobs are over, 63.40 paid in 60.8 s"
    assert len(lines) == len(rounds) + 3 + 1 + 4 + 2 + 3 + 2 + 3 + 1


def test_waiting_is_shown_once_per_change_and_in_a_pool_when_more_are_ready_than_ever():
    def waits(*ready):
        return [WaitingForLearners(at=0, round=0, num_ready=number, min_learners=4) for number in ready]

    assert len(printed(waits(0, 0, 1))) == 2
    lines = printed([*waits(0, 1, 0, 1, 2, 1), placed(3, {"pi": ("mnist", 4)}), *waits(1, 0)], progress=PoolProgress())
    assert [line.split(": ")[1][0] for line in lines if line.startswith("waiting")] == ["0", "1", "2", "1"]
