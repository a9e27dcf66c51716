"""Local training: every sample once a pass, FedProx as computed by hand, and the same as training in one place."""

import itertools

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

from paceline.errors import ConfigError
from paceline.learning import models
from paceline.learning.averaging import RunningAverage
from paceline.learning.local_model import LocalModel
from paceline.learning.model_parts import make_chain
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.shards import Shard, ShardStore
from paceline.learning.tables import Column
from tests.learning.small_tasks import are_equal, digits_spec, make_model, make_shards, make_spec, pairs

MOMENTUM = OptimizerSpec(options={"lr": 0.1, "momentum": 0.9})


@pytest.mark.parametrize(
    ("sizes", "batch_size", "local_epochs", "batches"),
    [
        ((8,), 4, 1, [4, 4]),
        ((3, 4, 3), 4, 2, [4, 4, 2] * 2),
        ((3,), 100, 3, [3] * 3),
        ((5000,), 1000, 1, [1000] * 5),
        ((5000,), 3000, 1, [3000, 2000]),
        ((2100,), 1, 1, [1] * 2100),
    ],
)
def test_minibatches_are_full_but_for_the_last_of_a_pass(sizes, batch_size, local_epochs, batches):
    model = make_model(batch_size=batch_size)
    assert list(model.minibatches(model.state(), make_shards(*sizes), seed=0, local_epochs=local_epochs)) == batches


class Seen(nn.Module):
    """Remembers what it was fed."""

    def __init__(self):
        super().__init__()
        self.layer, self.inputs = nn.Linear(1, 2), []

    def forward(self, x):
        self.inputs.append(x.flatten().tolist())
        return self.layer(x)


@pytest.mark.parametrize("is_shuffled", [True, False])
def test_every_pass_sees_each_sample_once_in_an_order_of_its_own_or_in_that_of_the_shards(monkeypatch, is_shuffled):
    seen = Seen()
    monkeypatch.setattr(models, "build", lambda *args, **kwargs: seen)
    model = LocalModel(make_spec("two-nn", columns=pairs((1,)), batch_size=7))
    numbers, labels = np.arange(20, dtype=np.float32)[:, None], np.zeros(20, np.uint8)
    shards = [Shard(numbers[part], labels[part]) for part in (slice(10), slice(10, 20))]
    seen.inputs.clear()  # of a trial
    list(model.minibatches(model.state(), shards, seed=0, local_epochs=3, is_shuffled=is_shuffled))
    assert [len(batch) for batch in seen.inputs] == [7, 7, 6] * 3
    fed = [list(itertools.chain(*seen.inputs[start : start + 3])) for start in (0, 3, 6)]
    if is_shuffled:
        assert [sorted(samples) for samples in fed] == [list(range(20))] * 3
        assert fed[0] != fed[1] != fed[2] != sorted(fed[2])
    else:
        assert fed == [list(range(20))] * 3


def test_those_who_share_a_model_keep_their_optimizers_apart():
    shared, alone = make_model(optimizer=MOMENTUM), make_model(optimizer=MOMENTUM)
    mine, others, start = make_shards(8), make_shards(8, seed=1), shared.state()
    optimizers, states = [shared.new_optimizer() for _ in range(2)], [start, start]
    for number in range(6):
        who = number % 2
        list(shared.minibatches(states[who], (mine, others)[who], seed=number, optimizer=optimizers[who]))
        states[who] = shared.state()
    optimizer, state = alone.new_optimizer(), start
    for number in (0, 2, 4):
        list(alone.minibatches(state, mine, seed=number, optimizer=optimizer))
        state = alone.state()
    assert are_equal(states[0], state)


def test_losses_are_those_of_each_sample():
    model, (shard,) = make_model("Counting"), make_shards(600)
    list(model.minibatches(model.state(), [shard], seed=0))  # running statistics are used, and not renewed
    state = model.state()
    parts = list(model.losses(state, shard))
    losses = np.concatenate(parts)
    assert (losses.dtype, losses.shape) == (np.float32, (600,))
    assert len(parts) > 1
    assert losses.mean() == pytest.approx(model.evaluate(state, shard).loss, rel=1e-5)
    one = Shard(shard.x[7:8], shard.y[7:8])
    assert next(model.losses(state, one))[0] == pytest.approx(model.evaluate(state, one).loss, rel=1e-5)
    assert are_equal(model.state(), state)


def test_training_follows_from_the_seed_and_carries_no_momentum_into_the_next():
    model, shards = make_model("two-nn", optimizer=MOMENTUM), make_shards(20)
    start, ends = model.state(), []
    for seed in (5, 5, 6):
        list(model.minibatches(start, shards, seed))
        ends.append(model.state())
    assert are_equal(ends[0], ends[1])
    assert not are_equal(ends[0], ends[2])


