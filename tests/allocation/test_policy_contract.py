"""Every policy keeps the one contract."""

import pytest

from paceline.allocation import POLICIES
from paceline.testing.allocation import PolicyContract

SETTINGS = {
    "adaptive-dab": [{"window": 1}, {"optimism": 1.0, "caution": 0.0, "margin": 0.0}],
    "eta": [{"asynchronous": True}],
    "csa": [{"min_local_epochs": 3}],
    "med": [{"min_shards": 0, "held_back": 0.5}],
    "mmtt": [{"knowledge": "ideal"}],
    "edge-gossip": [{"min_samples_per_second": 0.0, "max_failed": 1.0}],
}


@pytest.fixture(
    params=[(name, fields) for name in POLICIES.members for fields in ({}, *SETTINGS.get(name, ()))], ids=str
)
def policy(request):
    name, fields = request.param
    return POLICIES.members[name](**fields)


class TestPolicies(PolicyContract):
    """All policies, with their defaults and with other settings."""
