"""The page of results in the documentation, made of what full runs left beside the experiments.

``python -m reproduction.page docs`` writes ``docs/results.md`` and the figures that it shows.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from reproduction import wording
from reproduction.experiments import Experiment, find_experiments, load_experiment
from reproduction.rows import read_rows
from reproduction.running import FIGURE, ROWS, judge_rows, read_made

PAGE, FIGURES = "results.md", "results"

_INTRODUCTION = """\
# Results

Figures of the papers that Paceline builds on, made again. Each number that a paper gives has limits that count as
reproduced, set in the experiment's `expected.csv`. The answer is *yes* if the 95 % interval of our mean over seeds
(Student's t) lies within them, *no* if it lies outside, *unclear* if it lies across. [Reproduce a
figure](how-to/reproduce-a-figure.md) says how to run one. This page is made by `make results-page` from
`experiments/*/results`.
"""


def render(experiments: list[Experiment]) -> dict[str, str]:
    """Render the page and its figures: contents by path below the documentation's folder."""
    kept = [experiment for experiment in experiments if (experiment.results / ROWS).is_file()]
    files = {PAGE: "\n".join([_INTRODUCTION, *map(_section, kept), *_missing(experiments, kept)])}
    for experiment in kept:
        files[f"{FIGURES}/{experiment.name}.svg"] = (experiment.results / FIGURE).read_text(encoding="utf-8")
    return files


def _section(experiment: Experiment) -> str:
    about, made = experiment.about, read_made(experiment.results)
    verdicts = judge_rows(experiment, read_rows(experiment.results / ROWS))
    return f"""\
## {experiment.name}

{about.figure}: {about.claim}

![{about.figure}, as made here]({FIGURES}/{experiment.name}.svg)

{wording.tally(verdicts)}. {_making(made)} Setup and differences: `experiments/{experiment.name}/README.md`.

{wording.markdown(verdicts)}"""


def _making(made: dict[str, Any]) -> str:
    versions = made["versions"]
    return (
        f"{made['num_seeds']} seeds, {made['seconds']:,.0f} s on {made['num_cores']} cores ({made['cpu']}), "
        f"{made['date']}, Paceline {versions['paceline']}, Python {versions['python']}, PyTorch {versions['torch']}."
    )


def _missing(experiments: list[Experiment], kept: list[Experiment]) -> list[str]:
    names = [f"`{experiment.name}`" for experiment in experiments if experiment not in kept]
    return [f"Not run in full yet: {', '.join(names)}.\n"] if names else []


def main(docs: Path) -> None:
    """Write the page and its figures into the folder of the documentation."""
    experiments = [load_experiment(name) for name in find_experiments()]
    (docs / FIGURES).mkdir(exist_ok=True)
    for name, text in render(experiments).items():
        (docs / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
