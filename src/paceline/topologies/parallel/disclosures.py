"""What leaves a learner, by the policy of its job."""

from __future__ import annotations

from paceline.allocation import AllocationPolicy
from paceline.topologies.base import DeviceOptions
from paceline.topologies.consent import Disclosure

_PROFILE = "its profile, measured when it joins: training speed, bandwidth down and up, latency"
_WHEN = {"once": "when it joins", "each round": "before each round"}


def disclosures_of(policy: AllocationPolicy, options: DeviceOptions, *, has_own_data: bool) -> list[Disclosure]:
    """List what leaves a learner in a job with this policy."""
    found = [
        Disclosure(f"its price for a shard: {options.price:g}"),
        Disclosure("how many shards it takes, and when"),
        Disclosure("trained parameters, the number of samples they were trained on, or that training diverged"),
    ]
    if has_own_data:
        found.append(Disclosure("the number of samples in the shards of its own data that it trains; not the data"))
    if policy.decided_by == "orchestrator":
        limit = "no limit" if options.max_shards is None else f"{options.max_shards}"
        found.append(Disclosure(f"the most shards that it takes in a round: {limit}"))
        if has_own_data:
            found.append(Disclosure("how many shards of its own data it has"))
    if policy.needs_outlook:
        found.append(Disclosure(f"{_PROFILE}, in each state that it may be in, and how likely the states are", True))
    elif policy.needs_profiles:
        found.append(Disclosure(_PROFILE, True))
    if policy.state_reports != "never":
        found.append(Disclosure(f"the state that it is in, {_WHEN[policy.state_reports]}", True))
    return found
