"""Experiments: folders with a README, what to run, what to draw and what to expect.

``experiments/<name>/`` holds

- ``README.md``: the paper's claim and figure, the setup, the duration, the result and where it differs.
- ``run.py``: ``ABOUT``, an `About` of plain values; ``run(seed, *, is_quick)``, which yields the rows of one seed; and
  ``measures(rows)``, which makes of one seed's rows the figures to compare with the paper, by name. It leaves out those
  that do not apply.
- ``plot.py``: ``plot(rows)``, a matplotlib figure of the rows of all seeds, as they are read from the CSV file.
- ``expected.csv``: the paper's figures, by the names of the measures, and what counts as reproduced.
- ``results/``: what the last full run gave. Written by `reproduce`.

What several experiments of one paper share is in packages beside them, as ``experiments/papers/``: while an experiment
is loaded, and afterwards, they can be imported by their names.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

import paceline
from paceline.errors import ConfigError
from paceline.spelling import suggest
from reproduction.rows import Row
from reproduction.verdicts import Expectation, read_expectations

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = "experiments"
FILES = ("README.md", "run.py", "plot.py", "expected.csv")


@dataclass(frozen=True, kw_only=True)
class About:
    """Description of an experiment.

    Attributes:
        figure: the paper and its figure, like "Mohammad and Sorour, Fig. 2".
        claim: what the figure shows, in one sentence.
        duration: how long a full run takes, in words, like "2 minutes".
        num_seeds: seeds of a full run.
        num_quick_seeds: seeds of a quick run.
    """

    figure: str
    claim: str
    duration: str
    num_seeds: int = 10
    num_quick_seeds: int = 1


class Run(Protocol):
    """An experiment's `run`: yields the rows of one seed."""

    def __call__(self, seed: int, *, is_quick: bool) -> Iterable[Row]: ...


class Measures(Protocol):
    """An experiment's `measures`: figures of one seed, by name."""

    def __call__(self, rows: Sequence[Row]) -> Mapping[str, float]: ...


class Plot(Protocol):
    """An experiment's `plot`: the figure of all rows."""

    def __call__(self, rows: Sequence[Row]) -> Figure: ...


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """An experiment, loaded."""

    folder: Path
    about: About
    run: Run
    measures: Measures
    plot: Plot
    expectations: Sequence[Expectation]

    @property
    def name(self) -> str:
        """Name of the experiment's folder."""
        return self.folder.name

    @property
    def results(self) -> Path:
        """Folder where the results of a full run are kept."""
        return self.folder / "results"


def find_experiments(folder: Path | None = None) -> dict[str, Path]:
    """Find the folders of all experiments, by name, in order.

    Args:
        folder: where they are; by default ``experiments`` in the current folder or the nearest above it that has some,
            or else beside the source that Paceline is installed from.
    """
    if folder is not None:
        if found := _experiments_in(folder):
            return found
        raise ConfigError(f"{folder}: no experiments there: folders that have {', '.join(FILES)}")
    current = Path.cwd()
    source = Path(paceline.__file__).parents[2]
    for parent in (current, *current.parents, source):
        if found := _experiments_in(parent / FOLDER):
            return found
    raise ConfigError(
        f"no folder {FOLDER!r} here or above: experiments come with a checkout of Paceline, not with the package; "
        "go there, or name the folder with --experiments"
    )


def load_experiment(name: str, folder: Path | None = None) -> Experiment:
    """Load the experiment of this name; `folder` as in `find_experiments`."""
    found = find_experiments(folder)
    if name not in found:
        raise ConfigError(f"there is no experiment {name!r}; {suggest(name, found)}")
    path = found[name]
    run, plot = _load(path / "run.py"), _load(path / "plot.py")
    return Experiment(
        folder=path,
        about=_attribute(run, "ABOUT"),
        run=_attribute(run, "run"),
        measures=_attribute(run, "measures"),
        plot=_attribute(plot, "plot"),
        expectations=read_expectations(path / "expected.csv"),
    )


def read_about(folder: Path) -> About:
    """Describe the experiment in a folder without loading its code, so that no extra package is needed.

    Raises `ConfigError` unless ``ABOUT`` is an `About` of plain values.
    """
    path = folder / "run.py"
    for statement in ast.parse(path.read_text(encoding="utf-8"), str(path)).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="ABOUT")], value=ast.Call(args=[], keywords=fields)):
                try:
                    return About(**{str(field.arg): ast.literal_eval(field.value) for field in fields})
                except (ValueError, TypeError) as error:
                    raise ConfigError(f"{path}: ABOUT cannot be read: {error}; use plain values") from error
    raise ConfigError(f"{path}: has no 'ABOUT'; an experiment's files are described in {__name__}")


def _experiments_in(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        return {}
    return {path.name: path for path in sorted(folder.iterdir()) if all((path / name).is_file() for name in FILES)}


def _load(path: Path) -> ModuleType:
    """Load the module in a file, which may have any name and import packages beside the experiment."""
    shared = str(path.parents[1].resolve())
    if shared not in sys.path:
        sys.path.append(shared)
    name = f"paceline_experiment_{path.parent.name.replace('-', '_')}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{path}: {error}; what experiments need is installed by pip install 'paceline[experiments]'"
        ) from error
    return module


def _attribute(module: ModuleType, name: str) -> Any:
    if not hasattr(module, name):
        raise ConfigError(f"{module.__file__}: has no {name!r}; an experiment's files are described in {__name__}")
    return getattr(module, name)
