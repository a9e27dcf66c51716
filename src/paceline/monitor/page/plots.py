"""The plotted sections of the page: learning, time, allocation and truancy."""

from __future__ import annotations

import collections
import math
from collections.abc import Callable, Sequence

from paceline.monitor.figures import LearnerRound, LearnerSummary, RoundSummary, Summary
from paceline.monitor.page.bars import BarRow, bar_row, draw_bars, mean_stretches
from paceline.monitor.page.charts import Chart, Point, column_chart, line_chart
from paceline.monitor.page.frame import section
from paceline.monitor.page.grids import Cell, Grid, draw_grid
from paceline.monitor.page.markup import Markup, element
from paceline.monitor.wording import printable, say_count, say_known, say_names, say_ratio, say_seconds

MAX_LEARNERS = 40
_BIN_PERCENT = 2
_MAX_BIN_PERCENT = 120


def shown_learners(summary: Summary) -> tuple[LearnerSummary, ...]:
    """The learners that are shown one by one: the first so many."""
    return summary.learners[:MAX_LEARNERS]


def of_all(num_all: int, what: str) -> str:
    """The end of a caption that says so if not all learners, or whatever has a row, are shown."""
    return f", the first {MAX_LEARNERS} of {num_all:,} {what}" if num_all > MAX_LEARNERS else ""


def of_all_learners(summary: Summary) -> str:
    """The same of the learners of a run."""
    return of_all(len(summary.learners), "learners")


def learning_section(rounds: Sequence[RoundSummary]) -> Markup:
    """Accuracy and loss of the averaged model."""
    losses = [closed.loss for closed in rounds]
    charts = [
        accuracy_chart("accuracy", "Accuracy per round", rounds),
        _learning_chart("loss", "Loss per round", rounds, losses, lambda value: f"{value:.4g}"),
    ]
    if not any(charts):
        charts.append(element("p", "The model was not evaluated.", class_="card empty"))
    return section("Learning", element("div", *charts, class_="two"), about="Of the averaged model, on the test data.")


def accuracy_chart(name: str, caption: str, rounds: Sequence[RoundSummary]) -> Markup | None:
    """Accuracy per round, as a figure of this name; None if it is never known."""
    return _learning_chart(name, caption, rounds, [closed.accuracy for closed in rounds], say_ratio, limits=(0.0, 1.0))


def _learning_chart(
    name: str,
    caption: str,
    rounds: Sequence[RoundSummary],
    values: Sequence[float | None],
    say: Callable[[float], str],
    limits: tuple[float, float] = (-math.inf, math.inf),
) -> Markup | None:
    finite = [value if value is not None and math.isfinite(value) else None for value in values]
    known = [(closed.round, say(value)) for closed, value in zip(rounds, finite, strict=True) if value is not None]
    if not known:
        return None
    (first_round, first), (last_round, last) = known[0], known[-1]
    chart = Chart(
        name=name,
        caption=caption,
        note=f"{last} at round {last_round}",
        description=f"From {first} at round {first_round} to {last} at round {last_round}.",
        say=lambda value: say(value).replace(".0 %", " %"),
        floor=limits[0],
        ceiling=limits[1],
    )
    points = [Point(one.round, value, _learning_tip(one)) for one, value in zip(rounds, finite, strict=True)]
    return line_chart(chart, points)


def _learning_tip(closed: RoundSummary) -> str:
    accuracy = say_known(closed.accuracy, say_ratio)
    loss = say_known(closed.loss, lambda value: f"{value:.4g}")
    return f"round {closed.round}, at {say_seconds(closed.closed_at)}\naccuracy {accuracy}\nloss {loss}"


def time_section(summary: Summary) -> Markup:
    """How learners spent the rounds: bars per phase, and a grid of when updates came."""
    closed = {one.round: one for one in summary.rounds}
    shown = shown_learners(summary)
    rows = [bar_row(learner, closed) for learner in shown]
    if len(shown) < len(summary.learners):
        rows.insert(0, _whole_fleet(summary, closed))
    note = f"thin line: earliest to latest update{of_all_learners(summary)}"
    use = Grid(
        name="use",
        caption="Use of the deadline per learner and round",
        note=f"per cent of the deadline when the update came; ! late, × none came or refused{of_all_learners(summary)}",
        description="Each row is a learner, each column a round; the table of learners has the means.",
        rows=[(printable(one.name), _use_cells(one, closed)) for one in shown],
        rounds=[one.round for one in summary.rounds],
    )
    return section(
        "Time against the deadline",
        _histogram(summary) if len(shown) < len(summary.learners) else None,
        draw_bars(rows, summary.rounds, note),
        draw_grid(use),
        about="How each learner spent its rounds. A good share ends just before the deadline.",
    )


