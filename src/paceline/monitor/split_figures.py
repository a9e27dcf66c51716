"""The figures of a split run: what its nodes, its epochs and the whole came to, as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from paceline.events import Event
from paceline.monitor.figures import Presence
from paceline.monitor.footprint import Footprint
from paceline.topologies.split.events import (
    CutChosen,
    JunctionChanged,
    NodeSpent,
    SplitEnded,
    SplitEpochEnded,
    SplitStarted,
)

TRUNK = "trunk"
"""How the trunk calls itself among the nodes."""

BRANCH, JUNCTION = "branch", "junction"
"""Parts of a model that is split; each source has a branch of its own."""


def bytes_moved(spent: Iterable[NodeSpent]) -> int:
    """What went over the network in an epoch, each byte once.

    All goes to or from the trunk; if it did not tell, what the others sent and received is counted.
    """
    told = list(spent)
    trunk = [one for one in told if one.learner == TRUNK]
    return sum(one.bytes_sent + one.bytes_received for one in trunk or told)


class Mask(msgspec.Struct, frozen=True, kw_only=True):
    """A time for which training went on without a source, in seconds of the run.

    Attributes:
        step: of the epoch, from which on its inputs were missing.
        end: when it delivered again or left; None if neither came.
    """

    epoch: int
    step: int
    reason: str
    start: float
    end: float | None


class NodeSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a source or the trunk did.

    Attributes:
        epochs: how it spent them, in order; empty if it did not tell.
        presences: of a source, in order; more than one if it came back.
        masks: of a source, in order.
        mean_seconds: of its epochs, as are those of the parts; None without any.
        bytes_sent: in all, with what came before the first epoch; so are the following.
        power: what its energy is told by; None if it did not tell.
        left_because: why it was not there at the end, None if it was.
    """

    name: str
    epochs: tuple[NodeSpent, ...]
    presences: tuple[Presence, ...]
    masks: tuple[Mask, ...]
    mean_seconds: float | None
    mean_compute_seconds: float | None
    mean_wait_seconds: float | None
    bytes_sent: int
    bytes_received: int
    cpu_seconds: float
    joules: float
    power: dict[str, Any] | None
    left_because: str | None

    @property
    def footprint(self) -> Footprint:
        """What it used up; nothing is known of one that did not tell."""
        return Footprint.total([self] if self.epochs else [])


class SplitEpochSummary(msgspec.Struct, frozen=True, kw_only=True):
    """An epoch of all nodes.

    Attributes:
        ended: as the trunk told it.
        bytes_moved: over the network, each byte once.
        joules: of all nodes that told.
    """

    ended: SplitEpochEnded
    bytes_moved: int
    joules: float


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the model; there are `num_copies` of it, of so many parameters each."""

    name: str
    num_parameters: int
    num_copies: int = 1

    @property
    def num_all_parameters(self) -> int:
        """Of all copies."""
        return self.num_parameters * self.num_copies


class SplitSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a split run came to.

    Attributes:
        started: None if nothing was recorded, or only by a source.
        ended: None for a run that is under way or was interrupted.
        cut: as the trunk chose it; None if the job says where.
        parts: of the model, as they were at last.
        junctions: as it changed.
        nodes: the trunk, then sources in the order in which they were first heard of.
        epochs: in order.
        best: the epoch with the lowest loss; None if none was tested.
        happenings: who came, was masked and went, the cut and the junction, in order; each can be said by `say_event`.
        seconds: from the start to the last event.
        mean_seconds: of training an epoch; None without any.
        num_masked: inputs of sources that were missing, over all steps.
        bytes_moved: over the network, each byte once.
        joules: of all nodes that told, as are `cpu_seconds`.
        loss: that was last found on the test data.
    """

    started: SplitStarted | None
    ended: SplitEnded | None
    cut: CutChosen | None
    parts: tuple[Part, ...]
    junctions: tuple[JunctionChanged, ...]
    nodes: tuple[NodeSummary, ...]
    epochs: tuple[SplitEpochSummary, ...]
    best: SplitEpochSummary | None
    happenings: tuple[Event, ...]
    seconds: float
    mean_seconds: float | None
    num_samples: int
    num_masked: int
    bytes_moved: int
    cpu_seconds: float
    joules: float
    loss: float | None
    accuracy: float | None

    @property
    def footprint(self) -> Footprint:
        """What all nodes used up that told."""
        return Footprint.total(node.footprint for node in self.nodes)

    @property
    def sources(self) -> Sequence[NodeSummary]:
        """All nodes but the trunk."""
        return [node for node in self.nodes if node.name != TRUNK]

    @property
    def num_parameters(self) -> int:
        """Of all parts, with a branch for each source."""
        return sum(part.num_all_parameters for part in self.parts)
