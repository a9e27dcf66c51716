"""Figures: what a peer publishes of itself, so that all can balance how much each trains."""

from __future__ import annotations

import msgspec

from paceline.checks import CountOrZero, NotNegative, check_fields
from paceline.topologies.sessions import NAME, NAME_RULE


class Figures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a peer publishes of itself. Raises `ValueError` for what cannot be.

    Attributes:
        learner: its name.
        samples_per_second: speed that it expects in its next epoch, p.
        num_samples: samples that it has, |X|.
        epoch: the last that it has ended; 0 before the first.
    """

    learner: str
    samples_per_second: NotNegative
    num_samples: CountOrZero
    epoch: CountOrZero

    def __post_init__(self) -> None:
        check_fields(self)
        if not NAME.fullmatch(self.learner):
            raise ValueError(f"learner is {self.learner[:80]!r}; {NAME_RULE}")