def _histogram(summary: Summary) -> Markup | None:
    """How many learners use how much of the deadline, for a fleet too large to be shown one by one."""
    uses = [one.deadline_use for one in summary.learners if one.deadline_use is not None]
    counts = collections.Counter(min(int(100 * use / _BIN_PERCENT) * _BIN_PERCENT, _MAX_BIN_PERCENT) for use in uses)
    if not counts:
        return None
    bins = range(min(counts), max(counts) + 1, _BIN_PERCENT)
    chart = Chart(
        name="fleet",
        caption="Learners by their use of the deadline",
        note=f"mean of each of {len(uses):,} learners",
        description="; ".join(f"{low} to {low + _BIN_PERCENT} %: {counts[low]:,}" for low in bins),
        say=lambda value: f"{value:,.0f}",
        over=f"per cent of the deadline, from this to {_BIN_PERCENT} more",
    )
    tips = {low: f"{low} to {low + _BIN_PERCENT} %: {say_count(counts[low], 'learner')}" for low in bins}
    return column_chart(chart, [Point(low, float(counts[low]), tips[low], low >= 100) for low in bins])


def _whole_fleet(summary: Summary, closed: dict[int, RoundSummary]) -> BarRow:
    """The mean of all learners, for a fleet too large to be shown one by one."""
    by_round: dict[int, list[tuple[float, ...]]] = {}
    means, ranges, benchmarks = [], [], []
    for learner in summary.learners:
        row = bar_row(learner, closed)
        for number, stretches in row.rounds.items():
            by_round.setdefault(number, []).append(stretches)
        means += [row.mean] if row.mean else []
        ranges += [row.range] if row.range else []
        benchmarks += [row.benchmark_seconds] if row.benchmark_seconds is not None else []
    return BarRow(
        name=f"all {len(summary.learners):,}",
        rounds={number: mean for number, many in by_round.items() if (mean := mean_stretches(many)) is not None},
        mean=mean_stretches(means),
        benchmark_seconds=sum(benchmarks) / len(benchmarks) if benchmarks else None,
        range=(min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None,
    )


def _use_cells(learner: LearnerSummary, closed: dict[int, RoundSummary]) -> dict[int, Cell]:
    return {
        work.round: _use_cell(printable(learner.name), work, closed[work.round])
        for work in learner.rounds
        if work.round in closed
    }


def _use_cell(name: str, work: LearnerRound, closed: RoundSummary) -> Cell:
    start = f"{name}, round {work.round}: "
    if work.arrival_seconds is None:
        return Cell(shade=0.0, text="×", tip=start + "no update came", kind="bad")
    use = work.arrival_seconds / closed.deadline_seconds
    tip = f"{start}update after {say_seconds(work.arrival_seconds)}, {say_ratio(use)} of the deadline"
    if work.outcome == "accepted":
        halted = "; training was halted to be in time" if work.is_halted else ""
        return Cell(shade=use * use, text=f"{100 * use:.0f}", tip=tip + halted)
    sign = f"{100 * use:.0f}!" if work.outcome == "late" else "×"
    return Cell(shade=1.0, text=sign, tip=f"{tip}; {'too late' if sign != '×' else 'refused'}", kind="bad")


def allocation_section(summary: Summary) -> Markup:
    """How many shards each learner took in each round."""
    shown = shown_learners(summary)
    closed = {one.round for one in summary.rounds}
    most = max((work.num_shards for one in shown for work in one.rounds), default=0) or 1
    cells = [
        {
            work.round: Cell(
                shade=work.num_shards / most,
                text=f"{work.num_shards}",
                tip=f"{printable(one.name)}, round {work.round}: {say_count(work.num_shards, 'shard')}, "
                f"{say_count(work.local_epochs, 'local epoch')}, {say_count(work.num_samples, 'sample')}",
            )
            for work in one.rounds
            if work.round in closed
        }
        for one in shown
    ]
    total = sum(one.num_shards for one in summary.rounds)
    grid = Grid(
        name="shards",
        caption="Shards per learner and round",
        note=f"{say_count(total, 'shard')} in all{of_all_learners(summary)}",
        description="Each row is a learner, each column a round; the table of learners has the means.",
        rows=[(printable(one.name), row) for one, row in zip(shown, cells, strict=True)],
        rounds=[one.round for one in summary.rounds],
    )
    return section("Allocation", draw_grid(grid), about="How much work each learner took.")


def truancy_section(summary: Summary) -> Markup:
    """How far each round went beyond its deadline, or stayed below."""
    points = [
        Point(
            closed.round,
            closed.truancy,
            f"round {closed.round}: truancy {say_ratio(closed.truancy, signed=True)}\n"
            f"took {say_seconds(closed.seconds)} of {say_seconds(closed.deadline_seconds)}"
            + (f"\nlate: {say_names(closed.late)}" if closed.late else ""),
            is_bad=closed.truancy > 0,
        )
        for closed in summary.rounds
    ]
    assert summary.truancy_max is not None and summary.truancy_mean is not None
    most, mean = (say_ratio(ratio, signed=True) for ratio in (summary.truancy_max, summary.truancy_mean))
    chart = Chart(
        name="truancy",
        caption="Truancy per round",
        note=f"most {most}, mean {mean}",
        description=f"At most {most}, on average {mean}. Below zero all updates were in before the deadline.",
        say=lambda value: f"{100 * value:+.3g} %".replace("-", "−").replace("+0 ", "0 "),
    )
    about = "(last update − deadline) / deadline, updates that came too late included. Below the line is in time."
    return section("Truancy", column_chart(chart, points), about=about)
