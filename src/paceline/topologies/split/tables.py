"""Tables of a split run: what its nodes and epochs came to, from the events of its nodes in one pass."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any

from paceline.devices.energy import GRAMS_CO2_PER_KWH
from paceline.events import Event
from paceline.topologies.events import LearnerJoined, LearnerLeft
from paceline.topologies.reporting.base import TableBuilder
from paceline.topologies.reporting.energy_and_bytes import Usage, usage_table
from paceline.topologies.reporting.fleet_now import GONE
from paceline.topologies.reporting.formatting import named, printable, setting
from paceline.topologies.reporting.shared import Happenings, end_of, is_evaluated, mean, summary_table
from paceline.topologies.reporting.tables import Column, Table, Value, columns, metric_columns, recorded_table
from paceline.topologies.split import events
from paceline.topologies.split.progress import bytes_moved, describe

BRANCH, JUNCTION = "branch", "junction"
MASKED = "masked"
"""Parts of a model that is split; each source has a branch of its own."""

_EPOCHS = columns(
    *("at seconds ended at", "epoch count", "seconds seconds training", "num_steps count steps"),
    *("num_samples count samples", "num_sources count sources", "num_masked count inputs missing"),
    *("train_loss number training loss", "test_seconds seconds test", "loss number"),
)
_NODE_EPOCHS = columns(
    *("at seconds", "learner text node", "epoch count", "seconds seconds took", "compute_seconds seconds compute"),
    *("wait_seconds seconds wait for others or the network", "bytes_sent bytes sent", "bytes_received bytes received"),
    *("cpu_seconds seconds processor time", "joules joules energy"),
)
EPOCHS_TABLE = recorded_table("epochs", events.SplitEpochEnded, _EPOCHS, has_metrics=True)
NODES_TABLE = recorded_table("nodes", events.NodeSpent, _NODE_EPOCHS)
_COSTS = columns(
    "trained count samples so far",
    "bytes_moved bytes over the network",
    "joules joules energy",
    "junction count junction parameters",
)
_SPENT = columns(
    *("learner text node", "epoch count", "compute seconds", "wait seconds wait for others or the network"),
    *("rest seconds neither", "share ratio computing", "bytes_sent bytes sent", "bytes_received bytes received"),
)
_TOTALS = columns(
    *("learner text node", "epochs count", "mean_seconds seconds epoch", "mean_compute_seconds seconds computing"),
    *("mean_wait_seconds seconds waiting", "num_masks count times masked", "bytes_sent bytes sent"),
    *("bytes_received bytes received", "joules joules energy", "end text at the end"),
)
_PRESENCE = columns(
    *("learner text source", "state text", "start seconds from", "end seconds to", "epoch count", "step count"),
    "reason text",
)
_PARTS = columns("part text", "num_parameters count parameters", "num_copies count copies", "in_all count in all")
_LINKS = columns("start text from", "end text to", "bytes_sent bytes sent in the last epoch")
_MODEL = columns("learner text node", "part text", "level count", "state text", "num_parameters count parameters")
_CUTS = columns("cut text before", "expected_seconds seconds an epoch expected", "is_chosen bool chosen")


class _Node:
    """What a node did, since when it is there, and since when it is masked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.spent: list[events.NodeSpent] = []
        self.power: dict[str, Any] | None = None
        self.num_masks = 0
        self._left_because: str | None = None
        self._since: float | None = None
        self._masked: events.SourceMasked | None = None
        self._past: list[tuple[Value, ...]] = []

    def feed(self, event: LearnerJoined | LearnerLeft | events.SourceMasked | events.SourceBack) -> None:
        match event:
            case LearnerJoined(at=at):
                self._since = at if self._since is None else self._since
                self._left_because = None
            case LearnerLeft(at=at, reason=reason):
                self._past = self.presence(at)
                self._since, self._masked, self._left_because = None, None, reason
            case events.SourceMasked():
                self.num_masks += self._masked is None
                self._masked = self._masked or event
            case events.SourceBack(at=at):
                self._past += self._mask(at)
                self._masked = None

    @property
    def state(self) -> str:
        """How it stands, in a word."""
        return GONE if self._left_because else MASKED if self._masked else "there"

    @property
    def last_bytes_sent(self) -> int | None:
        """Bytes sent in its last epoch; what it hands over once the last is done does not count."""
        return next((one.bytes_sent for one in reversed(self.spent) if one.epoch > 0), None)

    def presence(self, at: float) -> list[tuple[Value, ...]]:
        """Make rows of when it was there, and when masked, up to a moment."""
        there: list[tuple[Value, ...]] = []
        if self._since is not None:
            there.append((self.name, "there", self._since, at, None, None, None))
        return [*self._past, *there, *self._mask(at)]

    def _mask(self, at: float) -> list[tuple[Value, ...]]:
        last = self._masked
        return [] if last is None else [(self.name, "masked", last.at, at, last.epoch, last.step, last.reason)]

    def row(self) -> tuple[Value, ...]:
        epochs = [one for one in self.spent if one.epoch > 0]
        return (
            *(self.name, len(epochs), mean(one.seconds for one in epochs), mean(one.compute_seconds for one in epochs)),
            *(mean(one.wait_seconds for one in epochs), self.num_masks),
            *(sum(one.bytes_sent for one in self.spent), sum(one.bytes_received for one in self.spent)),
            *(sum(one.joules for one in self.spent), end_of(self._left_because)),
        )


