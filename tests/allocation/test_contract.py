"""Every policy keeps the one contract."""

import pytest

from paceline.allocation import POLICIES, AdaptiveDabAllocation, DabAllocation, EqualAllocation
from paceline.testing.allocation import PolicyContract


class TestDab(PolicyContract):
    @pytest.fixture
    def policy(self):
        return DabAllocation()


class TestAdaptiveDab(PolicyContract):
    @pytest.fixture(params=[{}, {"window": 1}, {"optimism": 1.0, "caution": 0.0, "margin": 0.0}])
    def policy(self, request):
        return AdaptiveDabAllocation(**request.param)


class TestEqual(PolicyContract):
    @pytest.fixture
    def policy(self):
        return EqualAllocation()


def test_no_policy_is_left_out():
    assert set(POLICIES.values()) == {DabAllocation, AdaptiveDabAllocation, EqualAllocation}
