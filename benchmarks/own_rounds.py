"""Paceline's side of rounds.py: an orchestrator in a process of its own and learners that do not train.

Run as a module it is one of those processes: `orchestrator`, or `learner`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise

import memory
import processes
from repeats import MeasurementFailed

NUM_SAMPLES = 50


def measure_rounds(*, widths: Sequence[int], num_learners: int, num_rounds: int) -> tuple[list[float], int]:
    """Seconds of each round, and the orchestrator's peak memory in bytes.

    Learner number k adds k (from 1) to every parameter, as Flower's clients do, so that no two updates are equal and
    the average is known.
    """
    numbers = [str(number) for number in (num_rounds, num_learners, *widths)]
    # Five processes on few cores: one thread each, as a local fleet has it.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with contextlib.ExitStack() as stack:
        orchestrator = stack.enter_context(
            processes.child("own_rounds", "orchestrator", *numbers, stdout=subprocess.PIPE, environment=environment)
        )
        assert orchestrator.stdout is not None
        url = _line(orchestrator)["url"]
        for number in range(1, num_learners + 1):
            arguments = ("learner", url, str(number), *map(str, widths))
            stack.enter_context(processes.child("own_rounds", *arguments, environment=environment))
        told = _line(orchestrator)
    if not told["is_average_right"]:
        raise MeasurementFailed("the average is not that of the updates")
    return told["round_seconds"], told["peak_bytes"]


def _line(process: subprocess.Popen[bytes]) -> dict:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise MeasurementFailed(f"the orchestrator ended with code {process.wait()}")
    return json.loads(line)


async def orchestrate(num_rounds: int, num_learners: int, *widths: int) -> None:
    """Play rounds; tells the address, then what they took."""
    from adding import initial_state, is_everywhere
    from own_simulate import prepare
    from paceline.events import Event
    from paceline.topologies.base import Environment, serving
    from paceline.topologies.parallel.events import RoundClosed
    from paceline.topologies.parallel.topology import JobPlan

    plan = JobPlan(prepare(num_learners, num_rounds, initial_state(widths)))
    closed_at = [asyncio.get_running_loop().time()]

    def emit(event: Event) -> None:
        if isinstance(event, RoundClosed):
            assert event.num_updates == num_learners
            closed_at.append(asyncio.get_running_loop().time())

    orchestrator = plan.host(Environment(emit=emit))
    async with serving(orchestrator, plan, "orchestrator", port=0) as address:
        print(json.dumps({"url": address}), flush=True)
        await orchestrator.run(address)
        await orchestrator.drain()
    expected = num_rounds * sum(range(1, num_learners + 1)) / num_learners
    told = {
        "round_seconds": [later - earlier for earlier, later in pairwise(closed_at)],
        "peak_bytes": memory.peak_bytes_of_this_process(),
        "is_average_right": is_everywhere(expected, list(orchestrator.outcome.state.values())),
    }
    print(json.dumps(told), flush=True)


async def learn(url: str, number: int, *widths: int) -> None:
    """Take part without training."""
    from adding import AddingMachine, AddingTrainer
    from paceline.topologies.base import Contact, Node
    from paceline.topologies.parallel.learner import Learner

    machine = AddingMachine(AddingTrainer(number, widths, is_in_place=True))
    await Learner(Node(name=f"learner-{number}", contacts=[Contact(url)], machine=machine)).run()


if __name__ == "__main__":
    from paceline.axon import loops

    processes.exit_with_parent()
    role, *given = sys.argv[1:]
    loop = loops.new_event_loop()
    if role == "orchestrator":
        loop.run_until_complete(orchestrate(*map(int, given)))
    else:
        loop.run_until_complete(learn(given[0], *map(int, given[1:])))
    loops.shut_down(loop)
