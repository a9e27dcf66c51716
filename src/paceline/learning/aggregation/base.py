"""The contract of aggregation methods: how the updates of a round become the next parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, TypeAlias

from msgspec import Meta

from paceline.checks import NotNegative, check_fields
from paceline.errors import ConfigError
from paceline.learning.averaging import State
from paceline.learning.compression import CompressionMethod, KeptShare
from paceline.learning.exchange import Exchange
from paceline.learning.update_validation import why_unlike
from paceline.learning.vectors import Layout, Vectors

Limit: TypeAlias = Annotated[float, Meta(ge=0, le=1e6)]
"""A factor, of a median, that limits something; 0 for no limit."""

WeightKind: TypeAlias = Literal["samples", "work", "equal"]
"""What an update counts by: samples in its shards, samples trained, counted once per pass, or all alike."""


def weight_of(kind: WeightKind, num_samples: int, num_trained: int) -> int:
    """Return the weight of an update with so many samples in its shards, and so many trained."""
    return {"samples": num_samples, "work": num_trained, "equal": 1}[kind]


class Update(NamedTuple):
    """What a learner trained in a round.

    Attributes:
        parameters: parameters and buffers.
        weight: how much it counts beside others, above 0.
        num_steps: minibatches trained, a part of one included; above 0.
    """

    parameters: State
    weight: float
    num_steps: float


class Start(NamedTuple):
    """What a round started from.

    Attributes:
        parameters: parameters and buffers by name.
        buffers: names of those that no gradient moves, such as the statistics of batch normalisation.
    """

    parameters: State
    buffers: Collection[str] = ()

    def trained(self) -> list[str]:
        """List the names of real-valued parameters, which a step in some direction makes sense for."""
        return [
            name for name, tensor in self.parameters.items() if tensor.is_floating_point() and name not in self.buffers
        ]


class Aggregated(NamedTuple):
    """The next parameters, and what the method remembers for the next round."""

    parameters: State
    memory: State


class Collector(ABC):
    """Takes the updates of one round as they come, as vectors, and makes the next parameters of them.

    Args:
        layout: positions of the parameters in vectors.
        buffers: see `Start`.

    Attributes:
        num_updates: number of updates added.
    """

    def __init__(self, layout: Layout, buffers: Collection[str] = ()) -> None:
        self._layout = layout
        self._buffers = buffers
        self.num_updates = 0

    def add(self, update: Update) -> None:
        """Add an update, whose parameters are vectors that nobody changes afterwards."""
        self.num_updates += 1
        self._add(update)

    def finish(self, start: Vectors, memory: State) -> Aggregated:
        """Return the next parameters as vectors, and the next memory; both as they were if no update came.

        Raises `ConfigError` if the method's parameters are not those of the model.
        """
        if not self.num_updates:
            return Aggregated(start, memory)
        return self._finish(start, Start(self._layout.unpack(start), self._buffers), memory)

    def _packed(self, start: Start, aggregated: Aggregated) -> Aggregated:
        """Return the parameters as vectors; raises `ConfigError` if they are not those of the model."""
        reason = why_unlike(aggregated.parameters, start.parameters)
        if reason is not None:
            raise ConfigError(f"it returned parameters that do not fit the model: {reason}")
        return aggregated._replace(parameters=self._layout.pack(aggregated.parameters))

    @abstractmethod
    def _add(self, update: Update) -> None:
        """Take an update."""

    @abstractmethod
    def _finish(self, vectors: Vectors, start: Start, memory: State) -> Aggregated:
        """Return the next parameters as vectors, and the next memory; `vectors` are those of the start."""


@dataclass(frozen=True, kw_only=True)
class Aggregation(ABC):
    """Decides how the updates of a round become the next parameters.

    A method is a frozen dataclass; its parameters are its fields, and the same arguments give the same result. It opens
    no socket, reads no clock and keeps no state: what it remembers from round to round is an argument and a part of the
    result, and is saved with each checkpoint. Derive from `MeanAggregation`, which keeps no updates, or from
    `KeepingAggregation`, which keeps all those of a round. Updates were validated: they have the names, shapes and
    types of the start, and finite values.

    Attributes:
        weight: what an update counts by: ``samples`` in its shards, ``work``: samples trained, counted once per pass,
            or ``equal``: all alike.
        max_weight: largest weight of an update, over the median of its round: 0 for no limit, else at least 1.
        clip: largest distance of an update from where most of its round are, over the median distance; what is farther
            off is moved that near, and does not count if it is twice as far. 0 for no limit, else at least 1.
        late: what becomes of an update that comes after its round closed: ``drop``, or ``discount``: its change counts
            in the round that closes next, times (1 + s) ** -staleness_exponent, where s is how many rounds late it is.
        staleness_exponent: how fast that falls; at 0, late updates count in full.
        exchange: what of the model travels, both ways; the rest stays on the device that has it.
        compression: how learners send their updates, see `paceline.learning.compression`; methods see them restored.
        kept_share: part of the values that ``top-k`` sends.
    """

    weight: WeightKind = "work"
    max_weight: Limit = 10.0
    clip: Limit = 1.5
    late: Literal["drop", "discount"] = "drop"
    staleness_exponent: NotNegative = 0.5
    exchange: Exchange = "all"
    compression: CompressionMethod = "none"
    kept_share: KeptShare = 0.05

    def __post_init__(self) -> None:
        check_fields(self)
        for name, limit in (("max_weight", self.max_weight), ("clip", self.clip)):
            if 0 < limit < 1:
                raise ValueError(f"{name} is {limit:g}; allowed: 0 for no limit, or at least 1, times the median")

    @property
    def remembers(self) -> bool:
        """Whether it has a memory, to be saved and loaded with the parameters."""
        return False

    @property
    def proximal_mu(self) -> float:
        """Strength of the proximal term of local training; 0 for none."""
        return 0.0

    def weight_of(self, num_samples: int, num_trained: int) -> float:
        """Return the weight of an update: see `weight_of`."""
        return float(weight_of(self.weight, num_samples, num_trained))

    @abstractmethod
    def collector(self, layout: Layout, buffers: Collection[str] = ()) -> Collector:
        """Begin a round: make what takes its updates."""
