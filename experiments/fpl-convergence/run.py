"""In how many epochs each scheme has learned what it can: when the validation loss is least."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from papers.fpl.accounts import case_of, cases
from papers.fpl.measures import best
from papers.fpl.playing import learning_rows
from papers.fpl.setting import AVERAGE_START, FPLS, GFLS, IMAGES, NAMES, SPLIT
from reproduction import About, Row
from reproduction.rows import where

ABOUT = About(
    figure="Malandrino and Chiasserini, Fig. 5",
    claim="Training with a junction (FPL) takes fewer epochs than its alternatives until the validation loss is least.",
    duration="50 minutes",
    num_seeds=3,
)
ALTERNATIVES = (IMAGES, SPLIT, *GFLS)


def run(seed: int, *, is_quick: bool) -> Iterator[Row]:
    """All schemes, each until its loss has not fallen for three epochs."""
    chosen = cases(seed, is_quick=is_quick)
    if seed == 0:
        chosen.append(case_of(AVERAGE_START, seed, is_quick=is_quick))
    for case in chosen:
        yield from learning_rows(case, is_kept=not is_quick)


def measures(rows: Sequence[Row]) -> dict[str, float]:
    """Epochs and steps until the loss is least, the loss there, and how many fewer epochs FPL takes than the others."""
    found: dict[str, float] = {}
    epochs: dict[str, int] = {}
    for scheme, name in NAMES.items():
        own = where(rows, scheme=scheme)
        if not own:
            continue  # of ours, some have one seed only
        least = best(own)
        epochs[scheme] = least["epoch"]
        found[f"{name}: epochs"] = least["epoch"]
        found[f"{name}: steps"] = sum(row["steps"] for row in own[: least["epoch"]])
        found[f"{name}: loss"] = least["loss"]
        found[f"{name}: accuracy"] = least["accuracy"]
    for scheme in FPLS:
        for other in ALTERNATIVES:
            found[f"{NAMES[other]}: epochs above {NAMES[scheme]}"] = epochs[other] - epochs[scheme]
    return found
