"""Limits of what one update does to a round: how much it weighs, and how far from all others it may lead.

The second is centred clipping (Karimireddy, He & Jaggi, 2021), with a centre that is found among the updates of the
round itself. Of one or two updates, nobody can say which is wrong, so they are left as they are.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, median_low
from typing import NamedTuple, TypeAlias

import torch

from paceline.learning.aggregation.base import Aggregated, Aggregation, Update
from paceline.learning.aggregation.median import median_of
from paceline.learning.aggregation.staleness import rebased
from paceline.learning.averaging import RunningAverage, State, widened
from paceline.learning.vectors import Layout, Spans, Vectors

MAX_HELD_BYTES = 1 << 29
"""Size of the updates of a round that wait to be compared with each other; those beyond are judged as they come."""

MIN_COMPARED = 3
"""Fewest updates of which one can be found unlike the others."""

_FAR = 2.0  # times the limit: what is farther off does not count at all
_MUCH = 1.5  # times the median: who trained or weighs more, and leads against the others, counts like one of them
_AGAINST = -0.4  # cosine: with unlike data, those of honest ones were down to about -0.2
_MAX_ROOM = 2.0  # times the limit, for those who trained more than others
_NUM_STEPS = 4  # of the centre towards where most updates are
_CHUNK_VALUES = 1 << 16  # that are compared at a time: differences of whole vectors would need memory, and its time
_ROUNDING = 0.01  # of a distance over its limit: long sums of float32 are no better than that
_TINY = 1e-300  # a length of 0 is divided by, too

_Group: TypeAlias = Mapping[str, Spans]
"""Values that are measured together, such as all that are trained."""


class Contribution(NamedTuple):
    """What became of an update.

    Attributes:
        weight: weight that it came with.
        counted_weight: weight that it counted by.
        norm: length of its change.
        distance: how far it was from where most updates were, over the limit for it; None if it was not compared.
        part: part of its way from there that counted; 0 if the update did not count.
    """

    learner: str
    weight: float
    counted_weight: float
    norm: float
    distance: float | None = None
    part: float = 1.0

    @property
    def is_limited(self) -> bool:
        """Whether it counted for less than it came with."""
        return self.part < 1 or self.counted_weight < self.weight


class LimitedCollector:
    """Takes the updates of one round, and has each count within limits; then the method makes parameters of them.

    Args:
        method: the method, with its limits.
        layout: positions of the parameters in vectors.
        buffers: see `paceline.learning.aggregation.Start`.
        start: parameters that the updates are changes of.
        is_limiting: False to have all count as they come.

    Attributes:
        num_updates: number of updates added.
        contributions: what became of each update, once that is known; empty if there are no limits.
    """

    def __init__(
        self, method: Aggregation, layout: Layout, buffers: Collection[str], start: Vectors, *, is_limiting: bool = True
    ) -> None:
        self._collector = method.collector(layout, buffers)
        self._clip, self._max_weight = method.clip, method.max_weight or math.inf
        self._is_limiting = is_limiting and (method.clip > 0 or method.max_weight > 0)
        self._layout, self._buffers, self._start = layout, buffers, start
        self._held: list[tuple[str, Update]] = []
        self._num_bytes = 0
        self._judged: _Judgement | None = None
        self.num_updates = 0
        self.contributions: list[Contribution] = []

    def add(self, learner: str, update: Update) -> None:
        """Add an update, whose parameters are vectors that nobody changes afterwards."""
        self.num_updates += 1
        if not self._is_limiting:
            self._collector.add(update)
        elif self._judged is not None:
            self._count(_Entry(learner, update), self._judged)
        else:
            self._held.append((learner, update))
            self._num_bytes += sum(vector.nbytes for vector in update.parameters.values())
            if self._num_bytes > MAX_HELD_BYTES and len(self._held) >= MIN_COMPARED:
                self._count_held()
                self._held.clear()

    def finish(self, memory: State) -> Aggregated:
        """Return the next parameters as vectors, and the next memory; both as they were if no update came."""
        if self._judged is None and self._held:
            self._count_held()
        return self._collector.finish(self._start, memory)

    def median(self) -> Vectors | None:
        """Return the median of the updates, value by value; None if there are too few, or too many to be held."""
        return median_of([update for _, update in self._held]) if len(self._held) >= MIN_COMPARED else None

    def _count_held(self) -> None:
        """Compare the updates that are held, and have them count."""
        trained = self._layout.spans(self._layout.names.difference(self._buffers))
        groups = [_merged(group) for group in (trained, self._layout.spans(self._buffers)) if group]
        entries = [_Entry(learner, update) for learner, update in self._held]
        self._judged = _Judgement(entries, self._start, groups, clip=self._clip, max_weight=self._max_weight)
        for entry in entries:
            self._count(entry, self._judged)

    def _count(self, entry: _Entry, judged: _Judgement) -> None:
        found = judged.contribution_of(entry)
        self.contributions.append(found)
        if found.part == 0:
            return
        parameters = entry.update.parameters
        if found.part < 1:
            parameters = rebased(parameters, judged.centre, judged.centre, found.part)
        self._collector.add(entry.update._replace(parameters=parameters, weight=found.counted_weight))


@dataclass(eq=False)
class _Entry:
    """An update that is judged.

    Attributes:
        norms: length of its change, by group.
        weight: weight that it counts by.
        room: how much farther than others it may be, as a factor.
        farness: how far it is from the centre, over its limit.
    """

    learner: str
    update: Update
    norms: Sequence[float] = ()
    weight: float = 0.0
    room: float = 1.0
    farness: float = 0.0

    @property
    def part(self) -> float:
        """Part that counts of the way to it from the centre."""
        if self.farness <= 1 + _ROUNDING:
            return 1.0
        return 1 / self.farness if self.farness <= _FAR else 0.0


class _Judgement:
    """Where most of some updates are, and what counts of each beside that.

    Args:
        entries: at least one.
        groups: what is measured together; first what is trained.

    Attributes:
        centre: where most of them are.
    """

    def __init__(
        self, entries: Sequence[_Entry], start: Vectors, groups: Sequence[_Group], *, clip: float, max_weight: float
    ) -> None:
        self._start, self._groups, self._clip = start, groups, clip
        self._median_weight = median_low(entry.update.weight for entry in entries)
        self._median_steps = median_low(entry.update.num_steps for entry in entries)
        self._max_weight = max_weight * self._median_weight
        self._limits: list[float] = []
        self.centre = start
        for entry in entries:
            self._admit(entry)
        if clip and len(entries) >= MIN_COMPARED and median(entry.norms[0] for entry in entries) > 0:
            self._compare(entries)

    def contribution_of(self, entry: _Entry) -> Contribution:
        """Return what counts of an update: of those that were compared, or of another."""
        if not entry.norms:
            self._admit(entry)
            self._measure(entry)
        distance = entry.farness if self._limits else None
        return Contribution(entry.learner, entry.update.weight, entry.weight, entry.norms[0], distance, entry.part)

    def _admit(self, entry: _Entry) -> None:
        """Give an update its weight, and its room: training for longer leads farther, by about the root."""
        entry.norms = self._distances(entry.update.parameters, self._start)
        entry.weight = min(entry.update.weight, self._max_weight)
        entry.room = min(max(math.sqrt(entry.update.num_steps / self._median_steps), 1.0), _MAX_ROOM)

    def _compare(self, entries: Sequence[_Entry]) -> None:
        """Find the centre: clip what is far from it, so that it moves to where most are, and so on."""
        self._limits = self._limits_of([entry.norms for entry in entries])
        self._demote(entries)
        parts = [min(1.0, self._limits[0] * entry.room / max(entry.norms[0], _TINY)) for entry in entries]
        for _ in range(_NUM_STEPS):
            self.centre = self._mean(entries, parts, [entry.weight for entry in entries])
            distances = [self._distances(entry.update.parameters, self.centre) for entry in entries]
            self._limits = self._limits_of(distances)
            for entry, found in zip(entries, distances, strict=True):
                entry.farness = self._farness(found, entry.room)
            parts = [entry.part for entry in entries]
            if min(parts) == 1:
                return

    def _measure(self, entry: _Entry) -> None:
        """Measure how far off an update is that came when the others were judged."""
        if self._limits:
            entry.farness = self._farness(self._distances(entry.update.parameters, self.centre), entry.room)

    def _limits_of(self, distances: Sequence[Sequence[float]]) -> list[float]:
        """Return the limits for these distances; without any in a group, there is nothing to compare in it."""
        medians = map(median, zip(*distances, strict=True))
        return [self._clip * middle if middle > 0 else math.inf for middle in medians]

    def _demote(self, entries: Sequence[_Entry]) -> None:
        """Have those count like one of the others who trained or weigh much more, but lead against them."""
        heavy = [
            entry
            for entry in entries
            if entry.update.weight > _MUCH * self._median_weight or entry.update.num_steps > _MUCH * self._median_steps
        ]
        if not heavy:
            return
        alike = {id(entry): min(entry.weight, self._median_weight) for entry in entries}
        parts = {id(entry): min(1.0, self._limits[0] / max(entry.norms[0], _TINY)) for entry in entries}
        mean, total = self._mean(entries, list(parts.values()), list(alike.values())), sum(alike.values())
        mean_norm = self._distances(mean, self._start)[0]
        for entry in heavy:
            # The sum of the others is that of all, without its own part.
            own, norm = alike[id(entry)] * parts[id(entry)], entry.norms[0]
            product = total * self._product(entry.update.parameters, mean)
            square = (total * mean_norm) ** 2 - 2 * own * product + (own * norm) ** 2
            if product - own * norm**2 < _AGAINST * norm * math.sqrt(max(square, 0.0)):
                entry.weight, entry.room = alike[id(entry)], 1.0

    def _farness(self, distances: Sequence[float], room: float) -> float:
        return max(distance / (limit * room) for distance, limit in zip(distances, self._limits, strict=True))

    def _mean(self, entries: Sequence[_Entry], parts: Sequence[float], weights: Sequence[float]) -> Vectors:
        """Return the mean of updates of which these parts count, seen from the centre."""
        average = RunningAverage()
        for entry, part, weight in zip(entries, parts, weights, strict=True):
            if part > 0:
                near = entry.update.parameters
                average.add(near if part == 1 else rebased(near, self.centre, self.centre, part), weight)
        return average.result(self.centre)

    def _distances(self, parameters: Vectors, point: Vectors) -> list[float]:
        """Return how far parameters are from a point, by group."""
        squares = (
            math.fsum(_product(change := a - b, change) for a, b in _chunks(group, parameters, point))
            for group in self._groups
        )
        return [math.sqrt(square) for square in squares]

    def _product(self, one: Vectors, other: Vectors) -> float:
        """Return the scalar product of the changes that lead to two points."""
        pairs = _chunks(self._groups[0], one, self._start), _chunks(self._groups[0], other, self._start)
        return math.fsum(_product(a - start, b - start) for (a, start), (b, _) in zip(*pairs, strict=True))


def _merged(group: _Group) -> _Group:
    """Join spans that touch: fewer and longer ones are measured faster."""
    merged: dict[str, Spans] = {}
    for kind, spans in group.items():
        joined: list[tuple[int, int]] = []
        for begin, end in spans:
            begin = joined.pop()[0] if joined and joined[-1][1] == begin else begin
            joined.append((begin, end))
        merged[kind] = tuple(joined)
    return merged


def _product(a: torch.Tensor, b: torch.Tensor) -> float:
    """Return the real part of the scalar product of two vectors."""
    return float(torch.vdot(a, b).real if a.is_complex() else torch.dot(a, b))


def _chunks(group: _Group, one: Vectors, other: Vectors) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield values of a group in two states, some at a time, in types to compute with; whole numbers are left out."""
    for kind, spans in group.items():
        if one[kind].is_floating_point() or one[kind].is_complex():
            for span_begin, span_end in spans:
                for begin in range(span_begin, span_end, _CHUNK_VALUES):
                    end = min(begin + _CHUNK_VALUES, span_end)
                    yield widened(one[kind][begin:end]), widened(other[kind][begin:end])
