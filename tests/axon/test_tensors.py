"""Arrays and tensors on the wire: exact, without copies, and nothing that is not one."""

from __future__ import annotations

import math
import tracemalloc

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from msgspec.msgpack import Ext

from paceline.axon import wire
from paceline.axon.wire import Kind, tensors
from paceline.errors import WireError

pytestmark = [
    pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage"),
    pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor"),
    pytest.mark.filterwarnings("ignore:.*quantized tensor creation functions"),
]

NUMPY_DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]
TORCH_DTYPES = [*NUMPY_DTYPES, "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex32"]
SHAPES = [(), (1,), (7,), (0,), (3, 0, 2), (2, 3, 4), (1,) * 33, (1,) * 64]


def receive(value):
    """Send a value; return it as received, and the memory it was received in."""
    body = bytearray(b"".join(wire.encode(Kind.CALL, value)))
    return wire.decode(memoryview(body))[1], np.frombuffer(body, np.uint8)


def receive_described(code, dtype, shape, buffer=b""):
    """Decode a frame with one buffer whose description may lie."""
    meta = msgspec.msgpack.encode(Ext(code, msgspec.msgpack.encode((dtype, shape))))
    head = b"AX\x01\x00" + len(meta).to_bytes(4, "little") + meta
    body = bytearray(head + bytes(-len(head) % wire.ALIGNMENT_BYTES) + buffer)
    return wire.decode(memoryview(body))[1]


def bits_of(tensor: torch.Tensor) -> bytes:
    return tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def random_tensor(dtype: str, shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    """A tensor of random bits (of random truth for bool, which has but two values)."""
    target = getattr(torch, dtype)
    numbers = np.random.default_rng(seed)
    if target is torch.bool:
        return torch.from_numpy(np.asarray(numbers.integers(0, 2, shape)).astype(bool))
    num_bytes = math.prod(shape) * target.itemsize
    if not num_bytes:
        return torch.empty(shape, dtype=target)
    return torch.frombuffer(bytearray(numbers.bytes(num_bytes)), dtype=torch.uint8).view(target).reshape(shape)


def assert_same_array(received, sent):
    assert type(received) is np.ndarray
    assert received.dtype == sent.dtype.newbyteorder("=")
    assert received.shape == sent.shape
    assert received.tobytes() == sent.astype(received.dtype).tobytes()


def assert_same_tensor(received, sent):
    assert type(received) is torch.Tensor
    assert (received.dtype, received.shape) == (sent.dtype, sent.shape)
    assert bits_of(received) == bits_of(sent)


# NumPy.

ARRAY_DTYPES = st.sampled_from(NUMPY_DTYPES).flatmap(
    lambda name: st.sampled_from("<>").map(np.dtype(name).newbyteorder)
)


@given(npst.arrays(ARRAY_DTYPES, st.just((4, 6, 2))), st.permutations(range(3)), st.sampled_from([1, 2, -1, -2]))
@settings(deadline=None)
def test_arrays_in_any_order_of_memory_come_back_exactly(array, axes, step):
    view = array.transpose(axes)[::step, ::-1]
    received, _ = receive({"a": [view, np.broadcast_to(view[0], (3, *view.shape[1:]))]})
    assert_same_array(received["a"][0], view)
    assert_same_array(received["a"][1], np.broadcast_to(view[0], (3, *view.shape[1:])))


@given(npst.arrays(st.sampled_from(NUMPY_DTYPES), ()))
def test_scalars_come_back_exactly(array):
    scalar = array[()]
    received, _ = receive([scalar])
    assert type(received[0]) is type(scalar)
    assert received[0].tobytes() == scalar.tobytes()


@pytest.mark.parametrize(
    "array",
    [
        *(np.array([1, None], object), np.array([object()]), np.array(["text"]), np.array([b"bytes"])),
        *(np.array(["2024-01-01"], "datetime64[D]"), np.array([1], "timedelta64[s]"), np.zeros(2, "V8")),
        *(np.zeros(2, [("a", "i4"), ("b", "f8")]), np.zeros(2, np.longdouble), np.zeros(2, np.clongdouble)),
    ],
    ids=lambda array: array.dtype.name,
)
def test_arrays_of_other_dtypes_are_refused(array):
    is_text = isinstance(array[0], (str, bytes))  # a text of NumPy's is a text
    for value in (array, [array[0]] if isinstance(array[0], np.generic) and not is_text else array):
        with pytest.raises(WireError, match="cannot send an array of dtype"):
            wire.encode(Kind.CALL, value)


# Torch.


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", TORCH_DTYPES)
def test_tensors_and_arrays_of_every_dtype_and_shape(dtype, shape):
    tensor = random_tensor(dtype, shape)
    received, _ = receive({"t": (tensor, [tensor])})
    assert_same_tensor(received["t"][0], tensor)
    assert_same_tensor(received["t"][1][0], tensor)
    if dtype in NUMPY_DTYPES:
        received, _ = receive((tensor.numpy(), [tensor.numpy()]))
        assert_same_array(received[0], tensor.numpy())
        assert_same_array(received[1][0], tensor.numpy())


@given(st.permutations(range(3)), st.integers(1, 3), st.integers(0, 2), st.sampled_from(TORCH_DTYPES))
@settings(deadline=None)
def test_tensors_in_any_order_of_memory_come_back_exactly(axes, step, offset, dtype):
    view = random_tensor(dtype, (4, 6, 3)).permute(axes)[offset::step]
    assert_same_tensor(receive(view)[0], view)
    assert_same_tensor(receive(view[:1].expand(5, -1, -1))[0], view[:1].expand(5, -1, -1))


def test_gradients_stay_behind():
    tensor = torch.tensor([1.0, 2.0], requires_grad=True)
    received, _ = receive([tensor, tensor * 2, torch.nn.Parameter(torch.ones(2))])
    assert [t.requires_grad for t in received] == [False, False, False]
    assert [t.tolist() for t in received] == [[1.0, 2.0], [2.0, 4.0], [1.0, 1.0]]
    assert tensor.requires_grad


def test_lazy_conjugates_and_negatives_are_resolved():
    tensor = torch.tensor([1 + 2j, 3 - 4j])
    assert tensor.conj().is_conj()
    assert tensor.conj().imag.is_neg()
    received, _ = receive([tensor.conj(), tensor.conj().imag])
    assert received[0].tolist() == [1 - 2j, 3 + 4j]
    assert received[1].tolist() == [-2.0, 4.0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.eye(4).to_mkldnn(),
        lambda: torch.quantize_per_tensor(torch.zeros(3), 1.0, 0, torch.qint8),
        lambda: torch.zeros(3).to(torch.float8_e4m3fnuz),
        lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
        lambda: torch.empty(3, device="meta"),
    ],
    ids=["sparse", "mkldnn", "quantized", "float8_e4m3fnuz", "nested", "meta"],
)
def test_other_tensors_are_refused(make):
    with pytest.raises(WireError, match="cannot send a tensor"):
        wire.encode(Kind.CALL, [make()])


