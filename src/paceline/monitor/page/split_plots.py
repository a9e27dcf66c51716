"""The plotted parts of the page of a split run: learning, time, network and energy, sources."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from paceline.monitor.page.charts import Axis, Chart, Point, TimeAxis, column_chart
from paceline.monitor.page.curves import Curve, Mark, draw_curves
from paceline.monitor.page.frame import section
from paceline.monitor.page.gantt import MAX_BLOCKS, Block, Gantt, draw_gantt
from paceline.monitor.page.grids import Cell, Grid, draw_grid
from paceline.monitor.page.markup import Markup, element
from paceline.monitor.page.plots import MAX_LEARNERS, of_all
from paceline.monitor.split_figures import JUNCTION, NodeSummary, SplitSummary
from paceline.monitor.wording import (
    JOULES_PER_WATT_HOUR,
    printable,
    say_bytes,
    say_count,
    say_energy,
    say_ratio,
    say_seconds,
)
from paceline.topologies.split.events import NodeSpent

_LEAST_SHARE = 0.01  # of a node's bar, that is worth a block of its own


def learning_section(summary: SplitSummary) -> Markup:
    """Accuracy and loss per epoch."""
    charts = [_accuracy_chart(summary), _loss_chart(summary)]
    if not any(charts):
        charts.append(element("p", "The model was not evaluated.", class_="card empty"))
    about = "Of the whole model: its branches, its junction and its trunk."
    return section("Learning", element("div", *charts, class_="two"), about=about)


def _accuracy_chart(summary: SplitSummary) -> Markup | None:
    marks = _marks(summary, "accuracy", say_ratio)
    if not marks:
        return None
    first, last = marks[0], marks[-1]
    chart = Chart(
        name="accuracy",
        caption="Accuracy per epoch",
        note=_at_best(marks, summary, say_ratio),
        description=f"On the test data, from {say_ratio(first.value)} after epoch {first.x:.0f} to "
        f"{say_ratio(last.value)} after epoch {last.x:.0f}.",
        say=lambda value: say_ratio(value).replace(".0 %", " %"),
        floor=0.0,
        ceiling=1.0,
        over="epoch",
    )
    return draw_curves(chart, [Curve(marks=marks, is_thick=True)])


def _loss_chart(summary: SplitSummary) -> Markup | None:
    train, test = (_marks(summary, field, "{:.4g}".format) for field in ("train_loss", "loss"))
    thick = test or train
    if not thick:
        return None
    first, last = thick[0], thick[-1]
    what = "on the test data" if test else "in training"
    tip = f"in training: {train[-1].value:.4g} at last" if train else ""
    chart = Chart(
        name="loss",
        caption="Loss per epoch",
        note=f"{what}: {_at_best(thick, summary, '{:.4g}'.format)}" + (f"; thin: {tip}" if test and train else ""),
        description=f"{what.capitalize()}, from {first.value:.4g} after epoch {first.x:.0f} to {last.value:.4g} after "
        f"epoch {last.x:.0f}. The table of epochs has both losses.",
        say="{:.4g}".format,
        over="epoch",
    )
    return draw_curves(chart, [Curve(marks=train if test else [], tip=tip), Curve(marks=thick, is_thick=True)])


def _marks(summary: SplitSummary, field: str, say: Callable[[float], str]) -> list[Mark]:
    """What is known of a field of the epochs."""
    known = ((one.ended, getattr(one.ended, field)) for one in summary.epochs)
    name = field.replace("_", " ")
    return [
        Mark(ended.epoch, value, f"epoch {ended.epoch}, at {say_seconds(ended.at)}\n{name} {say(value)}")
        for ended, value in known
        if value is not None and math.isfinite(value)
    ]


def _at_best(marks: Sequence[Mark], summary: SplitSummary, say: Callable[[float], str]) -> str:
    """The value of the epoch with the lowest loss; that of the last if it has none."""
    best = [mark for mark in marks if summary.best and mark.x == summary.best.ended.epoch]
    if not best:
        return f"{say(marks[-1].value)} at last"
    return f"{say(best[0].value)} at epoch {best[0].x:.0f}, {'the best' if summary.ended else 'the best so far'}"


def time_section(summary: SplitSummary) -> Markup | None:
    """How long nodes computed and waited; None if none told."""
    bars = _bars(
        summary,
        name="seconds",
        caption="Time per epoch, by node",
        note="mean of its epochs, tests included",
        parts={
            "compute": lambda node: node.mean_compute_seconds or 0.0,
            "wait for others or the network": lambda node: node.mean_wait_seconds or 0.0,
            "neither": _rest_seconds,
        },
        say=say_seconds,
        make_axis=lambda end: TimeAxis(0.0, end),
    )
    about = "A node computes, or waits for others or the network. The slowest of them hardly waits."
    return section("Time", bars, _shares_grid(summary), about=about) if bars else None


def _rest_seconds(node: NodeSummary) -> float:
    known = (node.mean_compute_seconds or 0.0) + (node.mean_wait_seconds or 0.0)
    return max((node.mean_seconds or 0.0) - known, 0.0)


def _told(summary: SplitSummary) -> Sequence[NodeSummary]:
    """The nodes that told how they spent their epochs: the first so many."""
    return [node for node in summary.nodes if node.epochs][:MAX_LEARNERS]


def _of_all_nodes(summary: SplitSummary) -> str:
    return of_all(sum(bool(node.epochs) for node in summary.nodes), "nodes")


def _bars(
    summary: SplitSummary,
    *,
    name: str,
    caption: str,
    note: str,
    parts: dict[str, Callable[[NodeSummary], float]],
    say: Callable[[float], str],
    make_axis: Callable[[float], Axis],
) -> Markup | None:
    """A row per node with amounts that add up, those of one part after those of another; None if all are zero.

    Args:
        parts: the amount of a node, by the name of the part. One that is small for all nodes is left out.
        make_axis: from zero to this.
    """
    nodes = _told(summary)
    totals = {node.name: sum(amount(node) for amount in parts.values()) for node in nodes}
    used = {
        part: amount
        for part, amount in parts.items()
        if any(amount(node) > _LEAST_SHARE * totals[node.name] for node in nodes)
    }
    if not used:
        return None
    chart = Gantt(
        name=name,
        caption=caption,
        note=note + _of_all_nodes(summary),
        description="Each row is a node; the table of nodes has the same figures.",
        lanes=[(printable(node.name), list(_stacked(node, used, say))) for node in nodes],
        jobs=list(used),
        axis=make_axis(max(totals.values())),
    )
    return draw_gantt(chart)


def _stacked(
    node: NodeSummary, parts: dict[str, Callable[[NodeSummary], float]], say: Callable[[float], str]
) -> Iterator[Block]:
    start = 0.0
    for index, (part, amount) in enumerate(parts.items()):
        end = start + amount(node)
        tip = f"{printable(node.name)}: {part}\n{say(end - start)}"
        yield Block(start=start, end=end, job=index, kind="deed", tip=tip)
        start = end


def _shares_grid(summary: SplitSummary) -> Markup:
    nodes = _told(summary)
    numbers = [one.epoch for node in nodes for one in node.epochs]
    grid = Grid(
        name="shares",
        caption="Computing per node and epoch",
        note=f"per cent of its time{_of_all_nodes(summary)}",
        description="Each row is a node, each column an epoch; the table of nodes has the means.",
        rows=[(printable(node.name), {one.epoch: _share_cell(one) for one in node.epochs}) for node in nodes],
        rounds=range(min(numbers), max(numbers) + 1),
        over="epoch",
    )
    return draw_grid(grid)


def _share_cell(one: NodeSpent) -> Cell:
    share = one.compute_seconds / one.seconds if one.seconds > 0 else 0.0
    tip = (
        f"{printable(one.learner)}, epoch {one.epoch}: {say_seconds(one.seconds)}\n"
        f"computed {say_seconds(one.compute_seconds)}, waited {say_seconds(one.wait_seconds)}\n"
        f"sent {say_bytes(one.bytes_sent)}, received {say_bytes(one.bytes_received)}"
    )
    return Cell(shade=share, text=f"{100 * share:.0f}", tip=tip)


def network_section(summary: SplitSummary) -> Markup | None:
    """What nodes sent, received and used; None if it was nothing."""
    bytes_bars = _bars(
        summary,
        name="bytes-by-node",
        caption="Bytes by node",
        note=f"{say_bytes(summary.bytes_moved)} over the network",
        parts={"sent": lambda node: node.bytes_sent, "received": lambda node: node.bytes_received},
        say=say_bytes,
        make_axis=lambda end: Axis(0.0, end, say_bytes),
    )
    energy_bars = _bars(
        summary,
        name="energy-by-node",
        caption="Energy by node",
        note=f"{say_energy(summary.joules)} in all",
        parts={"energy": lambda node: node.joules},
        say=say_energy,
        make_axis=_energy_axis,
    )
    pair = element("div", bytes_bars, energy_bars, class_="two") if bytes_bars or energy_bars else None
    about = "Bytes as nodes counted them; energy by the power model of each node, told below."
    return section("Network and energy", pair, _bytes_chart(summary), about=about) if pair else None


def _energy_axis(end: float) -> Axis:
    return Axis(0.0, end, lambda hours: say_energy(hours * JOULES_PER_WATT_HOUR), unit=JOULES_PER_WATT_HOUR)


def _bytes_chart(summary: SplitSummary) -> Markup | None:
    if not any(one.bytes_moved for one in summary.epochs):
        return None
    points = [
        Point(
            one.ended.epoch,
            float(one.bytes_moved),
            f"epoch {one.ended.epoch}: {say_bytes(one.bytes_moved)}, {say_energy(one.joules)}",
        )
        for one in summary.epochs
    ]
    chart = Chart(
        name="bytes",
        caption="Over the network per epoch",
        note="from and to the trunk",
        description=f"{say_bytes(summary.bytes_moved)} in {say_count(len(points), 'epoch')}.",
        say=say_bytes,
        over="epoch",
    )
    return column_chart(chart, points)


def sources_section(summary: SplitSummary) -> Markup | None:
    """Who was there and who was masked, and what became of the junction; None if nothing of it was told."""
    charts = [_sources_chart(summary), _junction_chart(summary)]
    pair = element("div", *charts, class_="two") if any(charts) else None
    presence = _presence_chart(summary)
    about = "Training goes on without a source that is late: its inputs are masked until it delivers again."
    return section("Sources", presence, pair, about=about) if presence or pair else None


def _presence_chart(summary: SplitSummary) -> Markup | None:
    shown = [node for node in summary.sources[:MAX_LEARNERS] if node.presences]
    if not shown:
        return None
    end = max(presence.end for node in shown for presence in node.presences)
    chart = Gantt(
        name="presence",
        caption="Who was there",
        note=f"hatched: masked{of_all(len(summary.sources), 'sources')}",
        description="Each row is a source, from when it joined to when it left; the table of what happened says the "
        "same.",
        lanes=[(printable(node.name), list(_presence_blocks(node, end))) for node in shown],
        jobs=["there"],
        axis=TimeAxis(summary.started.at if summary.started else 0.0, end),
    )
    return draw_gantt(chart)


def _presence_blocks(node: NodeSummary, end: float) -> Iterator[Block]:
    name = printable(node.name)
    for presence in node.presences:
        tip = f"{name}\n{say_seconds(presence.start)} to {say_seconds(presence.end)}"
        yield Block(start=presence.start, end=presence.end, job=0, kind="stay", tip=tip)
    for mask in node.masks[: MAX_BLOCKS // MAX_LEARNERS]:
        until = end if mask.end is None else mask.end
        tip = f"{name}, masked from step {mask.step} of epoch {mask.epoch} on: {printable(mask.reason)}"
        yield Block(start=mask.start, end=until, job=0, kind="bad", tip=tip)


def _sources_chart(summary: SplitSummary) -> Markup | None:
    """How many sources each epoch had; None if it was the same for all, and no input was missing."""
    epochs = [one.ended for one in summary.epochs]
    if len({ended.num_sources for ended in epochs}) < 2 and not summary.num_masked:
        return None
    points = [
        Point(
            ended.epoch,
            float(ended.num_sources),
            f"epoch {ended.epoch}: {say_count(ended.num_sources, 'source')}, {say_count(ended.num_masked, 'input')} "
            f"missing of {ended.num_steps * ended.num_sources:,}",
            is_bad=ended.num_masked > 0,
        )
        for ended in epochs
    ]
    missing = say_count(summary.num_masked, "input")
    chart = Chart(
        name="sources",
        caption="Sources per epoch",
        note=f"hatched: some inputs were missing, {missing} in all",
        description=f"{missing} missing in all; the table of epochs has the numbers of each.",
        say="{:g}".format,
        over="epoch",
    )
    return column_chart(chart, points)


def _junction_chart(summary: SplitSummary) -> Markup | None:
    """How many parameters the junction had in each epoch; None if it never changed."""
    if not summary.junctions or not summary.epochs:
        return None
    size = summary.started.num_parameters.get(JUNCTION, 0) if summary.started else 0
    changes = list(summary.junctions)
    points = []
    for one in summary.epochs:
        while changes and changes[0].epoch <= one.ended.epoch:
            size = changes.pop(0).num_parameters
        tip = f"epoch {one.ended.epoch}: {say_count(size, 'parameter')}"
        points.append(Point(one.ended.epoch, float(size), tip))
    chart = Chart(
        name="junction",
        caption="Parameters of the junction per epoch",
        note=f"{size:,} at last",
        description=f"It changed {say_count(len(summary.junctions), 'time')}; {size:,} parameters at last.",
        say=_say_size,
        over="epoch",
    )
    return column_chart(chart, points)


def _say_size(number: float) -> str:
    """A count of parameters on an axis: ``1.5 M``."""
    for factor, sign in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= factor:
            return f"{number / factor:g}{sign}"
    return f"{number:g}"
