import random

import msgspec
import pytest

from paceline.allocation import SITS_OUT, Allocation, Candidate, CsaAllocation, EqualAllocation, SyncAllocation, costs
from paceline.allocation.csa import CsaProblem
from paceline.allocation.cycle_problem import CycleLearner
from paceline.allocation.sync import SyncProblem
from paceline.devices.profiles import Profile, Rate
from paceline.testing.allocation import TERMS, make_candidate


def make_candidates(size, seed=0):
    return [make_candidate(f"device{n}", seed=100 * seed + n) for n in range(size)]


def problem_fields(terms, candidates):
    """The same as a problem of one cycle, in shards."""
    return {
        "samples": terms.num_shards,
        "cycle_seconds": terms.deadline_seconds,
        "learners": [
            CycleLearner(
                name=candidate.name,
                c2=costs.local_epoch_seconds(terms, candidate.profile),
                c1=costs.download_seconds(terms, candidate.profile),
                c0=costs.fixed_seconds(terms, candidate.profile),
            )
            for candidate in candidates
        ],
    }


def seconds(terms, candidate, allocation):
    each = costs.download_seconds(terms, candidate.profile)
    each += allocation.local_epochs * costs.local_epoch_seconds(terms, candidate.profile)
    return costs.fixed_seconds(terms, candidate.profile) + allocation.num_shards * each


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("policy", "kind"), [(CsaAllocation(), CsaProblem), (SyncAllocation(), SyncProblem)])
def test_the_policy_is_the_solver_in_shards(policy, kind, seed):
    candidates, terms = make_candidates(6, seed), msgspec.structs.replace(TERMS, deadline_seconds=120.0)
    allocated = policy.allocate(terms, candidates)
    reply = kind(**problem_fields(terms, candidates)).solve()
    assert reply.status == "optimal"
    assert allocated == [Allocation(share.samples, share.iterations) for share in reply.allocation]
    assert sum(allocation.num_shards for allocation in allocated) == terms.num_shards
    for candidate, allocation in zip(candidates, allocated, strict=True):
        assert seconds(terms, candidate, allocation) <= terms.deadline_seconds * (1 + 1e-6)


@pytest.mark.parametrize("policy", [CsaAllocation(), SyncAllocation()])
def test_data_that_cannot_be_done_in_time_is_shared_out_all_the_same(policy):
    """All overrun the deadline alike, by as little as can be: one shard less and a learner would be done before."""
    candidates, terms = make_candidates(5), msgspec.structs.replace(TERMS, deadline_seconds=1.0, num_shards=2000)
    allocated = policy.allocate(terms, candidates)
    taking = [pair for pair in zip(candidates, allocated, strict=True) if pair[1] != SITS_OUT]
    assert sum(allocation.num_shards for _, allocation in taking) == 2000
    latest = max(seconds(terms, *pair) for pair in taking)
    assert latest > terms.deadline_seconds
    for candidate, allocation in taking:
        assert allocation.local_epochs == 1
        assert seconds(terms, candidate, Allocation(allocation.num_shards + 2, 1)) > latest * (1 - 1e-5)


def test_who_has_no_time_for_the_least_share_sits_out():
    slow = Candidate(name="slow", profile=Profile(train=Rate(10.0), down=Rate(1e6), up=Rate(1e6)))
    allocated = CsaAllocation().allocate(TERMS, [slow, *make_candidates(3)])
    assert allocated[0] == SITS_OUT
    assert sum(allocation.num_shards for allocation in allocated) == TERMS.num_shards
    assert CsaAllocation().allocate(TERMS, [slow]) == [Allocation(TERMS.num_shards, 1)]


def test_fewer_shards_than_learners_go_to_the_fastest():
    candidates, terms = make_candidates(8), msgspec.structs.replace(TERMS, num_shards=5, deadline_seconds=600.0)
    allocated = CsaAllocation(min_shards=2).allocate(terms, candidates)
    needed = {n: seconds(terms, candidate, Allocation(2, 1)) for n, candidate in enumerate(candidates)}
    fastest = sorted(needed, key=needed.__getitem__)[:2]
    assert sorted(n for n, allocation in enumerate(allocated) if allocation.num_shards) == sorted(fastest)
    assert sum(allocation.num_shards for allocation in allocated) == 5


def test_limits_of_the_policy_and_of_learners_are_kept():
    candidates = [make_candidate("a", seed=1, max_shards=3), make_candidate("b", seed=2), make_candidate("c", seed=3)]
    terms = msgspec.structs.replace(TERMS, deadline_seconds=600.0)
    allocated = CsaAllocation(min_shards=2, max_shards=50, min_local_epochs=2).allocate(terms, candidates)
    assert all(2 <= shards <= most for (shards, _), most in zip(allocated, (3, 50, 50), strict=True))
    assert all(local_epochs >= 2 for _, local_epochs in allocated)
    assert sum(shards for shards, _ in allocated) == 103


