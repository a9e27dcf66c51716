"""Paceline's live side of split.py: a trunk and sources in processes of their own, over HTTP on loopback.

Run as a module, by `lifeline`, it starts them and prints what they took.
"""

from __future__ import annotations

import json
import sys

import forks
import processes
import split_work
from paceline.axon import loops
from paceline.axon.transports import CountedTransport, HttpTransport
from paceline.devices.energy import Clock, PowerModel, ProcessMeter
from paceline.events import Event
from paceline.learning.engines import ThreadEngine
from paceline.topologies.events import PhaseStarted
from paceline.topologies.parallel import Surroundings, hosted
from paceline.topologies.split import Source, SourceOptions, SplitPlan, Trunk, reach_trunk, view_of
from paceline.topologies.split.events import SplitEpochEnded
from steps import Mark, told


def main() -> None:
    """Start trunk and sources, wait for them, and tell."""
    plan = split_work.make_plan(**json.loads(sys.argv[1]))
    numbers = range(plan.job.sources + 1)
    port = processes.free_port()
    (trunk, loss), *sources = forks.gather(take_part, numbers, [port] * len(numbers), [plan] * len(numbers))
    print(json.dumps(told(trunk, [mark for mark, _ in sources], loss)))


def take_part(number: int, port: int, plan: SplitPlan) -> tuple[Mark, float]:
    """The trunk, which is number 0, or a source; what it took for the last epoch, and the trunk's loss."""
    loop = loops.new_event_loop()
    try:
        return loop.run_until_complete(_give(number, port, plan) if number else _lead(port, plan))
    finally:
        loops.shut_down(loop)


async def _lead(port: int, plan: SplitPlan) -> tuple[Mark, float]:
    marks: list[Mark] = []
    ended: list[SplitEpochEnded] = []

    def emit(event: Event) -> None:
        if isinstance(event, SplitEpochEnded):
            marks.append(Mark.now())
            ended.append(event)

    trunk = Trunk(plan, ThreadEngine(), Surroundings(emit=emit), _meter)
    async with hosted(trunk, plan.max_message_bytes, host="127.0.0.1", port=port):
        await trunk.run()
        await trunk.farewell()
    assert ended[-1].train_loss is not None
    # Of the last epoch: from its opening to the last step, without the test that follows.
    return marks[-1].since(marks[-2])._replace(seconds=ended[-1].seconds), ended[-1].train_loss


async def _give(number: int, port: int, plan: SplitPlan) -> tuple[Mark, float]:
    marks: list[Mark] = []

    def emit(event: Event) -> None:
        if isinstance(event, PhaseStarted) and event.phase == "idle" and event.round > 0:
            marks.append(Mark.now())  # after an epoch

    # Views follow from numbers, and all are the same here; so sources may join in any order.
    transport = CountedTransport(HttpTransport())
    source = Source(
        reach_trunk(f"http://127.0.0.1:{port}", transport=transport),
        transport,
        split_work.source_name(number),
        ThreadEngine(),
        _meter,
        emit=emit,
        options=SourceOptions(load=lambda terms, number: view_of(plan.dataset, terms, number)),
    )
    await source.run()
    last, before = marks[split_work.NUM_EPOCHS - 1], marks[split_work.NUM_EPOCHS - 2]
    return last.since(before), 0.0


def _meter(clock: Clock) -> ProcessMeter:
    return ProcessMeter(PowerModel(), clock)


if __name__ == "__main__":
    main()
