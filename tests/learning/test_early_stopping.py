"""Rules that end training early: how they are written, and when they apply."""

import math

import pytest

from paceline.errors import ConfigError
from paceline.learning.early_stopping import EarlyStopping
from paceline.learning.scores import Scores


def reasons(figures, target=None, patience=None, watch="min loss"):
    """The reason to end after each of these losses, or of these metrics by name."""
    rule, found = EarlyStopping(target, patience, watch), []
    for figure in figures:
        rule.add(Scores(1.0, figure) if isinstance(figure, dict) else Scores(figure, {}))
        found.append(rule.reason)
    return found


def test_a_target_is_reached_from_its_side():
    assert reasons([0.3, 0.2, 0.19], target="loss <= 0.2") == [None, "target reached", "target reached"]
    scores = [{"r2": value} for value in (0.5, math.nan, 0.9)]
    assert reasons(scores, target="r2>=0.9") == [None, None, "target reached"]
    assert reasons([{"mae": 30.0}], target="r2 >= 0.9") == [None]
    assert reasons([{"bleu": -2.0}], target="bleu >= -2") == ["target reached"]


def test_patience_counts_scores_since_the_best():
    assert reasons([3.0, 2.0, 2.0, 2.5], patience=2) == [None, None, None, "no improvement"]
    assert reasons([3.0, 2.0, 2.0, 1.9], patience=2) == [None] * 4
    rising = [{"f1": value} for value in (0.1, 0.2, 0.3, math.nan)]
    assert reasons(rising, patience=1, watch="max f1") == [None, None, None, "no improvement"]
    assert reasons(rising, patience=2, watch="min f1") == [None, None, "no improvement", "no improvement"]
    undefined = [{"r2": value} for value in (math.nan, 0.5, 0.6, math.inf)]
    assert reasons(undefined, patience=2, watch="max r2") == [None] * 4
    assert reasons([1.0, 1.0], target="loss <= 1", patience=1) == ["target reached"] * 2
    assert reasons([1.0] * 9) == [None] * 9


def test_a_run_that_goes_on_knows_the_scores_before():
    history = [Scores(loss, {}) for loss in (1.0, 2.0, 2.0)]
    assert EarlyStopping(None, 2, history=history).reason == "no improvement"
    rule = EarlyStopping(None, 3, history=history)
    assert rule.reason is None
    rule.add(Scores(1.5, {}))
    assert rule.reason == "no improvement"


@pytest.mark.parametrize("text", ["accuracy", "accuracy > 0.9", "accuracy >= high", "r2 <= nan", "0.9", "", "a b <= 1"])
def test_the_form_of_a_target(text):
    with pytest.raises(ValueError, match=r"^target is '.*'; it must be a metric, >= or <=, and a number, such as "):
        EarlyStopping(text, None)


@pytest.mark.parametrize("text", ["accuracy", "max", "least loss", "max accuracy 3", "min loss\nmax f1"])
def test_the_form_of_what_is_watched(text):
    with pytest.raises(ValueError, match=r"^watch is '.*'; it must be min or max, and a metric, such as "):
        EarlyStopping(None, 3, text)


def test_rules_that_could_never_apply():
    with pytest.raises(ValueError, match="target is 'macro_f1 >= 90'; macro_f1 is a ratio, from 0 to 1"):
        EarlyStopping("macro_f1 >= 90", None)
    with pytest.raises(ValueError, match="watch is 'max accuracy', but there is no patience; say how long to wait"):
        EarlyStopping(None, None, "max accuracy")
    EarlyStopping("mae <= 3", 2, "max r2").check(("mae", "r2"))
    EarlyStopping("loss <= 3", 2).check(())
    with pytest.raises(ConfigError, match="target: the task has no metric 'acuracy'; did you mean 'accuracy'\\?"):
        EarlyStopping("acuracy >= 0.9", None).check(("accuracy",))
    with pytest.raises(ConfigError, match="watch: the task has no metric 'f1'; allowed: loss, mae"):
        EarlyStopping(None, 1, "max f1").check(("mae",))
