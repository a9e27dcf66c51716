"""Values as they are sent: how many bytes, how far off, on average not at all, and nothing else is taken."""

import pytest
import torch

from paceline.learning.quantisation import decode, encode

SHAPES = [(5, 7), (3, 2, 4, 4), (1, 1), (4, 0)]


def values(shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 3 + 1


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bits", [32, 16, 8, 4])
def test_what_is_sent_comes_back_within_a_step(shape, bits):
    x = values(shape)
    back = decode(encode(x, bits, seed=1), shape, bits)
    assert (back.dtype, back.shape) == (torch.float32, x.shape)
    if not x.numel():
        return
    rows, reached = x.flatten(1), back.flatten(1)
    if bits == 32:
        assert torch.equal(back, x)
    elif bits == 16:
        assert torch.equal(back, x.half().float())
    else:
        step = (rows.amax(1) - rows.amin(1)) / (2**bits - 1)
        assert ((rows - reached).abs() <= 1.0001 * step[:, None] + 1e-6).all()
        torch.testing.assert_close(reached.amin(1), rows.amin(1))  # the ends of each row are kept
        torch.testing.assert_close(reached.amax(1), rows.amax(1))


@pytest.mark.parametrize(
    ("bits", "num_bytes"), [(32, 4 * 10 * 33), (16, 2 * 10 * 33), (8, 10 * 33 + 80), (4, 10 * 17 + 80)]
)
def test_so_many_bytes_are_sent(bits, num_bytes):
    coded = encode(values((10, 33)), bits, seed=0)
    assert sum(tensor.nbytes for tensor in coded.values()) == num_bytes
    assert all(tensor.is_contiguous() for tensor in coded.values())


@pytest.mark.parametrize("bits", [8, 4])
def test_rounding_is_right_on_average(bits):
    x = values((4, 30))
    num_draws = 2000
    mean = sum(decode(encode(x, bits, seed), (4, 30), bits) for seed in range(num_draws)) / num_draws
    step = ((x.amax(1) - x.amin(1)) / (2**bits - 1))[:, None]
    spread = step / 2 / num_draws**0.5  # of the mean of so many draws, at most
    assert ((mean - x).abs() < 5 * spread).all()


@pytest.mark.parametrize("bits", [8, 4])
def test_the_draws_follow_from_the_seed(bits):
    x = values((4, 30))
    one, same, other = (encode(x, bits, seed)["values"] for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


GOOD = {"values": torch.zeros(2, 3, dtype=torch.uint8), "least": torch.zeros(2), "step": torch.ones(2)}
RUBBISH = {
    "nothing": ({}, 8, "with 8 bits, values, least, step are sent, not nothing"),
    "no ends": ({"values": GOOD["values"]}, 8, "values, least, step are sent, not values"),
    "too much": ({**GOOD, "most": GOOD["least"]}, 8, "are sent, not least, most, step, values"),
    "whole": ({"values": torch.zeros(2, 3)}, 8, "are sent, not values"),
    "floats": ({**GOOD, "values": torch.zeros(2, 3)}, 8, "values is torch.float32 of shape (2, 3), not torch.uint8"),
    "another width": ({**GOOD, "values": GOOD["values"][:, 1:]}, 8, "of shape (2, 2), not torch.uint8 of shape (2, 3)"),
    "not packed": (GOOD, 4, "of shape (2, 3), not torch.uint8 of shape (2, 2)"),
    "ends of fewer": ({**GOOD, "least": torch.zeros(1)}, 8, "least is torch.float32 of shape (1,), not"),
    "doubles": ({"values": torch.zeros(2, 3).double()}, 32, "values is torch.float64"),
    "flat": ({"values": torch.zeros(6)}, 32, "is it of another cut, or another batch size?"),
    "NaN": ({"values": torch.tensor([[0.0, 0, 0], [0, float("nan"), 0]])}, 32, "values are NaN or infinite"),
    "both infinities": ({"values": torch.tensor([[float("inf"), 0, 0], [-float("inf"), 0, 0]])}, 32, "NaN or infinite"),
    "infinite halves": ({"values": torch.full((2, 3), 7e4).half()}, 16, "values are NaN or infinite"),
    "a NaN end": ({**GOOD, "least": torch.tensor([0.0, float("nan")])}, 8, "values are NaN or infinite"),
    "an infinite step": ({**GOOD, "step": torch.tensor([0.0, float("inf")])}, 8, "values are NaN or infinite"),
}


@pytest.mark.parametrize(("coded", "bits", "said"), RUBBISH.values(), ids=RUBBISH)
def test_rubbish_is_refused_in_one_line(coded, bits, said):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        decode(coded, (2, 3), bits)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("bits", [16, 8, 4])
def test_what_has_diverged_is_refused_at_the_other_end(bits):
    x = values((2, 3))
    x[1, 2] = float("nan")
    with pytest.raises(ValueError, match="values are NaN or infinite"):
        decode(encode(x, bits, 0), (2, 3), bits)
