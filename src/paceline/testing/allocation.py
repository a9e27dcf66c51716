"""The contract of allocation policies: what learners and orchestrators rely on, whatever decides the shares."""

from __future__ import annotations

import dataclasses
import math
import random

import msgspec
import pytest

from paceline.allocation import SITS_OUT, AllocationPolicy, Candidate, RoundTerms, Timings
from paceline.devices.profiles import Outlook, Profile, Rate

TERMS = RoundTerms(
    deadline_seconds=15.0, local_epochs=5, model_bytes=160_000, shard_bytes=392_500, shard_samples=500, num_shards=120
)


def make_candidate(
    name: str = "pi1", *, seed: int = 0, num_rounds: int = 0, max_shards: int | None = None
) -> Candidate:
    """A learner with rates drawn at random, and past rounds that took what they should, give or take a fifth."""
    chance = random.Random(seed)
    train, down, up = (10 ** chance.uniform(low, low + 2) for low in (2.5, 5.5, 5.0))
    history = []
    for _ in range(num_rounds):
        num_bytes, num_samples = TERMS.model_bytes + 5 * TERMS.shard_bytes, 5 * 5 * TERMS.shard_samples
        history.append(
            Timings(
                down_bytes=num_bytes,
                down_seconds=0.01 + num_bytes / (down * chance.uniform(0.8, 1.2)),
                num_samples=num_samples,
                train_seconds=num_samples / (train * chance.uniform(0.8, 1.2)),
                up_bytes=TERMS.model_bytes,
                up_seconds=0.01 + TERMS.model_bytes / (up * chance.uniform(0.8, 1.2)),
            )
        )
    profile = Profile(train=Rate(train, 0.05), down=Rate(down, 0.1), up=Rate(up, 0.1), latency_seconds=0.01)
    return Candidate(
        name=name,
        profile=profile,
        history=tuple(history),
        max_shards=max_shards,
        outlook=(Outlook(state="idle", probability=1.0, profile=profile),),
        state="idle",
    )


def make_candidates(size: int, *, seed: int = 0, num_rounds: int = 0) -> list[Candidate]:
    """Unequal learners; every third takes no more than a few shards."""
    return [
        make_candidate(
            f"device{n}", seed=1000 * seed + n, num_rounds=num_rounds, max_shards=None if n % 3 else 1 + n % 5
        )
        for n in range(size)
    ]


class PolicyContract:
    """Inherit and provide a fixture `policy`.

    Any policy passes that decides from its arguments alone and gives nobody more than there is, or than it will take.
    """

    @pytest.mark.parametrize("num_rounds", [0, 1, 40])
    @pytest.mark.parametrize("size", [0, 1, 2, 7, 30])
    def test_a_whole_number_for_each_within_its_limits(
        self, policy: AllocationPolicy, size: int, num_rounds: int
    ) -> None:
        candidates = make_candidates(size, seed=size, num_rounds=num_rounds)
        allocated = policy.allocate(TERMS, candidates)
        assert len(allocated) == size
        for (num_shards, local_epochs), candidate in zip(allocated, candidates, strict=True):
            assert type(num_shards) is type(local_epochs) is int
            assert 0 <= num_shards <= candidate.most_shards(TERMS)
            assert (local_epochs >= 1) == (num_shards >= 1)

    @pytest.mark.parametrize("num_rounds", [0, 40])
    def test_whoever_is_fast_enough_gets_some(self, policy: AllocationPolicy, num_rounds: int) -> None:
        fast = [make_candidate(f"device{seed}", seed=seed, num_rounds=num_rounds) for seed in range(10)]
        terms = msgspec.structs.replace(TERMS, deadline_seconds=3600.0)
        assert all(allocation.num_shards >= 1 for allocation in policy.allocate(terms, fast))

    def test_same_arguments_same_answer(self, policy: AllocationPolicy) -> None:
        candidates, other = make_candidates(5, seed=1, num_rounds=10), make_candidates(5, seed=2, num_rounds=10)
        first = policy.allocate(TERMS, candidates)
        policy.allocate(TERMS, other)
        assert policy.allocate(TERMS, tuple(candidates)) == first
        assert policy.upload_seconds(TERMS, candidates[0]) == policy.upload_seconds(TERMS, candidates[0])

    def test_nothing_there_nothing_given(self, policy: AllocationPolicy) -> None:
        nothing = msgspec.structs.replace(TERMS, num_shards=0)
        assert policy.allocate(nothing, make_candidates(4, num_rounds=3)) == [SITS_OUT] * 4
        assert policy.allocate(TERMS, [make_candidate(num_rounds=3, max_shards=0)]) == [SITS_OUT]

    @pytest.mark.parametrize("num_rounds", [0, 10])
    def test_learners_decide_alone(self, policy: AllocationPolicy, num_rounds: int) -> None:
        candidates = make_candidates(6, num_rounds=num_rounds)
        alone = [policy.allocate(TERMS, [candidate])[0] for candidate in candidates]
        assert policy.decided_by != "learner" or policy.allocate(TERMS, candidates) == alone

    @pytest.mark.parametrize("num_rounds", [0, 10])
    def test_more_time_is_not_fewer_shards(self, policy: AllocationPolicy, num_rounds: int) -> None:
        candidates = make_candidates(6, seed=3, num_rounds=num_rounds)
        by_seconds = [
            policy.allocate(msgspec.structs.replace(TERMS, deadline_seconds=float(seconds)), candidates)
            for seconds in (0.1, 1, 5, 15, 60, 600)
        ]
        totals = [sum(allocation.num_shards for allocation in allocated) for allocated in by_seconds]
        assert totals == sorted(totals)
        if policy.decided_by == "learner":
            for counts in zip(*([allocation.num_shards for allocation in one] for one in by_seconds), strict=True):
                assert list(counts) == sorted(counts)

    @pytest.mark.parametrize("num_rounds", [0, 10])
    def test_time_is_kept_for_the_upload(self, policy: AllocationPolicy, num_rounds: int) -> None:
        for seed in range(10):
            candidate = make_candidate(seed=seed, num_rounds=num_rounds)
            assert candidate.profile is not None
            at_best_seconds = TERMS.model_bytes / (1.2 * candidate.profile.up.per_second)
            kept_seconds = policy.upload_seconds(TERMS, candidate)
            assert at_best_seconds <= kept_seconds < math.inf

    def test_is_frozen(self, policy: AllocationPolicy) -> None:
        for field in dataclasses.fields(policy):  # type: ignore[arg-type]
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(policy, field.name, None)
        assert hash(policy) == hash(dataclasses.replace(policy))  # type: ignore[type-var]
