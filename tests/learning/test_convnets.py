"""The larger networks: their sizes, also where the original's can be told, and what they do with other images."""

import pytest
import torch

from paceline.errors import ConfigError
from paceline.learning.convnets import alexnet, mobilenet_v2, squeezenet

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
