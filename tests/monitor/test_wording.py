"""Numbers and happenings in words, with nothing that could act on a terminal."""

import pytest

from paceline.events import (
    LearnerJoined,
    LearnerLeft,
    PhaseStarted,
    RunStarted,
    UpdateRefused,
    WaitingForLearners,
)
from paceline.monitor.wording import printable, say_count, say_event, say_names, say_ratio, say_seconds, setting


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        *((0, "0.000 s"), (0.0421, "0.042 s"), (1.254, "1.25 s"), (83.14, "83.1 s"), (725, "12 min 5 s")),
        *((12_000, "3 h 20 min"), (-0.5, "-0.500 s")),
    ],
)
def test_seconds(seconds, said):
    assert say_seconds(seconds) == said


def test_ratios():
    assert say_ratio(0.875) == "87.5 %"
    assert [say_ratio(ratio, signed=True) for ratio in (0.021, -0.021, 0.0, -0.0001)] == [
        *("+2.1 %", "−2.1 %", "0.0 %", "0.0 %")
    ]


def test_counts_and_names():
    assert (say_count(1, "learner"), say_count(12_340, "sample")) == ("1 learner", "12,340 samples")
    assert say_names(["a", "b"]) == "a, b"
    assert say_names(list("abcdefg"), limit=5) == "a, b, c, d, e and 2 more"


def test_what_could_act_on_a_terminal_is_written_out():
    assert printable("pi 4 ü 机") == "pi 4 ü 机"
    assert printable("\x1b[2J\n\u202e") == "\\x1b[2J\\n\\u202e"


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (LearnerJoined(at=0, learner="pi\x1b"), "pi\\x1b joined"),
        (LearnerJoined(at=0, learner="pi", is_back=True), "pi is back"),
        (LearnerLeft(at=0, learner="pi", reason="said\ngoodbye"), "pi left: said\\ngoodbye"),
        (
            UpdateRefused(at=0, round=3, learner="pi", reason="late", seconds=1.04, is_late=True),
            "round 3: update of pi too late, after 1.04 s",
        ),
        (
            UpdateRefused(at=0, round=9, learner="pi", reason="no such round"),
            "round 9: update of pi refused: no such round",
        ),
        (WaitingForLearners(at=0, round=1, num_ready=2, min_learners=4), "round 1 waits for learners: 2 of 4 ready"),
        (
            RunStarted(at=0, job={}, clock="live", first_round=5, num_parameters=1, num_shards=1, paceline="0"),
            "run resumed at round 5",
        ),
        (RunStarted(at=0, job={}, clock="live", first_round=1, num_parameters=1, num_shards=1, paceline="0"), None),
        (PhaseStarted(at=0, learner="pi", round=1, phase="train"), None),
    ],
)
def test_events(event, said):
    assert say_event(event) == said


def test_settings_of_a_job():
    assert setting({"job": {"rounds": 3}}, "job", "rounds") == 3
    assert (
        setting({"job": {}}, "job", "rounds") is setting({}, "job", "rounds") is setting({"job": 1}, "job", "x") is None
    )
