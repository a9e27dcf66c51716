"""Chains: where models can be cut, what their parts take, and why some models cannot be cut."""

import pytest
import torch

from paceline.errors import ConfigError
from paceline.learning import models
from paceline.learning.chain import Chain
from paceline.learning.models import ModelSpec
from tests.learning import own_models


def chain_of(name, shape, num_classes=10):
    torch.manual_seed(0)
    model = models.build(ModelSpec(name=name), shape, num_classes)
    return model, Chain(model, torch.zeros(2, *shape))


@pytest.mark.parametrize(
    ("name", "shape"),
    [("leaf-cnn", (1, 28, 28)), ("lenet-5", (1, 28, 28)), ("resnet-8", (3, 32, 32)), ("three-nn", (1, 8, 8))],
)
def test_cut_anywhere_both_parts_make_up_the_model(name, shape):
    model, chain = chain_of(name, shape)
    x = torch.randn(3, *shape)
    expected = model(x)
    for cut in chain.cuts:
        between = chain.before(cut)(x)
        assert between.shape[1:] == chain.shapes[cut]
        assert torch.equal(chain.after(cut)(between), expected)
        assert next(iter(dict(chain.after(cut).named_children()))) == cut
    assert all(one is other for one, other in zip(chain.layers.values(), model.children(), strict=True))


def test_a_model_that_declares_its_cuts_has_no_others():
    _, chain = chain_of("resnet-8", (3, 32, 32))
    assert chain.cuts == ("block2", "block3", "f1")
    with pytest.raises(ConfigError, match="cut is 'block1'; .* Allowed: block2, block3, f1"):
        chain.before("block1")


def test_a_cut_that_is_none_is_told_with_a_suggestion():
    _, chain = chain_of("leaf-cnn", (1, 28, 28))
    for call in (chain.before, chain.after, chain.check_cut):
        with pytest.raises(ConfigError, match="cut is 'f1_rel'; did you mean 'f1_relu'"):
            call("f1_rel")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (own_models.Skipping, "Skipping cannot be cut: its children in sequence give another output"),
        (own_models.Backwards, "Backwards cannot be cut: a layer does not take the previous one's output: Runtime"),
        (own_models.Idle, "Idle cannot be cut: its children in sequence"),
        (own_models.Childless, "Childless has no children, so it cannot be cut; make it an nn.Sequential"),
        (own_models.Declaring, "Declaring declares a cut before 'nowhere'; "),
    ],
)  # fmt: skip
def test_a_model_that_is_no_chain_is_told_why(make, said):
    with pytest.raises(ConfigError) as caught:
        Chain(make(), torch.rand(2, 2))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
