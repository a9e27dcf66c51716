"""Time that a round takes on a device, in seconds, by its profile."""

from __future__ import annotations

from paceline.allocation.base import RoundTerms
from paceline.devices.profiles import Profile


def fixed_seconds(terms: RoundTerms, profile: Profile) -> float:
    """Return the time of a round apart from its shards: latency and both transfers of the parameters."""
    down_seconds = terms.model_bytes / profile.down.per_second
    up_seconds = terms.up_bytes / profile.up.per_second
    return 2 * profile.latency_seconds + down_seconds + up_seconds


def download_seconds(terms: RoundTerms, profile: Profile) -> float:
    """Return the time to download a shard."""
    return terms.shard_bytes / profile.down.per_second


def local_epoch_seconds(terms: RoundTerms, profile: Profile) -> float:
    """Return the time of one pass over a shard."""
    return terms.shard_samples / profile.train.per_second


def shard_seconds(terms: RoundTerms, profile: Profile) -> float:
    """Return the time that a shard adds to a round: its download and its training."""
    return download_seconds(terms, profile) + terms.local_epochs * local_epoch_seconds(terms, profile)
