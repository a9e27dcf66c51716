"""Multiple-choice knapsack: one option per group, so that the gains suffice and the sum of drops is minimal.

Drops are local epochs given up, small whole numbers, while gains (samples) may be large. That makes it quick to solve
exactly, in three steps.

1. With a price of λ drops per gain, each group takes the option of the least drop − λ·gain by itself. The best λ gives
   a bound on the sum of drops, and two choices of equal Lagrangian cost, one short of the gains and one not. Going over
   from the first to the second group by group, until the gains suffice, gives the base: a cover.
2. The base is improved by whatever single option still leaves enough. If the bound rounds up to it, it is the best.
3. Otherwise a better cover is searched by dynamic programming over the sum of drops, which keeps for each sum the
   largest gains. Two facts keep it small. An option whose reduced cost (what it costs more than its group's best, at
   price λ) exceeds the gap between bound and best known cover is in no better one. And some best cover differs from the
   base in at most n = |E| + 2·S groups, where S is the largest change of an option's drop from its group's base and |E|
   how far the bound is below the base: if there were more, the changes could be ordered so that two of their partial
   sums were equal, and the groups between them, put back to the base, would change no drop and lose no gain. So only
   the n options of least reduced cost are needed of all that change the drop alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paceline.allocation.csa.steps import Counts, total_of

MAX_STEPS = 5_000_000
"""Limit of sums in the dynamic program, half a second; the best found by then is still a cover."""

_STEPS_OF_A_GROUP = 500  # overhead of a group

Indices = npt.NDArray[np.intp]
Costs = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Options:
    """The options of all groups in one row, by group, and within it by rising drop and gain.

    Attributes:
        starts: start of each group; its first option drops and gains nothing.
        drops: drop of each option, up to about 10¹⁵.
        gains: gain of each option.
    """

    starts: Indices
    drops: Counts
    gains: Counts

    @property
    def groups(self) -> Indices:
        """Group of each option."""
        sizes = np.diff(np.append(self.starts, len(self.drops)))
        return np.repeat(np.arange(len(self.starts)), sizes)


@dataclass(frozen=True, kw_only=True, eq=False)
class Cover:
    """Chosen option of each group, as an index into all; `is_best` if proven to have the least drop."""

    chosen: Indices
    is_best: bool


def cheapest_cover(options: Options, needed: int, *, max_steps: int = MAX_STEPS) -> Cover:
    """Find the cover of the least sum of drops. The groups' last options together must gain what is needed."""
    if needed <= 0:
        return Cover(chosen=options.starts, is_best=True)
    groups = options.groups
    base, price = _base(options, groups, needed)
    costs = options.drops - price * options.gains
    least = np.minimum.reduceat(costs, options.starts)
    # of the sums of many floats; a thousand times what their rounding can be
    error = 1e-12 * (1.0 + float(np.abs(least).sum()) + price * needed)
    bound = float(least.sum()) + price * needed - error
    best = _improve(options, groups, base, needed)
    if total_of(options.drops[best]) - 1 < bound:
        return Cover(chosen=best, is_best=True)
    search = _Search(options=options, base=base, price=price, bound=bound, reduced=costs - least[groups])
    return search.run(groups, best, needed, max_steps)


def _base(options: Options, groups: Indices, needed: int) -> tuple[Indices, float]:
    """Find a cover whose options all have the least cost at a price, and the price, which gives the best bound."""
    short, enough = options.starts, np.append(options.starts[1:], len(options.drops)) - 1
    while True:
        price = (total_of(options.drops[enough]) - total_of(options.drops[short])) / (
            total_of(options.gains[enough]) - total_of(options.gains[short])
        )
        costs = options.drops - price * options.gains
        least = np.minimum.reduceat(costs, options.starts)
        line = float(costs[short].sum())
        if least.sum() >= line - 1e-12 * (1.0 + abs(line) + float(np.abs(least).sum())):
            break
        # the first of each group's cheapest
        cheapest = np.flatnonzero(costs == least[groups])
        found = cheapest[np.unique(groups[cheapest], return_index=True)[1]]
        if total_of(options.gains[found]) >= needed:
            enough = found
        else:
            short = found
    low, high = np.minimum(short, enough), np.maximum(short, enough)
    missing = needed - total_of(options.gains[low])
    steps = np.minimum(options.gains[high] - options.gains[low], missing)
    # what overflows does so after the sum has reached what is missing
    num_raised = int(np.argmax(np.cumsum(steps) >= missing)) + 1
    return np.where(np.arange(len(low)) < num_raised, high, low), price


