import pytest

from paceline.allocation.cycle_problem import CycleLearner
from paceline.allocation.sync import SyncProblem

LEARNERS = [CycleLearner(name="a", c2=1.0), CycleLearner(name="b", c2=0.5, c0=1.0)]


@pytest.mark.parametrize(
    ("changes", "best", "local_epochs"),
    [
        ({}, ([3, 5], [2, 6]), 3),  # at 4 local epochs a can take 2 and b 5, which is not enough; at 3, 3 and 6
        ({"samples": 2, "max_samples": 1}, ([1, 1],), 11),  # b, who has time for more, waits
        ({"min_samples": 4}, ([4, 4],), 2),
    ],
)
def test_the_most_that_all_have_time_for(changes, best, local_epochs):
    reply = SyncProblem(**{"samples": 8, "cycle_seconds": 11, "learners": LEARNERS, **changes}).solve()
    assert (reply.status, reply.objective, reply.bound) == ("optimal", local_epochs, local_epochs)
    assert [share.iterations for share in reply.allocation] == [local_epochs] * 2
    assert [share.samples for share in reply.allocation] in best
