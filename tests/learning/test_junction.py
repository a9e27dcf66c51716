"""Junctions: the sums they are, how they begin, what they weigh, and what stays when sources come and go."""

import pytest
import torch
from torch import nn

from paceline.errors import ConfigError
from paceline.learning.junction import Concatenation, Junction, JunctionSpec, widen

NAMES = ("left", "right", "above")
SHAPE = (2, 3, 4)
WIDTH = 24
FORMS = {
    "full": (JunctionSpec(), WIDTH * WIDTH),
    "low-rank": (JunctionSpec(form="low-rank", rank=5), WIDTH * (2 * 5 + 1)),
    "grouped": (JunctionSpec(form="grouped", groups=6), WIDTH * WIDTH // 6),
}
each_form = pytest.mark.parametrize("form", FORMS)


def make(form="full", start="average", sources=NAMES, seed=0):
    spec = JunctionSpec(form=FORMS[form][0].form, rank=5, groups=6, start=start)
    return Junction(SHAPE, sources, spec, seed)


def inputs(sources=NAMES, num_samples=7):
    chance = torch.Generator().manual_seed(1)
    return {source: torch.randn(num_samples, *SHAPE, generator=chance) for source in sources}


def stirred(junction):
    """With weights that have learned something."""
    chance = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in junction.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=chance))
    return junction


def test_a_full_junction_is_one_linear_layer_over_all_inputs():
    junction, x = stirred(make()), inputs()
    layer = nn.Linear(3 * WIDTH, WIDTH)
    with torch.no_grad():
        layer.weight.copy_(torch.cat([junction.blocks[source].weight[0] for source in NAMES], dim=1))
        layer.bias.copy_(junction.bias)
    together = torch.cat([x[source].flatten(1) for source in NAMES], dim=1)
    torch.testing.assert_close(junction(x), layer(together).view(7, *SHAPE))
    target = torch.randn(7, *SHAPE)
    nn.functional.mse_loss(junction(x), target).backward()
    nn.functional.mse_loss(layer(together).view(7, *SHAPE), target).backward()
    learned = torch.cat([junction.blocks[source].weight.grad[0] for source in NAMES], dim=1)
    torch.testing.assert_close(learned, layer.weight.grad)
    torch.testing.assert_close(junction.bias.grad, layer.bias.grad)


@each_form
@pytest.mark.parametrize("num_sources", [1, 2, 3])
def test_it_begins_as_the_mean_of_the_branches(form, num_sources):
    names = NAMES[:num_sources]
    junction, x = make(form, sources=names), inputs(names)
    torch.testing.assert_close(junction(x), torch.stack(list(x.values())).mean(0), rtol=1e-6, atol=1e-6)


@each_form
@pytest.mark.parametrize("start", ["average", "plain"])
def test_a_missing_source_counts_as_zeros(form, start):
    junction, x = stirred(make(form, start)), inputs()
    some = {"left": x["left"], "above": x["above"]}
    torch.testing.assert_close(junction(some), junction({**some, "right": torch.zeros(7, *SHAPE)}))


@each_form
def test_a_source_that_is_added_changes_nothing_at_first_and_then_learns(form):
    junction, x = stirred(make(form)), inputs()
    before, kept = junction(x), [parameter.detach().clone() for parameter in junction.parameters()]
    old = list(junction.parameters())
    new = junction.add("behind")
    assert junction.sources == [*NAMES, "behind"]
    assert sum(each.numel() for each in new) == FORMS[form][1]
    assert all(torch.equal(parameter, copy) for parameter, copy in zip(old, kept, strict=True))
    x["behind"] = torch.randn(7, *SHAPE)
    assert torch.equal(junction(x), before)
    junction(x).square().sum().backward()
    assert any(parameter.grad.abs().max() > 0 for parameter in new)


@each_form
def test_a_source_that_is_removed_leaves_the_rest_as_it_is(form):
    junction, x = stirred(make(form)), inputs()
    expected = junction({"left": x["left"], "above": x["above"]})
    gone = junction.remove("right")
    assert sum(each.numel() for each in gone) == FORMS[form][1]
    assert not {id(parameter) for parameter in gone} & {id(parameter) for parameter in junction.parameters()}
    del x["right"]
    assert torch.equal(junction(x), expected)
    assert junction.sources == ["left", "above"]


@each_form
def test_a_block_follows_from_the_seed_and_the_name_alone(form):
    one, twin = make(form, "plain"), make(form, "plain", sources=("above", "left", "right"))
    for source in NAMES:
        pairs = zip(one.blocks[source].parameters(), twin.blocks[source].parameters(), strict=True)
        assert all(torch.equal(mine, yours) for mine, yours in pairs)
    left, right, other = (
        torch.cat([each.flatten() for each in junction.blocks[name].parameters()])
        for junction, name in ((one, "left"), (one, "right"), (make(form, "plain", seed=1), "left"))
    )
    assert not torch.equal(left, right)
    assert not torch.equal(left, other)


@pytest.mark.parametrize("name", ["camera.left", "keys", "training", "blocks", "ü @ b.c"])
def test_any_name_will_do(name):
    junction = make(sources=("a", name))
    assert junction.sources == ["a", name]
    twin = make(sources=("a", name), start="plain")
    twin.load_state_dict(junction.state_dict())
    x = inputs(("a", name))
    assert torch.equal(twin(x), junction(x))
    junction.remove(name)
    assert junction.sources == ["a"]


def test_groups_must_divide_the_width():
    with pytest.raises(ConfigError, match="groups is 7; it must divide the 24 values of a branch's output"):
        Junction(SHAPE, NAMES, JunctionSpec(form="grouped", groups=7), 0)


def test_a_concatenation_puts_sources_side_by_side_and_zeros_for_the_missing():
    x = inputs()
    merge = Concatenation(SHAPE, NAMES)
    assert torch.equal(merge(dict(reversed(x.items()))), torch.cat([x[source] for source in NAMES], dim=1))
    missing = merge({"right": x["right"]})
    assert torch.equal(missing[:, 2:4], x["right"])
    assert missing.count_nonzero() == x["right"].count_nonzero()


@pytest.mark.parametrize(
    ("first", "shape", "expected"),
    [
        (nn.Linear(24, 5), (24,), (5, 72)),
        (nn.Linear(24, 5, bias=False), (24,), (5, 72)),
        (nn.Conv2d(2, 5, (3, 1), stride=2, padding=1, dilation=2, bias=False), (2, 9, 9), (5, 6, 3, 1)),
    ],
)
def test_the_layer_behind_a_concatenation_is_widened(first, shape, expected):
    layers = nn.Sequential(first, nn.ReLU())
    wide = widen(layers, 3)
    assert [name for name, _ in wide.named_children()] == ["0", "1"]
    assert wide[0].weight.shape == expected
    assert (wide[0].bias is None) == (first.bias is None)
    x = torch.randn(2, *shape)
    assert wide(torch.cat([x] * 3, dim=1)).shape == layers(x).shape
    assert layers[0] is first  # as it was


@pytest.mark.parametrize("first", [nn.ReLU(), nn.Conv2d(4, 4, 3, groups=2), nn.Flatten()])
def test_other_layers_cannot_be_widened(first):
    with pytest.raises(
        ConfigError, match=f"cut is '0': .* must be linear or a convolution, not {type(first).__name__}"
    ):
        widen(nn.Sequential(first), 2)
