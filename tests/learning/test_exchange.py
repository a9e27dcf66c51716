"""What of a model travels: all, what is trained, or what patterns choose; and what stays with a device."""

import msgspec
import pytest
import torch
from torch import nn

from paceline.errors import ConfigError
from paceline.learning.exchange import exchanged_names
from paceline.learning.preprocessing import Normalisation, Standardise, WholeModel
from paceline.learning.trainers import KeptTraining, TrainOptions
from paceline.learning.training_spec import TrainingSpec
from tests.learning.own_models import Idle, Tied
from tests.learning.small_tasks import are_equal, make_model, make_shards


class Network(nn.Module):
    """A frozen body, a layer of batch normalisation, and a head."""

    def __init__(self):
        super().__init__()
        self.body, self.norm, self.head = nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 2)
        self.body.requires_grad_(False)


BODY, HEAD = ["body.weight", "body.bias"], ["head.weight", "head.bias"]
NORM = ["norm.weight", "norm.bias", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]


@pytest.mark.parametrize(
    ("exchange", "names"),
    [
        ("all", [*BODY, *NORM, *HEAD]),
        ("trainable", [*NORM[:2], *HEAD]),
        (("head.*",), HEAD),
        (("*", "!norm.*"), [*BODY, *HEAD]),
        (("*", "!norm.*", "norm.bias"), [*BODY, "norm.bias", *HEAD]),
        (("head.*", "body.bias"), ["body.bias", *HEAD]),
        (("*.weight", "!body.*"), ["norm.weight", "head.weight"]),
    ],
)
def test_the_last_pattern_that_fits_a_name_decides(exchange, names):
    assert exchanged_names(Network(), exchange) == names


@pytest.mark.parametrize(
    ("exchange", "reason"),
    [
        (
            ("haed.*",),
            r"exchange has 'haed.\*', which fits nothing; the model has body.weight, body.bias, norm.* and 3",
        ),
        (("HEAD.*",), "which fits nothing"),
        (("*", "!nrom.*"), "'!nrom.*', which fits nothing"),
        (("*", "!*"), "leaves nothing to send; the model has body.weight"),
        (("!norm.*",), "leaves nothing to send"),
        ((), "leaves nothing to send"),
    ],
)
def test_patterns_that_fit_or_leave_nothing_are_refused(exchange, reason):
    with pytest.raises(ConfigError, match=reason.replace("'!nrom.*'", r"'!nrom\.\*'")):
        exchanged_names(Network(), exchange)


def test_preprocessing_never_travels():
    whole = WholeModel(nn.Linear(2, 2), Standardise(Normalisation(1.0, (0.0,), (1.0,)), (2,)), None)
    assert exchanged_names(whole, "all") == ["model.weight", "model.bias"]
    with pytest.raises(ConfigError, match="which fits nothing"):
        exchanged_names(whole, ("preprocessing.*",))


def test_weights_of_two_names_travel_under_both():
    tied = {"first.weight", "first.bias", "second.weight", "second.bias"}
    assert set(exchanged_names(Tied(), "trainable")) == tied
    assert "fixed" not in exchanged_names(Idle(), "trainable")


@pytest.mark.parametrize("exchange", ["all", "trainable", ["head.*", "!*.bias"]])
def test_it_comes_through_the_network(exchange):
    spec = msgspec.structs.replace(make_model("two-nn").spec, exchange=exchange)
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(spec), type=TrainingSpec)
    assert again.exchange == (tuple(exchange) if isinstance(exchange, list) else exchange)


# What stays.


def test_only_what_travels_is_in_vectors_and_required():
    model = make_model("Counting", exchange=("*", "!1.*"))
    assert model.layout.names == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert model.kept_names == {name for name in model.state() if name.startswith("1.")}
    model.load(model.layout.unpack(model.parameters()))
    with pytest.raises(ConfigError, match="the state lacks 0.bias"):
        model.load({"1.bias": torch.ones(4)})


def test_what_is_frozen_is_not_kept_but_part_of_the_base():
    model = make_model("Idle", exchange="trainable")
    assert model.kept_names == set()
    assert model.base().keys() == {"fixed"}


def test_a_weight_that_travels_under_another_name_is_not_kept():
    """Else what a device kept would overwrite what it was sent."""
    model = make_model("Tied", exchange=("first.*", "second.bias"))
    assert model.kept_names == set()
    kept, start = KeptTraining(model.parameters()), model.parameters()
    list(kept.minibatches(model, {"float32": start["float32"] + 1}, make_shards(4), TrainOptions()))
    kept.keep(model, {})
    assert torch.equal(model.state()["second.weight"], model.state()["first.weight"])
    model.load(kept.state(model, start))
    assert torch.equal(model.parameters()["float32"], start["float32"])


LOCAL_NORM = {"exchange": ("*", "!1.*")}


def rounds(model, shards, number, starts=None):
    """What devices that share a model keep after so many rounds, each from the same parameters."""
    kept, start = [KeptTraining(model.parameters()) for _ in shards], make_model("Counting", **LOCAL_NORM).parameters()
    states = []
    for round in range(number):
        states = []
        for one, own in zip(kept, shards, strict=True):
            begin = {kind: vector.clone() for kind, vector in start.items()}
            list(one.minibatches(model, begin, [own], TrainOptions(seed=round)))
            one.keep(model, begin)
            states.append(model.kept())
    return states


def test_what_does_not_travel_stays_with_its_device_also_when_they_share_a_model():
    shards = make_shards(8, 12)
    together = rounds(make_model("Counting", **LOCAL_NORM), shards, 3)
    alone = [rounds(make_model("Counting", **LOCAL_NORM), [shard], 3)[0] for shard in shards]
    assert [int(state["1.num_batches_tracked"]) for state in together] == [6, 9]
    assert are_equal(together[0], alone[0])
    assert are_equal(together[1], alone[1])
    assert not torch.equal(together[0]["1.running_mean"], together[1]["1.running_mean"])


def test_who_joins_a_shared_model_late_begins_as_the_others_did():
    model, (first, second) = make_model("Counting", **LOCAL_NORM), make_shards(8, 8)
    rounds(model, [first], 4)
    late = rounds(model, [second], 1)[0]
    assert are_equal(late, rounds(make_model("Counting", **LOCAL_NORM), [second], 1)[0])


def test_a_benchmark_leaves_nothing_behind():
    model, (shard,) = make_model("Counting", **LOCAL_NORM), make_shards(8)
    initial = model.parameters()
    kept = KeptTraining(initial)
    for _ in range(2):
        list(kept.minibatches(model, initial, [shard], TrainOptions(keeps_optimizer=False)))
        kept.keep(model, initial)
    start = {kind: vector.clone() for kind, vector in initial.items()}
    list(kept.minibatches(model, start, [shard], TrainOptions()))
    assert int(model.state()["1.num_batches_tracked"]) == 2  # of the training alone


def test_the_proximal_term_holds_what_is_shared():
    """There is nothing that a layer of the device's own should stay near to."""
    states = []
    for changes in ({"exchange": ("*", "!2.*")}, {"proximal_layers": ("0", "1")}, {}):
        model = make_model("Counting", proximal_mu=5.0, **changes)
        list(model.minibatches(model.state(), make_shards(16), seed=0))
        states.append(model.state())
    assert are_equal(states[0], states[1])
    assert not are_equal(states[0], states[2])