LOCAL = msgspec.structs.replace(TERMS, deadline_seconds=60.0, shard_bytes=0, num_shards=0)


def with_own_data(size, seed):
    """Candidates that have from 5 to 40 shards of their own; the first takes no more than 4."""
    chance = random.Random(seed)
    owners = [msgspec.structs.replace(one, num_shards=chance.randint(5, 40)) for one in make_candidates(size, seed)]
    return [msgspec.structs.replace(owners[0], max_shards=4), *owners[1:]]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("policy", "kind"), [(CsaAllocation, CsaProblem), (SyncAllocation, SyncProblem)])
def test_shards_of_their_own_are_allocated_as_the_solver_does_without_the_data_term(policy, kind, seed):
    candidates = with_own_data(6, seed)
    allocated = policy(shards_per_round=40).allocate(LOCAL, candidates)
    taking = [candidate for candidate, one in zip(candidates, allocated, strict=True) if one != SITS_OUT]
    fields = problem_fields(msgspec.structs.replace(LOCAL, num_shards=40), taking)
    learners = [
        msgspec.structs.replace(learner, max_samples=candidate.most_shards(LOCAL))
        for learner, candidate in zip(fields["learners"], taking, strict=True)
    ]
    assert all(learner.c1 == 0 for learner in learners)
    reply = kind(**{**fields, "learners": learners}).solve()
    assert [one for one in allocated if one != SITS_OUT] == [
        Allocation(share.samples, share.iterations) for share in reply.allocation
    ]


@pytest.mark.parametrize("policy", [CsaAllocation(), SyncAllocation()])
@pytest.mark.parametrize("deadline_seconds", [0.5, 5.0, 3600.0])
def test_of_their_own_shards_all_that_can_be_done_in_time_are_allocated(policy, deadline_seconds):
    candidates = with_own_data(6, 3)
    terms = msgspec.structs.replace(LOCAL, deadline_seconds=deadline_seconds)
    allocated = policy.allocate(terms, candidates)
    for candidate, one in zip(candidates, allocated, strict=True):
        assert one.num_shards <= candidate.most_shards(terms)
        if one != SITS_OUT and one.num_shards < candidate.most_shards(terms):
            assert seconds(terms, candidate, Allocation(one.num_shards + 1, 1)) > deadline_seconds
        if one.num_shards > 1:
            assert seconds(terms, candidate, one) <= deadline_seconds * (1 + 1e-6)
    if deadline_seconds == 3600.0:
        assert [one.num_shards for one in allocated] == [one.most_shards(terms) for one in candidates]


def test_equal_shares_of_their_own_data_end_with_what_each_has():
    candidates = [Candidate(name=f"d{number}", num_shards=own) for number, own in enumerate((3, 10, 20, 0))]
    for wanted, counts in ((None, [3, 10, 20, 0]), (12, [3, 5, 4, 0]), (999, [3, 10, 20, 0])):
        allocated = EqualAllocation(shards_per_round=wanted).allocate(LOCAL, candidates)
        assert [one.num_shards for one in allocated] == counts


def test_a_round_may_be_of_some_of_the_shards():
    terms = msgspec.structs.replace(TERMS, deadline_seconds=600.0)
    for policy in (CsaAllocation, SyncAllocation, EqualAllocation):
        allocated = policy(shards_per_round=50).allocate(terms, make_candidates(4))
        assert sum(one.num_shards for one in allocated) == 50
        with pytest.raises(ValueError, match="shards_per_round is 0; it must be at least 1"):
            policy(shards_per_round=0)


@pytest.mark.parametrize(
    ("caps", "shards"),
    [([None] * 7, [18, 17, 17, 17, 17, 17, 17]), ([10, 20], [10, 20]), ([None, 1, None, 0], [60, 1, 59, 0])],
)
def test_equal_shares_whatever_the_devices_can_do(caps, shards):
    candidates = [Candidate(name=f"device{n}", max_shards=cap) for n, cap in enumerate(caps)]
    expected = [Allocation(count, TERMS.local_epochs) if count else SITS_OUT for count in shards]
    assert EqualAllocation().allocate(TERMS, candidates) == expected


def test_equal_shares_with_as_many_local_epochs_as_fit():
    candidates, terms = make_candidates(4), msgspec.structs.replace(TERMS, deadline_seconds=200.0)
    allocated = EqualAllocation(asynchronous=True).allocate(terms, candidates)
    assert [allocation.num_shards for allocation in allocated] == [30] * 4
    assert len({allocation.local_epochs for allocation in allocated}) > 1
    for candidate, allocation in zip(candidates, allocated, strict=True):
        more = allocation._replace(local_epochs=allocation.local_epochs + 1)
        assert seconds(terms, candidate, more) > terms.deadline_seconds
        assert allocation.local_epochs == 1 or seconds(terms, candidate, allocation) <= terms.deadline_seconds
    assert (EqualAllocation(asynchronous=True).needs_profiles, EqualAllocation().needs_profiles) == (True, False)
