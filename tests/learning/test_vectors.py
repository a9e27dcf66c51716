import itertools

import pytest
import torch

from paceline.errors import ConfigError
from paceline.learning.vectors import Layout

STATE = {
    "a.weight": torch.arange(6.0).view(2, 3),
    "steps": torch.tensor(7),
    "a.bias": torch.tensor([1.5]),
    "empty": torch.zeros(0, 4),
    "half": torch.ones(2, 2, dtype=torch.float16),
}


def test_there_is_one_vector_per_type():
    vectors = Layout(STATE).pack(STATE)
    lists = {kind: vector.tolist() for kind, vector in vectors.items()}
    assert lists == {"float32": [1.5, 0, 1, 2, 3, 4, 5], "int64": [7], "float16": [1] * 4}


def test_what_is_packed_comes_back_whatever_the_order_of_the_state():
    backwards = dict(reversed(STATE.items()))
    for state, other in itertools.product((STATE, backwards), repeat=2):
        found = Layout(other).unpack(Layout(state).pack(state))
        assert found.keys() == STATE.keys()
        assert all(found[name].equal(tensor) and found[name].dtype == tensor.dtype for name, tensor in STATE.items())


def test_packing_copies_and_unpacking_does_not():
    layout = Layout(STATE)
    vectors = layout.pack(STATE)
    vectors["float32"].zero_()
    assert STATE["a.weight"].sum() == 15
    assert layout.unpack(vectors)["a.bias"].data_ptr() == vectors["float32"].data_ptr()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"float32": torch.zeros(8)}, "float32: float32 of shape \\(8,\\), not \\(7,\\)"),
        ({"float32": torch.zeros(7, 1)}, "of shape \\(7, 1\\)"),
        ({"float32": torch.zeros(7, dtype=torch.float64)}, "float32: float64 of shape"),
        ({"bool": torch.zeros(1)}, "types \\['bool', "),
    ],
)
def test_vectors_of_another_model_are_refused(change, message):
    layout = Layout(STATE)
    with pytest.raises(ConfigError, match=message):
        layout.unpack({**layout.pack(STATE), **change})
