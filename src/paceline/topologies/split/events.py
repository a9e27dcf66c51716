"""What happens in a run of a split model."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from paceline.events import Event
from paceline.topologies.events import DeviceEvent, EpochEvent, ResultEvent, StartEvent

EndReason: TypeAlias = Literal[
    "epochs done", "target reached", "no improvement", "diverged", "sources gone", "stopped by a callback"
]
"""Reason why training is over."""

TRUNK = "trunk"
"""Name of the trunk in events; no source may have it."""


class SplitStarted(StartEvent, frozen=True, tag="split_started"):
    """The trunk of a model that is spread over devices is ready for sources.

    Attributes:
        num_parameters: sizes of ``branch`` (one per source), ``junction`` and ``trunk``; none before a cut is chosen.
        first_epoch: 1, or the epoch at which an interrupted run goes on.
    """

    num_parameters: dict[str, int]
    first_epoch: int = 1


class NodeStarted(DeviceEvent, frozen=True, tag="node_started"):
    """A source or the trunk takes part (recorded on the device only).

    Attributes:
        number: number of the source, from 1, which decides on its view; 0 for the trunk.
        power: power model or meter that its energy is from.
        device: what it computes on, such as ``cuda:0``; None if that is only modelled.
        precision: precision that it trains in.
    """

    number: int
    power: dict[str, Any] | None = None
    device: str | None = None
    precision: str = "float32"


class CutChosen(Event, frozen=True, tag="cut_chosen"):
    """The trunk chose where to cut the model, by what its sources measured of themselves.

    Attributes:
        cut: the layer that the junction comes before.
        expected_seconds: expected seconds of an epoch, by cut that was possible.
        num_parameters: as in `SplitStarted`, which does not know them before.
    """

    cut: str
    expected_seconds: dict[str, float]
    num_parameters: dict[str, int]


class JunctionChanged(Event, frozen=True, tag="junction_changed"):
    """The junction grew by a source, or lost one for good.

    Attributes:
        sources: sources that it merges now.
        num_parameters: parameters that it has now.
    """

    epoch: int
    sources: tuple[str, ...]
    num_parameters: int


class SourceMasked(EpochEvent, frozen=True, tag="source_masked"):
    """A source did not deliver in time: from this step of the epoch on, training goes on without its inputs."""

    step: int
    reason: str


class SourceBack(EpochEvent, frozen=True, tag="source_back"):
    """A source that was masked delivers again from this step on."""

    step: int


class SplitEpochEnded(ResultEvent, frozen=True, tag="split_epoch_ended"):
    """All nodes have trained an epoch together, and tested what they learned.

    Attributes:
        seconds: time of training; testing is in `test_seconds`.
        num_steps: number of minibatches.
        num_masked: inputs of sources that were missing, over all steps.
        train_loss: the mean over the epoch.
        loss: on the test data; None if not tested.
    """

    epoch: int
    seconds: float
    num_steps: int
    num_samples: int
    num_sources: int
    num_masked: int = 0
    train_loss: float | None = None
    test_seconds: float = 0.0


class NodeSpent(EpochEvent, frozen=True, tag="node_spent"):
    """How a source or the trunk spent an epoch, with its test (recorded on the device only).

    Attributes:
        epoch: 0 for what is outside of all, such as handing over what was learned.
        compute_seconds: time that it worked.
        wait_seconds: time that it waited for others or for the network.
        bytes_sent: bytes sent by this node; likewise `bytes_received`.
        cpu_seconds: processor time, and what that took in `joules`.
    """

    seconds: float
    compute_seconds: float
    wait_seconds: float
    bytes_sent: int
    bytes_received: int
    cpu_seconds: float = 0.0
    joules: float = 0.0


class SplitEnded(ResultEvent, frozen=True, tag="split_ended"):
    """Training over a split model is over; loss and metrics are those that were last tested."""

    reason: EndReason
    epochs: int
