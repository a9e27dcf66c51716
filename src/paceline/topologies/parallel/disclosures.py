"""What leaves a learner, by the policy of its job."""

from __future__ import annotations

from paceline.allocation import AllocationPolicy
from paceline.learning.privacy import PrivacySpec
from paceline.topologies.base import DeviceOptions
from paceline.topologies.consent import Disclosure

_PROFILE = "its profile, measured when it joins: training speed, bandwidth down and up, latency"
_WHEN = {"once": "when it joins", "each round": "before each round"}


def disclosures_of(
    policy: AllocationPolicy, options: DeviceOptions, privacy: PrivacySpec, *, has_own_data: bool
) -> list[Disclosure]:
    """List what leaves a learner in a job with this policy."""
    found = [
        Disclosure(f"its price for a shard: {options.price:g}"),
        Disclosure("how many shards it takes, and when"),
        Disclosure(f"{_update(privacy)}, the number of samples they were trained on, or that training diverged"),
    ]
    if has_own_data:
        found.append(Disclosure("the number of samples in the shards of its own data that it trains; not the data"))
        found.append(Disclosure("how many shards of its own data it has"))
    if policy.decided_by == "orchestrator":
        limit = "no limit" if options.max_shards is None else f"{options.max_shards}"
        found.append(Disclosure(f"the most shards that it takes in a round: {limit}"))
    if policy.needs_outlook:
        found.append(Disclosure(f"{_PROFILE}, in each state that it may be in, and how likely the states are", True))
    elif policy.needs_profiles:
        found.append(Disclosure(_PROFILE, True))
    if policy.state_reports != "never":
        found.append(Disclosure(f"the state that it is in, {_WHEN[policy.state_reports]}", True))
    return found


def _update(privacy: PrivacySpec) -> str:
    """Say what is sent of trained parameters."""
    with_noise = f", with noise of {privacy.noise_multiplier:g} times that" if privacy.noise_multiplier else ""
    clipped = "" if privacy.clip_norm is None else f", their change clipped to {privacy.clip_norm:g}"
    if privacy.secure_aggregation:
        return f"trained parameters under masks, so that only the sum of all is seen{clipped}{with_noise}"
    by_orchestrator = f"; the orchestrator clips their change to {privacy.clip_norm:g}{with_noise}" if clipped else ""
    return f"trained parameters{by_orchestrator}"
