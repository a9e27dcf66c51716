"""What is made of the rows."""

import random

import pytest

from papers.med.measures import Averages, checks, learned, shares_closed
from papers.med.setting import SCHEMES

SECONDS = {"med": 20.0, "mmtt-ideal": 16.0, "mmtt-uncertain": 25.0, "med-held-back": 17.0}


def rows_of(seconds, *, size=4, seed=0, part="time", **others):
    """Two jobs of each scheme, one a second longer and one a second shorter than told."""
    figures = {"satisfaction": 100.0, "fulfilment": 98.0, "drop": 2.0, "occupancy": 90.0, "late": 0, "unproven": 0}
    return [
        {
            "seed": seed,
            "learners": size,
            "part": part,
            "scheme": scheme,
            "job": job,
            "seconds": seconds[scheme] + more,
            "accuracy": None,
            "apart": None,
            **{name: others.get(name, {}).get(scheme, value) for name, value in figures.items()},
        }
        for scheme in SCHEMES
        for job, more in (("one", 1.0), ("two", -1.0))
    ]


def test_levels_and_differences_are_of_means_over_jobs():
    averages = Averages(rows_of(SECONDS, fulfilment={"mmtt-uncertain": 90.0}), "learners")
    assert averages.levels([("med", "seconds", 4), ("med", "seconds", 5)]) == {"med: time, 4 learners": 20.0}
    wanted = [("seconds", "med", "mmtt-ideal", 4), ("fulfilment", "med", "mmtt-uncertain", 4)]
    assert averages.differences(wanted) == {
        "time, med above mmtt-ideal, 4 learners": pytest.approx(25.0),
        "fulfilment, med above mmtt-uncertain, 4 learners": 8.0,
    }


def test_rows_with_gradients_do_not_count():
    rows = rows_of(SECONDS) + rows_of(dict.fromkeys(SCHEMES, 1000000.0), size=9, part="learning")
    averages = Averages(rows, "learners")
    assert averages.sizes == [4]
    assert [row["seconds"] for row in averages.rows()] == list(SECONDS.values())


def test_how_much_is_dropped_is_held_against_a_range():
    averages = Averages(rows_of(SECONDS, drop={"med": 3.0, "mmtt-uncertain": 5.0}), "learners")
    assert averages.drop_between("mmtt-uncertain", 0.5, 0.7, 4) == {
        "drop rate, med above 0.5 times mmtt-uncertain, 4 learners": pytest.approx(0.5),
        "drop rate, med below 0.7 times mmtt-uncertain, 4 learners": pytest.approx(0.5),
    }
    nothing = Averages(rows_of(SECONDS, drop={"med": 0.0, "mmtt-uncertain": 0.0}), "learners")
    assert nothing.drop_between("mmtt-uncertain", 0.5, 0.7, 4) == {}
    assert averages.drop_between("mmtt-uncertain", 0.5, 0.7, 8) == {}


def test_trends_need_both_ends():
    rows = rows_of(SECONDS) + rows_of({**SECONDS, "med": 12.0}, size=10)
    assert Averages(rows, "learners").trends(["seconds"], 4, 10) == {"med: time, 10 learners above 4": -8.0}
    assert Averages(rows, "learners").trends(["seconds"], 4, 9) == {}


def test_goals_are_about_the_gap():
    averages = Averages(rows_of(SECONDS) + rows_of({**SECONDS, "med-held-back": 19.0}, size=5), "learners")
    assert averages.goals() == {
        "time closed beyond half of the gap, 4 learners": pytest.approx(1.0),
        "time closed beyond half of the gap, 5 learners": pytest.approx(-1.0),
        "share of the gap closed, all sizes": pytest.approx(50.0),
    }


def test_shares_are_ratios_of_means():
    chance = random.Random(0)
    rows = []
    for seed in range(10):
        gap = chance.uniform(-1, 9)  # a seed without a gap, or with less than none, must not spoil it
        rows += rows_of({**SECONDS, "med": 16 + gap, "med-held-back": 16 + 0.2 * gap}, seed=seed)
        rows += rows_of({**SECONDS, "med": 16 + gap, "med-held-back": 16 + gap}, seed=seed, size=5)
    four, five, whole = shares_closed(rows, "learners")
    assert (four.size, five.size, whole.size) == (4, 5, None)
    assert (four.percent, four.low, four.high) == pytest.approx((80, 80, 80))
    assert (five.percent, whole.percent) == pytest.approx((0, 40))


def test_the_interval_of_a_share_holds_the_truth():
    chance = random.Random(1)
    rows = [
        row
        for seed in range(40)
        for row in rows_of({**SECONDS, "med": chance.gauss(20, 0.5), "med-held-back": chance.gauss(17, 0.5)}, seed=seed)
    ]
    four, _ = shares_closed(rows, "learners")
    assert four.low < 75 < four.high
    assert four.high - four.low < 15


def test_checks_count():
    assert checks(rows_of(SECONDS, late={"med": 2})) == {
        "updates that came too late": 4,
        "allocations not proven best": 0,
    }


def test_what_was_learned():
    assert learned(rows_of(SECONDS)) == {}
    rows = [
        {**row, "accuracy": 90.0 + (row["scheme"] == "med") + (row["job"] == "one"), "apart": 1e-9}
        for row in rows_of(SECONDS, part="learning")
    ]
    found = learned(rows)
    assert found["med: accuracy, one"] == 92.0
    assert found["accuracy, med above med-held-back, mean of jobs"] == pytest.approx(1.0)
    assert found["seconds of rounds, with gradients apart from without"] == 1e-9
