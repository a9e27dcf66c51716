"""Audits of learners that bill work: some updates are trained again and compared.

What comes of training follows from the parameters, the shards and the seed that a learner was given, but for rounding,
and that depends on its hardware. Mostly rounding stays small. Now and then it tips a ReLU or a max-pooling over, and
over many minibatches the two trainings part company. So a claim that is far from what the auditor has got is compared
with how far the auditor's own results are apart if it starts from parameters that differ in their last digits.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from paceline.errors import ConfigError
from paceline.learning.averaging import why_unlike
from paceline.learning.shards import Shard
from paceline.learning.training import LocalModel
from paceline.learning.vectors import Vectors

DEFAULT_TOLERANCE = 0.01
"""Distance within which a claim is believed at once: see `docs/decisions/0016-audits.md`."""

_NUM_NUDGES = 3  # trainings that show how much the last digits matter
_NUDGE = 8e-6  # of each value: some sixty times the last digit of float32, and more than libraries differ by
_LENIENCE = 1.5  # how many times farther than those trainings an honest one may be
_MOST = 0.5  # whoever is half the way off is not believed, whatever the last digits do
_NOTHING_DONE = 1.0  # the distance of the start itself


class Portion(NamedTuple):
    """Shards that were trained together, and the seed of their order."""

    shards: Sequence[Shard]
    seed: int


class Claim(NamedTuple):
    """What a learner was given, and what it says that it made of it.

    Attributes:
        start: the parameters that it was to train.
        claimed: those that it sent back.
        shards: what it was to train on, in this order.
        local_epochs: passes over them.
        seed: of the order of samples.
        num_samples: samples that it says it trained, counted once per pass; fewer than all if it halted.
        further: what it was to train on after that, portion by portion.
    """

    start: Vectors
    claimed: Vectors
    shards: Sequence[Shard]
    local_epochs: int
    seed: int
    num_samples: int
    further: Sequence[Portion] = ()


class Verdict(NamedTuple):
    """What an audit found.

    Attributes:
        distance: from what was claimed to the nearest that the auditor got, as a ratio of how far training moved the
            parameters. About 0 for honest work, about 1 for none; infinite for what no training can give.
    """

    is_honest: bool
    distance: float


class Auditor:
    """Trains updates again, at random, and tells honest ones from others. Everything runs in the calling thread.

    Args:
        model: a copy of its own: each audit overwrites the parameters.
        rate: of the updates, the part that is audited.
        tolerance: distance within which a claim is believed at once.
        chance: must not be foreseen by learners, who know the seed of the job: `random.SystemRandom()` in earnest, and
            a seeded one for simulations.

    Raises:
        ConfigError: `rate` or `tolerance` makes no sense, or the model draws at random while it trains.
    """

    def __init__(
        self, model: LocalModel, *, rate: float, tolerance: float = DEFAULT_TOLERANCE, chance: random.Random
    ) -> None:
        _check_rate(rate)
        if not 0 < tolerance <= _MOST:
            raise ConfigError(f"the tolerance of audits is {tolerance}; allowed: above 0, and at most {_MOST}")
        _check_that_it_can_be_repeated(model)
        self._model = model
        self._rate = rate
        self._tolerance = tolerance
        self._chance = chance

    def is_chosen(self) -> bool:
        """Whether the update at hand is audited: ask once for each, when it is in and cannot be changed any more."""
        return self._chance.random() < self._rate

    def judge(self, claim: Claim) -> Verdict:
        """Do the work again, as far as the claim says it was done, and compare.

        Takes about as long as the work; several times as long if the first comparison leaves a doubt. Raises
        `ConfigError` if `start` or `shards` are not of this model's task; whatever the learner sent gets a verdict.
        """
        return Retraining(self._model, claim).judge(claim.claimed, self._tolerance)


class Retraining:
    """A piece of work done again; any number of claims can be judged by it.

    Args:
        model: is trained now, and again when in doubt.
        work: what is to be done; what is claimed of it plays no part.
    """

    def __init__(self, model: LocalModel, work: Claim) -> None:
        self._model = model
        self._work = work
        # Parameters that are trained, under all their names.
        named = model._model.named_parameters(remove_duplicate=False)
        self._trained_names = {name for name, parameter in named if parameter.requires_grad}
        self._end = self._train(work.start)

    def judge(self, claimed: Vectors, tolerance: float = DEFAULT_TOLERANCE) -> Verdict:
        """Whether this can be what honest training gave on other hardware."""
        distance = self.distance(claimed)
        if distance <= tolerance or distance >= _NOTHING_DONE:
            return Verdict(distance <= tolerance, distance)
        distance = min(distance, *(self._distance(claimed, end) for end in self._nudged_ends))
        limit = min(_MOST, max(tolerance, _LENIENCE * self.spread))
        return Verdict(distance <= limit, distance)

    def distance(self, claimed: Vectors) -> float:
        """From what the auditor got, in the first place; infinite for what no training can give."""
        if self._end is None or why_unlike(claimed, self._work.start) is not None:
            return math.inf
        return self._distance(claimed, self._end)

    @functools.cached_property
    def spread(self) -> float:
        """The largest distance between what the auditor got from starts that differ in the last digits."""
        assert self._end is not None
        return max(self._distance(*pair) for pair in itertools.combinations((self._end, *self._nudged_ends), 2))

    @functools.cached_property
    def _nudged_ends(self) -> list[Vectors]:
        generator = torch.Generator().manual_seed(self._work.seed)
        starts = (_nudged(self._work.start, generator) for _ in range(_NUM_NUDGES))
        return [end for start in starts if (end := self._train(start)) is not None]

    def _train(self, start: Vectors) -> Vectors | None:
        """What comes of the samples that are claimed; None if no training ends after so many."""
        model, work, num_left = self._model, self._work, self._work.num_samples
        parameters = start
        for shards, seed in (Portion(work.shards, work.seed), *work.further):
            minibatches = model.minibatches(model.layout.unpack(parameters), shards, seed, work.local_epochs)
            while num_left > 0 and (num_trained := next(minibatches, 0)):
                num_left -= num_trained
            parameters = model.parameters()
            if num_left <= 0:
                break
        return parameters if num_left == 0 else None

    def _distance(self, one: Vectors, other: Vectors) -> float:
        """Of two results, as a ratio of how far training went: the largest of that of what is trained and the rest."""
        apart = self._norms(one, other)
        return max((_ratio(apart[part], self._moved[part]) for part in apart), default=0.0)

    @functools.cached_property
    def _moved(self) -> dict[str, float]:
        assert self._end is not None
        return self._norms(self._end, self._work.start)

    def _norms(self, one: Vectors, other: Vectors) -> dict[str, float]:
        """How far two results are apart in what is trained, in other fractions, and in whole numbers.

        Each has a scale of its own: statistics of batch normalisation or a counter of batches may move much farther
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


