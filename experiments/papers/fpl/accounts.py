"""What schemes come to: a row of what each learned and how large it is, and rows of what its epochs take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from papers.fpl import costing, playing, setting
from papers.fpl.costing import cost_rows, num_parameters
from papers.fpl.measures import best
from papers.fpl.playing import learning_rows
from papers.fpl.setting import FEDAVG, PAPER_SCHEMES, Case, Size
from reproduction.keeping import kept
from reproduction.rows import Row

LEARN, QUICK_LEARN = Size(1024, 600, 30, 3), Size(64, 20, 2, None)
QUICK_DATA = "digits"  # of a tenth of the pixels, so that layers and junctions are smaller
SCHEMES = (*PAPER_SCHEMES, FEDAVG)
COUNTS, QUICK_COUNTS = (64, 256), (16, 32)

_COLUMNS = (
    "part",
    "scheme",
    "num_samples",
    "epoch",
    "loss",
    "accuracy",
    "joint_accuracy",
    "num_parameters",
    "num_junction",
    "seconds",
    "compute_seconds",
    "num_bytes",
    "cpu_seconds",
    "process_seconds",
)


def cases(seed: int, *, is_quick: bool) -> list[Case]:
    """All schemes that are trained with a seed."""
    return [case_of(scheme, seed, is_quick=is_quick) for scheme in SCHEMES]


def case_of(scheme: str, seed: int, *, is_quick: bool) -> Case:
    """A scheme, and what it is tried on."""
    return Case(scheme, QUICK_LEARN, seed, QUICK_DATA) if is_quick else Case(scheme, LEARN, seed)


def account_rows(seed: int, *, is_quick: bool) -> Iterator[Row]:
    """Of all schemes: what it learned until its loss was least, and what two epochs take with few samples and more."""
    for case in cases(seed, is_quick=is_quick):
        yield _trained_row(case, learning_rows(case, is_kept=not is_quick))
        for row in _cost_rows(case, is_quick=is_quick):
            yield _row(part="costs", **row)


def _cost_rows(case: Case, *, is_quick: bool) -> list[Row]:
    """They are kept, as those of training are."""
    if is_quick:
        return list(cost_rows(case, QUICK_COUNTS))
    files = (setting.__file__, playing.__file__, costing.__file__)
    return kept(("fpl costs", tuple(case), COUNTS), files, lambda: list(cost_rows(case, COUNTS)))


def _trained_row(case: Case, rows: Sequence[Row]) -> Row:
    found, sizes = best(rows), num_parameters(case)
    return _row(
        part="trained",
        scheme=case.scheme,
        num_samples=case.size.num_samples,
        epoch=found["epoch"],
        loss=found["loss"],
        accuracy=found["accuracy"],
        joint_accuracy=rows[-1]["joint_accuracy"],
        num_parameters=sizes["all"],
        num_junction=sizes["junction"],
    )


def _row(**cells: Any) -> Row:
    return {column: cells.get(column) for column in _COLUMNS}
