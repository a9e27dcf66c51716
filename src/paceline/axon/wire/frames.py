"""Values to frames and back: msgpack for structure, raw bytes for arrays, nothing that can run code.

docs/wire.md describes the format for implementers. A frame is

    "AX" | version u8 | kind u8 | length of meta u32 LE | meta (msgpack) | padding | buffer | padding | buffer …

Buffers (the bytes of arrays, tensors and long byte strings) stand in the order in which meta mentions them, each
at the next multiple of 64 bytes, so meta carries no offsets that could lie.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import struct
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec
import numpy as np
from msgspec.msgpack import Ext

from paceline.axon.messages import Body, Buffer
from paceline.axon.wire import tensors
from paceline.axon.wire.scan import MAX_TUPLE_KEYS, Scanner
from paceline.errors import WireError

VERSION = 1
ALIGNMENT_BYTES = 64
OUT_OF_BAND_BYTES = 4096
"""Byte strings from this length on travel as buffers."""

_PREFIX = struct.Struct("<2sBBI")
_MAGIC = b"AX"


class Kind(enum.IntEnum):
    """What a frame is for."""

    CALL = 0
    ITEM = 1
    RESULT = 2
    ERROR = 3


_KINDS = {int(kind): kind for kind in Kind}


class _Code:
    """Msgpack extension types: what msgpack has no form for."""

    TUPLE = 1
    SET = 2
    FROZENSET = 3
    BIG_INT = 4
    COMPLEX = 5
    DATETIME = 6
    DATE = 7
    TIMEDELTA = 8
    BYTES = 16
    ARRAY = 17
    SCALAR = 18
    TENSOR = 19


# Extensions whose content is msgpack again: what they become, and what they are made of.
_NESTED: dict[int, tuple[type, type]] = {
    _Code.TUPLE: (tuple, list),
    _Code.SET: (set, dict),
    _Code.FROZENSET: (frozenset, dict),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """What a receiver accepts; a sender is held to `max_depth` and `max_meta_bytes` too.

    Attributes:
        max_body_bytes: a whole request or reply.
        max_meta_bytes: its structured part: everything but the bytes of arrays.
        max_items: elements, keys and values of all lists, dicts and the like together.
        max_depth: lists, dicts and the like within each other.
        max_buffers: arrays, tensors and long byte strings.
    """

    max_body_bytes: int = 4 << 30
    max_meta_bytes: int = 16 << 20
    max_items: int = 1 << 20
    max_depth: int = 64
    max_buffers: int = 1 << 16


DEFAULT_LIMITS = Limits()
UNLIMITED = Limits(max_body_bytes=1 << 50, max_meta_bytes=1 << 31, max_items=1 << 31, max_buffers=1 << 31)
"""Between a worker and its own child processes."""

Encoded: TypeAlias = Any
"""A value in the terms of msgpack: what msgspec encodes as it is."""

_FLAT = frozenset((str, float, bool, type(None)))
_KEYS = frozenset((str, int, float, bool, type(None), bytes))


def encode(kind: Kind, value: object, limits: Limits = DEFAULT_LIMITS) -> list[Buffer]:
    """Encode a frame as buffers to send one after the other; arrays are not copied, so leave them be until sent."""
    packer = _Packer(limits)
    meta = _encode_meta(packer.pack(value, 0))
    if len(meta) > limits.max_meta_bytes:
        raise WireError(
            f"the value takes {len(meta)} bytes without its arrays; {limits.max_meta_bytes} are allowed. "
            "Send long lists of numbers as arrays"
        )
    parts: list[Buffer] = [_PREFIX.pack(_MAGIC, VERSION, kind, len(meta)) + meta]
    length = len(parts[0])
    for buffer in packer.buffers:
        parts += (bytes(-length % ALIGNMENT_BYTES), buffer)
        length += -length % ALIGNMENT_BYTES + buffer.nbytes
    return parts


def decode(body: memoryview, limits: Limits = DEFAULT_LIMITS) -> tuple[Kind, Any]:
    """Decode the kind and value of a frame; arrays share the body's memory. Raises `WireError` for anything else."""
    if body.nbytes > limits.max_body_bytes:
        raise WireError(f"a frame of {body.nbytes} bytes; {limits.max_body_bytes} are allowed")
    if body.nbytes < _PREFIX.size:
        raise WireError(f"a frame has at least {_PREFIX.size} bytes, this has {body.nbytes}")
    magic, version, kind, num_meta_bytes = _PREFIX.unpack_from(body)
    if magic != _MAGIC:
        raise WireError(f"not an Axon frame: it begins with {magic!r}")
    if version != VERSION:
        raise WireError(f"wire version {version} is not spoken here, only {VERSION}; update the older side")
    if kind not in _KINDS:
        raise WireError(f"unknown kind of frame: {kind}")
    if num_meta_bytes > limits.max_meta_bytes:
        raise WireError(f"{num_meta_bytes} bytes of structure; {limits.max_meta_bytes} are allowed")
    if _PREFIX.size + num_meta_bytes > body.nbytes:
        raise WireError(f"the frame is cut short: {body.nbytes} bytes of at least {_PREFIX.size + num_meta_bytes}")
    return _KINDS[kind], _Unpacker(body, _PREFIX.size + num_meta_bytes, limits).unpack()


