"""Audits of learners: some updates are trained again and compared.

The result of training follows from the parameters, shards and seed that a learner was given, except for rounding, which
depends on its hardware. Rounding mostly stays small; sometimes it tips a ReLU or a max-pooling over, and after many
minibatches the two trainings diverge. So a claim far from the auditor's own result is compared with the spread of
results that the auditor gets from parameters that differ in their last digits.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
from msgspec import Meta

from paceline.checks import Ratio, check_fields
from paceline.errors import ConfigError
from paceline.learning.accelerators import Precision
from paceline.learning.local_model import LocalModel
from paceline.learning.shards import Shard
from paceline.learning.update_validation import why_unlike
from paceline.learning.vectors import Vectors

DEFAULT_TOLERANCE = 0.01
"""Distance up to which a claim is accepted at once: see `docs/decisions/0016-audits.md`."""

_NUM_NUDGES = 3  # trainings that show how much the last digits matter
# Relative changes, whose effect is larger than that of what libraries differ by: some sixty times the last digit of
# float32, and a quarter of that of the shorter types, to which every product is rounded. See docs/decisions/0032.
_NUDGES: dict[Precision, float] = {"float32": 8e-6, "bfloat16": 2.0**-9, "float16": 2.0**-12}
_LENIENCE = 1.5  # how many times farther than those trainings an honest one may be
_MOST = 0.5  # a claim that is half the way off is rejected, whatever the last digits do
_NOTHING_DONE = 1.0  # distance of the start itself


class Portion(NamedTuple):
    """Shards that were trained together, and the seed of their order."""

    shards: Sequence[Shard]
    seed: int


class Claim(NamedTuple):
    """Work given to a learner, and the result that it claims.

    Attributes:
        start: parameters to train.
        claimed: parameters sent back.
        shards: shards to train on, in this order.
        local_epochs: passes over them.
        seed: seed of the order of samples.
        num_samples: samples claimed to be trained, counted once per pass; fewer than all if the learner halted.
        round: round that it was done in.
        further: portions to train on afterwards.
    """

    start: Vectors
    claimed: Vectors
    shards: Sequence[Shard]
    local_epochs: int
    seed: int
    num_samples: int
    round: int = 1
    further: Sequence[Portion] = ()


class Verdict(NamedTuple):
    """Result of an audit.

    Attributes:
        distance: distance from the claim to the auditor's nearest result, as a ratio of how far training moved the
            parameters: about 0 for honest work, about 1 for none, infinite for an impossible result.
    """

    is_honest: bool
    distance: float


@dataclass(frozen=True, kw_only=True)
class Auditor:
    """Repeats the training of randomly chosen updates and compares. Everything runs in the calling thread.

    Raises `ValueError` for a field out of range, `ConfigError` for a model that draws at random while it trains.

    Attributes:
        model: model of the auditor's own: each audit overwrites the parameters.
        rate: share of updates that is audited.
        tolerance: distance up to which a claim is accepted at once.
        chance: generator that learners, who know the job's seed, cannot predict: `random.SystemRandom()` in real runs,
            a seeded one in simulations.
    """

    model: LocalModel
    rate: Ratio
    tolerance: Annotated[float, Meta(gt=0, le=_MOST)] = DEFAULT_TOLERANCE
    chance: random.Random

    def __post_init__(self) -> None:
        check_fields(self)
        _check_repeatable(self.model)

    def is_chosen(self) -> bool:
        """Draw whether an update is audited; call it once per update, after its arrival."""
        return self.chance.random() < self.rate

    def judge(self, claim: Claim) -> Verdict:
        """Repeat the claimed work and compare.

        Takes about as long as the work itself; several times as long if the first comparison leaves a doubt. Raises
        `ConfigError` if `start` or `shards` do not fit the model's task; anything a learner sent gets a verdict.
        """
        return Retraining(self.model, claim).judge(claim.claimed, self.tolerance)


class Retraining:
    """Repeated training of a piece of work, by which any number of claims can be judged.

    Args:
        model: model to train, now and again in case of doubt.
        work: the work; its claimed result is ignored.
    """

    def __init__(self, model: LocalModel, work: Claim) -> None:
        self._model = model
        self._work = work
        named = model.module.named_parameters(remove_duplicate=False)
        self._trained_names = {name for name, parameter in named if parameter.requires_grad}
        self._end = self._train(work.start)

    def judge(self, claimed: Vectors, tolerance: float = DEFAULT_TOLERANCE) -> Verdict:
        """Decide whether a result can come from honest training on other hardware."""
        distance = self.distance(claimed)
        if distance <= tolerance or distance >= _NOTHING_DONE:
            return Verdict(distance <= tolerance, distance)
        distance = min(distance, *(self._distance(claimed, end) for end in self._nudged_ends))
        limit = min(_MOST, max(tolerance, _LENIENCE * self.spread))
        return Verdict(distance <= limit, distance)

    def distance(self, claimed: Vectors) -> float:
        """Return the distance to the auditor's first result; infinite for an impossible one."""
        if self._end is None or why_unlike(claimed, self._work.start) is not None:
            return math.inf
        return self._distance(claimed, self._end)

    @functools.cached_property
    def spread(self) -> float:
        """Largest distance between the auditor's results from starts that differ in their last digits."""
        assert self._end is not None
        return max(self._distance(*pair) for pair in itertools.combinations((self._end, *self._nudged_ends), 2))

    @functools.cached_property
    def _nudged_ends(self) -> list[Vectors]:
        generator = torch.Generator().manual_seed(self._work.seed)
        nudge = _NUDGES[self._model.spec.precision]
        starts = (_nudged(self._work.start, nudge, generator) for _ in range(_NUM_NUDGES))
        return [end for start in starts if (end := self._train(start)) is not None]

    def _train(self, start: Vectors) -> Vectors | None:
        """Train as many samples as claimed; returns None if no training ends after so many."""
        model, work, num_left = self._model, self._work, self._work.num_samples
        parameters = start
        for shards, seed in (Portion(work.shards, work.seed), *work.further):
            minibatches = model.minibatches(
                model.layout.unpack(parameters), shards, seed, work.local_epochs, round=work.round
            )
            while num_left > 0 and (num_trained := next(minibatches, 0)):
                num_left -= num_trained
            parameters = model.parameters()
            if num_left <= 0:
                break
        return parameters if num_left == 0 else None

    def _distance(self, one: Vectors, other: Vectors) -> float:
        """Return the distance of two results as a ratio of how far training went, the largest over all parts."""
        apart = self._norms(one, other)
        return max((_ratio(apart[part], self._moved[part]) for part in apart), default=0.0)

    @functools.cached_property
    def _moved(self) -> dict[str, float]:
        assert self._end is not None
        return self._norms(self._end, self._work.start)

    def _norms(self, one: Vectors, other: Vectors) -> dict[str, float]:
        """Return how far two results are apart in trained parameters, in other floats, and in whole numbers.

        Each part has its own scale: statistics of batch normalisation or a counter of batches may move much farther
        than the parameters, and would hide them.
        """
        squares: dict[str, float] = {}
        others = self._model.layout.unpack(other)
        for name, tensor in self._model.layout.unpack(one).items():
            difference = float(torch.linalg.vector_norm(_exact(tensor) - _exact(others[name])))
            part = self._part(name, tensor)
            squares[part] = squares.get(part, 0.0) + difference**2
        return {part: math.sqrt(square) for part, square in squares.items()}

    def _part(self, name: str, tensor: torch.Tensor) -> str:
        if name in self._trained_names:
            return "trained"
        return "fractions" if tensor.is_floating_point() or tensor.is_complex() else "whole numbers"


