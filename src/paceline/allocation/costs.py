"""What a round costs a device in seconds, by its profile."""

from __future__ import annotations

from paceline.allocation.base import RoundTerms
from paceline.devices.profiles import Profile


def fixed_seconds(terms: RoundTerms, profile: Profile) -> float:
    """What a round takes besides its shards: the parameters there and back."""
    down_seconds = terms.model_bytes / profile.down.per_second
    up_seconds = terms.model_bytes / profile.up.per_second
    return 2 * profile.latency_seconds + down_seconds + up_seconds


def download_seconds(terms: RoundTerms, profile: Profile) -> float:
    """What the download of a shard takes."""
    return terms.shard_bytes / profile.down.per_second


def local_epoch_seconds(terms: RoundTerms, profile: Profile) -> float:
    """What one pass over a shard takes."""
    return terms.shard_samples / profile.train.per_second


def shard_seconds(terms: RoundTerms, profile: Profile) -> float:
    """What a shard adds to a round: its download and its training."""
    return download_seconds(terms, profile) + terms.local_epochs * local_epoch_seconds(terms, profile)
