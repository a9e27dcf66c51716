"""Language models: the next token in each form of data, padding left out, and perplexity by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from paceline.errors import ConfigError
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.shards import Shard
from paceline.learning.tasks import TaskSpec
from paceline.learning.tasks.language_model import PADDING
from tests.learning.small_tasks import fit_model, make_dataset

TASK = TaskSpec(kind="language-model")
TEXT = np.random.default_rng(0).integers(0, 11, (20, 7))
TEXT[0, 0] = 10


def fit(structure="tuple", task=TASK, **columns):
    data = make_dataset(structure, **columns)
    return fit_model(data, task=task), data.train.take(slice(None))


def by_hand(logits, target):
    """Loss of each sample, perplexity and accuracy, of the places that count."""
    logits, target = np.asarray(logits, np.float64), np.asarray(target)
    shares = np.exp(logits - logits.max(2, keepdims=True))
    shares /= shares.sum(2, keepdims=True)
    counts = target != PADDING
    rows, places = np.indices(target.shape)
    losses = np.where(counts, -np.log(shares[rows, places, np.where(counts, target, 0)]), 0)
    right = (logits.argmax(2) == target) & counts
    per_sample = losses.sum(1) / counts.sum(1).clip(1)
    return per_sample, math.exp(losses.sum() / counts.sum()), right.sum() / counts.sum()


def check(model, shard, tokens, target):
    with torch.inference_mode():
        logits = model.module.eval()(torch.from_numpy(tokens))
    losses, perplexity, accuracy = by_hand(logits, target)
    loss, metrics = model.evaluate(model.state(), shard)
    assert loss == pytest.approx(losses.mean(), rel=1e-5)
    assert metrics == {"perplexity": pytest.approx(perplexity, rel=1e-5), "accuracy": pytest.approx(accuracy)}
    np.testing.assert_allclose(np.concatenate(list(model.losses(model.state(), shard))), losses, rtol=1e-4)


@pytest.mark.parametrize("structure", ["tuple", "tensor"])
def test_each_token_is_the_target_of_the_place_before_it(structure):
    model, shard = fit(structure, tokens=TEXT)
    assert model.spec.num_outputs == 11
    check(model, shard, TEXT[:, :-1], TEXT[:, 1:])


def test_a_second_column_has_targets_place_by_place():
    target = TEXT[:, ::-1].copy()
    target[3, 2:] = target[4] = PADDING  # a part of one, and all of another
    model, shard = fit(tokens=TEXT, target=target)
    assert model.spec.num_outputs == 11
    check(model, shard, TEXT, target)


class Named(nn.Module):
    """A causal model as those of Hugging Face: tokens and a mask by name, logits in an object."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(11, 4), nn.Linear(4, 11)

    def forward(self, input_ids, attention_mask=None):
        return SimpleNamespace(logits=self.head(self.embedding(input_ids)))


def named(task=TASK, **columns):
    data = make_dataset("dict", **columns)
    model = fit_model(data, task=task, model=ModelSpec(import_path=f"{__name__}:Named"), allowed=None)
    return model, data.train.take(slice(None))


@pytest.mark.parametrize("labels", ["labels", "input_ids", "next"])
def test_labels_by_name_are_those_of_the_same_place_and_are_shifted(labels):
    tokens, mask = TEXT, np.ones_like(TEXT)
    target = TEXT.copy()
    columns = {"input_ids": tokens, "attention_mask": mask}
    if labels != "input_ids":
        target[2, 4:] = PADDING
        columns[labels] = target
    model, shard = named(TaskSpec(kind="language-model", target="next" if labels == "next" else ""), **columns)
    with torch.inference_mode():
        logits = model.module(torch.from_numpy(tokens)).logits[:, :-1]
    losses, perplexity, accuracy = by_hand(logits, target[:, 1:])
    loss, metrics = model.evaluate(model.state(), shard)
    assert loss == pytest.approx(losses.mean(), rel=1e-5)
    assert metrics == {"perplexity": pytest.approx(perplexity, rel=1e-5), "accuracy": pytest.approx(accuracy)}


def test_text_that_repeats_is_learned():
    text = (np.arange(160) % 8).reshape(20, 8).astype(np.uint8)
    data = make_dataset(tokens=text)
    model = fit_model(data, task=TASK, optimizer=OptimizerSpec(name="Adam", options={"lr": 0.01}))
    list(model.minibatches(model.state(), [Shard(text)], seed=0, local_epochs=8))
    _, metrics = model.evaluate(model.state(), Shard(text))
    assert metrics["accuracy"] == 1
    assert 1 <= metrics["perplexity"] < 2


def test_perplexity_is_finite_whatever_the_loss():
    model, shard = fit(tokens=TEXT)
    with torch.no_grad():
        model.module.head.weight.mul_(1e6)
    assert math.isfinite(model.evaluate(model.state(), shard).metrics["perplexity"])


def test_tokens_and_targets_are_within_the_vocabulary():
    model, _ = fit(tokens=TEXT, target=TEXT)
    for token in (11, -1):
        wrong = TEXT.copy()
        wrong[1, 3] = token
        for shard, name in ((Shard(wrong, TEXT), "tokens"), (Shard(TEXT, wrong), "target")):
            with pytest.raises(ConfigError, match=f"^a shard has values from .* in column '{name}'; allowed: 0 to 10"):
                model.minibatches(model.state(), [shard], seed=0)
    padded = np.where(TEXT < 5, PADDING, TEXT)
    assert list(model.minibatches(model.state(), [Shard(TEXT, padded)], seed=0)) == [4] * 5
