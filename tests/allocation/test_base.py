import msgspec
import pytest

from paceline.allocation import Candidate, EqualAllocation, Timings
from paceline.devices.profiles import Profile, Rate
from paceline.testing.allocation import TERMS

ROUND = Timings(down_bytes=10, down_seconds=1.0, num_samples=10, train_seconds=1.0, up_bytes=1000, up_seconds=2.0)


@pytest.mark.parametrize(("max_shards", "most"), [(None, 120), (5, 5), (500, 120), (0, 0)])
def test_a_candidate_gets_no_more_than_it_will_take(max_shards, most):
    assert Candidate(name="pi1", max_shards=max_shards).most_shards(TERMS) == most


class TestUploadSeconds:
    def upload_seconds(self, candidate):
        return EqualAllocation().upload_seconds(TERMS, candidate)

    @pytest.mark.parametrize(("spread", "factor"), [(0.0, 1.0), (0.1, 1.3), (5.0, 2.0)])
    def test_the_benchmark_and_three_spreads_up_to_twice(self, spread, factor):
        profile = Profile(train=Rate(1.0), down=Rate(1.0), up=Rate(80_000.0, spread), latency_seconds=0.25)
        candidate = Candidate(name="pi1", profile=profile, history=(ROUND,))
        assert self.upload_seconds(candidate) == pytest.approx(0.25 + 2.0 * factor)

    def test_the_slowest_of_the_past_if_there_was_no_benchmark(self):
        slow = msgspec.structs.replace(ROUND, up_seconds=4.0)
        unmeasured = msgspec.structs.replace(ROUND, up_bytes=0, up_seconds=0.0)
        candidate = Candidate(name="pi1", history=(ROUND, slow, unmeasured))
        assert self.upload_seconds(candidate) == pytest.approx(4.0 * TERMS.model_bytes / 1000)

    def test_a_tenth_of_the_deadline_if_nothing_is_known(self):
        assert self.upload_seconds(Candidate(name="pi1")) == pytest.approx(1.5)