def _improve(options: Options, groups: Indices, base: Indices, needed: int) -> Indices:
    """Lower the drop of one group after the other, the best first, as long as the gains suffice."""
    chosen: Indices = base.copy()
    excess = total_of(options.gains[chosen]) - needed
    while True:
        now = chosen[groups]
        saved = np.where(options.gains[now] - options.gains <= excess, options.drops[now] - options.drops, 0)
        best = int(np.argmax(saved))
        if saved[best] <= 0:
            return chosen
        excess -= int(options.gains[chosen[groups[best]]] - options.gains[best])
        chosen[groups[best]] = best


@dataclass(frozen=True, kw_only=True, eq=False)
class _Search:
    """Search for a cover of less drop than the best known."""

    options: Options
    base: Indices
    price: float
    bound: float
    reduced: Costs

    def run(self, groups: Indices, best: Indices, needed: int, max_steps: int) -> Cover:
        """Run the dynamic program over sums of drop and gain, both relative to the base."""
        base_drop = total_of(self.options.drops[self.base])
        best_drop = total_of(self.options.drops[best]) - base_drop
        least_gain = needed - total_of(self.options.gains[self.base])
        drops, gains = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        stages: list[tuple[Indices, Indices]] = []
        num_steps, is_best = 0, True
        gap = base_drop + best_drop - 1 - self.bound
        for group in self._core(groups, self.reduced <= gap):
            if self.reduced[group].min() > gap:  # and so are all that follow
                break
            num_steps += len(drops) * (1 + len(group)) + _STEPS_OF_A_GROUP
            if num_steps > max_steps:
                is_best = False
                break
            own = self.base[groups[group[0]]]
            choices = np.append(own, group)
            all_drops = (drops[:, None] + (self.options.drops[choices] - self.options.drops[own])).ravel()
            all_gains = (gains[:, None] + (self.options.gains[choices] - self.options.gains[own])).ravel()
            kept = self._promising(all_drops, all_gains, gap)
            stages.append((kept // len(choices), choices[kept % len(choices)]))
            drops, gains = all_drops[kept], all_gains[kept]
            covers = np.flatnonzero(gains >= least_gain)
            # by rising drop, so the first cover is the best
            if covers.size and drops[covers[0]] < best_drop:
                best_drop = int(drops[covers[0]])
                best = self._trace(groups, stages, int(covers[0]))
                gap = base_drop + best_drop - 1 - self.bound
        return Cover(chosen=best, is_best=is_best)

    def _core(self, groups: Indices, is_near: npt.NDArray[np.bool_]) -> list[Indices]:
        """Return the promising options by group, the groups with the least reduced cost first."""
        is_near = is_near.copy()
        is_near[self.base] = False
        near = np.flatnonzero(is_near)
        if not near.size:
            return []
        changes = self.options.drops[near] - self.options.drops[self.base[groups[near]]]
        below = total_of(self.options.drops[self.base]) - math.ceil(self.bound)
        num_changed = below + 2 * int(np.abs(changes).max())
        order = np.lexsort((self.reduced[near], changes))
        changes, near = changes[order], near[order]
        firsts = np.searchsorted(changes, changes)
        near = near[np.arange(len(near)) - firsts < num_changed]
        near = near[np.lexsort((near, groups[near]))]
        split = np.split(near, np.flatnonzero(np.diff(groups[near])) + 1)
        return sorted(split, key=lambda group: float(self.reduced[group].min()))

    def _promising(self, drops: Counts, gains: Counts, gap: float) -> Indices:
        """Return the sums to keep, by rising drop: those within the gap, with more gain than any of less drop."""
        near = np.flatnonzero(drops - self.price * gains <= gap)
        near = near[np.lexsort((-gains[near], drops[near]))]
        most_before = np.maximum.accumulate(gains[near])
        is_more = np.append(True, gains[near][1:] > most_before[:-1])
        kept: Indices = near[is_more[: len(near)]]
        return kept

    def _trace(self, groups: Indices, stages: list[tuple[Indices, Indices]], state: int) -> Indices:
        """Return the options that led to a sum."""
        chosen: Indices = self.base.copy()
        for parents, choices in reversed(stages):
            chosen[groups[choices[state]]] = choices[state]
            state = int(parents[state])
        return chosen