def gradient(weight, x, y):
    """Of the mean cross-entropy of a linear model, by hand: (softmax − onehot)ᵀ x / N."""
    logits = x @ weight.T
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return (shares - np.eye(2)[y]).T @ x / len(x)


@pytest.mark.parametrize("mu", [0.0, 0.5, 3.0])
def test_steps_are_those_computed_by_hand(mu):
    """FedProx (Li et al., 2020) adds mu/2 · |w − w0|² to the loss: its gradient is mu · (w − w0)."""
    model = make_model(batch_size=6, proximal_mu=mu, optimizer=OptimizerSpec(options={"lr": 0.5}))
    (shard,) = make_shards(6)
    start = model.state()
    list(model.minibatches(start, [shard], seed=0, local_epochs=3))
    anchor = weight = start["0.weight"].double().numpy()
    for _ in range(3):
        weight = weight - 0.5 * (gradient(weight, shard.x.astype(np.float64), shard.y) + mu * (weight - anchor))
    np.testing.assert_allclose(model.state()["0.weight"], weight, rtol=1e-5, atol=1e-6)


def test_buffers_are_part_of_the_state():
    model = make_model("Counting")
    start = model.state()
    list(model.minibatches(start, make_shards(8), seed=0, local_epochs=2))
    end = model.state()
    assert (int(start["1.num_batches_tracked"]), int(end["1.num_batches_tracked"])) == (0, 4)
    assert not torch.equal(start["1.running_mean"], end["1.running_mean"])
    list(model.minibatches(start, make_shards(8), seed=0, local_epochs=2))
    assert int(model.state()["1.num_batches_tracked"]) == 4


def test_tied_weights_stay_tied():
    model = make_model("Tied")
    list(model.minibatches(model.state(), make_shards(8), seed=0, local_epochs=3))
    state = model.state()
    assert torch.equal(state["first.weight"], state["second.weight"])


@pytest.mark.parametrize("num_batches", [0, 1, 3, 5])
def test_leaving_early_keeps_exactly_what_was_trained(num_batches):
    """The same as a task that ends there."""
    shards = make_shards(20)
    model, whole = make_model(batch_size=4), make_model(batch_size=4)
    start = model.state()
    list(whole.minibatches(start, make_shards(12, seed=9), seed=3))  # leaves other parameters behind
    minibatches = whole.minibatches(start, shards, seed=1)
    for _ in range(num_batches):
        next(minibatches)
    left = whole.state()
    expected = start["0.weight"].clone().requires_grad_()
    order = torch.randperm(20, generator=torch.Generator().manual_seed(1))
    for chosen in order.split(4)[:num_batches]:
        loss = nn.functional.cross_entropy(
            torch.from_numpy(shards[0].x)[chosen] @ expected.T, torch.from_numpy(shards[0].y).long()[chosen]
        )
        (slope,) = torch.autograd.grad(loss, expected)
        expected = (expected - 0.1 * slope).detach().requires_grad_()
    assert torch.allclose(left["0.weight"], expected, atol=1e-6)
    minibatches.close()
    assert are_equal(whole.state(), left)


def centrally(spec, data, rounds):
    """Plain PyTorch: a pass per round over all the data, as one would train it in one place."""
    torch.manual_seed(spec.seed)
    model = models.build(spec.model, spec.input_shape, spec.num_outputs)
    store = ShardStore(data.train, len(data.train), spec.seed)
    x, y = by_hand(store[0], spec.normalisation)
    for number in range(rounds):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for chosen in torch.randperm(len(y), generator=torch.Generator().manual_seed(number)).split(spec.batch_size):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[chosen]), y[chosen]).backward()
            optimizer.step()
    return model


def by_hand(shard, how):
    """Images of one channel, standardised, and their classes."""
    x = torch.from_numpy(shard.x).float() * (how.scale / how.std[0]) - how.mean[0] / how.std[0]
    return x, torch.from_numpy(shard.y.astype(np.int64))


def test_fedavg_of_one_learner_with_all_data_is_central_training():
    spec, data = digits_spec(seed=4)
    local = LocalModel(spec)
    store, state = ShardStore(data.train, 100, spec.seed), local.state()
    for number in range(3):
        average = RunningAverage()
        num_samples = sum(local.minibatches(state, list(store), seed=number))
        average.add(local.state(), num_samples)
        state = average.result(state)
    central = centrally(spec, data, rounds=3)
    inner = {name.removeprefix("model."): tensor for name, tensor in state.items() if name.startswith("model.")}
    assert are_equal(inner, central.state_dict())
    loss, metrics = local.evaluate(state, data.test)
    x, labels = by_hand(data.test.take(slice(None)), spec.normalisation)
    with torch.inference_mode():
        outputs = central(x)
    assert loss == pytest.approx(nn.functional.cross_entropy(outputs, labels).item(), rel=1e-6)
    assert metrics == {"accuracy": (outputs.argmax(1) == labels).double().mean().item()}


