"""Frames: every supported value comes back exactly, and everything else is a `WireError`."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import enum
import functools
import itertools
import math
import pickle
import struct
import tracemalloc

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.msgpack import Ext

from paceline.axon import wire
from paceline.axon.wire import ALIGNMENT_BYTES, OUT_OF_BAND_BYTES, Kind, Limits
from paceline.errors import WireError

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")


def joined(parts) -> memoryview:
    """A frame as a receiver gets it: one buffer, writable and its own."""
    return memoryview(bytearray(b"".join(parts)))


def round_trip(value, limits=wire.DEFAULT_LIMITS):
    kind, received = wire.decode(joined(wire.encode(Kind.RESULT, value, limits)), limits)
    assert kind is Kind.RESULT
    return received


def raw_frame(meta: bytes, *buffers: bytes, magic=b"AX", version=wire.VERSION, kind=0, num_meta_bytes=None):
    """A frame that `encode` may refuse to make."""
    frame = struct.pack("<2sBBI", magic, version, kind, len(meta) if num_meta_bytes is None else num_meta_bytes) + meta
    for buffer in buffers:
        frame += bytes(-len(frame) % ALIGNMENT_BYTES) + buffer
    return joined([frame])


def ext(code: int, content: bytes) -> bytes:
    return msgspec.msgpack.encode(Ext(code, content))


def canonical(value):
    """Something that compares equal for the same type and value, to the bit, and for nothing else."""
    if isinstance(value, float):
        return float, struct.pack("<d", value)
    if isinstance(value, complex):
        return complex, struct.pack("<dd", value.real, value.imag)
    if isinstance(value, dict):
        return type(value), [(canonical(key), canonical(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), tuple(canonical(item) for item in value)
    if isinstance(value, (set, frozenset)):
        return type(value), collections.Counter(canonical(item) for item in value)
    if isinstance(value, datetime.datetime):
        return type(value), value.isoformat()
    if isinstance(value, np.ndarray):
        return type(value), value.dtype, value.shape, value.tobytes()
    return type(value), value


def assert_same(received, sent):
    assert canonical(received) == canonical(sent)


# Every supported value comes back.

INTEGERS = st.integers() | st.integers(-(1 << 600), 1 << 600) | st.sampled_from([-(1 << 63), (1 << 63) - 1, 1 << 63])
SMALL_INTEGERS = st.integers(-(1 << 63), (1 << 64) - 1)
TIMES = st.datetimes() | st.datetimes(timezones=st.timezones())
SCALARS = st.one_of(
    *(st.none(), st.booleans(), INTEGERS, st.floats(), st.complex_numbers(), st.text(), st.binary()),
    *(TIMES, st.dates(), st.timedeltas()),
)
PLAIN_KEYS = st.one_of(st.none(), st.booleans(), SMALL_INTEGERS, st.floats(), st.text(), st.binary())
KEYS = st.recursive(PLAIN_KEYS, lambda keys: st.lists(keys, max_size=3).map(tuple), max_leaves=5)
ARRAYS = st.lists(st.integers(0, 255), max_size=9).map(lambda items: np.array(items, np.uint8))
VALUES = st.recursive(
    SCALARS | ARRAYS,
    lambda values: st.one_of(
        st.lists(values, max_size=5),
        st.lists(values, max_size=5).map(tuple),
        st.dictionaries(KEYS, values, max_size=5),
        st.sets(KEYS, max_size=5),
        st.frozensets(KEYS, max_size=5),
    ),
    max_leaves=20,
)


@given(VALUES | st.lists(SMALL_INTEGERS) | st.lists(st.floats()) | st.lists(st.booleans() | st.none() | st.text()))
@settings(max_examples=500, deadline=None)
@example(math.nan)
@example(-0.0)
@example([math.inf, -math.inf, math.nan])
@example(struct.unpack("<d", b"\x01\x02\x03\x04\x05\x06\xf8\x7f")[0])
@example([(1 << 64) - 1, -(1 << 63)])
@example([1 << 64, -(1 << 63) - 1])
@example({(1, ("a", None)): {2.0: b"x", True: ()}})
@example(datetime.datetime(2024, 2, 29, 23, 59, 59, 999999, datetime.timezone(datetime.timedelta(hours=1))))
@example(datetime.datetime(1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=-3, seconds=7))))
@example(datetime.timedelta.max)
@example(datetime.timedelta.min)
@example(10**5000)
@example([bytes(OUT_OF_BAND_BYTES - 1), bytes(OUT_OF_BAND_BYTES), b"x" * 100_000])
def test_every_value_comes_back_exactly(value):
    assert_same(round_trip(value), value)


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_of_frame(kind):
    body = joined(wire.encode(kind, "x"))
    assert wire.decode(body) == (kind, "x")
    assert wire.decode_as(kind, body) == "x"
    assert wire.is_last([body]) is (kind in (Kind.RESULT, Kind.ERROR))
    for other in set(Kind) - {kind}:
        with pytest.raises(WireError, match=f"expected a frame of kind {other.name}, got {kind.name}"):
            wire.decode_as(other, body)
    assert not any(wire.is_last(short) for short in ((), (b"",), (body[:3],)))


# Values that travel as something plainer.


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Mix(enum.Enum):
    PURPLE = ("red", 2)


class Level(enum.IntEnum):
    HIGH = 3


class Access(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Point:
    x: int
    label: str | None = None
    inner: Point | None = None


class Shape(msgspec.Struct, tag="shape"):
    sides: int
    colour: Colour = Colour.RED


class Renamed(msgspec.Struct, rename="camel"):
    num_sides: int


class Name(str):
    pass


Pair = collections.namedtuple("Pair", "left right")
IN_COLUMNS = np.asfortranarray(np.arange(4096, dtype=np.int32).reshape(64, 64))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((Colour.RED, "red"), (Mix.PURPLE, ("red", 2)), (Level.HIGH, 3), (Access.READ | Access.WRITE, 3)),
        *(({Colour.RED: Level.HIGH}, {"red": 3}), ({Level.HIGH}, {3}), (Name("n"), "n"), (Renamed(4), {"numSides": 4})),
        (Point(1, "a", Point(2)), {"x": 1, "label": "a", "inner": {"x": 2, "label": None, "inner": None}}),
        (Shape(3), {"type": "shape", "sides": 3, "colour": "red"}),
        (Pair(1, [2]), (1, [2])),
        (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (collections.defaultdict(list, a=[1]), {"a": [1]}),
        (bytearray(b"abc"), b"abc"),
        (bytearray(b"a" * OUT_OF_BAND_BYTES), b"a" * OUT_OF_BAND_BYTES),
        (memoryview(b"abcdef")[::2], b"ace"),
        (memoryview(b"ab" * OUT_OF_BAND_BYTES)[::2], b"a" * OUT_OF_BAND_BYTES),
        (memoryview(IN_COLUMNS), IN_COLUMNS.tobytes()),
    ],
    ids=lambda value: repr(value).partition(" at 0x")[0][:40],
)
def test_what_has_no_form_of_its_own_travels_as_what_it_extends(value, expected):
    assert_same(round_trip(value), expected)
    assert_same(round_trip([value, {"k": value}]), [expected, {"k": expected}])


# Buffers.


@given(st.lists(st.integers(0, 300), max_size=6), st.text(max_size=100))
@settings(deadline=None)
def test_buffers_are_aligned_and_in_order(lengths, text):
    arrays = [np.arange(length, dtype=np.uint16) for length in lengths]
    parts = wire.encode(Kind.CALL, [text, *arrays])
    position = 0
    for number, part in enumerate(parts):
        is_buffer = number > 0 and number % 2 == 0
        if is_buffer:
            assert position % ALIGNMENT_BYTES == 0
            assert bytes(part) == arrays[number // 2 - 1].tobytes()
        position += memoryview(part).nbytes
    assert len(parts) == 1 + 2 * len(arrays)


# What is not a frame.

SAMPLES = [
    None,
    [[1, -5, 1 << 40, 1 << 80, 2.5, True, "text", b"bytes"], {"k": None, (1, 2): {"n": [3]}, b"b": 1.5}],
    ((1, (2, [3, ()])), {1, "a", (2, None)}, frozenset([b"x"]), 1 + 2j),
    [datetime.datetime(2024, 1, 2, 3, 4, 5, 6), datetime.date(2024, 1, 2), datetime.timedelta(1, 2, 3)],
    datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone.utc),
    [np.arange(6, dtype=np.float32).reshape(2, 3), np.float64(1.5), np.zeros((0, 4), np.int8), np.array(True)],
    {"weights": torch.arange(4, dtype=torch.bfloat16), "long": bytes(OUT_OF_BAND_BYTES), "t": torch.zeros(0, 2)},
]
FRAMES = [bytes(joined(wire.encode(Kind.CALL, value))) for value in SAMPLES]


@pytest.mark.parametrize("frame", FRAMES, ids=range(len(FRAMES)))
def test_every_truncation_and_trailing_bytes_are_refused(frame):
    for length in range(len(frame)):
        with pytest.raises(WireError):
            wire.decode(joined([frame[:length]]))
    for tail in (b"\0", b"AX\x01\0", bytes(ALIGNMENT_BYTES)):
        with pytest.raises(WireError, match="left over"):
            wire.decode(joined([frame, tail]))


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (raw_frame(b"\xc0", magic=b"XA"), "not an Axon frame"),
        (raw_frame(b"\xc0", version=0), "wire version 0"),
        (raw_frame(b"\xc0", version=2), "wire version 2"),
        (raw_frame(b"\xc0", kind=4), "unknown kind of frame: 4"),
        (raw_frame(b"\xc0", kind=255), "unknown kind of frame: 255"),
        (raw_frame(b"\xc0", num_meta_bytes=2), "cut short"),
        (raw_frame(b"\xc0", num_meta_bytes=(1 << 32) - 1), "bytes of structure"),
        *((raw_frame(meta), "damaged") for meta in (b"", b"\xc0\xc0", b"\xc1", b"\xa2\xff\xfe", b"\xa3\xed\xa0\x80")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_prefix_or_meta_is_refused(frame, message):
    with pytest.raises(WireError, match=message):
        wire.decode(frame)


@pytest.mark.parametrize(
    ("code", "content"),
    [
        *[(code, content) for code in (1, 2, 3) for content in (b"", b"\xc0", b"\xa1a", b"\xc1", b"\x91")],
        *((1, b"\x81\x01\x02"), (2, b"\x91\x01"), (3, b"\x90"), (2, b"\x81" + ext(2, b"\x80") + b"\xc0")),
        *((5, b""), (5, bytes(15)), (5, bytes(17)), (8, bytes(11)), (8, struct.pack("<iii", 2**31 - 1, 0, 0))),
        *((6, b""), (6, b"2024-13-01"), (6, "２024-01-01".encode()), (6, b"\xff"), (6, b"2024-01-01T25:00")),
        *((7, b""), (7, b"2024-02-30"), (7, b"2024-01-01T00:00:00"), (7, b"\x80")),
        *((-1, b""), (-1, bytes(5)), (-1, b"\xff" * 12)),
        *itertools.product(
            (0, 9, 10, 15, 20, 21, 64, 127, -2, -128), (b"", b"\x92\xa5uint8\x90", b"x" * 12, b"x" * 16)
        ),
    ],
)
def test_malformed_and_unknown_extensions_are_refused(code, content):
    for buffers in ((), (b"0" * 16,)):
        with pytest.raises(WireError):
            wire.decode(raw_frame(ext(code, content), *buffers))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_refused(protocol):
    bomb = pickle.dumps(Pair(1, 2), protocol)
    for body in (joined([bomb]), raw_frame(bomb)):
        with pytest.raises(WireError):
            wire.decode(body)
    assert round_trip(bomb) == bomb  # bytes are bytes, whatever they hold


# Limits.


BUFFERS = [np.zeros(1), np.int8(3), torch.zeros(1), bytes(OUT_OF_BAND_BYTES), np.zeros(0)]


@pytest.mark.parametrize(
    ("value", "limits", "message"),
    [
        *(
            (value, {"max_meta_bytes": 100}, "100 are allowed")
            for value in (["a" * 50] * 4, {"k" * 200: 1}, b"x" * 200, list(range(200)), ("t" * 200,))
        ),
        *(([item] * 3, {"max_buffers": 2}, "2 arrays") for item in BUFFERS),
        ([[1] * 50, {"k": [2] * 50}], {"max_items": 100}, "more than 100 items"),
    ],
)
def test_what_is_over_a_limit_is_refused_by_both_sides(value, limits, message):
    frame = joined(wire.encode(Kind.CALL, value))
    with pytest.raises(WireError, match=message):
        wire.encode(Kind.CALL, value, Limits(**limits))
    with pytest.raises(WireError, match=message):
        wire.decode(frame, Limits(**limits))
    round_trip(value, Limits(**{name: 9 * most for name, most in limits.items()}))


def test_a_body_over_the_limit_is_refused():
    frame = joined(wire.encode(Kind.CALL, bytes(10_000)))
    wire.decode(frame, Limits(max_body_bytes=frame.nbytes))
    with pytest.raises(WireError, match="are allowed"):
        wire.decode(frame, Limits(max_body_bytes=frame.nbytes - 1))


def nested(container, depth):
    value = container(None)
    for _ in range(depth - 1):
        value = container(value)
    return value


NESTINGS = {
    "list": lambda inner: [inner],
    "list after others": lambda inner: [1, "a", inner, 2.0],
    "tuple": lambda inner: (inner,),
    "dict": lambda inner: {"k": inner},
    "dict by number": lambda inner: {1: inner},
    "list and tuple": lambda inner: ([inner],),
    "dataclass": lambda inner: Point(1, inner=inner),
    "enum": lambda inner: [Mix.PURPLE, inner],
}
AS_KEY = {"dict": lambda key: {key: 1}, "set": lambda key: {key}, "frozenset": lambda key: [frozenset([key])]}
DEEP = {name: functools.partial(nested, container) for name, container in NESTINGS.items()} | {
    f"key of a {name}": lambda depth, container=container: container(nested(NESTINGS["tuple"], depth))
    for name, container in AS_KEY.items()
}


def first_refused(make, limits, up_to):
    """The least number for which a value may not be sent; the receiver takes all that may be."""
    for number in range(1, up_to):
        try:
            parts = wire.encode(Kind.CALL, make(number), limits)
        except WireError:
            return number
        wire.decode(joined(parts), limits)
    pytest.fail("nothing was refused")


@pytest.mark.parametrize("max_depth", [1, 2, 7, 64])
@pytest.mark.parametrize("name", DEEP)
def test_what_may_be_sent_may_be_received(name, max_depth):
    depth = first_refused(DEEP[name], Limits(max_depth=max_depth), max_depth + 3)
    assert depth * (2 if name == "list and tuple" else 1) >= max_depth - ("key" in name)


@pytest.mark.parametrize("excess", [3, 30])
@pytest.mark.parametrize("name", DEEP)
def test_too_deep_is_refused_by_both_sides(name, excess):
    value = DEEP[name](10 + excess)
    frame = joined(wire.encode(Kind.CALL, value, Limits(max_depth=200)))
    with pytest.raises(WireError, match="deep"):
        wire.encode(Kind.CALL, value, Limits(max_depth=10))
    with pytest.raises(WireError, match="deep"):
        wire.decode(frame, Limits(max_depth=10))


def test_a_value_that_contains_itself_is_refused():
    value: list = []
    value.append(value)
    with pytest.raises(WireError, match="deep"):
        wire.encode(Kind.CALL, value)


def nested_extensions(depth, around=b""):
    """Tuples made of tuples, by default with no list between them; that is refused, but must be read to see it."""
    meta = b"\x90"
    for _ in range(depth):
        meta = around + ext(1, meta)
    return meta


@pytest.mark.parametrize("depth", [100, 500, 900, 5_000, 100_000, 3_000_000])
@pytest.mark.parametrize(
    "make",
    [
        lambda depth: b"\x91" * depth + b"\xc0",
        lambda depth: b"\x81\x01" * depth + b"\xc0",
        lambda depth: b"\x81" + b"\x91" * depth + b"\xc0\xc0",  # as a key
        lambda depth: ext(2, b"\x81" + b"\x91" * depth + b"\xc0\xc0"),  # as a member of a set
        lambda depth: nested_extensions(min(depth, 2_000), around=b"\x91"),
    ],
    ids=["lists", "dicts", "key", "member", "tuples"],
)
def test_raw_nesting_far_beyond_the_limit_is_refused(make, depth):
    with pytest.raises(WireError, match="deep"):
        wire.decode(raw_frame(make(depth)))


@pytest.mark.parametrize("depth", [2, 100, 2_000, 10_000])
def test_extensions_directly_within_each_other_are_refused(depth):
    with pytest.raises(WireError):
        wire.decode(raw_frame(nested_extensions(depth)))


@pytest.mark.parametrize("code", [1, 2, 3, 4, 5, 16, 17, 19, -1])
def test_an_extension_is_no_key(code):
    key = ext(code, b"\x80" if code in (2, 3) else b"\x90")
    for meta in (b"\x81" + key + b"\xc0", b"\x81\x91" + key + b"\xc0", ext(2, b"\x81" + key + b"\xc0")):
        with pytest.raises(WireError):
            wire.decode(raw_frame(meta))


@pytest.mark.parametrize(
    "make",
    [
        *(lambda count: [0.5] * count, lambda count: (0.5,) * count, lambda count: [()] * count),
        *(lambda count: dict.fromkeys(range(count)), lambda count: {str(n): n for n in range(count)}),
        *(lambda count: set(range(count)), lambda count: frozenset(range(count))),
        *(lambda count: {(n, n): {n} for n in range(count)}, lambda count: [Point(n) for n in range(count)]),
        lambda count: [np.int8(1)] * count,
    ],
    ids=["list", "tuple", "tuples", "dict", "dict of str", "set", "frozenset", "tuple keys", "dataclasses", "scalars"],
)
def test_as_many_items_as_may_be_sent_may_be_received(make):
    assert first_refused(make, Limits(max_items=100), 102) > 5


@pytest.mark.parametrize("make", [dict.fromkeys, set], ids=["dict", "set"])
def test_as_many_tuples_as_may_be_keys_may_be_received(make):
    value = make([(n, -n) for n in range(4_096)])
    assert round_trip(value) == value
    for count in (4_097, 20_000):
        with pytest.raises(WireError, match="at most 4096 tuples"):
            wire.encode(Kind.CALL, make([(n, -n) for n in range(count)]))


# Claims that are not backed by bytes.

HUGE_CLAIMS = {
    "list": b"\xdd\xff\xff\xff\xff",
    "map": b"\xdf\xff\xff\xff\xff",
    "text": b"\xdb\xff\xff\xff\xff",
    "bytes": b"\xc6\xff\xff\xff\xff",
    "extension": b"\xc9\xff\xff\xff\xff\x01",
    "key": b"\x81\xdd\xff\xff\xff\xff",
    "lists within each other": b"\xdd\xff\xff\xff\xff" * 50,
    "keys within each other": b"\x81" + b"\xdd\x0f\xff\xff\xff" * 50,
    "tuple": ext(1, b"\xdd\xff\xff\xff\xff"),
    "set": ext(2, b"\xdf\xff\xff\xff\xff"),
    "long shape": ext(17, msgspec.msgpack.encode(("uint8", [1 << 63] * 100_000))),
    **{
        f"buffer of kind {code} and {shape}": ext(code, msgspec.msgpack.encode(("float64", shape)))
        for code in (16, 17, 18, 19)
        for shape in ([1 << 32], [1 << 62], [1 << 31, 1 << 31], [1 << 63], [2] * 32, [0, 1 << 63])
    },
}


def peak_bytes_of_decoding(frame, outcome) -> int:
    """Bytes allocated at the peak until a frame is decoded or refused."""
    tracemalloc.start()
    try:
        with outcome:
            wire.decode(frame)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", HUGE_CLAIMS)
def test_huge_claims_fail_at_once(name):
    frame = raw_frame(HUGE_CLAIMS[name])
    assert peak_bytes_of_decoding(frame, pytest.raises(WireError)) < 32 * frame.nbytes + (1 << 20)


@pytest.mark.parametrize(
    "content",
    [("uint8", [1] * 100_000), ("uint8", [-(1 << 63)] * 60), ("u" * 100_000, []), ("uint8", [1 << 63] * 60)],
    ids=["long shape", "negative", "long dtype", "huge"],
)
def test_a_refusal_does_not_repeat_what_was_sent(content):
    with pytest.raises(WireError) as caught:
        wire.decode(raw_frame(ext(17, msgspec.msgpack.encode(content))))
    assert len(str(caught.value)) < 3_000


def ints_of_one_hash(count):
    """Python hashes an int by its remainder, and only strings and bytes with a secret."""
    modulus = (1 << 61) - 1
    return [ext(4, ((1 << 20) + n * modulus).to_bytes(16, "little", signed=True)) for n in range(count)]


def pairs_of_one_hash(count):
    """For any first int there is a second that gives the pair the hash we like (see CPython's tuplehash)."""
    prime_1, prime_2, prime_5 = 11400714785074694791, 14029467366897019727, 2870177450012600261
    mask, inverse = (1 << 64) - 1, pow(14029467366897019727, -1, 1 << 64)
    pairs = []
    for first in range(1, 8 * count):
        rotated = (prime_5 + first * prime_2) & mask
        rotated = (rotated << 31 | rotated >> 33) & mask
        second = -rotated * prime_1 * inverse & mask
        if second < (1 << 61) - 1 and len(pairs) < count:  # small ints are their own hash
            pairs.append(msgspec.msgpack.encode([first, second]))
    return pairs


@pytest.mark.parametrize("code", [None, 2], ids=["dict", "set"])
@pytest.mark.parametrize("colliding", [ints_of_one_hash, pairs_of_one_hash])
def test_keys_chosen_to_collide_are_refused_before_they_are_hashed(colliding, code):
    keys = colliding(6_000)
    assert len(keys) == 6_000
    meta = b"\xdf" + struct.pack(">I", len(keys)) + b"".join(key + b"\xc0" for key in keys)
    with pytest.raises(WireError, match="cannot be a key|tuples as keys"):
        wire.decode(raw_frame(meta if code is None else ext(code, meta)))


# Damaged frames.


@st.composite
def damaged_frames(draw):
    frame = bytearray(draw(st.sampled_from(FRAMES)))
    for _ in range(draw(st.integers(1, 6))):
        # Most of a long frame is buffer, where anything goes: prefer its head.
        position = draw(st.integers(0, min(len(frame), 200)) | st.integers(0, len(frame)))
        action = draw(st.sampled_from(("flip", "set", "insert", "delete", "swap")))
        if action == "flip" and position < len(frame):
            frame[position] ^= 1 << draw(st.integers(0, 7))
        elif action == "set" and position < len(frame):
            frame[position] = draw(st.sampled_from(b"\x00\x7f\x80\x90\xc1\xc6\xc9\xd8\xdb\xdd\xdf\xff"))
        elif action == "insert":
            frame[position:position] = draw(st.binary(min_size=1, max_size=9))
        elif action == "delete":
            del frame[position : position + draw(st.integers(1, 9))]
        elif action == "swap":
            other = draw(st.sampled_from(FRAMES))
            frame[position:] = other[position:]
    return memoryview(frame)


EXTENSIONS = st.builds(ext, st.integers(-128, 127), st.binary(max_size=40))
RANDOM_META = st.binary(max_size=200) | EXTENSIONS | EXTENSIONS.map(lambda key: b"\x81" + key + b"\xc0")
RANDOM_FRAMES = st.builds(raw_frame, RANDOM_META) | st.builds(raw_frame, RANDOM_META, st.binary(max_size=80))


@given(damaged_frames() | RANDOM_FRAMES)
@settings(max_examples=2500, deadline=None)
def test_damaged_and_random_frames_are_decoded_or_refused(frame):
    peak_bytes = peak_bytes_of_decoding(frame, contextlib.suppress(WireError))
    assert peak_bytes < 256 * frame.nbytes + (1 << 20)


# What cannot be sent.


class Unknown:
    pass


@pytest.mark.parametrize(
    "value",
    [
        *(Unknown(), Unknown, Point, Shape, Colour, len, lambda: None, object(), iter([]), (n for n in []), range(3)),
        *(datetime.time(1, 2), datetime.timezone.utc, struct, Ellipsis, NotImplemented, ValueError("x"), type),
        np.ma.array([1, 2], mask=[False, True]),  # would lose its mask
        *({Unknown(): 1}, {frozenset(): 1}, {1j: 1}, {frozenset([1])}, {datetime.date(2024, 1, 1)}, {(1, 2j): 1}),
        *({np.int64(1): 1}, {Name("n"): 1}, {1 << 64: 1}, {-(1 << 63) - 1}, {(1 << 70,)}, {1 << 20_000: 1}),
        *("\ud800", ["a", "\udfff"], {"\ud800": 1}, {("\ud800",): 1}, {"\udc80"}, ("\ud800",), Name("\ud800")),
    ],
    ids=lambda value: (
        f"{type(value).__name__} of {type(next(iter(value), 0)).__name__}"
        if isinstance(value, (dict, set, list, tuple))
        else ascii(value).partition(" at 0x")[0][:40]  # alike in every process
    ),
)
def test_what_cannot_be_sent_is_named(value):
    for sent in (value, [value], {"k": (value,)}):
        with pytest.raises(WireError) as caught:
            wire.encode(Kind.CALL, sent)
        assert str(caught.value)


def test_the_message_names_the_type():
    with pytest.raises(WireError, match=r"test_wire\.Unknown"):
        wire.encode(Kind.CALL, [1, {"k": Unknown()}])
    with pytest.raises(WireError, match=r"frozenset.* as a key"):
        wire.encode(Kind.CALL, {frozenset(): 1})
