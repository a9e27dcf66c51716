"""Figures of the rows: means over jobs, how schemes differ, and how much of the gap our variant closes."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from papers.med.setting import SCHEMES
from reproduction.rows import Row, by_seed, where

COLUMNS = {
    "seconds": "time",
    "satisfaction": "satisfaction",
    "fulfilment": "fulfilment",
    "drop": "drop rate",
    "occupancy": "occupancy",
}
"""The five measures of the thesis: their columns, and how they are called."""

IDEAL, OURS = "mmtt-ideal", "med-held-back"
GOAL = 0.5  # of the gap between MED and the ideal scheme, that our variant is to close
_NUM_DRAWS = 10_000  # of the bootstrap


def med_above(other: str, **sizes: int) -> list[tuple[str, str, str, int]]:
    """List differences between MED and another scheme, each at a size: what `Averages.differences` is asked for."""
    return [(column, "med", other, size) for column, size in sizes.items()]


class Averages:
    """The rows of one seed that tell times, averaged over jobs.

    Args:
        over: the column that is varied, "learners" or "jobs".

    Attributes:
        sizes: that were tried.
    """

    def __init__(self, rows: Sequence[Row], over: str) -> None:
        self._rows = where(rows, part="time")
        self._over = over
        self.sizes = sorted({row[over] for row in self._rows})

    def of(self, scheme: str, column: str, size: int) -> float:
        """The mean over jobs."""
        return statistics.fmean(row[column] for row in where(self._rows, scheme=scheme, **{self._over: size}))

    def rows(self) -> list[Row]:
        """The same, a row per size and scheme."""
        return [
            {self._over: size, "scheme": scheme, **{column: self.of(scheme, column, size) for column in COLUMNS}}
            for size in self.sizes
            for scheme in SCHEMES
        ]

    def size_in_words(self, size: int) -> str:
        """Write a size in words, like "4 learners"."""
        return f"{size} {self._over if size != 1 else self._over[:-1]}"

    def levels(self, wanted: Iterable[tuple[str, str, int]]) -> dict[str, float]:
        """Means, of schemes, columns and sizes; those of sizes that were not tried are left out."""
        return {
            f"{scheme}: {COLUMNS[column]}, {self.size_in_words(size)}": self.of(scheme, column, size)
            for scheme, column, size in wanted
            if size in self.sizes
        }

    def differences(self, wanted: Iterable[tuple[str, str, str, int]]) -> dict[str, float]:
        """Of columns, how far a scheme is above another at a size: of times in percent, else in points."""
        found = {}
        for column, scheme, other, size in wanted:
            if size in self.sizes:
                one, two = self.of(scheme, column, size), self.of(other, column, size)
                value = 100 * (one / two - 1) if column == "seconds" else one - two
                found[f"{COLUMNS[column]}, {scheme} above {other}, {self.size_in_words(size)}"] = value
        return found

    def drop_between(self, other: str, least: float, most: float, size: int) -> dict[str, float]:
        """Whether MED drops `least` to `most` times what another scheme drops, as two figures, both above 0 if so.

        A ratio would not do: many trials drop nothing. Those that do not, in either scheme, say nothing, and are left
        out.
        """
        if size not in self.sizes:
            return {}
        med, theirs = self.of("med", "drop", size), self.of(other, "drop", size)
        if not med and not theirs:
            return {}
        return {
            f"drop rate, med above {least:g} times {other}, {self.size_in_words(size)}": med - least * theirs,
            f"drop rate, med below {most:g} times {other}, {self.size_in_words(size)}": most * theirs - med,
        }

    def trends(self, columns: Iterable[str], few: int, many: int) -> dict[str, float]:
        """How far MED is, at a larger size, above itself at a smaller one; nothing if one was not tried."""
        if not {few, many} <= set(self.sizes):
            return {}
        return {
            f"med: {COLUMNS[column]}, {self.size_in_words(many)} above {few}": self.of("med", column, many)
            - self.of("med", column, few)
            for column in columns
        }

    def gaps(self) -> dict[int, Gap]:
        """By size."""
        return {
            size: Gap(
                seconds=self.of("med", "seconds", size) - self.of(IDEAL, "seconds", size),
                closed_seconds=self.of("med", "seconds", size) - self.of(OURS, "seconds", size),
            )
            for size in self.sizes
        }

    def goals(self) -> dict[str, float]:
        """Whether our variant closes half of the gap: over all sizes, and at each by the seconds beyond half of it."""
        gaps = self.gaps()
        found = {
            f"time closed beyond half of the gap, {self.size_in_words(size)}": gap.closed_seconds - GOAL * gap.seconds
            for size, gap in gaps.items()
        }
        whole = sum(gap.seconds for gap in gaps.values())
        found["share of the gap closed, all sizes"] = 100 * sum(gap.closed_seconds for gap in gaps.values()) / whole
        return found


class Gap(NamedTuple):
    """How much longer MED takes than the ideal scheme, and than our variant."""

    seconds: float
    closed_seconds: float


class Share(NamedTuple):
    """A share of the gap in percent, and its 95 % interval by the bootstrap over seeds; `size` is None for all."""

    size: int | None
    percent: float
    low: float
    high: float


def shares_closed(rows: Sequence[Row], over: str) -> list[Share]:
    """How much of the gap our variant closes, at each size and at all: ratios of means, as some seeds have no gap."""
    gaps = [Averages(own, over).gaps() for own in by_seed(rows).values()]
    chance = np.random.default_rng(0)
    draws = chance.integers(len(gaps), size=(_NUM_DRAWS, len(gaps)))
    shares = []
    for size in (*gaps[0], None):
        own = np.array([np.sum([gap for at, gap in seed.items() if size in (at, None)], axis=0) for seed in gaps])
        whole, closed = own.T
        drawn = 100 * closed[draws].mean(1) / whole[draws].mean(1)
        low, high = np.quantile(drawn, (0.025, 0.975))
        shares.append(Share(size, float(100 * closed.mean() / whole.mean()), float(low), float(high)))
    return shares


def checks(rows: Sequence[Row]) -> dict[str, float]:
    """What has to be 0 for the comparison to be fair: updates that were lost, and allocations not proven to be best."""
    return {
        "updates that came too late": sum(row["late"] for row in rows),
        "allocations not proven best": sum(row["unproven"] for row in rows),
    }


def learned(rows: Sequence[Row]) -> dict[str, float]:
    """What was learned, by scheme and job, and what our variant costs of it; nothing if this seed was not trained."""
    own = where(rows, part="learning")
    if not own:
        return {}
    accuracy = {(row["scheme"], row["job"]): row["accuracy"] for row in own}
    jobs = list(dict.fromkeys(row["job"] for row in own))
    found = {f"{scheme}: accuracy, {job}": value for (scheme, job), value in accuracy.items()}
    lost = [accuracy["med", job] - accuracy[OURS, job] for job in jobs]
    found[f"accuracy, med above {OURS}, mean of jobs"] = statistics.fmean(lost)
    found["seconds of rounds, with gradients apart from without"] = max(row["apart"] for row in own)
    return found