def chance_to_be_caught(rate: float, num_updates: int) -> float:
    """The probability that at least one of so many updates is audited: what one risks who cheats in all of them."""
    _check_rate(rate)
    if num_updates < 0:
        raise ConfigError(f"the number of updates is {num_updates}; allowed: 0 or more")
    return 1.0 - (1.0 - rate) ** num_updates


def _check_rate(rate: float) -> None:
    if not 0 <= rate <= 1:
        raise ConfigError(f"the rate of audits is {rate}; allowed: 0 to 1")


def _check_that_it_can_be_repeated(model: LocalModel) -> None:
    """Raise `ConfigError` if training draws from torch's generator, as dropout does: each device has its own."""
    task, num_samples = model.task, 2
    shard = Shard(np.zeros((num_samples, *task.input_shape), np.uint8), np.zeros(num_samples, np.uint8))
    before = torch.get_rng_state()
    for _ in model.minibatches(model.state(), [shard], seed=0):
        pass
    if not torch.equal(torch.get_rng_state(), before):
        name = task.model.name or task.model.import_path
        raise ConfigError(
            f"model {name!r} draws at random while it trains, as dropout does: nobody can train it again alike, so its "
            f"updates cannot be audited"
        )


def _nudged(start: Vectors, generator: torch.Generator) -> Vectors:
    """The same but for some of the last digits."""
    nudged = dict(start)
    for kind, vector in start.items():
        if vector.is_floating_point() or vector.is_complex():
            scale = max(_NUDGE, torch.finfo(vector.dtype).eps)
            nudged[kind] = vector * (1 + scale * torch.randn(vector.shape, generator=generator)).to(vector.dtype)
    return nudged


def _exact(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _ratio(apart: float, moved: float) -> float:
    """Infinite for what cannot be: a value that is no number, or one that changed where training changes nothing."""
    if apart == 0:
        return 0.0
    return apart / moved if moved > 0 and math.isfinite(apart) else math.inf
