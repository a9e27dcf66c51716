import random

import msgspec
import pytest

from paceline.allocation import Candidate, DabAllocation, RoundTerms
from paceline.devices.profiles import Profile, Rate
from paceline.errors import ConfigError
from paceline.testing.allocation import TERMS, make_candidate


def shards_of(terms, candidate):
    return DabAllocation().allocate(terms, [candidate])[0].num_shards


def test_the_example_of_the_formula():
    """15 s − 2·0.1 s − 1 s − 2 s = 11.8 s, of which a shard takes 0.5 s to download and 2.5 s to train."""
    terms = RoundTerms(
        deadline_seconds=15,
        local_epochs=5,
        model_bytes=1_000_000,
        shard_bytes=500_000,
        shard_samples=500,
        num_shards=99,
    )
    profile = Profile(train=Rate(1000.0), down=Rate(1e6), up=Rate(0.5e6), latency_seconds=0.1)
    candidate = Candidate(name="pi1", profile=profile)
    assert shards_of(terms, candidate) == 3
    assert shards_of(msgspec.structs.replace(terms, deadline_seconds=15.2), candidate) == 4
    assert shards_of(msgspec.structs.replace(terms, deadline_seconds=6.1), candidate) == 0
    assert shards_of(msgspec.structs.replace(terms, deadline_seconds=2.0), candidate) == 0


def test_one_more_would_be_late():
    for seed in range(300):
        chance = random.Random(seed)
        candidate = make_candidate(seed=seed)
        terms = msgspec.structs.replace(
            TERMS, deadline_seconds=chance.uniform(1, 100), local_epochs=chance.randint(1, 9), num_shards=10**9
        )
        profile = candidate.profile

        def seconds(count, terms=terms, profile=profile):
            down = (terms.model_bytes + count * terms.shard_bytes) / profile.down.per_second
            train = terms.local_epochs * count * terms.shard_samples / profile.train.per_second
            return 2 * profile.latency_seconds + down + train + terms.model_bytes / profile.up.per_second

        count = shards_of(terms, candidate)
        assert count == 0 or seconds(count) <= terms.deadline_seconds
        assert seconds(count + 1) > terms.deadline_seconds


def test_without_latency_and_with_equal_links_it_is_the_paper_s():
    """Eq. 5: a < (D − 2Ωm/b) / (μ/c + Ωd/b), with c in shards per second."""
    b, c = 1.7e6, 3.1
    profile = Profile(train=Rate(c * TERMS.shard_samples), down=Rate(b), up=Rate(b))
    bound = (TERMS.deadline_seconds - 2 * TERMS.model_bytes / b) / (TERMS.local_epochs / c + TERMS.shard_bytes / b)
    assert shards_of(TERMS, Candidate(name="pi1", profile=profile)) == int(bound)


def test_past_rounds_do_not_count():
    assert shards_of(TERMS, make_candidate(num_rounds=30)) == shards_of(TERMS, make_candidate())


def test_a_learner_that_was_not_measured():
    with pytest.raises(ConfigError, match="dab: learner 'pi1' has no profile"):
        shards_of(TERMS, Candidate(name="pi1"))
