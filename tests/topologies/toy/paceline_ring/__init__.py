"""A toy topology: a ring that passes on a running mean. Each node adds the length of its name, lap by lap."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from paceline.checks import Count
from paceline.events import Event
from paceline.topologies.base import Environment, Finished, Host, JobSpec, Member, Node, Outcome, Plan, Topology
from paceline.topologies.reporting.base import Progress, Reporting
from paceline.topologies.reporting.sections import Line, Tile, Tiles
from paceline.topologies.reporting.tables import Table, columns, recorded_table
from paceline.topologies.sessions import POLL_SECONDS, Changes

_OPERATIONS = 1000.0  # that it takes to add a number


class RingJob(JobSpec, frozen=True, kw_only=True):
    table: ClassVar[str] = "ring"

    laps: Count = 3
    nodes: Count = 2


class LapEnded(Event, frozen=True, kw_only=True, tag="lap_ended"):
    lap: int
    mean: float


class RingService(ABC):
    @abstractmethod
    async def turn(self, name: str, number: float | None) -> tuple[bool, int, float]:
        """Hand in a number, if any, and wait for the next turn; returns whether the run is over, count and mean."""


class Hub(Host, RingService):
    calls = RingService.__abstractmethods__

    def __init__(self, job: RingJob, env: Environment) -> None:
        super().__init__(env)
        self._job, self._changes = job, Changes()
        self._ring: list[str] = []
        self._count, self._mean = 0, 0.0

    async def run(self, address: str) -> None:
        await self._changes.until(lambda: len(self._ring) >= self._job.nodes)
        for lap in range(1, self._job.laps + 1):
            await self._changes.until(lambda goal=lap * self._job.nodes: self._count >= goal)
            self.env.emit(LapEnded(at=self.env.now(), lap=lap, mean=self._mean))
        self.env.save("final", self.outcome.state)

    async def turn(self, name: str, number: float | None) -> tuple[bool, int, float]:
        if number is not None:
            self._count, self._mean = self._count + 1, number
        elif name not in self._ring and len(self._ring) < self._job.nodes:
            self._ring.append(name)
        self._changes.notify()
        await self._changes.until(lambda: self._is_over or self._is_turn_of(name), POLL_SECONDS)
        return self._is_over, self._count if self._is_turn_of(name) else -1, self._mean

    def _is_turn_of(self, name: str) -> bool:
        return len(self._ring) >= self._job.nodes and self._ring[self._count % len(self._ring)] == name

    @property
    def _is_over(self) -> bool:
        return self._count >= self._job.laps * self._job.nodes

    @property
    def min_left(self) -> int:
        return 0 if self._is_over else self._job.nodes

    @property
    def outcome(self) -> Outcome:
        return Outcome({"mean": torch.tensor([self._mean])}, {"mean": self._mean, "laps": self._job.laps})


class RingNode(Member):
    def __init__(self, node: Node) -> None:
        self._node, self._hub = node, node.connect(RingService)
        self._engine = node.machine.engine(_OPERATIONS)

    async def run(self, address: str) -> Finished:
        number, size = None, len(self._node.name)
        while True:
            is_over, count, mean = await self._hub.turn.coro(self._node.name, number)
            if is_over:
                return Finished("all laps are done")
            number = None
            if count >= 0:
                number = await self._engine.run(lambda m=mean, n=count: m + (size - m) / (n + 1), _OPERATIONS)

    async def leave(self) -> None:
        return


class RingProgress(Progress):
    def lines(self, event: Event, job: str = "") -> list[str]:
        return [f"lap {event.lap}: mean {event.mean:.3f}"] if isinstance(event, LapEnded) else []


class RingReporting(Reporting):
    kind = "ring"
    recorded = (recorded_table("laps", LapEnded, columns("lap count", "mean number")),)

    def sections(self, tables: Mapping[str, Table]) -> list[Any]:
        curve = Line(title="Mean per lap", table="laps", x="lap", y=("mean",), caption="It settles.")
        return [Tiles(title="Result", table="summary", tiles=(Tile("mean"),)), curve]

    def progress(self) -> RingProgress:
        return RingProgress()


class RingPlan(Plan[RingJob]):
    def host(self, env: Environment) -> Hub:
        return Hub(self.job, env)

    def member(self, node: Node, host: Host | None) -> RingNode:
        return RingNode(node)


class Ring(Topology[RingJob]):
    name = "ring"
    kinds: ClassVar = {RingJob: RingReporting()}
    noun = "node"

    def prepare(self, job: RingJob) -> RingPlan:
        return RingPlan(self, job, min_devices=job.nodes, max_message_bytes=1000)

    def join(self, node: Node) -> RingNode:
        return RingNode(node)


TOPOLOGY = Ring()
