"""Chains of named layers: their names and sizes, and that samples do not meet in them."""

import pytest
import torch

from paceline.learning.chains import leaf_cnn, resnet_8

LEAF_SIZES = {"c1": 832, "c2": 51_264, "f1": 6_424_576, "f2": 127_038}
RESNET_SIZES = {"stem": 464, "block1": 4_672, "block2": 14_464, "block3": 57_600, "f1": 650}


def sizes(model):
    """The number of parameters of each layer that has any."""
    counts = {name: sum(each.numel() for each in layer.parameters()) for name, layer in model.named_children()}
    return {name: count for name, count in counts.items() if count}


@pytest.mark.parametrize(
    ("make", "shape", "num_classes", "expected", "total"),
    [(leaf_cnn, (1, 28, 28), 62, LEAF_SIZES, 6_603_710), (resnet_8, (3, 32, 32), 10, RESNET_SIZES, 77_850)],
)
def test_sizes_are_those_told(make, shape, num_classes, expected, total):
    assert sizes(make(shape, num_classes)) == expected
    assert sum(expected.values()) == total


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 1, 1)])
def test_in_resnet_8_no_sample_depends_on_another(shape):
    torch.manual_seed(0)
    model, x = resnet_8(shape, 5).train(), torch.randn(4, *shape)
    assert list(model.buffers()) == []
    assert torch.allclose(model(x)[:1], model(x[:1]), atol=1e-5)
