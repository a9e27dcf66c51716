"""Arrays and tensors as a short description and their raw bytes; the only file of axon that knows torch.

Torch is imported when the first tensor arrives, never for a process that only sends text.
"""

from __future__ import annotations

import math
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
_TORCH_ONLY = {"bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1, "complex32": 4}
_ITEM_BYTES = {**{name: np.dtype(name).itemsize for name in _NUMPY_DTYPES}, **_TORCH_ONLY}
_MAX_DIMENSIONS = 32


def is_tensor(value: object) -> bool:
    """Whether this is a torch tensor; does not import torch to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def describe_array(array: np.ndarray[Any, Any] | np.generic) -> tuple[str, tuple[int, ...], memoryview]:
    """The dtype's name, the shape and the bytes of an array; a view where its memory allows one."""
    array = np.asarray(array)
    if array.dtype.name not in _NUMPY_DTYPES:
        raise WireError(f"cannot send an array of dtype {array.dtype}; allowed: {', '.join(sorted(_NUMPY_DTYPES))}")
    flat = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(-1)
    return array.dtype.name, array.shape, _bytes_of(flat)


def describe_tensor(tensor: torch.Tensor) -> tuple[str, tuple[int, ...], memoryview]:
    """The dtype's name, the shape and the bytes of a tensor; a view where its memory allows one."""
    torch = sys.modules["torch"]
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in _ITEM_BYTES or tensor.layout is not torch.strided:
        raise WireError(
            f"cannot send a tensor of dtype {name} and layout {tensor.layout}; allowed are dense tensors of "
            f"{', '.join(sorted(_ITEM_BYTES))}"
        )
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return name, tuple(tensor.shape), _bytes_of(plain.view(torch.uint8).numpy())


def num_bytes_of(dtype: str, shape: list[int]) -> int:
    """How many bytes an array of this description takes; refuses descriptions that none can have."""
    item_bytes = _ITEM_BYTES.get(dtype)
    if item_bytes is None:
        raise WireError(f"unknown dtype {dtype!r}; allowed: {', '.join(sorted(_ITEM_BYTES))}")
    if len(shape) > _MAX_DIMENSIONS or any(size < 0 for size in shape):
        raise WireError(f"impossible shape {shape}")
    # Empty arrays may have huge other dimensions, which no library can hold.
    if math.prod(max(size, 1) for size in shape) * item_bytes >= 1 << 63:
        raise WireError(f"impossible shape {shape}")
    return math.prod(shape) * item_bytes


def restore_array(dtype: str, shape: list[int], data: memoryview) -> np.ndarray[Any, Any]:
    """An array over the received bytes, which it shares."""
    if dtype not in _NUMPY_DTYPES:
        raise WireError(f"dtype {dtype!r} is not one of NumPy's")
    return np.frombuffer(data, dtype=np.dtype(dtype).newbyteorder("<")).reshape(shape)


def restore_tensor(dtype: str, shape: list[int], data: memoryview) -> torch.Tensor:
    """A tensor over the received bytes, which it shares."""
    try:
        import torch
    except ImportError as error:
        raise WireError("a torch tensor arrived, but PyTorch is not installed here") from error
    torch_dtype = getattr(torch, dtype, None)
    if torch_dtype is None:
        raise WireError(f"this PyTorch ({torch.__version__}) has no dtype {dtype!r}")
    if not data.nbytes:
        return torch.empty(shape, dtype=torch_dtype)
    return torch.frombuffer(data, dtype=torch.uint8).view(torch_dtype).reshape(shape)


def from_list(kind: type, value: object) -> object:
    """An array or tensor from nested lists, for callers that can only send JSON; raises `TypeError`."""
    if kind is np.ndarray:
        return np.asarray(value)
    torch = sys.modules.get("torch")
    if torch is not None and kind is torch.Tensor:
        return torch.tensor(value)
    raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")


def to_list(value: object) -> object:
    """Nested lists from an array, tensor or NumPy scalar, for replies in JSON; raises `TypeError`."""
    if isinstance(value, (np.ndarray, np.generic)) or is_tensor(value):
        return value.tolist()  # type: ignore[attr-defined]
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _bytes_of(flat: np.ndarray[Any, Any]) -> memoryview:
    return flat.view(np.uint8).data if flat.size else memoryview(b"")
