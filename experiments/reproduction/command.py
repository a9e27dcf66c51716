"""What ``paceline reproduce`` does: runs an experiment with a bar, and prints what came of it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from reproduction import wording
from reproduction.experiments import About, Experiment, find_experiments, load_experiment, read_about
from reproduction.running import Outcome, redraw, reproduce

_STYLES = {"yes": "green", "no": "red", "unclear": "yellow"}


def run(
    name: str,
    experiments: Path | None,
    output: Path | None,
    *,
    is_quick: bool,
    num_seeds: int | None,
    only_redraw: bool,
    as_json: bool,
) -> None:
    """Run an experiment, or draw and judge the rows that it has, and print the verdicts."""
    experiment = load_experiment(name, experiments)
    if only_redraw:
        outcome = redraw(experiment, output=output)
    else:
        about = experiment.about
        count = num_seeds or (about.num_quick_seeds if is_quick else about.num_seeds)
        with _progress(name, count) as watch:
            outcome = reproduce(experiment, output=output, is_quick=is_quick, num_seeds=count, watch=watch)
    if as_json:
        print(json.dumps(outcome.described()))
    else:
        _print(experiment, outcome)


def list_all(experiments: Path | None, *, as_json: bool) -> None:
    """Print which experiments there are."""
    _list({name: read_about(folder) for name, folder in find_experiments(experiments).items()}, as_json=as_json)


@contextlib.contextmanager
def _progress(name: str, num_seeds: int) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error; on anything but a terminal, only its end."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[rows]} rows"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task(f"{name}: seed 1 of {num_seeds}", total=num_seeds, rows=0)

        def watch(seed: int, num_rows: int) -> None:
            description = f"{name}: seed {seed + 1} of {num_seeds}"
            progress.update(bar, completed=seed, description=description, rows=num_rows)

        yield watch
        progress.update(bar, completed=num_seeds)


def _list(experiments: Mapping[str, About], *, as_json: bool) -> None:
    rows = [
        {"name": name, "figure": about.figure, "claim": about.claim, "duration": about.duration}
        for name, about in experiments.items()
    ]
    if as_json:
        print(json.dumps(rows))
        return
    table = Table("name", "figure", "claim", "full run")
    table.columns[0].no_wrap = True
    for row in rows:
        table.add_row(*map(escape, row.values()))
    Console().print(table)


def _print(experiment: Experiment, outcome: Outcome) -> None:
    size = "quick run, " if outcome.made["is_quick"] else ""
    title = f"{experiment.about.figure} ({size}{outcome.made['num_seeds']} seeds)"
    table = Table(*wording.HEADINGS, title=escape(title))
    for verdict in outcome.verdicts:
        table.add_row(*map(escape, wording.cells(verdict)), style=_STYLES.get(verdict.answer, ""))
    console = Console()
    console.print(table)
    console.print(wording.tally(outcome.verdicts), highlight=False)
    console.print(f"results  {outcome.output}", highlight=False, soft_wrap=True, markup=False)
