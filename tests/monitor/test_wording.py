"""Numbers and happenings in words, with nothing that could act on a terminal."""

import pytest

from paceline.monitor.wording import (
    called,
    printable,
    say_amount,
    say_bytes,
    say_count,
    say_energy,
    say_event,
    say_grams,
    say_names,
    say_placements,
    say_power,
    say_ratio,
    say_seconds,
    setting,
)
from paceline.topologies.events import LearnerJoined, LearnerLeft, PhaseStarted, WaitingForLearners
from paceline.topologies.gossip.events import (
    DataMissing,
    GossipEnded,
    PartTakenOver,
    PeerEnded,
    PeerLost,
    PeerSeen,
    PeerStarted,
    StoreBack,
    StoreLost,
)
from paceline.topologies.parallel.events import (
    JobEnded,
    JobsAllocated,
    JobSubmitted,
    LearnerPaid,
    PoolEnded,
    RunStarted,
    UpdateAudited,
    UpdateRefused,
)
from paceline.topologies.split.events import CutChosen, JunctionChanged, SourceBack, SourceMasked, SplitEnded

PLACED = JobsAllocated(
    at=0, placements={"a": ("x", 3), "b": ("y", 4), "c": ("x", 1)}, expected_seconds=61.2, bound=60.0, cost=93.2
)


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


def test_amounts_and_placements():
    assert say_amount(1234.5) == "1,234.50"
    assert say_placements(PLACED) == "x: a 3, c 1; y: b 4"
    assert say_placements(PLACED, limit=1) == "x: a 3 and 1 more; y: b 4"


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
        (WaitingForLearners(at=0, round=0, num_ready=2, min_learners=4), "waiting for learners: 2 of 4 ready"),
        (UpdateAudited(at=0, round=2, learner="pi", is_honest=True, distance=0.0), None),
        (
            UpdateAudited(at=0, round=2, learner="pi\x1b", is_honest=False, distance=0.97),
            "round 2: update of pi\\x1b is a cheat: it differs from the same work done again by 97.0 % of the change",
        ),
        (
            UpdateAudited(at=0, round=2, learner="pi", is_honest=False),
            "round 2: update of pi is a cheat: it could not be trained again as told",
        ),
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


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (
            JobSubmitted(at=0, job="x\x1b", rounds=5, deadline_seconds=40, num_shards=1),
            "x\\x1b submitted: 5 rounds of 40.0 s, 1 shard",
        ),
        (PLACED, "placed x: a 3, c 1; y: b 4; expected: 61.2 s and 93.20 for a round of each"),
        (
            JobsAllocated(at=0, placements={}, expected_seconds=0, bound=0, cost=0, idle=("a",), waiting=("x", "y")),
            "placed nobody; idle: a; without learners: x, y",
        ),
        (JobEnded(at=9, job="x", reason="budget spent", rounds=1), "x ended: budget spent, 1 round"),
        (
            JobEnded(at=9, job="x", reason="rounds done", rounds=5, accuracy=0.971),
            "x ended: rounds done, 5 rounds, accuracy 97.1 %",
        ),
        (PoolEnded(at=83.14, reason="all jobs are over", spent=12.5), "ended: all jobs are over, 12.50 paid in 83.1 s"),
    ],
)
def test_events_of_a_pool(event, said):
    assert say_event(event) == said


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (PeerStarted(at=0, learner="pi\x1b", address="", epoch=1, num_samples=1), "pi\\x1b joined with 1 sample"),
        (
            PeerStarted(at=0, learner="pi", address="", epoch=4, num_samples=500),
            "pi joined with 500 samples, from epoch 4 on",
        ),
        (PeerSeen(at=0, learner="a", other="b"), "a heard of b"),
        (PeerLost(at=0, learner="a", other="b", reason="silent"), "b is gone: silent (missed first by a)"),
        (
            PartTakenOver(at=0, learner="a", other="b", epoch=3, num_samples=70),
            "epoch 3: a trains the 70 samples of b, too",
        ),
        (
            DataMissing(at=0, learner="a", epoch=3, others=("b", "c"), share_failed=0.5, num_samples=140),
            "epoch 3: 50.0 % of all peers failed; 140 samples of b, c are missing",
        ),
        (StoreLost(at=0, learner="a", store="redis", reason="no\nway"), "a cannot reach the store redis: no\\nway"),
        (StoreBack(at=0, learner="a", store="redis"), "all reach the store redis again"),
        (PeerEnded(at=0, learner="a", reason="stopped", epochs=1), "a ended: stopped, 1 epoch"),
        (
            GossipEnded(at=12, averaged=("a", "b"), accuracy=0.9),
            "ended: average of 2 peers, accuracy 90.0 %, in 12.0 s",
        ),
    ],
)
def test_events_of_a_gossip_run(event, said):
    assert say_event(event) == said


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (
            CutChosen(at=0, cut="f2\x1b", expected_seconds={"f1": 14.5, "f2\x1b": 10.2, "c2": 9.0}, num_parameters={}),
            "cut before f2\\x1b, 10.2 s expected for an epoch; instead: c2 9.00 s, f1 14.5 s",
        ),
        (CutChosen(at=0, cut="f2", expected_seconds={}, num_parameters={}), "cut before f2"),
        (
            JunctionChanged(at=0, epoch=3, sources=("a", "b\x1b"), num_parameters=2000),
            "epoch 3: the junction merges 2 sources (a, b\\x1b), 2,000 parameters",
        ),
        (
            JunctionChanged(at=0, epoch=3, sources=(), num_parameters=0),
            "epoch 3: the junction merges no source, 0 parameters",
        ),
        (
            SourceMasked(at=0, learner="pi\x1b", epoch=2, step=7, reason="no\nanswer"),
            "epoch 2, step 7: pi\\x1b is masked: no\\nanswer",
        ),
        (SourceBack(at=0, learner="pi\x1b", epoch=2, step=9), "epoch 2, step 9: pi\\x1b is back"),
        (
            SplitEnded(at=83.14, reason="no improvement", epochs=9, accuracy=0.812),
            "ended: no improvement, 9 epochs in 83.1 s, accuracy 81.2 %",
        ),
    ],
)
def test_events_of_a_split_run(event, said):
    assert say_event(event) == said