# Memory.

FLAT = [
    *(np.arange(5000.0), torch.arange(5000.0), torch.arange(5000).to(torch.bfloat16), np.ones((70, 90), np.int8)),
    *(np.frombuffer(bytes(8000), np.float64), bytes(8000), bytearray(8000)),  # some of it read-only
]


@pytest.mark.parametrize("sent", FLAT, ids=lambda value: str(getattr(value, "dtype", type(value).__name__)))
def test_the_sender_does_not_copy(sent):
    memory = sent.view(torch.uint8).numpy() if isinstance(sent, torch.Tensor) else np.frombuffer(sent, np.uint8)
    buffer = np.frombuffer(wire.encode(Kind.CALL, {"k": [sent]})[2], np.uint8)
    assert buffer.nbytes == memory.nbytes
    assert buffer.ctypes.data == memory.ctypes.data


@pytest.mark.parametrize(
    ("dtype", "is_array"), [*((dtype, True) for dtype in NUMPY_DTYPES), *((dtype, False) for dtype in TORCH_DTYPES)]
)
def test_what_is_received_shares_the_body_and_is_writable(dtype, is_array):
    sent = random_tensor(dtype, (3, 5))
    received, body = receive(("x" * 77, sent.numpy() if is_array else sent))
    flat = received[1].reshape(-1).view(np.uint8 if is_array else torch.uint8)
    offset = (flat.ctypes.data if is_array else flat.data_ptr()) - body.ctypes.data
    assert 0 < offset < body.nbytes
    assert offset % wire.ALIGNMENT_BYTES == 0
    before = body[offset]
    flat[0] ^= 1
    assert body[offset] == before ^ 1


