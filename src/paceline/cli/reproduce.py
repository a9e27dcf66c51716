"""``paceline reproduce``: a paper's figure, made again."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from paceline.cli.options import ResultAsJson, flag, option
from paceline.errors import ConfigError
from paceline.reproduction import (
    About,
    Experiment,
    Outcome,
    find_experiments,
    load_experiment,
    read_about,
    redraw,
    wording,
)
from paceline.reproduction import reproduce as run_experiment

_STYLES = {"yes": "green", "no": "red", "unclear": "yellow"}


def reproduce(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name of the experiment.")] = None,
    list_all: Annotated[bool, flag("--list", "List the experiments.")] = False,
    quick: Annotated[bool, flag("--quick", "Make a small run, as a trial.")] = False,
    seeds: Annotated[int | None, option("N", "Number of seeds; by default the experiment's.", min=1)] = None,
    only_redraw: Annotated[bool, flag("--redraw", "Draw and judge existing results; run nothing.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="DIR", help="Folder for results.")] = None,
    experiments: Annotated[Path | None, option("DIR", "Folder of all experiments.")] = None,
    as_json: ResultAsJson = False,
) -> None:
    """Reproduce a figure of a paper and check it against the paper.

    Results of a full run are kept beside the experiment; those of a quick one in runs/reproduce.

    Example: paceline reproduce mel-staleness --quick
    """
    if (name is None) != list_all:
        raise ConfigError("give either the name of an experiment, or --list to list them")
    if name is None:
        _list({name: read_about(folder) for name, folder in find_experiments(experiments).items()}, as_json=as_json)
        return
    experiment = load_experiment(name, experiments)
    if only_redraw:
        outcome = redraw(experiment, output=output)
    else:
        about = experiment.about
        num_seeds = seeds or (about.num_quick_seeds if quick else about.num_seeds)
        with _progress(name, num_seeds) as watch:
            outcome = run_experiment(experiment, output=output, is_quick=quick, num_seeds=num_seeds, watch=watch)
    if as_json:
        print(json.dumps(outcome.described()))
    else:
        _print(experiment, outcome)


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