def test_bytes():
    sizes = (0, 812, 999, 1250, 83_100_000_000, 5e15)
    assert [say_bytes(size) for size in sizes] == ["0 B", "812 B", "999 B", "1.25 kB", "83.1 GB", "5,000 TB"]


def test_energy_and_mass():
    assert [say_energy(joules) for joules in (0, 0.36, 45, 3598, 3600, 9e6, 9e12)] == [
        *("0 mWh", "0.1 mWh", "12.5 mWh", "999 mWh", "1 Wh", "2.5 kWh", "2,500 MWh")
    ]
    assert [say_grams(grams) for grams in (0.00312, 0.9997, 12.5, 83_100)] == ["3.12 mg", "1 g", "12.5 g", "83.1 kg"]


def test_what_a_device_draws():
    assert say_power({"source": "model", "busy_watts": 0.9, "idle_watts": 0.0, "joules_per_byte": 0.0}) == (
        "0.9 W per busy core"
    )
    assert say_power({"busy_watts": 6.0, "idle_watts": 2.5, "joules_per_byte": 2e-4}) == (
        "6 W per busy core, 2.5 W all the time, 0.0002 J per byte"
    )
    assert say_power({"source": "codecarbon", "busy_watts": 6.0}) == "CodeCarbon"
    assert (say_power({}), say_power(None), say_power({"busy_watts": 0})) == ("–", "–", "nothing is counted")


def test_who_is_paid_is_told_of_those_who_get_nothing():
    def paid(num_samples):
        counts = {"num_shards": 2, "num_samples": num_samples, "shards": num_samples / 10}
        return LearnerPaid(at=0, job="x", round=3, learner="pi", price=0.0, amount=0.0, **counts)

    assert say_event(paid(0)) == "x, round 3: pi is paid nothing"
    assert say_event(paid(10)) is None


def test_what_happened_in_a_job_of_a_pool():
    refused = UpdateRefused(at=0, round=9, learner="pi", reason="no such round")
    assert say_event(refused, "x\n") == "x\\n, round 9: update of pi refused: no such round"
    assert say_event(PhaseStarted(at=0, learner="pi", round=1, phase="train"), "x") is None


def test_settings_of_a_job():
    assert setting({"job": {"rounds": 3}}, "job", "rounds") == 3
    assert (
        setting({"job": {}}, "job", "rounds") is setting({}, "job", "rounds") is setting({"job": 1}, "job", "x") is None
    )


def test_what_a_job_calls_its_parts():
    assert called({"model": {"name": "cnn\x1b"}}, "model") == "cnn\\x1b"
    assert called({"allocation": {"policy": "med"}}, "allocation") == "med"
    assert called({"model": {"name": 3}}, "model") == called({}, "model") == "–"
