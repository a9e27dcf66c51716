import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.allocation import (
    SITS_OUT,
    AllDataAllocation,
    AllocatedShare,
    Allocation,
    Candidate,
    EdgeGossipAllocation,
    RoundTerms,
    take_over,
)
from paceline.allocation.edge_gossip import BalancedLearner, EdgeGossipProblem, kept
from paceline.devices.profiles import Profile, Rate

TERMS = RoundTerms(
    deadline_seconds=60, local_epochs=2, model_bytes=1000, shard_bytes=0, shard_samples=1, num_shards=10**9
)


def peer(name, samples_per_second, samples):
    rate = None if samples_per_second is None else Rate(samples_per_second)
    profile = None if rate is None else Profile(train=rate, down=Rate(1e6), up=Rate(1e6))
    return Candidate(name=name, profile=profile, max_shards=samples)


def problem(*learners, **rules):
    return EdgeGossipProblem(
        learners=[
            BalancedLearner(name=f"w{number}", samples_per_second=rate, samples=samples)
            for number, (rate, samples) in enumerate(learners)
        ],
        **rules,
    )


class TestEdgeGossip:
    @pytest.mark.parametrize(("max_ratio", "counts"), [(1.0, [3750, 1500, 1500]), (0.5, [1875, 750, 750])])
    def test_all_take_as_long_as_the_fastest_with_the_allowed_part_of_its_data(self, max_ratio, counts):
        # T is 20 s, 50 s and 15 s; the last one is the fastest, since it has little.
        candidates = [peer("a", 250.0, 5000), peer("b", 100.0, 5000), peer("c", 100.0, 1500)]
        allocated = EdgeGossipAllocation(max_ratio=max_ratio).allocate(TERMS, candidates)
        assert allocated == [Allocation(count, 2) for count in counts]

    def test_who_failed_or_has_no_data_sits_out_and_is_not_the_fastest(self):
        candidates = [peer("a", 100.0, 1000), peer("b", 0.0009, 1), peer("c", 0.001, 1000), peer("d", None, 1000)]
        candidates.append(peer("e", 50.0, 0))
        policy = EdgeGossipAllocation()
        assert policy.failed(candidates) == ["b", "d"]
        assert policy.allocate(TERMS, candidates) == [
            Allocation(1000, 2),
            SITS_OUT,
            Allocation(1, 2),
            SITS_OUT,
            SITS_OUT,
        ]

    @pytest.mark.parametrize(("num_failed", "is_exceptional"), [(0, False), (1, False), (2, True), (10, True)])
    def test_more_than_a_tenth_is_an_exception(self, num_failed, is_exceptional):
        candidates = [peer(f"p{n}", None if n < num_failed else 10.0, 5) for n in range(10)]
        assert EdgeGossipAllocation().is_exceptional(candidates) is is_exceptional
        assert EdgeGossipAllocation(max_failed=1.0).is_exceptional(candidates) is False


def test_with_all_data_everybody_trains_all_it_has():
    candidates = [peer("a", 100.0, 1000), peer("b", 1e-9, 70), peer("c", None, 5), peer("d", 10.0, 0)]
    policy = AllDataAllocation()
    assert policy.allocate(TERMS, candidates) == [*(Allocation(count, 2) for count in (1000, 70, 5)), SITS_OUT]
    assert (policy.failed(candidates), policy.is_exceptional(candidates)) == ([], False)


RATES = st.floats(1e-3, 1e6)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.just(0.0) | RATES), max_size=20))
def test_kept_is_balanced(peers):
    counts, rates = [count for count, _ in peers], [rate for _, rate in peers]
    found = kept(counts, rates)
    usable = [(count, rate) for count, rate in peers if count and rate]
    fastest_seconds = min((count / rate for count, rate in usable), default=0.0)
    for count, rate, keeps in zip(counts, rates, found, strict=True):
        if count and rate:
            assert 1 <= keeps <= count
            assert keeps == 1 or abs(keeps - fastest_seconds * rate) <= 0.5 * (1 + 1e-9)
        else:
            assert keeps == 0
    assert not usable or any(keeps == count for count, rate, keeps in zip(counts, rates, found, strict=True) if rate)


HOLDERS = {"a": ("b", "c"), "b": ("c", "d"), "c": ("d", "a"), "d": ("a", "b")}


class TestTakeOver:
    @pytest.mark.parametrize(
        ("failed", "living", "heirs", "missing"),
        [
            ({"b", "a"}, {"c", "d"}, {"a": "c", "b": "c"}, ()),
            ({"a"}, {"b", "c", "d"}, {"a": "b"}, ()),
            ({"a", "d"}, {"b", "c"}, {"a": "b", "d": "b"}, ()),  # a's part stays where it is when d fails
            (["c", "d", "e"], ["b"], {"d": "b"}, ("c", "e")),
        ],
    )
    def test_the_first_living_holder_takes_the_part_if_there_is_one(self, failed, living, heirs, missing):
        assert take_over(failed, living, HOLDERS) == (heirs, missing)


class TestProblem:
    def test_the_objective_is_the_longest_epoch(self):
        reply = problem((250, 5000), (100, 5000), (100, 1500)).solve()
        assert [share.samples for share in reply.allocation] == [3750, 1500, 1500]
        assert (reply.status, reply.objective, reply.bound, reply.cost) == ("optimal", 15, 15, None)

    def test_rounding_may_take_longer_than_the_fastest(self):
        reply = problem((100, 150), (0.5, 400)).solve()
        assert reply.allocation == [
            AllocatedShare(learner="w0", samples=150, iterations=1),
            AllocatedShare(learner="w1", samples=1, iterations=1),
        ]
        assert (reply.status, reply.objective, reply.bound) == ("optimal", 2, 2)  # one sample is the least
        reply = problem((100, 160), (1, 400)).solve()
        assert [share.samples for share in reply.allocation] == [160, 2]
        assert (reply.status, reply.objective, reply.bound) == ("feasible", 2, 1.6)

    @pytest.mark.parametrize(
        ("posed", "reason"),
        [
            (
                problem((10, 10), (0.0001, 10), (0, 10)),
                "2 of 3 learners failed, below min_samples_per_second, 0.001: 'w1', 'w2'; max_failed is 0.1",
            ),
            (problem((0, 10), max_failed=1.0), "1 of 1 learners failed, .*: 'w0'; nobody is left"),
            (problem(*[(0, 1)] * 8, (5, 5)), "'w0', 'w1', 'w2', 'w3', 'w4' and 3 more; max_failed is 0.1"),
        ],
    )
    def test_where_the_algorithm_halts_it_is_infeasible(self, posed, reason):
        reply = posed.solve()
        assert (reply.status, reply.objective, reply.allocation) == ("infeasible", None, [])
        assert msgspec.json.decode(msgspec.json.encode(reply))["reason"] == reply.reason
        assert re.search(reason, reply.reason)
