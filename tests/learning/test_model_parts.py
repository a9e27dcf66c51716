"""Branches and heads: sizes and operations told beforehand, gradients of the right moment, and learning in parts."""

import pytest
import torch

from paceline.learning.junction import JunctionSpec
from paceline.learning.model_parts import (
    Branch,
    SplitModel,
    count_parameters,
    epoch_order,
    make_chain,
    make_head,
    operations_of,
    sizes,
)
from paceline.learning.tasks import OptimizerSpec
from paceline.learning.vectors import copy_of
from tests.learning.small_tasks import make_task

NAMES = ("a", "b", "c")
FULL = JunctionSpec()
SGD = OptimizerSpec(name="SGD", options={"lr": 0.1, "momentum": 0.9})
ADAM = OptimizerSpec(name="Adam", options={"lr": 0.01})
FORMS = {
    "full": FULL,
    "plain": JunctionSpec(start="plain"),
    "low-rank": JunctionSpec(form="low-rank", rank=3),
    "low-rank, plain": JunctionSpec(form="low-rank", rank=3, start="plain"),
    "grouped": JunctionSpec(form="grouped", groups=2),
}


def image_task(model="leaf-cnn", shape=(1, 8, 8), num_classes=10, **changes):
    return make_task(model, **{"input_shape": shape, "num_classes": num_classes, **changes})


def nn_task(**changes):
    """Two-nn: 64 values, 50, 20 and 10; layers 1, 3 and 5 learn."""
    return image_task("two-nn", **changes)


def parts(task, cut, sources=NAMES, junction=FULL, depth=1):
    """A branch for each source, and the head."""
    chains = {source: make_chain(task, None) for source in sources}
    branches = {source: Branch(task, chain.before(cut), chain.shapes[cut], depth) for source, chain in chains.items()}
    return branches, make_head(task, make_chain(task, None), cut, sources, junction)


def views_of(task, sources=NAMES, num_samples=6, seed=0):
    chance = torch.Generator().manual_seed(seed)
    x = {source: torch.randn(num_samples, *task.input_shape, generator=chance) for source in sources}
    return x, torch.randint(task.num_classes, (num_samples,), generator=chance)


