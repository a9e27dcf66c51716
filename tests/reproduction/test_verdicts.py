"""Is it reproduced?"""

import math

import pytest

from paceline.errors import ConfigError
from reproduction import wording
from reproduction.statistics import Estimate
from reproduction.verdicts import Expectation, Verdict, judge, read_expectations

HEADER = "measure,unit,paper,low,high,source,note\n"


def expectation(low=1.0, high=2.0, measure="m"):
    return Expectation(measure=measure, unit="s", paper="1.5", low=low, high=high, source="Fig. 1", note="")


@pytest.mark.parametrize(
    ("mean", "half_width", "answer"),
    [
        (1.5, 0.4, "yes"),
        (1.5, 0.5, "yes"),
        (1.5, 0.6, "unclear"),
        (2.1, 0.2, "unclear"),
        (2.5, 0.4, "no"),
        (0.5, 0.4, "no"),
        (2.0, None, "yes"),
        (2.1, None, "no"),
    ],
)
def test_the_interval_is_held_against_the_limits(mean, half_width, answer):
    here = Estimate(mean=mean, half_width=half_width, count=3)
    assert Verdict(expected=expectation(), here=here).answer == answer


def test_one_limit_no_limit_and_no_measure():
    here = Estimate(mean=5, half_width=1, count=3)
    assert Verdict(expected=expectation(low=-math.inf, high=6), here=here).answer == "yes"
    assert Verdict(expected=expectation(low=7, high=math.inf), here=here).answer == "no"
    assert Verdict(expected=expectation(low=-math.inf, high=math.inf), here=here).answer == "not judged"
    assert Verdict(expected=expectation(), here=None).answer == "not measured"


def test_judging_takes_the_seeds_that_have_a_measure():
    [first, second] = judge(
        [expectation(measure="a"), expectation(measure="b")], [{"a": 1.0}, {"a": 2.0, "b": 3.0}, {"a": 1.5}]
    )
    assert (first.here.mean, first.here.count) == (1.5, 3)
    assert (second.here.mean, second.here.count) == (3.0, 1)
    with pytest.raises(ConfigError, match="expected.csv has no measure 'max_stale'; did you mean 'max_staleness'"):
        judge([expectation(measure="max_staleness")], [{"max_stale": 1.0}])


def test_reading_what_is_expected(tmp_path):
    path = tmp_path / "expected.csv"
    path.write_text(HEADER + '"loss, at the end",,about 1,0.5,,"Fig. 3","ours, not theirs"\n')
    [found] = read_expectations(path)
    assert (found.measure, found.paper, found.low, found.high) == ("loss, at the end", "about 1", 0.5, math.inf)
    assert found.note == "ours, not theirs"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("measure,paper\n", "the columns must be measure,unit,paper,low,high,source,note"),
        (HEADER + "m,,1,low,2,,\n", "line 2: low is 'low'; it must be a number"),
        (HEADER + "m,,1,2,1,,\n", r"line 2: needs a measure, and low \(2\) at most as large as high \(1\)"),
        (HEADER + ",,1,1,2,,\n", "line 2: needs a measure"),
        (HEADER + "m,,1\n", "line 2: must have 7 cells"),
        (HEADER + "m,,1,,,,,,\n", "line 2: must have 7 cells"),
    ],
)
def test_bad_expectations_are_told_with_their_line(tmp_path, text, message):
    path = tmp_path / "expected.csv"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_expectations(path)


def test_wording():
    verdicts = [
        Verdict(expected=expectation(), here=Estimate(mean=1.5, half_width=0.25, count=3)),
        Verdict(expected=expectation(high=math.inf), here=Estimate(mean=0.5, half_width=None, count=1)),
        Verdict(expected=expectation(low=-math.inf, high=12345), here=None),
    ]
    assert [wording.cells(verdict)[2:] for verdict in verdicts] == [
        ("1 to 2", "1.5 ± 0.25", "yes"),
        ("≥ 1", "0.5", "no"),
        ("≤ 12,345", "–", "not measured"),
    ]
    assert wording.tally(verdicts) == "1 of 3 figures reproduced, 1 not measured"
    assert wording.markdown(verdicts).count("\n") == 5
    assert wording.as_data(verdicts[2])["low"] is None
