"""Paceline's live side of split.py: a trunk and sources in processes of their own, over HTTP on loopback.

Run as a module, by `lifeline`, it starts them and prints what they took.
"""

from __future__ import annotations

import split_work
from paceline.axon import loops
from paceline.events import Event
from paceline.topologies.base import Contact, Environment, Node, serving
from paceline.topologies.events import PhaseStarted
from paceline.topologies.split.events import SplitEpochEnded
from paceline.topologies.split.prepared import PreparedSplit
from paceline.topologies.split.topology import SplitPlan
from steps import Mark


def take_part(number: int, port: int, prepared: PreparedSplit) -> tuple[Mark, float]:
    """The trunk, which is number 0, or a source; what it took for the last epoch, and the trunk's loss."""
    plan, loop = SplitPlan(prepared), loops.new_event_loop()
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

    trunk = plan.host(Environment(emit=emit))
    async with serving(trunk, plan, "trunk", host="127.0.0.1", port=port) as address:
        await trunk.run(address)
        await trunk.drain()
    assert ended[-1].train_loss is not None
    # Of the last epoch: from its opening to the last step, without the test that follows.
    return marks[-1].since(marks[-2])._replace(seconds=ended[-1].seconds), ended[-1].train_loss


async def _give(number: int, port: int, plan: SplitPlan) -> tuple[Mark, float]:
    marks: list[Mark] = []

    def emit(event: Event) -> None:
        if isinstance(event, PhaseStarted) and event.phase == "idle" and event.round > 0:
            marks.append(Mark.now())  # after an epoch

    # Views follow from numbers, and all are the same here; so sources may join in any order.
    contacts = [Contact(f"http://127.0.0.1:{port}")]
    node = Node(name=split_work.source_name(number), contacts=contacts, emit=emit)
    await plan.member(node, None).run("")
    last, before = marks[split_work.NUM_EPOCHS - 1], marks[split_work.NUM_EPOCHS - 2]
    return last.since(before), 0.0


if __name__ == "__main__":
    split_work.run_all(take_part)
