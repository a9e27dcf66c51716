"""Measures what secure aggregation costs: `python benchmarks/secure_aggregation.py`.

Each case is a round of so many learners and parameters, in one process: each learner agrees with all others, masks its
update, and helps to unmask the sum; the orchestrator does so twice, when all updates came and when a third did not.
Beside it, the same updates are averaged as they are. Times of the processor, which other programs disturb less, are
beside those of the clock. A repeat takes about five minutes, most of them the largest case.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch

import commandline
from paceline.learning.averaging import RunningAverage
from paceline.learning.privacy import Masker, Unmasking
from repeats import Case, Measurements
from report import Page

T = TypeVar("T")

SIZES = {"40k": 40_000, "1M": 1_000_000, "10M": 10_000_000}
CASES = {f"{count} x {size}": (count, SIZES[size]) for size in SIZES for count in (10, 30, 100)}
PACKAGES = ("paceline", "numpy", "torch", "cryptography")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How often, and at which part of the size."""

    num_repeats: int = 3
    part_of_size: float = 1.0


QUICK = Settings(num_repeats=1, part_of_size=0.01)
"""A size for tests: shows that all of it runs."""


class Cost(NamedTuple):
    """What some work took, by the clock and by the processor."""

    seconds: float
    cpu_seconds: float


def case_of(name: str, settings: Settings) -> Case:
    """One number of learners and one size."""

    def case(repeat: int) -> dict[str, float]:
        count, size = CASES[name][0], round(CASES[name][1] * settings.part_of_size)
        return _measure([f"d{number:03d}" for number in range(count)], size, repeat)

    return case


def _measure(names: Sequence[str], size: int, seed: int) -> dict[str, float]:
    like = {"float32": torch.zeros(size)}
    change = {"float32": torch.randn(size, generator=torch.Generator().manual_seed(seed))}
    dropped = set(names[1::3][: len(names) // 3])
    maskers = {name: Masker(name) for name in names}
    keys = {name: masker.keys for name, masker in maskers.items()}
    agree_seconds: list[float] = []
    mask_costs: list[Cost] = []
    sealed: dict[str, dict[str, bytes]] = {}
    for name, masker in maskers.items():
        sealed[name], cost = _timed(lambda masker=masker: masker.seal(keys, 3))
        agree_seconds.append(cost.seconds)
    sent = sum(map(len, sealed[names[0]].values())) + len(keys[names[0]])
    plain, plain_seconds = RunningAverage(), 0.0
    commitments = {name: masker.commitment for name, masker in maskers.items()}
    whole, less = (Unmasking(keys, commitments, size) for _ in range(2))
    for number, (name, masker) in enumerate(maskers.items()):
        shares = {other: sealed[other][name] for other in names if other != name}
        _, cost = _timed(lambda masker=masker, shares=shares: masker.open(shares))
        agree_seconds[number] += cost.seconds
        mine = {"float32": change["float32"].roll(number)}
        masked, cost = _timed(lambda masker=masker, mine=mine: masker.mask(mine, 32))
        mask_costs.append(cost)
        whole.add(name, masked)
        if name not in dropped:
            less.add(name, masked)
        _, cost = _timed(lambda mine=mine: plain.add(mine, 32.0))
        plain_seconds += cost.seconds
    # A masker answers once; what it would answer in the other case is of the same size.
    held = {name: masker.reveal(names) for name, masker in maskers.items()}
    mean, cost_of_all = _timed(lambda: whole.finish(held, like, 32.0 * len(names)))
    error = float((mean["float32"] - plain.result(like)["float32"]).abs().max())
    again = {name: _with_keys(masker, dropped) for name, masker in maskers.items() if name not in dropped}
    _, cost_of_rest = _timed(lambda: less.finish(again, like, 32.0 * len(again)))
    return {
        "agree_ms": 1000 * statistics.median(agree_seconds),
        "mask_seconds": statistics.median(cost.seconds for cost in mask_costs),
        "mask_cpu_seconds": statistics.median(cost.cpu_seconds for cost in mask_costs),
        "plain_seconds": plain_seconds,
        "unmask_seconds": cost_of_all.seconds,
        "unmask_cpu_seconds": cost_of_all.cpu_seconds,
        "unmask_third_seconds": cost_of_rest.seconds,
        "unmask_third_cpu_seconds": cost_of_rest.cpu_seconds,
        "agreement_bytes": sent,
        "update_bytes": 8 * size,
        "error": error,
    }


def _with_keys(masker: Masker, dropped: set[str]) -> dict[str, bytes]:
    """What a learner reveals if these have dropped out."""
    return {name: shares[name not in dropped] for name, shares in masker._held.items()}


def _timed(work: Callable[[], T]) -> tuple[T, Cost]:
    start, cpu_start = time.perf_counter(), time.process_time()
    return work(), Cost(time.perf_counter() - start, time.process_time() - cpu_start)


def page_of(measurements: Measurements) -> Page:
    """The table: seconds at a learner and at the orchestrator, and bytes."""

    def row(name: str) -> list[str]:
        def of(metric: str) -> float:
            return measurements.median(name, metric) or 0.0

        return [
            name,
            f"{of('agree_ms'):.1f}",
            f"{of('mask_seconds'):.3f} ({of('mask_cpu_seconds'):.3f})",
            f"{of('plain_seconds'):.3f}",
            f"{of('unmask_seconds'):.2f} ({of('unmask_cpu_seconds'):.2f})",
            f"{of('unmask_third_seconds'):.2f} ({of('unmask_third_cpu_seconds'):.2f})",
            f"{of('agreement_bytes') / 1e3:.1f}",
            f"{of('update_bytes') / 1e6:.2f}",
            f"{of('error'):.1e}",
        ]

    return Page(
        setting="one round in one process, updates of normal values, all learners agree with all others; plain updates "
        "are half as large; in brackets, seconds of the processor",
        headings=[
            *("Learners x parameters", "learner agrees [ms]", "learner masks [s]", "plain mean of all [s]"),
            *("unmask, all came [s]", "unmask, a third left [s]", "keys and shares, per learner [kB]"),
            *("masked update [MB]", "largest difference from the plain mean"),
        ],
        rows=[row(name) for name in measurements.repeats],
    )


def cases_of(systems: Sequence[str], settings: Settings) -> dict[str, Case]:
    """Every number of learners and size."""
    return {name: case_of(name, settings) for name in systems}


if __name__ == "__main__":
    command = commandline.Command("secure_aggregation", __doc__, CASES, PACKAGES)
    command.run((Settings(), QUICK), commandline.interleaved(cases_of), page_of)
