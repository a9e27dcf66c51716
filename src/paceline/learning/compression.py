"""Compression of what a device sends: the change of its parameters, in few bits or by its largest values.

What a message leaves out is added to the device's next change, so that it is late rather than lost: error feedback
(Karimireddy et al., 2019, EF-SGD; Koloskova et al., 2019, CHOCO-SGD).
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec
import torch
from msgspec import Meta

from paceline.checks import CountOrZero, check_fields
from paceline.learning.averaging import as_type, widened
from paceline.learning.quantisation import packed, unpacked
from paceline.learning.vectors import Spans, Vectors

CompressionMethod: TypeAlias = Literal["none", "int8", "int4", "top-k"]
"""What is sent of parameters: all as they are, or their change, in 8 or 4 bits or by its largest values."""

KeptShare: TypeAlias = Annotated[float, Meta(gt=0, le=0.5)]
"""Part of the values that is sent; with their positions, half of them is as much as all."""

_BLOCK = 1024  # values that share a scale
_NAME_LENGTH = 80  # of a part that came from elsewhere, in a message

_Parts: TypeAlias = dict[str, torch.Tensor]  # of an encoded vector; the first is called ""


class Encoded(NamedTuple):
    """Vectors to send, and the parameters that are restored from them."""

    sent: Vectors
    restored: Vectors


class Compression(msgspec.Struct, frozen=True, kw_only=True):
    """How parameters are sent to one who knows those that they were trained from. Whole numbers are sent as they are.

    Vectors as they are sent have the types of the model as keys, and what else belongs to a type behind a dot, such as
    ``float32.scales``. How large they are does not depend on the values.

    Attributes:
        kept_share: part of the values that ``top-k`` sends.
        exact: where values are sent as they are: those of buffers. What is left out of one change of a running mean is
            in the next anyway, so adding it would go too far; a variance might even become negative.
    """

    method: CompressionMethod = "none"
    kept_share: KeptShare = 0.05
    exact: dict[str, tuple[tuple[CountOrZero, CountOrZero], ...]] = {}

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def is_lossless(self) -> bool:
        """Whether parameters are sent as they are."""
        return self.method == "none"

    def fits(self, like: Vectors) -> bool:
        """Return whether everything that is to be sent exactly is in vectors like these."""
        ends = {kind: [0, *itertools.chain(*spans), len(like.get(kind, ()))] for kind, spans in self.exact.items()}
        return all(places == sorted(places) for places in ends.values())

    def encode(self, parameters: Vectors, start: Vectors) -> Encoded:
        """Encode parameters, as far as the method has them travel."""
        if self.is_lossless:
            return Encoded(parameters, parameters)
        sent: Vectors = {}
        for kind, before in start.items():
            vector = parameters[kind]
            if not before.is_floating_point():
                sent[kind] = vector
                continue
            exact, rest = self._spans(kind, before)
            parts = self._coding.encode(_cut(widened(vector) - widened(before), rest), before.dtype)
            if exact:
                parts["exact"] = _cut(vector, exact).to(before.dtype)
            sent |= {_key(kind, part): values for part, values in parts.items()}
        return Encoded(sent, self._restored(sent, start))

    def decode(self, sent: Vectors, start: Vectors) -> Vectors:
        """Restore parameters; raises `ValueError` with one line for what `encode` would not have made.

        Where parameters are sent as they are, they are returned as they are.
        """
        if self.is_lossless:
            return sent
        _check(sent, self._shapes(start))
        return self._restored(sent, start)

    def _restored(self, sent: Vectors, start: Vectors) -> Vectors:
        restored: Vectors = {}
        for kind, before in start.items():
            if not before.is_floating_point():
                restored[kind] = sent[kind]
                continue
            exact, rest = self._spans(kind, before)
            parts = {part: sent[_key(kind, part)] for part in self._sizes(kind, before)}
            wide = _cut(widened(before), rest)
            vector = as_type(wide + self._coding.decode(parts, len(wide)).to(wide.dtype), before.dtype)
            restored[kind] = _merged(before, {rest: vector, exact: parts["exact"]}) if exact else vector
        return restored

    def num_bytes(self, like: Vectors) -> int:
        """Count the bytes of parameters as they are sent."""
        if self.is_lossless:
            return sum(vector.nbytes for vector in like.values())
        return sum(dtype.itemsize * size for dtype, size in self._shapes(like).values())

    def _shapes(self, like: Vectors) -> dict[str, tuple[torch.dtype, int]]:
        """Return type and length of everything that is sent."""
        shapes: dict[str, tuple[torch.dtype, int]] = {}
        for kind, vector in like.items():
            if vector.is_floating_point():
                shapes |= {_key(kind, part): shape for part, shape in self._sizes(kind, vector).items()}
            else:
                shapes[kind] = (vector.dtype, len(vector))
        return shapes

    def _sizes(self, kind: str, vector: torch.Tensor) -> dict[str, tuple[torch.dtype, int]]:
        exact, rest = self._spans(kind, vector)
        num_exact, num_rest = (sum(end - begin for begin, end in spans) for spans in (exact, rest))
        sizes = self._coding.sizes(num_rest, vector.dtype)
        return {**sizes, "exact": (vector.dtype, num_exact)} if exact else sizes

    def _spans(self, kind: str, vector: torch.Tensor) -> tuple[Spans, Spans]:
        """Return what of a vector is sent exactly, and the rest."""
        exact = self.exact.get(kind, ())
        ends = [0, *itertools.chain(*exact), len(vector)]
        rest = [(begin, end) for begin, end in zip(ends[::2], ends[1::2], strict=True) if end > begin]
        return exact, tuple(rest)

    @property
    def _coding(self) -> _Coding:
        return _TopK(self.kept_share) if self.method == "top-k" else _Blocks(8 if self.method == "int8" else 4)


class ErrorFeedback:
    """Compresses the changes of a device one after the other, and adds to each what earlier ones left out."""

    def __init__(self, compression: Compression) -> None:
        self._compression = compression
        self._left_out: Vectors = {}
        self._left_out_then: Vectors = {}  # once what was encoded last is applied

    def encode(self, parameters: Vectors, start: Vectors) -> Vectors:
        """Return vectors to send; call `applied` when they are, and not if they were refused or came too late.

        Such a change is lost, as it is without compression, and what was left out before is added to the next instead.
        """
        wanted = {
            kind: widened(vector) + self._left_out[kind] if kind in self._left_out else vector
            for kind, vector in parameters.items()
        }
        sent, restored = self._compression.encode(wanted, start)
        self._left_out_then = {
            kind: widened(wanted[kind]) - widened(vector)
            for kind, vector in restored.items()
            if vector.is_floating_point()
        }
        return sent

    def applied(self) -> None:
        """Keep what was left out of what was encoded last, for the next change."""
        self._left_out = self._left_out_then

    def forget(self) -> None:
        """Forget what was left out: nobody knows any more whether it was applied."""
        self._left_out = {}


class _Coding(ABC):
    """Encodes the values of a change."""

    @abstractmethod
    def sizes(self, num_values: int, dtype: torch.dtype) -> dict[str, tuple[torch.dtype, int]]:
        """Return type and length of each part of so many values, as encoded for parameters of this type."""

    @abstractmethod
    def encode(self, change: torch.Tensor, dtype: torch.dtype) -> _Parts:
        """Encode values for parameters of this type."""

    @abstractmethod
    def decode(self, parts: _Parts, num_values: int) -> torch.Tensor:
        """Return the values; raises `ValueError` for parts that fit `sizes`, and were not made by `encode`."""


class _Blocks(_Coding):
    """Whole steps of so many bits, to either side of 0; each block of values has a scale, the size of a step."""

    def __init__(self, bits: Literal[8, 4]) -> None:
        self._is_packed = bits == 4
        self._most = (1 << (bits - 1)) - 1

    def sizes(self, num_values: int, dtype: torch.dtype) -> dict[str, tuple[torch.dtype, int]]:
        steps = (torch.uint8, math.ceil(num_values / 2)) if self._is_packed else (torch.int8, num_values)
        return {"": steps, "scales": (_wide_type(dtype), math.ceil(num_values / _BLOCK))}

    def encode(self, change: torch.Tensor, dtype: torch.dtype) -> _Parts:
        blocks = _blocks(change)
        scales = blocks.abs().amax(1) / self._most
        rounded = torch.where(scales[:, None] > 0, blocks / scales[:, None], 0.0).round_()
        # The scale of tiny values is inexact, and they may be more steps than there are.
        steps = rounded.clamp_(-self._most, self._most).to(torch.int8).reshape(-1)[: len(change)]
        if self._is_packed:
            steps = packed((steps + self._most).to(torch.uint8)[None])[0]
        return {"": steps, "scales": scales}

    def decode(self, parts: _Parts, num_values: int) -> torch.Tensor:
        steps, scales = parts[""], parts["scales"]
        if self._is_packed:
            steps = unpacked(steps[None], num_values)[0].to(torch.int8) - self._most
        return (_blocks(steps.to(scales.dtype)) * scales[:, None]).reshape(-1)[:num_values]


class _TopK(_Coding):
    """The values that are farthest from 0, and their positions, which ascend."""

    def __init__(self, kept_share: float) -> None:
        self._kept_share = kept_share

    def sizes(self, num_values: int, dtype: torch.dtype) -> dict[str, tuple[torch.dtype, int]]:
        num_kept = math.ceil(self._kept_share * num_values)
        return {"": (dtype, num_kept), "positions": (torch.int32, num_kept)}

    def encode(self, change: torch.Tensor, dtype: torch.dtype) -> _Parts:
        num_kept = math.ceil(self._kept_share * len(change))
        positions = change.abs().topk(num_kept, sorted=False).indices.sort().values
        return {"": change[positions].to(dtype), "positions": positions.to(torch.int32)}

    def decode(self, parts: _Parts, num_values: int) -> torch.Tensor:
        values, positions = parts[""], parts["positions"].long()
        if len(positions):
            if not 0 <= int(positions[0]) <= int(positions[-1]) < num_values:
                raise ValueError(f"positions are not all in 0 to {num_values - 1}")
            if not bool((positions.diff() > 0).all()):
                raise ValueError("positions do not ascend: each may be there once")
        change = values.new_zeros(num_values)
        change[positions] = values
        return change


def _check(sent: Vectors, shapes: dict[str, tuple[torch.dtype, int]]) -> None:
    """Raise `ValueError` for names, types or lengths that differ, and for values that are no numbers."""
    if sent.keys() != shapes.keys():
        found = ", ".join(sorted(sent)) or "nothing"
        raise ValueError(f"{', '.join(shapes)} are sent of a change, not {found[:_NAME_LENGTH]}")
    for key, (dtype, size) in shapes.items():
        vector = sent[key]
        if vector.dtype != dtype or vector.shape != (size,):
            found = f"{vector.dtype} of shape {tuple(vector.shape)}"
            raise ValueError(f"{key} of a change is {found}, not {dtype} of shape {(size,)}")
        if dtype.is_floating_point and not bool(torch.isfinite(vector).all()):
            raise ValueError(f"{key} of a change holds NaN or infinity")


def _key(kind: str, part: str) -> str:
    return f"{kind}.{part}" if part else kind


def _wide_type(dtype: torch.dtype) -> torch.dtype:
    return widened(torch.empty(0, dtype=dtype)).dtype


def _blocks(vector: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(vector, (0, -len(vector) % _BLOCK)).view(-1, _BLOCK)


def _cut(vector: torch.Tensor, spans: Spans) -> torch.Tensor:
    """Return these parts of a vector, one after the other."""
    if spans == ((0, len(vector)),):
        return vector
    return torch.cat([vector[:0], *(vector[begin:end] for begin, end in spans)])


def _merged(like: torch.Tensor, parts: Mapping[Spans, torch.Tensor]) -> torch.Tensor:
    """Put parts of a vector together again."""
    merged = torch.empty_like(like)
    for spans, values in parts.items():
        sizes = [end - begin for begin, end in spans]
        for (begin, end), part in zip(spans, torch.split(values, sizes), strict=True):
            merged[begin:end] = part
    return merged