def _check_repeatable(model: LocalModel) -> None:
    """Raise `ConfigError` if training draws from torch's generator, as dropout does: each device has its own."""
    spec, shard = model.spec, model.spec.zeros(2)
    if model.kept_names:
        raise ConfigError(
            "exchange leaves parameters on the devices, so their training cannot be repeated, nor their updates audited"
        )
    before = torch.get_rng_state()
    for _ in model.minibatches(model.state(), [shard], seed=0):
        pass
    if not torch.equal(torch.get_rng_state(), before):
        name = spec.task.import_path or spec.chosen_model.name or spec.model.import_path
        raise ConfigError(
            f"model {name!r} draws at random while it trains, as dropout does: its training cannot be repeated, so its "
            f"updates cannot be audited"
        )


def _nudged(start: Vectors, nudge: float, generator: torch.Generator) -> Vectors:
    """Change the last digits at random."""
    nudged = dict(start)
    for kind, vector in start.items():
        if vector.is_floating_point() or vector.is_complex():
            scale = max(nudge, torch.finfo(vector.dtype).eps)
            nudged[kind] = vector * (1 + scale * torch.randn(vector.shape, generator=generator)).to(vector.dtype)
    return nudged


def _exact(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _ratio(apart: float, moved: float) -> float:
    """Divide; infinite for NaN, and for a change where training changes nothing."""
    if apart == 0:
        return 0.0
    return apart / moved if moved > 0 and math.isfinite(apart) else math.inf
