"""How small a junction may be, and how few bits may be sent, before accuracy is lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from papers.fpl.variants import FULL, FULL_SIZE, LEAN, QUICK_SIZE, VARIANTS, learned, num_junction, prepared
from reproduction import About, Row
from reproduction.rows import where

ABOUT = About(
    figure="beyond Malandrino and Chiasserini, Fig. 6",
    claim="A junction of low rank and values of 4 bits learn as well as a full junction and 32 bits.",
    duration="30 minutes",
    num_seeds=2,
)
QUICK_VARIANTS = (FULL, LEAN)
LAST = 3  # epochs, whose mean accuracy counts: single ones vary


def run(seed: int, *, is_quick: bool) -> Iterator[Row]:
    """Each variant, with as many epochs."""
    size = QUICK_SIZE if is_quick else FULL_SIZE
    for name in QUICK_VARIANTS if is_quick else VARIANTS:
        rules = VARIANTS[name]
        junction = num_junction(prepared(rules, size, seed))
        for row in learned(rules, size, seed, is_kept=not is_quick):
            yield {"variant": name, "num_junction": junction, **row}


def measures(rows: Sequence[Row]) -> dict[str, float]:
    """Accuracy, and what each variant loses of it, has fewer parameters and sends fewer bytes than the full one."""
    found: dict[str, float] = {}
    full = where(rows, variant=FULL)
    for name in dict.fromkeys(row["variant"] for row in rows):
        own = where(rows, variant=name)
        found[f"{name}: accuracy"] = _accuracy(own)
        if name != FULL:
            found[f"{name}: accuracy lost"] = _accuracy(full) - _accuracy(own)
            found[f"{name}: junction, times smaller"] = full[0]["num_junction"] / own[0]["num_junction"]
            found[f"{name}: bytes, times fewer"] = full[-1]["num_bytes"] / own[-1]["num_bytes"]
    return found


def _accuracy(rows: Sequence[Row]) -> float:
    last = rows[-LAST:]
    return float(sum(row["accuracy"] for row in last) / len(last))