def decode_as(expected: Kind, body: memoryview, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Decode the value of a frame that must be of one kind."""
    kind, value = decode(body, limits)
    if kind is not expected:
        raise WireError(f"expected a frame of kind {expected.name}, got {kind.name}")
    return value


def is_last(body: Body) -> bool:
    """Return whether a frame, not yet decoded, ends an exchange: it is a result or an error."""
    return bool(body) and len(body[0]) > 3 and body[0][3] in (Kind.RESULT, Kind.ERROR)


def _encode_meta(packed: Encoded) -> bytes:
    try:
        return msgspec.msgpack.encode(packed)
    except (TypeError, OverflowError, ValueError) as error:  # a lone surrogate in a string, for instance
        raise WireError(f"cannot send the value: {error}") from error


class _Packer:
    """Turns a value into what msgpack can hold, and sets the buffers aside."""

    def __init__(self, limits: Limits) -> None:
        self.buffers: list[memoryview] = []
        self._limits = limits
        self._num_items = 1
        self._num_tuple_keys = 0

    def pack(self, value: object, depth: int) -> Encoded:
        kind = type(value)
        if kind in _FLAT:
            return value
        if kind is int:
            return self._pack_int(value)  # type: ignore[arg-type]
        if kind is bytes:
            return self._pack_bytes(value)  # type: ignore[arg-type]
        if kind is list:
            return self._pack_items(value, depth)
        if kind is dict:
            return self._pack_dict(value, depth)  # type: ignore[arg-type]
        if kind is tuple:
            return Ext(_Code.TUPLE, _encode_meta(self._pack_items(value, depth)))
        if isinstance(value, msgspec.Struct):
            return self.pack(_fields_of_struct(value), depth)
        if isinstance(value, np.ndarray):
            return self._pack_buffer(_Code.ARRAY, *tensors.describe_array(value))
        if isinstance(value, np.generic) and not isinstance(value, (str, bytes)):
            return self._pack_buffer(_Code.SCALAR, *tensors.describe_array(value))
        if tensors.is_tensor(value):
            return self._pack_buffer(_Code.TENSOR, *tensors.describe_tensor(value))  # type: ignore[arg-type]
        return self._pack_rare(value, depth)

    def _pack_rare(self, value: object, depth: int) -> Encoded:
        """Types that are seldom sent, and subclasses, which travel as what they extend."""
        if isinstance(value, enum.Enum):
            return self.pack(value.value, depth)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self._pack_bytes(value)
        if isinstance(value, (bool, int, float, str)):
            plain = next(base for base in (int, float, str) if isinstance(value, base))
            return self.pack(plain(value), depth)
        if isinstance(value, Mapping):
            return self._pack_dict(value, depth)
        if isinstance(value, (list, tuple)):
            return self.pack(list(value) if isinstance(value, list) else tuple(value), depth)
        if isinstance(value, (set, frozenset)):
            code = _Code.FROZENSET if isinstance(value, frozenset) else _Code.SET
            # As a map to nothing: among its keys, and only there, arrays come back as tuples.
            self._enter(2 * len(value), depth)
            return Ext(code, _encode_meta(dict.fromkeys(self._pack_key(item, depth + 1) for item in value)))
        if isinstance(value, complex):
            return Ext(_Code.COMPLEX, struct.pack("<dd", value.real, value.imag))
        if isinstance(value, datetime.date):
            code = _Code.DATETIME if isinstance(value, datetime.datetime) else _Code.DATE
            return Ext(code, value.isoformat().encode())
        if isinstance(value, datetime.timedelta):
            return Ext(_Code.TIMEDELTA, struct.pack("<iii", value.days, value.seconds, value.microseconds))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._pack_dict({f.name: getattr(value, f.name) for f in dataclasses.fields(value)}, depth)
        raise WireError(
            f"cannot send a {type(value).__module__}.{type(value).__qualname__}; allowed: None, bool, int, float, "
            "complex, str, bytes, list, tuple, dict, set, datetime, date, timedelta, enums, dataclasses, msgspec "
            "structs, NumPy arrays and torch tensors"
        )

    def _enter(self, num_items: int, depth: int) -> None:
        """Hold a container at this depth to the limits that its receiver keeps."""
        self._num_items += num_items
        if self._num_items > self._limits.max_items:
            raise WireError(f"more than {self._limits.max_items} items; send long lists of numbers as arrays")
        if depth > self._limits.max_depth:
            raise WireError(f"values may be nested {self._limits.max_depth} deep, not deeper")

    def _pack_items(self, items: Any, depth: int) -> Encoded:
        self._enter(len(items), depth)
        kinds = set(map(type, items))
        if kinds <= _FLAT or (kinds == {int} and min(items) >= -(1 << 63) and max(items) < 1 << 64):
            return items if type(items) is list else list(items)  # a long list of numbers is not walked
        return [self.pack(item, depth + 1) for item in items]

    def _pack_dict(self, value: Mapping[Any, Any], depth: int) -> Encoded:
        self._enter(2 * len(value), depth)
        if set(map(type, value)) <= {str}:
            return {key: self.pack(item, depth + 1) for key, item in value.items()}
        return {self._pack_key(key, depth + 1): self.pack(item, depth + 1) for key, item in value.items()}

    def _pack_key(self, key: object, depth: int) -> Encoded:
        if isinstance(key, enum.Enum):
            key = key.value
        if isinstance(key, tuple):
            self._enter(len(key), depth)
            self._num_tuple_keys += 1
            if self._num_tuple_keys > MAX_TUPLE_KEYS:
                raise WireError(f"at most {MAX_TUPLE_KEYS} tuples can be keys or members of sets in one message")
            return tuple(self._pack_key(part, depth + 1) for part in key)
        if type(key) not in _KEYS or (type(key) is int and not -(1 << 63) <= key < 1 << 64):
            raise WireError(
                f"cannot send this {type(key).__name__} as a key or member of a set; "
                "allowed: str, int of 64 bits, float, bool, None, bytes and tuples of them"
            )
        return key

    @staticmethod
    def _pack_int(value: int) -> Encoded:
        if -(1 << 63) <= value < 1 << 64:
            return value
        return Ext(_Code.BIG_INT, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))

    def _pack_bytes(self, value: Buffer) -> Encoded:
        view = memoryview(value)
        if view.nbytes < OUT_OF_BAND_BYTES:
            return bytes(value)
        flat = view.cast("B") if view.c_contiguous else memoryview(bytes(view))
        return self._pack_buffer(_Code.BYTES, "uint8", (view.nbytes,), flat)

    def _pack_buffer(self, code: int, dtype: str, shape: tuple[int, ...], data: memoryview) -> Encoded:
        if len(self.buffers) == self._limits.max_buffers:
            raise WireError(f"a message may hold {self._limits.max_buffers} arrays, not more")
        self.buffers.append(data)
        return Ext(code, msgspec.msgpack.encode((dtype, shape)))


def _fields_of_struct(value: msgspec.Struct) -> dict[str, object] | list[object]:
    """List the fields of a struct, as msgspec would make it again from them."""
    fields = {encoded: getattr(value, name) for encoded, name in _struct_names(type(value))}
    config = value.__struct_config__
    if config.tag_field is not None:
        fields = {config.tag_field: config.tag, **fields}
    return list(fields.values()) if config.array_like else fields


@functools.lru_cache(maxsize=1024)
def _struct_names(kind: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    """List the fields of a struct: their names as sent, and in the class. Reading the annotations takes a while."""
    return tuple((field.encode_name, field.name) for field in msgspec.structs.fields(kind))


class _BufferShape(msgspec.Struct, array_like=True):
    dtype: str
    shape: list[int]


_decode_buffer_shape = msgspec.msgpack.Decoder(_BufferShape).decode


class _Unpacker:
    """Reads one frame; every length is checked against what is there before anything is made of it."""

    def __init__(self, body: memoryview, num_head_bytes: int, limits: Limits) -> None:
        self._body = body
        self._num_head_bytes = num_head_bytes
        self._position = num_head_bytes  # end of the last buffer read
        self._num_buffers = 0
        self._limits = limits

    def unpack(self) -> Any:
        meta = bytes(self._body[_PREFIX.size : self._num_head_bytes])
        limits = self._limits
        Scanner(meta, nested_codes=_NESTED, max_depth=limits.max_depth, max_items=limits.max_items).check()
        value = self._decode(meta)
        if self._position != self._body.nbytes:
            raise WireError(f"{self._body.nbytes - self._position} bytes are left over at the end of the frame")
        return value

    def _decode(self, data: Buffer) -> Any:
        try:
            return msgspec.msgpack.decode(data, ext_hook=self._restore)
        except (msgspec.MsgspecError, ValueError, TypeError, OverflowError) as error:
            raise WireError(f"the frame is damaged: {error}") from error

    def _restore(self, code: int, data: memoryview) -> Any:
        """Restore an extension; msgspec calls this for each, in the order in which they stand."""
        if code >= _Code.BYTES:
            return self._restore_buffer(code, data)
        if code in _NESTED:
            made, parts = _NESTED[code]
            items = self._decode(data)
            if not isinstance(items, parts):
                raise WireError(f"a tuple or set cannot be made of {type(items).__name__}")
            return made(items)
        if code == _Code.BIG_INT:
            return int.from_bytes(data, "little", signed=True)
        if code == _Code.COMPLEX and data.nbytes == 16:
            return complex(*struct.unpack("<dd", data))
        if code == _Code.DATETIME:
            return datetime.datetime.fromisoformat(str(data, "ascii"))
        if code == _Code.DATE:
            return datetime.date.fromisoformat(str(data, "ascii"))
        if code == _Code.TIMEDELTA and data.nbytes == 12:
            return datetime.timedelta(*struct.unpack("<iii", data))
        raise WireError(f"unknown extension type {code} of {data.nbytes} bytes")

    def _restore_buffer(self, code: int, data: memoryview) -> Any:
        described = _decode_buffer_shape(data)
        shape = described.shape
        length = tensors.num_bytes_of(described.dtype, shape)
        start = self._position + -self._position % ALIGNMENT_BYTES
        if start + length > self._body.nbytes:
            raise WireError(f"the frame is cut short: a buffer ends at byte {start + length} of {self._body.nbytes}")
        self._num_buffers += 1
        if self._num_buffers > self._limits.max_buffers:
            raise WireError(f"more than {self._limits.max_buffers} arrays in one frame")
        buffer = self._body[start : start + length]
        self._position = start + length
        if code == _Code.BYTES:
            return bytes(buffer)
        if code == _Code.ARRAY:
            return tensors.restore_array(described.dtype, shape, buffer)
        if code == _Code.SCALAR and not shape:
            return tensors.restore_array(described.dtype, shape, buffer)[()]
        if code == _Code.TENSOR:
            return tensors.restore_tensor(described.dtype, shape, buffer)
        raise WireError(f"unknown extension type {code}")
