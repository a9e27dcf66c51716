"""The server: plain FedAvg over all clients, the time of each round, and a check of what came out."""

import json
import os
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

_ROUND_SECONDS = 120.0

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the rounds; write their seconds, or what went wrong, to the file `output`."""
    output = Path(str(context.run_config["output"]))
    try:
        document = time_rounds(grid, context)
    except BaseException as error:
        _write(output, {"error": repr(error)})
        raise
    _write(output, document)


def time_rounds(grid: Grid, context: Context) -> dict[str, object]:
    """Seconds from one round's end to the next one's. The first includes what happens once: see `round_seconds[0]`."""
    config = context.run_config
    num_clients, num_rounds = int(config["num-clients"]), int(config["num-rounds"])
    initial = initial_state([int(width) for width in str(config["widths"]).split(",")])
    ends: list[float] = []

    def note_time(server_round: int, arrays: ArrayRecord) -> None:
        ends.append(time.perf_counter())  # called before the first round and after each

    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=num_clients, min_available_nodes=num_clients)
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord({name: Array(array) for name, array in initial.items()}),
        num_rounds=num_rounds,
        timeout=_ROUND_SECONDS,
        evaluate_fn=note_time,
    )
    final = {name: array.numpy() for name, array in result.arrays.items()}
    check(str(config["work"]), initial, final, num_clients, num_rounds)
    return {"round_seconds": [end - start for start, end in pairwise(ends)]}


def initial_state(widths: list[int]) -> dict[str, np.ndarray]:
    """Weights and biases of fully connected layers, named as PyTorch names them in a Sequential with ReLUs between."""
    generator = np.random.default_rng(0)
    state = {}
    for number, (num_inputs, num_outputs) in enumerate(pairwise(widths)):
        bound = num_inputs**-0.5
        state[f"{2 * number}.weight"] = generator.uniform(-bound, bound, (num_outputs, num_inputs)).astype(np.float32)
        state[f"{2 * number}.bias"] = generator.uniform(-bound, bound, num_outputs).astype(np.float32)
    return state


def check(
    work: str, initial: dict[str, np.ndarray], final: dict[str, np.ndarray], num_clients: int, num_rounds: int
) -> None:
    """Raise unless every client took part in every round: each adds its number, so the average is known."""
    if work == "none":
        added = num_rounds * (num_clients + 1) / 2
        is_right = all(np.allclose(final[name], array + added, atol=1e-3) for name, array in initial.items())
    else:
        is_right = all(
            np.isfinite(final[name]).all() and (final[name] != array).any() for name, array in initial.items()
        )
    if not is_right:
        raise AssertionError("the average is not that of all clients over all rounds")


def _write(output: Path, document: dict[str, object]) -> None:
    """In one step, so that who waits for the file never reads half of it."""
    part = output.with_suffix(".part")
    part.write_text(json.dumps(document))
    os.replace(part, output)
