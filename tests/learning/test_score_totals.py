"""Scores: weighed by samples whatever the batches, and the model run once for loss and metrics."""

import numpy as np
import pytest
import torch
from torch import nn

from paceline.learning.score_totals import ScoreTotals
from paceline.learning.shards import Shard
from paceline.learning.tasks import Task
from tests.learning.small_tasks import make_model, make_shards


class Watched(nn.Module):
    """Counts how often it is run."""

    num_runs, width = 0, 3

    def forward(self, *inputs, **named):
        self.num_runs += 1
        return sum([*inputs, *named.values()]).float()


class Measured(Task):
    """Calls its model in a way that the test says, for the loss and for the metrics."""

    def __init__(self, for_loss, for_metrics):
        self._calls = for_loss, for_metrics

    def model(self):
        return Watched()

    def loss(self, model, batch):
        return self._calls[0](model, batch).mean()

    def metrics(self, model, batch):
        return {"sum": (self._calls[1](model, batch).sum(), len(batch[0])), "width": (model.width, 1)}


def first(model, batch):
    return model(batch[0])


@pytest.mark.parametrize(
    ("for_loss", "for_metrics", "num_runs"),
    [
        (first, first, 1),
        (lambda model, batch: model(batch[0][:, :1]), lambda model, batch: model(batch[0][:, :1]), 1),
        (lambda model, batch: model(x=batch[0]), lambda model, batch: model(x=batch[0]), 1),
        (lambda model, batch: model(*batch), lambda model, batch: model(*batch), 1),
        (first, lambda model, batch: model(batch[1]), 2),
        (first, lambda model, batch: model(batch[0][:, :1]), 2),
        (first, lambda model, batch: model(batch[0].clone()), 2),
        (first, lambda model, batch: model(*batch), 2),
        (first, lambda model, batch: model(x=batch[0]), 2),
        (lambda model, batch: model(x=batch[0]), lambda model, batch: model(z=batch[0]), 2),
        (lambda model, batch: model(batch[0][:0]), lambda model, batch: model(batch[0][1:1]), 2),
    ],
)
@pytest.mark.filterwarnings("ignore:Mean of empty")
def test_the_model_is_run_once_on_the_same_inputs(for_loss, for_metrics, num_runs):
    model, totals = Watched(), ScoreTotals(Measured(for_loss, for_metrics))
    batch = torch.arange(6.0).view(2, 3), torch.ones(2, 3)
    totals.add(model, batch)
    assert model.num_runs == num_runs
    assert totals.scores.metrics == {"sum": for_metrics(Watched(), batch).sum().item() / 2, "width": 3}


def test_batches_weigh_as_much_as_they_have_samples():
    model, totals = Watched(), ScoreTotals(Measured(first, first))
    rows = torch.arange(10.0)[:, None]
    for part in (rows[:7], rows[7:9], rows[9:]):
        totals.add(model, (part, part))
    assert totals.num_samples == 10
    assert totals.scores == (pytest.approx(4.5), {"sum": pytest.approx(4.5), "width": 3})


def test_what_was_summed_up_elsewhere_counts_too():
    totals = ScoreTotals(Measured(first, first))
    totals.add_sums(6.0, 3, {"sum": (4, 2)})
    totals.add_sums(0.0, 1, {"sum": (torch.tensor(5.0), torch.tensor(1))})
    assert totals.scores == (1.5, {"sum": 3.0})


def test_a_task_without_metrics_has_none():
    class Plain(Measured):
        def metrics(self, model, batch):
            return {}

    totals = ScoreTotals(Plain(first, first))
    totals.add(Watched(), (torch.ones(2, 3),))
    assert totals.scores == (1.0, {})


def test_scores_do_not_depend_on_the_size_of_chunks():
    model, (shard,) = make_model("Counting"), make_shards(5000)  # three chunks
    loss, metrics = model.evaluate(model.state(), shard)
    losses = np.concatenate(list(model.losses(model.state(), shard)))
    assert loss == pytest.approx(losses.mean(), rel=1e-5)
    with torch.inference_mode():
        right = model.module.eval()(torch.from_numpy(shard.x)).argmax(1).numpy() == shard.y
    assert metrics == {"accuracy": right.mean()}
    assert model.metric_names == ("accuracy",)


def test_data_that_must_not_be_written_to_is_evaluated():
    model, (shard,) = make_model(), make_shards(20)
    fixed = Shard(*(column.copy() for column in shard))
    for column in fixed:
        column.flags.writeable = False
    assert model.evaluate(model.state(), fixed) == model.evaluate(model.state(), shard)
