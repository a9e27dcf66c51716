"""Every policy keeps the one contract."""

import pytest

from paceline.allocation import (
    POLICIES,
    AdaptiveDabAllocation,
    AllDataAllocation,
    CsaAllocation,
    DabAllocation,
    EdgeGossipAllocation,
    EqualAllocation,
    MedAllocation,
    MmttAllocation,
    SyncAllocation,
)
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
    @pytest.fixture(params=[False, True])
    def policy(self, request):
        return EqualAllocation(asynchronous=request.param)


class TestCsa(PolicyContract):
    @pytest.fixture(params=[{}, {"min_local_epochs": 3}])
    def policy(self, request):
        return CsaAllocation(**request.param)


class TestSync(PolicyContract):
    @pytest.fixture
    def policy(self):
        return SyncAllocation()


class TestMed(PolicyContract):
    @pytest.fixture(params=[{}, {"min_shards": 0, "held_back": 0.5}])
    def policy(self, request):
        return MedAllocation(**request.param)


class TestMmtt(PolicyContract):
    @pytest.fixture(params=["uncertain", "ideal"])
    def policy(self, request):
        return MmttAllocation(knowledge=request.param)


class TestEdgeGossip(PolicyContract):
    @pytest.fixture(params=[{}, {"min_samples_per_second": 0.0, "max_failed": 1.0}])
    def policy(self, request):
        return EdgeGossipAllocation(**request.param)


class TestAllData(PolicyContract):
    @pytest.fixture
    def policy(self):
        return AllDataAllocation()


def test_no_policy_is_left_out():
    assert set(POLICIES.values()) == {
        DabAllocation,
        AdaptiveDabAllocation,
        CsaAllocation,
        SyncAllocation,
        EqualAllocation,
        MedAllocation,
        MmttAllocation,
        EdgeGossipAllocation,
        AllDataAllocation,
    }
