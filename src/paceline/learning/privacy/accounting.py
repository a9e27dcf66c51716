"""What noise promises: epsilon after so many rounds, by an accountant of Opacus."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping

from paceline.errors import ConfigError
from paceline.extras import extra
from paceline.learning.privacy.spec import PrivacySpec

_ORDERS = [1 + 10 ** (power / 50) for power in range(-200, 400)]  # of the divergence; the best is chosen


class PrivacyAccount:
    """What the rounds of a run have spent of the privacy of the device that took part in most of them.

    Args:
        num_rounds: number of earlier rounds with an update of a device, by its name.
    """

    def __init__(self, spec: PrivacySpec, num_rounds: Mapping[str, int] | None = None) -> None:
        self._spec = spec
        self._num_rounds = Counter(num_rounds)

    def check(self) -> None:
        """Raise `ConfigError` if not even one round is allowed, or its price cannot be told."""
        if self._spec.noise_multiplier and self._is_beyond(1):
            raise ConfigError(
                f"max_epsilon is {self._spec.max_epsilon:g}, and one round takes {self._epsilon_after(1):.3g}: raise "
                "noise_multiplier or max_epsilon in [privacy]"
            )

    def add(self, learners: Iterable[str]) -> None:
        """Count a round in which the updates of these were summed."""
        self._num_rounds.update(list(learners))  # a mapping would be taken for counts

    @property
    def num_rounds(self) -> Mapping[str, int]:
        """Number of rounds with an update of a device, by its name; empty where nothing depends on it."""
        return self._num_rounds if self._spec.noise_multiplier else {}

    @property
    def epsilon(self) -> float | None:
        """Epsilon so far; None if nothing is promised."""
        return self._epsilon_after(self._most) if self._spec.noise_multiplier else None

    @property
    def is_spent(self) -> bool:
        """Whether another round might take more than is allowed."""
        return bool(self._spec.noise_multiplier) and self._is_beyond(self._most + 1)

    @property
    def _most(self) -> int:
        return max(self._num_rounds.values(), default=0)

    def _is_beyond(self, num_rounds: int) -> bool:
        most = self._spec.max_epsilon
        return most is not None and self._epsilon_after(num_rounds) > most

    def _epsilon_after(self, num_rounds: int) -> float:
        return epsilon_of(self._spec.noise_multiplier, num_rounds, self._spec.delta)


@functools.lru_cache(maxsize=1024)
def epsilon_of(noise_multiplier: float, num_rounds: int, delta: float) -> float:
    """Return epsilon for a device that took part in so many rounds; raises `ConfigError` without the extra ``privacy``.

    Rounds are composed by Rényi divergence (Mironov, 2017). Two runs are neighbours if they differ in the data of one
    device, whose changes are 0 in one of them. That learners were drawn is not made use of.
    """
    with extra("privacy"):
        from opacus.accountants import RDPAccountant
    if not num_rounds:
        return 0.0
    accountant = RDPAccountant()
    accountant.history = [(noise_multiplier, 1.0, num_rounds)]
    return float(accountant.get_epsilon(delta, alphas=_ORDERS))
