from paceline.allocation.cycle import CycleLearner
from paceline.allocation.sync import SyncProblem

LEARNERS = [CycleLearner(name="a", c2=1.0), CycleLearner(name="b", c2=0.5, c0=1.0)]


def solve(**changes):
    return SyncProblem(**{"samples": 8, "cycle_seconds": 11, "learners": LEARNERS, **changes}).solve()


def test_the_most_that_all_have_time_for():
    """At 4 local epochs a can take 2 and b 5, which is not enough; at 3, 3 and 6."""
    reply = solve()
    assert (reply.status, reply.objective, reply.bound) == ("optimal", 3, 3)
    assert [share.iterations for share in reply.allocation] == [3, 3]
    assert sorted(share.samples for share in reply.allocation) in ([2, 6], [3, 5])


def test_who_has_time_for_more_waits():
    reply = solve(samples=2, max_samples=1)
    assert [(share.samples, share.iterations) for share in reply.allocation] == [(1, 11), (1, 11)]


def test_limits_are_kept():
    reply = solve(min_samples=4)
    assert [share.samples for share in reply.allocation] == [4, 4]
    assert reply.objective == 2
