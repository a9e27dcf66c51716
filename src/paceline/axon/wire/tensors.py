"""Arrays and tensors as a short description and their raw bytes; the only file of axon that knows torch.

Torch is imported when the first tensor arrives, never for a process that only sends text.
"""

from __future__ import annotations

import math
import reprlib
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from paceline.errors import WireError

if TYPE_CHECKING:
    import torch

# Little-endian on the wire, by the names both libraries use.
_NUMPY_DTYPES = frozenset(
    (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
)
_DTYPES = {name: np.dtype(name).newbyteorder("<") for name in _NUMPY_DTYPES}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_TORCH_ONLY = {"bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1, "complex32": 4}
_ITEM_BYTES = {**{name: np.dtype(name).itemsize for name in _NUMPY_DTYPES}, **_TORCH_ONLY}
_MAX_DIMENSIONS = 64


def is_tensor(value: object) -> bool:
    """Return whether this is a torch tensor; does not import torch to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def describe_array(array: np.ndarray[Any, Any] | np.generic) -> tuple[str, tuple[int, ...], memoryview]:
    """Return dtype name, shape and bytes of an array; a view where its memory allows one."""
    if isinstance(array, np.ma.MaskedArray):
        raise WireError("cannot send a masked array; send its data and its mask")
    array = np.asarray(array)
    name = _NAMES.get(array.dtype) or array.dtype.name  # NumPy puts a name together each time it is asked for
    if name not in _NUMPY_DTYPES:
        raise WireError(f"cannot send an array of dtype {array.dtype}; allowed: {', '.join(sorted(_NUMPY_DTYPES))}")
    flat = np.ascontiguousarray(array, dtype=_DTYPES[name]).reshape(-1)
    return name, array.shape, _bytes_of(flat)


def describe_tensor(tensor: torch.Tensor) -> tuple[str, tuple[int, ...], memoryview]:
    """Return dtype name, shape and bytes of a tensor; a view where its memory allows one."""
    torch = sys.modules["torch"]
    name = str(tensor.dtype).removeprefix("torch.")
    is_dense = tensor.layout is torch.strided and not tensor.is_nested and tensor.device.type != "meta"
    if name not in _ITEM_BYTES or not is_dense:
        raise WireError(
            f"cannot send a tensor of dtype {name}, layout {tensor.layout} and device {tensor.device}; allowed are "
            f"dense tensors with data, of {', '.join(sorted(_ITEM_BYTES))}"
        )
    if name in _NUMPY_DTYPES and tensor.is_cpu and tensor.is_contiguous() and not tensor.is_conj():
        flat = tensor.detach().numpy(force=tensor.is_neg()).reshape(-1)  # nearly all there are, in half the time
    else:
        plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
        flat = plain.view(torch.uint8).numpy()
    return name, tuple(tensor.shape), _bytes_of(flat)


def num_bytes_of(dtype: str, shape: list[int]) -> int:
    """Count the bytes that an array of this description takes; refuses descriptions that none can have."""
    item_bytes = _ITEM_BYTES.get(dtype)
    if item_bytes is None:
        raise WireError(f"unknown dtype {dtype[:40]!r}; allowed: {', '.join(sorted(_ITEM_BYTES))}")
    # Empty arrays may have huge other dimensions, which no library can hold.
    if (
        len(shape) > _MAX_DIMENSIONS
        or any(size < 0 for size in shape)
        or math.prod(max(size, 1) for size in shape) * item_bytes >= 1 << 63
    ):
        raise WireError(f"impossible shape {reprlib.repr(shape)}")
    return math.prod(shape) * item_bytes


def restore_array(dtype: str, shape: list[int], data: memoryview) -> np.ndarray[Any, Any]:
    """Make an array over the received bytes, which it shares."""
    if dtype not in _NUMPY_DTYPES:
        raise WireError(f"dtype {dtype!r} is not one of NumPy's")
    return np.frombuffer(data, dtype=_DTYPES[dtype]).reshape(shape)


def restore_tensor(dtype: str, shape: list[int], data: memoryview) -> torch.Tensor:
    """Make a tensor over the received bytes, which it shares."""
    try:
        import torch
    except ImportError as error:
        raise WireError("a torch tensor arrived, but PyTorch is not installed here") from error
    torch_dtype = getattr(torch, dtype, None)
    if torch_dtype is None:
        raise WireError(f"this PyTorch ({torch.__version__}) has no dtype {dtype!r}")
    if not data.nbytes:
        return torch.empty(shape, dtype=torch_dtype)
    return torch.frombuffer(data, dtype=torch_dtype).reshape(shape)


def from_list(kind: type, value: object) -> object:
    """Make an array or tensor from nested lists of numbers, for callers that can only send JSON; raises `TypeError`."""
    torch: Any = sys.modules.get("torch")
    is_torch = torch is not None and kind is torch.Tensor
    try:
        if not (kind is np.ndarray or is_torch) or not _is_made_of_numbers(value):
            raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
        array = np.array(value)
        if array.dtype.name not in _NUMPY_DTYPES:
            raise ValueError("the numbers are too large")
    except (ValueError, OverflowError, RecursionError) as error:
        raise TypeError(f"expected {kind.__name__}, got lists that make none: {error}") from None
    return torch.tensor(value) if is_torch else array  # each library's own default types


def _is_made_of_numbers(value: object) -> bool:
    # Anything else would be turned into text or objects: a long string among a million numbers, a million times.
    if isinstance(value, list):
        return all(map(_is_made_of_numbers, value))
    return type(value) in (bool, int, float)


def to_list(value: object) -> object:
    """Nested lists from an array, tensor or NumPy scalar, for replies in JSON; raises `TypeError`."""
    if isinstance(value, (np.ndarray, np.generic)) or is_tensor(value):
        return value.tolist()  # type: ignore[attr-defined]
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _bytes_of(flat: np.ndarray[Any, Any]) -> memoryview:
    return flat.view(np.uint8).data if flat.size else memoryview(b"")