class SplitTables(TableBuilder):
    """The tables of a split run, of a whole fleet or as one node recorded it."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._started: events.SplitStarted | None = None
        self._ended: events.SplitEnded | None = None
        self._cut: events.CutChosen | None = None
        self._junctions: list[events.JunctionChanged] = []
        self._nodes: dict[str, _Node] = {}
        self._spent: list[events.NodeSpent] = []
        self._epochs: dict[int, events.SplitEpochEnded] = {}
        self._happenings = Happenings()

    def _node(self, name: str) -> _Node:
        if name not in self._nodes:
            self._nodes[name] = _Node(name)
        return self._nodes[name]

    def feed(self, event: Event, job: str = "") -> None:
        self.last_at = max(self.last_at, event.at)
        match event:
            case events.NodeSpent():
                self._node(event.learner).spent.append(event)
                self._spent.append(event)
            case events.SplitEpochEnded():
                self._epochs[event.epoch] = event
            case events.NodeStarted():
                self._node(event.learner).power = event.power
            case LearnerJoined() | LearnerLeft() | events.SourceMasked() | events.SourceBack():
                self._node(event.learner).feed(event)
            case events.JunctionChanged():
                self._junctions.append(event)
            case events.CutChosen():
                self._cut = event
            case events.SplitStarted():
                self._started = event
            case events.SplitEnded():
                self._ended = event
        if not isinstance(event, events.SplitEnded):
            self._happenings.add(event.at, describe(event))

    def tables(self, grams_per_kwh: float = GRAMS_CO2_PER_KWH) -> list[Table]:
        nodes = sorted(self._nodes.values(), key=lambda node: node.name != events.TRUNK)
        used = {node.name: Usage.total(node.spent) for node in nodes}
        presence = [row for node in nodes if node.name != events.TRUNK for row in node.presence(self.last_at)]
        parts = Table("parts", _PARTS, list(self._part_rows()))
        epochs = [self._epochs[number] for number in sorted(self._epochs)]
        shown = (*_EPOCHS, *metric_columns(self._metric_names))
        rows = [(*_fields(_EPOCHS, one), *(one.metrics.get(name) for name in self._metric_names)) for one in epochs]
        return [
            self._summary(parts, Usage.total(used.values()).figures(grams_per_kwh)),
            Table("epochs", shown, rows),
            Table("nodes", _NODE_EPOCHS, [_fields(_NODE_EPOCHS, one) for one in self._spent]),
            Table("progress", (*shown, *_COSTS), list(self._progress_rows(epochs, rows))),
            Table("spent", _SPENT, [_spent_row(one) for node in nodes for one in node.spent if one.epoch > 0]),
            Table("totals", _TOTALS, [node.row() for node in nodes]),
            Table("presence", _PRESENCE, presence),
            parts,
            Table("cuts", _CUTS, _cut_rows(self._cut) if self._cut else []),
            usage_table(used, {node.name: node.power for node in nodes}, grams_per_kwh),
            self._happenings.table(),
            *self._model_tables(nodes, {part: size for part, size, *_ in parts.rows}),
        ]

    def _model_tables(self, nodes: list[_Node], sizes: dict[Value, Value]) -> list[Table]:
        """Make the tables of where the model is cut: branches on the sources, the rest on the trunk."""
        sources = [node for node in nodes if node.name != events.TRUNK]
        on_trunk = [part for part in (JUNCTION, events.TRUNK) if part in sizes] if sources else []
        model: list[tuple[Value, ...]] = [
            *((node.name, BRANCH, 0, node.state, sizes.get(BRANCH)) for node in sources),
            *((part, part, level, "there", sizes[part]) for level, part in enumerate(on_trunk, 1)),
        ]
        links: list[tuple[Value, ...]] = [
            *((node.name, on_trunk[0], node.last_bytes_sent) for node in sources if on_trunk),
            *((start, end, None) for start, end in itertools.pairwise(on_trunk)),
        ]
        return [Table("model", _MODEL, model), Table("links", _LINKS, links)]

    def _by_epoch(self) -> dict[int, list[events.NodeSpent]]:
        spent: dict[int, list[events.NodeSpent]] = {}
        for one in self._spent:
            spent.setdefault(one.epoch, []).append(one)
        return spent

    def _progress_rows(
        self, epochs: list[events.SplitEpochEnded], rows: list[tuple[Value, ...]]
    ) -> Iterator[tuple[Value, ...]]:
        """Make rows of the epochs, with traffic, energy and the size of the junction."""
        spent, changes = self._by_epoch(), list(self._junctions)
        size = self._started.num_parameters.get(JUNCTION) if self._started else None
        trained = 0
        for row, ended in zip(rows, epochs, strict=True):
            while changes and changes[0].epoch <= ended.epoch:
                size = changes.pop(0).num_parameters
            some = spent.get(ended.epoch, [])
            trained += ended.num_samples
            yield (*row, trained, bytes_moved(some), sum(one.joules for one in some), size)

    def _part_rows(self) -> Iterator[tuple[Value, ...]]:
        """Make rows of the parts that have parameters; the junction is as after its last change, if it had any."""
        known = self._cut or self._started
        sizes = dict(known.num_parameters) if known else {}
        num_sources = max((one.num_sources for one in self._epochs.values()), default=0)
        num_sources = num_sources or sum(name != events.TRUNK for name in self._nodes)
        if self._junctions:
            sizes[JUNCTION] = self._junctions[-1].num_parameters
            num_sources = len(self._junctions[-1].sources)
        for name, size in sizes.items():
            num_copies = num_sources if name == BRANCH else 1
            if size:
                yield (name, size, num_copies, size * num_copies)

    def _summary(self, parts: Table, usage: dict[str, Value]) -> Table:
        started, ended, settings = self._started, self._ended, self._settings
        planned, scheme, cut = (setting(settings, "split", key) for key in ("epochs", "scheme", "cut"))
        cut = self._cut.cut if self._cut else cut
        num_parameters = sum(parts.values("in_all"))
        about = [
            f"{named(settings, 'model')} on {named(settings, 'data')}",
            f"{scheme or 'split'}" + (f", cut before {cut}" if cut else ""),
            *([f"{num_parameters:,} parameters"] if parts.rows else []),
            f"{started.clock} clock" if started else "nothing recorded by the trunk",
        ]
        epochs = [self._epochs[number] for number in sorted(self._epochs)]
        tested = [one for one in epochs if is_evaluated(one)]
        best = min(tested, key=_loss, default=None)
        result = ended if ended and is_evaluated(ended) else tested[-1] if tested else None
        figures: dict[str, Value] = {
            "about text": printable(" · ".join(about)),
            "ended text": ended.reason if ended else None,
            "clock text": started.clock if started else None,
            "loss number": result.loss if result else None,
            "best_epoch count best epoch": best.epoch if best else None,
            "epochs count": epochs[-1].epoch if epochs else 0,
            "planned_epochs count": planned if isinstance(planned, int) else None,
            "seconds seconds time": self.last_at - (started.at if started else 0.0),
            "mean_seconds seconds an epoch took": mean(one.seconds for one in epochs),
            "num_samples count samples trained": sum(one.num_samples for one in epochs),
            "num_sources count sources": sum(name != events.TRUNK for name in self._nodes),
            "num_masked count inputs missing": sum(one.num_masked for one in epochs),
            "bytes_moved bytes over the network": sum(map(bytes_moved, self._by_epoch().values())),
            "cut text": None if cut is None else str(cut),
            "num_parameters count parameters": num_parameters if parts.rows else None,
        }
        metrics = {name: result.metrics.get(name) if result else None for name in self._metric_names}
        return summary_table(figures, metrics, usage)

    @property
    def _metric_names(self) -> tuple[str, ...]:
        return self._started.metric_names if self._started else ()


def _spent_row(one: events.NodeSpent) -> tuple[Value, ...]:
    rest = max(one.seconds - one.compute_seconds - one.wait_seconds, 0.0)
    return (
        *(one.learner, one.epoch, one.compute_seconds, one.wait_seconds, rest),
        one.compute_seconds / one.seconds if one.seconds > 0 else 0.0,
        *(one.bytes_sent, one.bytes_received),
    )


def _cut_rows(chosen: events.CutChosen) -> list[tuple[Value, ...]]:
    """Make a row per cut that was possible, the fastest first."""
    by_seconds = sorted(chosen.expected_seconds.items(), key=lambda item: item[1])
    return [(cut, seconds, cut == chosen.cut) for cut, seconds in by_seconds]


def _fields(shown: Iterable[Column], event: Event) -> tuple[Value, ...]:
    """Return the fields of an event that these columns show."""
    return tuple(getattr(event, column.name) for column in shown)


def _loss(ended: events.SplitEpochEnded) -> float:
    """Return the loss; infinite if it is not a number."""
    return math.inf if ended.loss is None or math.isnan(ended.loss) else ended.loss
