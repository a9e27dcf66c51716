"""Assignments for targets that are set first, a little before those of the best plan.

By the prices of the bound, some targets near a plan's own are better than others: learners' capacities are whole
numbers, and at some moments many of them have just become one larger. With such targets set, a linear program shares
out the learners so that little is missing from the shards of all tasks. All but a few learners are whole in it, and
when those are put somewhere, some exchanges mostly make good what is missing then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import highspy
import numpy as np

from paceline.allocation.med.cells import Cells, Prices
from paceline.allocation.med.instance import Floats, Indices, Instance

_NUM_TARGETS = 200
_MAX_EXCHANGES = 200
_EXCESS = 0.02
_NEAR = 0.05  # of a learner's worth in its best task, by which it may be worth less in another one


@dataclass(frozen=True, kw_only=True, eq=False)
class Aimed:
    """Tasks for all learners, and whether all shards can be done by the targets that were set."""

    tasks: Indices
    is_hit: bool


def aim(
    instance: Instance, prices: Prices, targets: Floats, *, reach: float, time_limit_seconds: float
) -> Aimed | None:
    """An assignment for targets within a part `reach` of these; None if that takes too long."""
    targets, shard_prices = _good_targets(instance, prices, targets, reach)
    most = instance.capacities(np.arange(instance.num_tasks), targets)
    worth = np.where(most > 0, (shard_prices[:, None] - prices.money * instance.prices) * most, -np.inf)
    best = worth.max(axis=0)
    tasks, learners = np.nonzero((worth >= best - _NEAR * np.abs(best)) & (most > 0))
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("time_limit", time_limit_seconds)
    solver.passModel(_model(instance, tasks, learners, most[tasks, learners], shard_prices))
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    parts = np.zeros(most.shape)
    parts[tasks, learners] = np.array(solver.getSolution().col_value)[: len(tasks)]
    # who is in no task goes where it is worth the most
    assigned = np.where(parts.any(axis=0), parts.argmax(axis=0), worth.argmax(axis=0))
    return _exchanged(instance, assigned, most, np.maximum(shard_prices, 0.0))


def _exchanged(instance: Instance, tasks: Indices, most: Floats, shard_prices: Floats) -> Aimed:
    """Learners change places, as long as less is missing then."""
    tasks, everyone = tasks.copy(), np.arange(instance.num_learners)
    for _ in range(_MAX_EXCHANGES):
        own = most[tasks, everyone]
        missing = instance.shards - np.bincount(tasks, weights=own, minlength=instance.num_tasks)
        if missing.max() <= 0:
            return Aimed(tasks=tasks, is_hit=True)
        gained = most[tasks] - own[:, None]
        before = np.maximum(missing[tasks], 0.0)[:, None]
        # what is more than needed counts a little, too: it can be had for something else
        changes = np.maximum(missing[tasks][:, None] - gained, 0.0) - before - _EXCESS * gained
        changes = shard_prices[tasks][:, None] * changes
        changes = changes + changes.T
        changes[tasks[:, None] == tasks] = 0.0
        one, other = divmod(int(changes.argmin()), instance.num_learners)
        if changes[one, other] >= 0:
            break
        tasks[one], tasks[other] = tasks[other], tasks[one]
    return Aimed(tasks=tasks, is_hit=False)


def _good_targets(instance: Instance, prices: Prices, targets: Floats, reach: float) -> tuple[Floats, Floats]:
    """The target near each that its task costs the least with, and the price of a shard for it."""
    found, shard_prices = targets.copy(), np.zeros(len(targets))
    for task, target in enumerate(targets):
        tasks = np.full(_NUM_TARGETS, task)
        tried = np.linspace(target * (1 - reach), target * (1 + reach), _NUM_TARGETS)
        tried = np.minimum(tried, instance.deadlines[task])
        cells = Cells(
            instance=instance,
            tasks=tasks,
            low=tried,
            high=tried,
            most=instance.capacities(tasks, tried),
            shard_prices=np.zeros(_NUM_TARGETS),
        )
        cells = cells.take(cells.most.sum(axis=1) >= instance.shards[task])
        if not len(cells):
            shard_prices[task] = target / instance.shards[task]
            continue
        cells = replace(cells, shard_prices=cells.best_shares(prices)[0])
        place = int(cells.values(prices).argmin())
        found[task], shard_prices[task] = cells.low[place], cells.shard_prices[place]
    return found, shard_prices


def _model(
    instance: Instance, tasks: Indices, learners: Indices, most: Floats, shard_prices: Floats
) -> highspy.HighsLp:
    """Parts of learners in tasks, and shards that are missing, which cost their price."""
    num_pairs, num_tasks, num_learners = len(tasks), instance.num_tasks, instance.num_learners
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = num_pairs + num_tasks, num_tasks + num_learners
    model.col_cost_ = np.append(np.zeros(num_pairs), np.maximum(shard_prices, 0.0))
    model.col_lower_ = np.zeros(num_pairs + num_tasks)
    model.col_upper_ = np.full(num_pairs + num_tasks, highspy.kHighsInf)
    model.row_lower_ = np.append(instance.shards, np.zeros(num_learners))
    model.row_upper_ = np.append(np.full(num_tasks, highspy.kHighsInf), np.ones(num_learners))
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = np.append(2 * np.arange(num_pairs), 2 * num_pairs + np.arange(num_tasks + 1))
    model.a_matrix_.index_ = np.append(np.stack([tasks, num_tasks + learners], axis=1).ravel(), np.arange(num_tasks))
    model.a_matrix_.value_ = np.append(np.stack([most, np.ones(num_pairs)], axis=1).ravel(), np.ones(num_tasks))
    return model
