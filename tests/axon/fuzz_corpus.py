"""What `tests.axon.fuzz_requests` spoils: valid calls, and bits that are known to make trouble."""

from __future__ import annotations

import io
import math
import os
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tests.axon.fuzz_worker import MAX_BODY_BYTES

NAN = math.nan

CALLS: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("echo", [], {}),
    ("echo", [[1, -2, 1 << 70, 2.5, None, True, "text", b"bytes", (1, ("a",)), {1, "b"}, 2j]], {}),
    ("echo", [{"k": [1], (1, 2): {"n": frozenset([3])}, b"b": {1.5: NAN}}], {}),
    ("echo_on_loop", [], {"value": [np.arange(12.0).reshape(3, 4), np.float32(1), torch.ones(5).bfloat16()]}),
    ("receive", [[{"a": b"x" * 5000}, torch.zeros(0, 3), np.zeros((), bool)]], {}),
    ("double", [21], {}),
    ("norm", [torch.arange(300.0)], {}),
    ("norm", [], {"tensor": torch.ones(4, 4, dtype=torch.float16)}),
    ("total", [np.arange(1000, dtype=np.int16)], {"scale": 2}),
    ("paint", [{"x": 1, "y": 2.5, "tags": ["a"], "colour": "red"}], {"colour": "blue"}),
    ("collect", [1, 2, 3], {"a": 1.5}),
    ("countdown", [5], {}),
    ("ticks", [[1, "two", [3]]], {}),
    ("fail", ["on purpose"], {}),
    ("configure", [{"depth": 3}], {}),
    ("find", [b"no\xffsuch"], {}),
    ("box.put", [b"z" * 100], {}),
]
JSON_CALLS = [
    *(("echo", [{"a": [1, 2.5, None, True, "é\u2028"]}]), ("receive", {"value": [[]]}), ("fail", ["no"])),
    *(("double", [21]), ("double", {"number": 4}), ("countdown", [3]), ("collect", [1, 2]), ("configure", [{"a": 1}])),
    *(("norm", [[1, 2, 3]]), ("norm", [[[1.5], [2.5]]]), ("total", [[1, 2], 3]), ("paint", [{"x": 1}, "blue"])),
]
JSON_ATOMS = [
    *(b"null", b"true", b"-0", b"1e999", b"NaN", b"Infinity", b"1" + b"0" * 400, b"9223372036854775808", b"01"),
    *(b'""', b'"red"', b'"\\ud800"', b'"\\udc80\\ud800"', b'"\\u0000"', b'"\xff"', b'"\xed\xa0\x80"'),
    *(b"[]", b"[[[[]]]]", b"[[1],[2,3]]", b"[null]", b"[" * 500 + b"]" * 500, b"[" * 20_000),
    *(b"{}", b'{"a":1,"a":2}', b'{"x":' * 300 + b"1" + b"}" * 300),
    *(b'{"__class__":"os.system"}', b'{"py/reduce":[{"py/function":"os.system"}]}'),
    b'["' + b"a" * 8_000 + b'"' + b",1" * 12_000 + b"]",  # 384 MB as an array of text
]
TOO_DEEP = [
    *(b"\x91" * depth + b"\xc0" for depth in (70, 900, 1100, 100_000)),
    *(b"\x81\xc0" * depth + b"\xc0" for depth in (70, 900)),
    *(b"\x81" + b"\x91" * depth + b"\xc0\xc0" for depth in (70, 900)),
    *(b"".join(b"\xc9" + (6 * n).to_bytes(4, "big") + b"\x01" for n in range(depth, -1, -1)) for depth in (70, 2_000)),
]
MSGPACK_BYTES = bytes.fromhex("00 7f 80 81 90 91 92 a1 c0 c1 c4 c6 c7 c9 cb cf d3 d4 d8 da db dc dd de df e0 ff")
EXT_CODES = [*range(1, 10), *range(15, 21), -1, -128, 0, 127]
DTYPES = ["float32", "uint8", "bool", "bfloat16", "float8_e5m2", "complex128", "object", "O", "str", "", "float"]
METHODS = [
    *("GET", "PUT", "HEAD", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "PRI", "post", "POSTT", "", "M-SEARCH")
]
LENGTHS = [
    *("-1", "+3", "3,3", "3 3", "0x3", "3.0", "", "1e3", "٣", "0" * 6000 + "3", "18446744073709551616", "9" * 4400),
    *(str(MAX_BODY_BYTES), str(MAX_BODY_BYTES + 1), "4294967296", "9223372036854775807", "000000003", "2", "4"),
]


class _Bomb:
    """Unpickling it runs a function."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self._call = (function, args)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._call


def pickle_bombs(marker: str) -> list[bytes]:
    """Pickles that create the marker file when they are loaded, by themselves and within other formats."""
    bombs = [
        _Bomb(os.system, f"touch {marker}"),
        _Bomb(exec, f"open({marker!r}, 'w').close()"),
        _Bomb(open, marker, "w"),
    ]
    made = [pickle.dumps(bomb, protocol) for bomb in bombs for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    for save in (lambda file: np.save(file, np.array(bombs, object)), lambda file: torch.save(bombs[0], file)):
        file = io.BytesIO()
        save(file)
        made.append(file.getvalue())
    return made
