"""Multi-label classification: F1 scores as scikit-learn has them."""

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from torch import nn

from paceline.errors import ConfigError
from paceline.learning.score_totals import ScoreTotals
from paceline.learning.shards import Shard
from paceline.learning.tasks import TaskSpec
from paceline.learning.tasks.multi_label import MultiLabel
from tests.learning.small_tasks import fit_model, make_dataset, make_spec

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, bool, np.float32])
def test_scores_are_those_of_scikit_learn(dtype):
    x = RANDOM.normal(size=(90, 5)).astype(np.float32)
    y = (x @ RANDOM.normal(size=(5, 4)) + RANDOM.normal(size=(90, 4)) > 0.3).astype(dtype)
    model = fit_model(make_dataset(x=x, y=y), task=TaskSpec(kind="multi-label"))
    list(model.minibatches(model.state(), [Shard(x, y)], seed=0, local_epochs=5))
    loss, metrics = model.evaluate(model.state(), Shard(x, y))
    with torch.inference_mode():
        logits = model.module.eval()(torch.from_numpy(x))
    found = (logits > 0).numpy()
    assert metrics == {
        "micro_f1": pytest.approx(f1_score(y.astype(int), found, average="micro")),
        "macro_f1": pytest.approx(f1_score(y.astype(int), found, average="macro")),
    }
    losses = nn.functional.binary_cross_entropy_with_logits(logits, torch.from_numpy(y).float(), reduction="none")
    assert loss == pytest.approx(losses.mean().item(), rel=1e-5)
    each = np.concatenate(list(model.losses(model.state(), Shard(x, y))))
    np.testing.assert_allclose(each, losses.mean(1), rtol=1e-5)


def test_labels_that_no_sample_has_or_is_given_do_not_count():
    task = MultiLabel(make_spec(task=TaskSpec(kind="multi-label")))
    y = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 0]], np.uint8)
    logits = torch.tensor([[2.0, -1, -1], [1, -1, -1], [1, 3, -1], [-1, -1, -1]])
    totals = ScoreTotals(task)
    for rows in (slice(0, 3), slice(3, 4)):  # of the second batch no label is there at all
        totals.add(lambda x, rows=rows: logits[rows], (None, torch.from_numpy(y[rows])))
    found = (logits > 0).numpy()
    assert totals.scores.metrics == {
        "micro_f1": pytest.approx(f1_score(y, found, average="micro")),
        "macro_f1": pytest.approx(f1_score(y, found, average="macro", zero_division=np.nan)),
    }


def test_marks_are_0_and_1():
    for wrong in (np.array([[0, 3]], np.uint8), np.array([[0.5, np.nan]], np.float32)):
        with pytest.raises(ConfigError, match="targets go from .* to .*; multi-label takes 0 and 1"):
            fit_model(make_dataset(x=np.ones((1, 2), np.float32), y=wrong), task=TaskSpec(kind="multi-label"))