def shard(x_shape=(4, 2), x_type=np.float32, y_shape=(4,), y_type=np.uint8, label=1):
    return Shard(np.zeros(x_shape, x_type), np.full(y_shape, label, y_type))


@pytest.mark.parametrize(
    ("rubbish", "reason"),
    [
        (shard(x_shape=(4, 3)), r"float32 of shape \(3,\) in column 'x'; the task wants float32 of shape \(2,\)"),
        (shard(x_shape=(4,)), r"shape \(\)"),
        (shard(x_shape=()), r"shape \(\)"),
        (shard(x_shape=(4, 2, 1)), r"shape \(2, 1\)"),
        (shard(x_type=np.float64), "float64"),
        (shard(x_type=np.uint8), "uint8"),
        (shard(x_type=np.complex64), "complex64"),
        (shard(x_type="U1"), "<U1"),
        (shard(y_type=np.float32), "float32 of shape .* in column 'y'; the task wants uint8"),
        (shard(y_type=bool), "bool of shape .* in column 'y'"),
        (shard(y_type=np.int64), "int64 of shape .* in column 'y'"),
        (shard(y_shape=()), r"uint8 of shape \(\) in column 'y'"),
        (shard(y_shape=(3,)), "4 of 'x' and 3 of 'y'; it needs as many"),
        (shard(y_shape=(4, 1)), r"uint8 of shape \(1,\) in column 'y'"),
        (shard(x_shape=(0, 2), y_shape=(0,)), "0 of 'x' and 0 of 'y'"),
        (shard(label=2), "values from 2 to 2 in column 'y'; allowed: 0 to 1"),
        (Shard(*shard(), *shard()), "4 columns; the task has 2"),
        (Shard(), "0 columns; the task has 2"),
    ],
)
def test_shards_of_another_task_are_refused_in_one_line(rubbish, reason):
    model = make_model()
    assert list(model.minibatches(model.state(), [shard()], seed=0)) == [4]
    with pytest.raises(ConfigError, match=f"^a shard has .*{reason}") as caught:
        model.minibatches(model.state(), [shard(), rubbish], seed=0)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("label", "kind"), [(-1, np.int64), (2**63, np.uint64)])
def test_labels_of_any_type_are_in_range(label, kind):
    columns = (Column("x", "float32", (2,)), Column("y", np.dtype(kind).name, ()))
    with pytest.raises(ConfigError, match=f"^a shard has values from {label} to {label} in column 'y'; allowed: 0 to"):
        make_spec(columns=columns).check(shard(label=label, y_type=kind))


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({}, "lacks 0.weight"),
        ({"0.weight": torch.zeros(3, 2)}, "size mismatch for 0.weight"),
        ({"0.weight": torch.zeros(2, 2), "x\ny" * 100_000: torch.zeros(1)}, "has x y"),
        ({"0.weight": [1.0]}, "While copying the parameter"),
    ],
)
def test_parameters_of_another_model_are_refused_in_one_line(parameters, reason):
    model = make_model()
    with pytest.raises(ConfigError, match=f"^the parameters do not fit the model: .*{reason}") as caught:
        model.minibatches(parameters, make_shards(4), seed=0)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ("nn.Flatten()", "has no parameters that can be trained: give it some, unfrozen"),
        ("nn.Flatten(), nn.Linear(64, 10).requires_grad_(False)", "has no parameters that can be trained"),
        ("nn.Flatten(), nn.Linear(3, 10)", r"calling it with samples of shape \(1, 8, 8\) failed: RuntimeError: mat1"),
        ("nn.Flatten(), nn.Linear(64, 7)", r"gives outputs of shape \(2, 7\) for 2 samples, not \(2, 10\)"),
    ],
)
def test_an_own_model_that_does_not_fit_is_refused_at_once(tmp_path, layers, message):
    path = tmp_path / "own.py"
    path.write_text(f"from torch import nn\n\n\ndef make():\n    return nn.Sequential({layers})\n")
    own = msgspec.structs.replace(digits_spec()[0], model=models.ModelSpec(import_path=f"{path}:make"))
    with pytest.raises(ConfigError, match=message):
        LocalModel(own, allowed=None)


def test_a_model_without_parameters_to_train_is_refused_as_a_chain_too(tmp_path):
    path = tmp_path / "own.py"
    path.write_text("from torch import nn\n\n\ndef make():\n    return nn.Sequential(nn.Flatten(), nn.ReLU())\n")
    own = msgspec.structs.replace(digits_spec()[0], model=models.ModelSpec(import_path=f"{path}:make"))
    with pytest.raises(ConfigError, match="has no parameters that can be trained: give it some, unfrozen"):
        make_chain(own, None)
