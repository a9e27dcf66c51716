"""The convolutional networks: sizes, names of layers, refused images, and that samples do not meet in them."""

import pytest
import torch

from paceline.errors import ConfigError
from paceline.learning.convnets import alexnet, leaf_cnn, mobilenet_v2, resnet_8, squeezenet

CIFAR10 = (3, 32, 32)


def num_parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(("make", "expected"), [(alexnet, 2_472_266), (squeezenet, 727_626), (mobilenet_v2, 2_236_682)])
def test_sizes_are_those_told(make, expected):
    assert num_parameters(make(CIFAR10, 10)) == expected


@pytest.mark.parametrize(("make", "expected"), [(squeezenet, 1_235_496), (mobilenet_v2, 3_504_872)])
def test_for_a_thousand_classes_there_are_as_many_parameters_as_in_the_original(make, expected):
    """As counted in the models that torchvision has of them; strides and poolings have no parameters."""
    with torch.device("meta"):
        assert num_parameters(make((3, 224, 224), 1000)) == expected


@pytest.mark.parametrize("make", [alexnet, squeezenet, mobilenet_v2])
def test_features_do_not_fit(make):
    with pytest.raises(ConfigError, match=r"does not fit inputs of shape \(13,\): it takes images"):
        make((13,), 3)


def test_nothing_is_drawn_while_they_train():
    for make in (alexnet, squeezenet, mobilenet_v2):
        model, x = make(CIFAR10, 10).train(), torch.randn(2, *CIFAR10)
        assert torch.equal(model(x), model(x))


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
def test_layers_have_the_names_and_sizes_told(make, shape, num_classes, expected, total):
    assert sizes(make(shape, num_classes)) == expected
    assert sum(expected.values()) == total


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 1, 1)])
def test_in_resnet_8_no_sample_depends_on_another(shape):
    torch.manual_seed(0)
    model, x = resnet_8(shape, 5).train(), torch.randn(4, *shape)
    assert list(model.buffers()) == []
    assert torch.allclose(model(x)[:1], model(x[:1]), atol=1e-5)
