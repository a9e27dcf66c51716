"""Every method fulfils the contract of its family."""

import pytest

from paceline.learning.aggregation import (
    FedAdamAggregation,
    FedAvgAggregation,
    FedAvgMAggregation,
    FedNovaAggregation,
    FedProxAggregation,
    FedYogiAggregation,
    KrumAggregation,
    MedianAggregation,
    MultiKrumAggregation,
    TrimmedMeanAggregation,
)
from paceline.testing.aggregation import AggregationContract


class TestMeans(AggregationContract):
    @pytest.fixture(params=[FedAvgAggregation(), FedProxAggregation(mu=0.1), FedNovaAggregation()], ids=repr)
    def method(self, request):
        return request.param


class TestWeights(AggregationContract):
    @pytest.fixture(params=["samples", "work", "equal"])
    def method(self, request):
        return FedNovaAggregation(weight=request.param, late="discount", staleness_exponent=1.0)


class TestServerSteps(AggregationContract):
    has_fixed_point = False

    @pytest.fixture(params=[FedAvgMAggregation(), FedAdamAggregation(), FedYogiAggregation()], ids=repr)
    def method(self, request):
        return request.param


class TestRobust(AggregationContract):
    @pytest.fixture(
        params=[
            MedianAggregation(),
            TrimmedMeanAggregation(),
            TrimmedMeanAggregation(trim=0.0),
            KrumAggregation(),
            KrumAggregation(num_byzantine=0),
            MultiKrumAggregation(num_byzantine=2),
            MultiKrumAggregation(num_byzantine=50),
        ],
        ids=repr,
    )
    def method(self, request):
        return request.param
