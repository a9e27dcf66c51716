"""Runs an experiment and keeps what it gave: rows, figure, verdicts, and what it was made with."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.errors import ConfigError
from reproduction import wording
from reproduction.experiments import Experiment
from reproduction.machine import describe_machine
from reproduction.rows import SEED, Row, by_seed, read_rows, write_rows
from reproduction.verdicts import Verdict, judge

ROWS, FIGURE, VERDICTS, TABLE, MADE = "results.csv", "figure.svg", "verdict.csv", "verdict.md", "made.json"
QUICK_RESULTS = Path("runs") / "reproduce"
"""Default folder of quick runs; only full runs are kept beside an experiment."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Results of a run of an experiment.

    Attributes:
        output: the folder with all of it.
        made: size, seeds, duration, date, machine and versions.
    """

    experiment: str
    output: Path
    num_rows: int
    verdicts: Sequence[Verdict]
    made: dict[str, Any]

    def described(self) -> dict[str, Any]:
        """Return the outcome as plain data."""
        return {
            "experiment": self.experiment,
            "output": str(self.output),
            "rows": self.num_rows,
            **self.made,
            "verdicts": [wording.as_data(verdict) for verdict in self.verdicts],
        }


def reproduce(
    experiment: Experiment,
    *,
    output: Path | str | None = None,
    is_quick: bool = False,
    num_seeds: int | None = None,
    watch: Callable[[int, int], None] = lambda seed, num_rows: None,
) -> Outcome:
    """Run an experiment, draw its figure and judge it; blocks until all is done.

    Args:
        output: where everything goes; by default beside the experiment, or in ``runs/reproduce`` if quick.
        num_seeds: how many seeds, from 0 on; by default as many as the experiment says.
        watch: called for each row with its seed and the number of rows so far.
    """
    about = experiment.about
    count = num_seeds or (about.num_quick_seeds if is_quick else about.num_seeds)
    target = Path(output or (QUICK_RESULTS / experiment.name if is_quick else experiment.results))

    def rows() -> Iterator[Row]:
        for seed in range(count):
            for row in experiment.run(seed, is_quick=is_quick):
                yield {SEED: seed, **row}

    start = time.perf_counter()
    with _Filling(target) as folder:
        for number, row in enumerate(write_rows(folder / ROWS, rows()), 1):
            watch(row[SEED], number)
        made = {
            "is_quick": is_quick,
            "num_seeds": count,
            "seconds": round(time.perf_counter() - start, 1),
            **describe_machine(),
        }
        return _conclude(experiment, folder, target, made)


def redraw(experiment: Experiment, *, output: Path | str | None = None) -> Outcome:
    """Draw and judge anew the rows that an earlier run left in `output`; runs nothing."""
    target = Path(output or experiment.results)
    rows = target / ROWS
    if not rows.is_file():
        raise ConfigError(f"{rows}: no such file; run the experiment first: paceline reproduce {experiment.name}")
    made = read_made(target)
    with _Filling(target) as folder:
        (folder / ROWS).write_bytes(rows.read_bytes())
        return _conclude(experiment, folder, target, made)


def judge_rows(experiment: Experiment, rows: Sequence[Row]) -> list[Verdict]:
    """Judge rows of all seeds."""
    return judge(experiment.expectations, [experiment.measures(own) for own in by_seed(rows).values()])


def read_made(folder: Path) -> dict[str, Any]:
    """Read what the results in a folder were made with."""
    try:
        made: dict[str, Any] = json.loads((folder / MADE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{folder / MADE}: cannot be read: {error}") from error
    return made


def _conclude(experiment: Experiment, folder: Path, target: Path, made: dict[str, Any]) -> Outcome:
    from reproduction import style  # matplotlib takes long to load

    rows = read_rows(folder / ROWS)
    verdicts = judge_rows(experiment, rows)
    with style.applied():
        style.save(experiment.plot(rows), folder / FIGURE)
    (folder / VERDICTS).write_text(wording.as_csv(verdicts), encoding="utf-8")
    heading = f"{wording.tally(verdicts)}{' (quick run)' if made['is_quick'] else ''}.\n\n"
    (folder / TABLE).write_text(heading + wording.markdown(verdicts), encoding="utf-8")
    (folder / MADE).write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    return Outcome(experiment=experiment.name, output=target, num_rows=len(rows), verdicts=verdicts, made=made)


class _Filling:
    """A folder beside `target` that is filled, and then takes its place; one that fails stays as it is."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._folder = target.with_name(target.name + ".new")

    def __enter__(self) -> Path:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{self._target}: results cannot be kept there: {error.strerror}") from error
        return self._folder

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            return
        try:
            self._target.mkdir(exist_ok=True)
            for path in self._folder.iterdir():
                os.replace(path, self._target / path.name)
            self._folder.rmdir()
        except OSError as error:
            raise ConfigError(f"{self._target}: results cannot be kept there: {error.strerror}") from error
