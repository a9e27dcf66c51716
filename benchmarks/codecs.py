"""Compares ways to turn a state dict into bytes and back: `python benchmarks/codecs.py` (half a minute).

Behind decision 0001. Encoding ends where a socket could start: with bytes or with views; decoding starts from one
received buffer. Rates are of the median, in 10^6 bytes of tensors per second.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec
import numpy as np
import safetensors.torch
import torch
from rich.console import Console
from rich.table import Table

from paceline.axon import wire
from payload import make_tensors
from report import machine, versions

State = dict[str, torch.Tensor]


def axon_encode(state: State) -> Any:
    return wire.encode(wire.Kind.RESULT, state)


def axon_decode(body: bytearray) -> State:
    return wire.decode(memoryview(body))[1]


def msgpack_encode(state: State) -> Any:
    return [msgspec.msgpack.encode({name: tensor.numpy().data for name, tensor in state.items()})]


def msgpack_decode(body: bytearray) -> State:
    decoded = msgspec.msgpack.decode(body, type=dict[str, bytearray])
    return {name: torch.frombuffer(data, dtype=torch.float32) for name, data in decoded.items()}


def safetensors_encode(state: State) -> Any:
    return [safetensors.torch.save(state)]


def safetensors_decode(body: bytearray) -> State:
    return safetensors.torch.load(bytes(body))


def torch_encode(state: State) -> Any:
    file = io.BytesIO()
    torch.save(state, file)
    return [file.getbuffer()]


def torch_decode(body: bytearray) -> State:
    return torch.load(io.BytesIO(body), weights_only=True)


CODECS: dict[str, tuple[Callable[[State], Any], Callable[[bytearray], State]]] = {
    "axon": (axon_encode, axon_decode),
    "msgpack, in band": (msgpack_encode, msgpack_decode),
    "safetensors": (safetensors_encode, safetensors_decode),
    "torch.save": (torch_encode, torch_decode),
}


def measure(num_bytes: int, num_repeats: int) -> dict[str, dict[str, float]]:
    """MB/s of encoding and decoding per codec, interleaved within each repeat."""
    state = {str(i): torch.from_numpy(array) for i, array in enumerate(make_tensors(num_bytes))}
    seconds: dict[str, dict[str, list[float]]] = {name: {"encode": [], "decode": []} for name in CODECS}
    for _ in range(num_repeats):
        for name, (encode, decode) in CODECS.items():
            start = perf_counter()
            parts = encode(state)
            seconds[name]["encode"].append(perf_counter() - start)
            body = bytearray().join(parts)
            del parts
            start = perf_counter()
            received = decode(body)
            seconds[name]["decode"].append(perf_counter() - start)
            if not all(np.array_equal(received[key], tensor) for key, tensor in state.items()):
                raise AssertionError(f"{name} does not give back the tensors")
            del received, body
    return {
        name: {way: num_bytes / 1e6 / statistics.median(values) for way, values in ways.items()}
        for name, ways in seconds.items()
    }


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "codecs.json")
    options = parser.parse_args()
    rates = measure(options.megabytes * 1_000_000, options.repeats)
    table = Table("Codec", "encode MB/s", "decode MB/s", title=f"{options.megabytes} MB of float32 tensors")
    for name, ways in rates.items():
        table.add_row(name, f"{ways['encode']:,.0f}", f"{ways['decode']:,.0f}")
    Console().print(table)
    document = {
        "machine": machine(),
        "versions": versions(("paceline", "msgspec", "safetensors", "torch")),
        "mb_per_second": rates,
    }
    options.output.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