# Descriptions that lie.

CODES = {"bytes": 16, "array": 17, "scalar": 18, "tensor": 19}
DTYPES_OF_NEITHER = ["", "object", "O", "str", "float", "int", "<f4", "float128", "datetime64", "V8", "qint8"]
IMPOSSIBLE_SHAPES = [
    *([-1], [2, -3], [-1, -1], [0, -1], [-(1 << 63)], [1 << 20], [1 << 60], [9]),
    *([1 << 63], [(1 << 64) - 1], [1 << 32, 1 << 32], [2] * 64, [1] * 65, [0, 1 << 63], [1 << 61]),
]
LIES = [
    *((code, dtype, [], "unknown dtype") for code in CODES.values() for dtype in DTYPES_OF_NEITHER),
    *((code, dtype, [], "not one of NumPy") for code in (17, 18) for dtype in ("bfloat16", "float8_e5m2", "complex32")),
    *((code, "float64", shape, "impossible|cut short") for code in CODES.values() for shape in IMPOSSIBLE_SHAPES),
    *(
        (code, "uint8", shape, "damaged")
        for code in CODES.values()
        for shape in (None, 3, "3", [1.0], ["1"], [None], [[1]], {"0": 1}, [True])
    ),
    *((18, "uint8", shape, "unknown extension") for shape in ([1], [0], [1, 1])),  # a scalar has no shape
]


@pytest.mark.parametrize(("code", "dtype", "shape", "message"), LIES, ids=lambda value: str(value)[:30])
def test_descriptions_that_lie_are_refused(code, dtype, shape, message):
    with pytest.raises(WireError, match=message):
        receive_described(code, dtype, shape, bytes(64))


@given(
    st.sampled_from(list(CODES.values())),
    st.sampled_from(TORCH_DTYPES) | st.text(max_size=5),
    st.lists(st.integers(-1, 4) | st.integers(-(1 << 63), (1 << 64) - 1), max_size=5),
    st.binary(max_size=100),
)
@settings(max_examples=500, deadline=None)
@example(19, "float32", [0, 1 << 60], b"")
@example(17, "float32", [0, 1 << 60], b"")
@example(19, "uint8", [0, (1 << 63) - 1], b"")
@example(17, "uint8", [0, (1 << 63) - 1], b"")
def test_any_description_is_met_or_refused(code, dtype, shape, buffer):
    try:
        received = receive_described(code, dtype, shape, buffer)
    except WireError:
        return
    if code in (17, 19):
        assert list(received.shape) == shape
        assert str(received.dtype).removeprefix("torch.") == dtype


# Lists of JSON as arrays, and back.


@pytest.mark.parametrize("kind", [np.ndarray, torch.Tensor])
@pytest.mark.parametrize("value", [[], [1, 2], [[1.5, 2.5]], [True, False], 3, 2.5, [[[]]]], ids=repr)
def test_nested_lists_become_arrays(kind, value):
    made = tensors.from_list(kind, value)
    assert isinstance(made, kind)
    assert tensors.to_list(made) == value


@pytest.mark.parametrize("kind", [np.ndarray, torch.Tensor])
@pytest.mark.parametrize("value", [None, [None], "a", ["a", 1], {"a": 1}, [{}], [[1], [1, 2]], [1 << 70]], ids=repr)
def test_what_is_no_list_of_numbers_does_not_become_an_array(kind, value):
    with pytest.raises(TypeError):
        tensors.from_list(kind, value)


@pytest.mark.parametrize("depth", [33, 65, 500, 900, 20_000])
@pytest.mark.parametrize("kind", [np.ndarray, torch.Tensor])
def test_lists_too_deep_do_not_become_an_array(kind, depth):
    value: list = []
    for _ in range(depth):
        value = [value]
    try:
        made = tensors.from_list(kind, value)
    except TypeError:
        return
    assert depth < 65
    assert made.ndim == depth + 1


def test_a_long_text_among_numbers_costs_no_memory():
    value = ["a" * 5000] + [1] * 5000  # NumPy would give each number the room of the text
    tracemalloc.start()
    try:
        with pytest.raises(TypeError):
            tensors.from_list(np.ndarray, value)
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("value", [object(), "a", [1], None])
def test_only_arrays_become_lists(value):
    with pytest.raises(TypeError):
        tensors.to_list(value)
