"""Changes as they are sent: how many bytes, how far off, made up for in time, and nothing else is taken."""

import math

import pytest
import torch

from paceline.learning.compression import Compression, ErrorFeedback
from paceline.learning.vectors import Layout

NUM_VALUES = 3001  # more than two blocks, and an odd number
LOSSY = {
    "int8": Compression(method="int8"),
    "int4": Compression(method="int4"),
    "top-k": Compression(method="top-k", kept_share=0.05),
}


def drawn(seed, dtype=torch.float32, size=NUM_VALUES):
    values = torch.randn(size, generator=torch.Generator().manual_seed(seed))
    return {str(dtype).removeprefix("torch."): values.to(dtype), "int64": torch.tensor([seed])}


def num_bytes(vectors):
    return sum(vector.nbytes for vector in vectors.values())


@pytest.fixture(params=LOSSY)
def lossy(request):
    return LOSSY[request.param]


def test_none_sends_the_very_vectors():
    vectors, compression = drawn(1), Compression()
    sent, restored = compression.encode(vectors, drawn(0))
    assert sent is vectors
    assert restored is vectors
    assert compression.decode(vectors, drawn(0)) is vectors
    assert compression.num_bytes(vectors) == num_bytes(vectors)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("int8", 3001 + 3 * 4),  # a scale for each block that is begun
        ("int4", 1501 + 3 * 4),
        ("top-k", 151 * (4 + 4)),  # 5 % rounded up, values and positions
    ],
)
def test_so_many_bytes_are_sent_whatever_the_values(method, expected):
    for parameters in (drawn(1), drawn(0)):
        sent, _ = LOSSY[method].encode(parameters, drawn(0))
        assert num_bytes(sent) == expected + 8
        assert LOSSY[method].num_bytes(drawn(0)) == expected + 8
        assert all(vector.is_contiguous() for vector in sent.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_both_ends_restore_the_same(lossy, dtype):
    start, parameters = drawn(0, dtype), drawn(1, dtype)
    sent, restored = lossy.encode(parameters, start)
    arrived = lossy.decode({key: vector.clone() for key, vector in sent.items()}, start)
    assert arrived.keys() == start.keys()
    assert all(torch.equal(vector, restored[kind]) for kind, vector in arrived.items())
    assert all(vector.dtype == start[kind].dtype for kind, vector in arrived.items())
    assert lossy.num_bytes(start) == num_bytes(sent)
    assert arrived["int64"].item() == 1  # whole numbers are sent as they are


@pytest.mark.parametrize(("method", "most"), [("int8", 127), ("int4", 7)])
def test_steps_are_at_most_half_a_step_off(method, most):
    start, parameters = drawn(0), drawn(1)
    _, restored = LOSSY[method].encode(parameters, start)
    change = parameters["float32"] - start["float32"]
    for block in torch.arange(NUM_VALUES).split(1024):
        off = (restored["float32"] - parameters["float32"])[block].abs().max()
        assert off <= change[block].abs().max() / most / 2 + 1e-6


def test_top_k_sends_the_largest_changes_and_leaves_the_rest():
    start, parameters = drawn(0), drawn(1)
    _, restored = LOSSY["top-k"].encode(parameters, start)
    change = (parameters["float32"] - start["float32"]).abs()
    is_sent = restored["float32"] != start["float32"]
    assert is_sent.sum() == 151
    assert change[is_sent].min() >= change[~is_sent].max()
    torch.testing.assert_close(restored["float32"][is_sent], parameters["float32"][is_sent])


@pytest.mark.parametrize("tiny", [0.0, 1e-45, 2e-43])
def test_next_to_no_change_is_no_trouble(lossy, tiny):
    start = {"float32": torch.zeros(5)}
    _, restored = lossy.encode({"float32": torch.tensor([tiny, -tiny, 0, 0, tiny])}, start)
    assert restored["float32"].abs().max() < 1e-42


@pytest.mark.parametrize("size", [0, 1, 2])
def test_tiny_vectors_can_be_sent(lossy, size):
    sent, restored = lossy.encode(drawn(1, size=size), drawn(0, size=size))
    assert restored["float32"].shape == (size,)
    assert torch.equal(lossy.decode(sent, drawn(0, size=size))["float32"], restored["float32"])


# Buffers.


def test_buffers_are_sent_exactly():
    """They are in the same vector as the parameters around them."""
    state = {"a": torch.zeros(700), "mean": torch.zeros(30), "var": torch.ones(30), "w": torch.zeros(700)}
    layout = Layout(state)
    trained = {name: torch.randn(len(tensor)) for name, tensor in state.items()}
    for method in LOSSY:
        compression = Compression(method=method, exact=layout.spans(("mean", "var")))
        assert compression.exact == {"float32": ((700, 730), (730, 760))}
        start, parameters = layout.pack(state), layout.pack(trained)
        sent, restored = compression.encode(parameters, start)
        back = layout.unpack(compression.decode(sent, start))
        assert torch.equal(layout.pack(back)["float32"], restored["float32"])
        assert torch.equal(back["mean"], trained["mean"])
        assert torch.equal(back["var"], trained["var"])
        assert not torch.equal(back["a"], trained["a"])
        assert compression.num_bytes(start) == num_bytes(sent)
        assert num_bytes(sent) < num_bytes(start) / 3


@pytest.mark.parametrize("spans", [((0, 9),), ((3, 2),), ((2, 4), (3, 5)), ((9, 9),)])
def test_spans_of_another_model_do_not_fit(spans):
    vectors = {"float32": torch.zeros(5)}
    assert Compression(exact={"float32": ((0, 2), (2, 5))}).fits(vectors)
    assert not Compression(exact={"float32": spans}).fits(vectors)
    assert not Compression(exact={"float64": ((0, 2),)}).fits(vectors)


# Error feedback.


def test_what_is_left_out_is_made_up_for(lossy):
    """A constant change, applied round after round, leads as far as if nothing were left out."""
    feedback, change = ErrorFeedback(lossy), drawn(1)["float32"]
    model, num_rounds = {"float32": torch.zeros(NUM_VALUES)}, 60
    for _ in range(num_rounds):
        sent = feedback.encode({"float32": model["float32"] + change}, model)
        model = lossy.decode(sent, model)
        feedback.applied()
    off = (model["float32"] - num_rounds * change).norm() / (num_rounds * change).norm()
    alone = (lossy.encode({"float32": change}, {"float32": torch.zeros(NUM_VALUES)})[1]["float32"] - change).norm()
    assert off < 0.5 * alone / change.norm()  # without feedback, each round is that far off
    left_out = feedback._left_out["float32"]
    torch.testing.assert_close(model["float32"] + left_out, num_rounds * change, rtol=1e-4, atol=1e-3)


def test_a_change_that_is_not_applied_is_lost_but_nothing_else_is(lossy):
    feedback, start = ErrorFeedback(lossy), {"float32": torch.zeros(NUM_VALUES)}
    first, refused, last = (drawn(seed)["float32"] for seed in (1, 2, 3))
    arrived = lossy.decode(feedback.encode({"float32": first}, start), start)["float32"]
    feedback.applied()
    feedback.encode({"float32": refused}, start)
    arrived += lossy.decode(feedback.encode({"float32": last}, start), start)["float32"]
    feedback.applied()
    torch.testing.assert_close(arrived + feedback._left_out["float32"], first + last)


def test_what_is_forgotten_is_not_sent(lossy):
    feedback, start = ErrorFeedback(lossy), {"float32": torch.zeros(NUM_VALUES)}
    feedback.encode(drawn(1), {**start, "int64": torch.tensor([0])})
    feedback.applied()
    feedback.forget()
    sent = feedback.encode({"float32": start["float32"]}, start)
    assert lossy.decode(sent, start)["float32"].abs().max() == 0


# What comes from elsewhere.

GOOD = {method: compression.encode(drawn(1), drawn(0)).sent for method, compression in LOSSY.items()}


def good(method, **changes):
    """What is sent, but for some of it; its parts are named without the type."""
    return method, {**GOOD[method], **{f"float32.{part}": value for part, value in changes.items()}}


def steps(method, values):
    return method, {**GOOD[method], "float32": values}


def starting(*values):
    """Positions that begin like this."""
    kept = GOOD["top-k"]["float32.positions"].clone()
    kept[: len(values)] = torch.tensor(values, dtype=torch.int32)
    return kept


RUBBISH = {
    "nothing": (("int8", {}), "float32, float32.scales, int64 are sent of a change, not nothing"),
    "whole parameters": (("int8", drawn(1)), "are sent of a change, not float32, int64"),
    "something else": (good("int4", **{"x" * 9999: torch.zeros(1)}), "are sent of a change, not "),
    "floats": (steps("int8", torch.zeros(NUM_VALUES)), "float32 of a change is torch.float32 of shape (3001,), not"),
    "not packed": (steps("int4", torch.zeros(NUM_VALUES, dtype=torch.uint8)), "not torch.uint8 of shape (1501,)"),
    "a matrix": (steps("int8", GOOD["int8"]["float32"][None]), "of shape (1, 3001), not"),
    "few scales": (good("int8", scales=torch.ones(2)), "float32.scales of a change is torch.float32 of shape (2,)"),
    "NaN scales": (good("int4", scales=torch.full((3,), math.nan)), "float32.scales of a change holds NaN"),
    "infinite scales": (good("int8", scales=torch.full((3,), math.inf)), "holds NaN or infinity"),
    "infinite values": (steps("top-k", torch.full((151,), math.inf)), "float32 of a change holds NaN or infinity"),
    "many values": (steps("top-k", torch.zeros(152)), "of shape (152,), not torch.float32 of shape (151,)"),
    "long positions": (good("top-k", positions=torch.arange(151)), "is torch.int64 of shape (151,), not"),
    "a negative position": (good("top-k", positions=starting(-1)), "positions are not all in 0 to 3000"),
    "one too far": (good("top-k", positions=torch.arange(2851, 3002).int()), "positions are not all in 0 to 3000"),
    "a position twice": (good("top-k", positions=torch.arange(151).int() // 2), "positions do not ascend"),
    "positions that go back": (good("top-k", positions=starting(0, 7, 3)), "positions do not ascend"),
    "another counter": (("int8", {**GOOD["int8"], "int64": torch.ones(1)}), "int64 of a change is torch.float32"),
}


@pytest.mark.parametrize(("message", "said"), RUBBISH.values(), ids=RUBBISH)
def test_rubbish_is_refused_in_one_line(message, said):
    method, sent = message
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        LOSSY[method].decode(sent, drawn(0))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("share", [0.0, 0.51, math.nan])
def test_a_share_that_makes_no_sense_is_refused(share):
    with pytest.raises(ValueError, match="^kept_share is "):
        Compression(method="top-k", kept_share=share)
