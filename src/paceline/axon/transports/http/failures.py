"""Refused requests by network: a few are answered with the reason, a flood is turned away in a few words."""

from __future__ import annotations

from collections import OrderedDict

BURST = 100.0
PER_SECOND = 10.0
_MAX_NETWORKS = 4096


class Failures:
    """A bucket of answers for each network that failed lately.

    Only refusals are counted, so that callers who are let in never wait for others behind the same address.
    """

    def __init__(self) -> None:
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # answers left, at which loop time

    def is_answered(self, network: str, now: float) -> bool:
        """Count a refusal, and return whether it is worth an answer."""
        left, at = self._buckets.pop(network, (BURST, now))
        left = min(BURST, left + (now - at) * PER_SECOND)
        is_answered = left >= 1.0
        self._buckets[network] = (left - is_answered, now)
        if len(self._buckets) > _MAX_NETWORKS:
            self._buckets.popitem(last=False)
        return is_answered
