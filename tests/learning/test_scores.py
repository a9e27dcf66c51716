"""Scores by name, and how metrics are told apart by theirs."""

import math

import pytest

from paceline.learning.scores import Scores, fields_of, figures_of, is_ratio


def test_figures_side_by_side():
    scores = Scores(0.5, {"mae": 43.2})
    assert (scores.figure("loss"), scores.figure("mae"), scores.figure("r2")) == (0.5, 43.2, None)
    assert figures_of(scores, ("mae", "r2")) == {"loss": 0.5, "mae": 43.2, "r2": None}
    assert figures_of(None, ("mae",)) == {"loss": None, "mae": None}
    undefined = Scores(0.5, {"mae": 43.2, "r2": math.nan, "perplexity": math.inf})
    assert figures_of(undefined, ("mae", "r2")) == {"loss": 0.5, "mae": 43.2, "r2": None}
    assert fields_of(undefined)["metrics"] == {"mae": 43.2, "r2": None, "perplexity": None}
    assert (fields_of(scores), fields_of(None)) == ({"loss": 0.5, "metrics": {"mae": 43.2}}, {})


@pytest.mark.parametrize("name", ["accuracy", "top5_accuracy", "f1", "macro_f1", "hit_rate"])
def test_ratios(name):
    assert is_ratio(name)


@pytest.mark.parametrize("name", ["mae", "r2", "perplexity", "rate", "f1_at_5"])
def test_numbers(name):
    assert not is_ratio(name)