def step(branches, head, views, labels, number=0):
    """One minibatch, by messages."""
    outputs = {source: branches[source].forward(number, x) for source, x in views.items()}
    loss, gradients = head.step(outputs, labels)
    for source, gradient in gradients.items():
        branches[source].backward(number, gradient)
    return loss


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("model", "cut"), [("leaf-cnn", "c2"), ("leaf-cnn", "f1"), ("resnet-8", "block3"), ("two-nn", "3")]
)
def test_sizes_told_beforehand_are_the_real_ones(model, cut, form):
    task, junction = image_task(model), FORMS[form]
    chain = make_chain(task, None)
    told = sizes(chain, cut, NAMES, junction)
    branches, head = parts(task, cut, junction=junction)
    width = torch.Size(chain.shapes[cut]).numel()
    per_block = {"full": width**2, "low-rank": width * 7, "grouped": width**2 // 2}[junction.form]
    assert told["junction"] == count_parameters(head.merge) == 3 * per_block + width
    assert told["branch"] == branches["a"].num_parameters
    assert told["trunk"] == count_parameters(head.layers)
    whole = sum(each.numel() for layer in chain.layers.values() for each in layer.parameters())
    assert told["branch"] + told["trunk"] == whole


def test_huge_junctions_are_counted_without_being_made():
    chain = make_chain(image_task(shape=(1, 28, 28)), None)
    width = 32 * 28 * 28
    assert sizes(chain, "c1_pool", NAMES, FULL)["junction"] == 3 * width**2 + width  # 7.6 GB, three times


def test_operations_are_those_counted_by_hand():
    task = nn_task()
    chain = make_chain(task, None)
    first, second, third = 2 * 64 * 50, 2 * 50 * 20, 2 * 20 * 10
    # Backward, each product costs twice as much; but nobody asks for the gradient of the samples.
    whole = operations_of(chain, task.input_shape)
    assert whole == (first + second + third, 2 * first + 3 * (second + third))
    branches, head = parts(task, "3")
    assert branches["a"].operations == (first, 2 * first)
    assert branches["a"].operations.backward == first
    merge = 3 * 2 * 50 * 50
    assert head.operations((50,), NAMES) == (merge + second + third, 3 * (merge + second + third))
    assert head.operations((50,), ["a"]).forward == merge / 3 + second + third


@pytest.mark.parametrize("optimizer", [SGD, ADAM], ids=["SGD", "Adam"])
@pytest.mark.parametrize("cut", ["0", "1", "2", "3", "4", "5"])
def test_before_any_layer_parts_learn_what_the_whole_would(optimizer, cut):
    task = nn_task(optimizer=optimizer)
    branches, head = parts(task, cut)
    chains = {source: make_chain(task, None).before(cut) for source in NAMES}
    whole = SplitModel(chains, make_head(task, make_chain(task, None), cut, NAMES, FULL)).train()
    together = optimizer.make(whole.parameters())
    for number in range(4):
        views, labels = views_of(task, seed=number)
        loss = step(branches, head, views, labels, number)
        together.zero_grad()
        expected = torch.nn.functional.cross_entropy(whole(views), labels)
        expected.backward()
        together.step()
        assert loss == pytest.approx(expected.item(), rel=1e-6)
    for name, tensor in head.state_dict().items():
        torch.testing.assert_close(tensor, whole.head.state_dict()[name], rtol=1e-5, atol=1e-7)
    for source in NAMES:
        for name, tensor in branches[source].state().items():
            torch.testing.assert_close(tensor, chains[source].state_dict()[name], rtol=1e-5, atol=1e-7)


def test_a_gradient_belongs_to_the_parameters_of_its_moment():
    """Three minibatches are under way at once; each is learned from as if nothing had been learned since."""
    task = nn_task(optimizer=OptimizerSpec(name="SGD", options={"lr": 0.1}))
    (branch,) = parts(task, "5", ["a"], depth=3)[0].values()
    frozen = make_chain(task, None).before("5").train()
    expected = copy_of(frozen)
    chance = torch.Generator().manual_seed(3)
    batches = [torch.randn(4, 1, 8, 8, generator=chance) for _ in range(3)]
    gradients = [torch.randn(4, 20, generator=chance) for _ in range(3)]
    outputs = [branch.forward(number, x) for number, x in enumerate(batches)]
    for number, (x, gradient) in enumerate(zip(batches, gradients, strict=True)):
        frozen.zero_grad()
        output = frozen(x)  # the parameters of the beginning
        assert torch.equal(output, outputs[number])
        output.backward(gradient)
        for name, parameter in frozen.named_parameters():
            expected[name] -= 0.1 * parameter.grad
        branch.backward(number, gradient)
        learned = branch.state()
        assert all(torch.allclose(learned[name], expected[name], atol=1e-6) for name in expected)


def test_what_is_forgotten_is_not_learned_from():
    task = nn_task()
    for depth in (1, 3):
        (branch,) = parts(task, "3", ["a"], depth=depth)[0].values()
        before = branch.state()
        branch.forward(0, torch.randn(4, 1, 8, 8))
        branch.forget()
        branch.backward(0, torch.ones(4, 50))
        assert all(torch.equal(before[name], tensor) for name, tensor in branch.state().items())


@pytest.mark.parametrize("depth", [1, 2])
def test_buffers_are_learned_in_training_only(depth):
    task = make_task("Normalised")
    chain = make_chain(task, None)
    branch = Branch(task, chain.before("4"), chain.shapes["4"], depth)
    x = torch.randn(8, 2)
    before = branch.state()["1.running_mean"]
    assert torch.equal(branch.infer(x), branch.infer(x))  # no dropout
    assert torch.equal(branch.state()["1.running_mean"], before)
    branch.forward(0, x)
    assert not torch.equal(branch.state()["1.running_mean"], before)
    assert branch.state()["1.num_batches_tracked"] == 1


def test_only_who_sent_something_gets_a_gradient():
    task = nn_task()
    branches, head = parts(task, "3")
    views, labels = views_of(task)
    outputs = {source: branches[source].forward(0, views[source]) for source in ("a", "c")}
    _, gradients = head.step(outputs, labels)
    assert gradients.keys() == {"a", "c"}
    before = copy_of(head)["merge.blocks.b.weight"]
    fresh = parts(task, "3")[1]
    assert torch.equal(before, copy_of(fresh)["merge.blocks.b.weight"])  # the masked one has learned nothing


def test_judging_is_by_all_samples_and_changes_nothing():
    task = nn_task()
    branches, head = parts(task, "3")
    views, labels = views_of(task, num_samples=30)
    outputs = {source: branches[source].infer(x) for source, x in views.items()}
    before = copy_of(head)
    loss, metrics = head.evaluate(outputs, labels)
    with torch.inference_mode():
        logits = head(outputs)
    expected = torch.nn.functional.cross_entropy(logits, labels)
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    assert metrics == {"accuracy": (logits.argmax(1) == labels).double().mean().item()}
    assert all(torch.equal(before[name], tensor) for name, tensor in copy_of(head).items())


@pytest.mark.parametrize("optimizer", [SGD, ADAM], ids=["SGD", "Adam"])
@pytest.mark.parametrize("change", ["add", "remove"])
def test_when_sources_come_or_go_the_optimizer_remembers_the_rest(optimizer, change):
    """The rest learns on as in a head that has had no such change, and in which the source is not heard of."""
    task = nn_task(optimizer=optimizer)
    _, head = parts(task, "3")
    _, twin = parts(task, "3")
    _, labels = views_of(task)
    chance = torch.Generator().manual_seed(5)

    def steps(count, sources):
        for _ in range(count):
            inputs = {source: torch.randn(6, 50, generator=chance) for source in sources}
            head.step(inputs, labels)
            twin.step(inputs, labels)

    steps(3, NAMES)
    if change == "add":
        head.add("d")
    else:
        head.remove("c")
    steps(3, ("a", "b"))
    for name, tensor in copy_of(head).items():
        if ".d." not in name:
            assert torch.equal(tensor, copy_of(twin)[name]), name
    assert ("merge.blocks.c.weight" in head.state_dict()) == (change == "add")


def test_the_optimizer_forgets_a_source_that_is_removed():
    _, head = parts(nn_task(optimizer=ADAM), "3")
    _, labels = views_of(nn_task())
    head.step({source: torch.randn(6, 50) for source in NAMES}, labels)
    head.remove("c")
    assert set(head._optimizer.state) == set(head.parameters())


def test_the_order_of_an_epoch_follows_from_seed_and_epoch():
    orders = [epoch_order(50, seed, epoch) for seed in (0, 1) for epoch in (1, 2)]
    assert all(sorted(order.tolist()) == list(range(50)) for order in orders)
    assert len({tuple(order.tolist()) for order in orders}) == 4
    assert torch.equal(epoch_order(50, 1, 2), orders[-1])
