"""The least staleness, against trying everything; and what holds for all problems."""

import itertools
import random
from bisect import bisect_left

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.allocation.csa import CsaProblem, RelaxedCsaProblem, SuggestedCsaProblem
from paceline.allocation.cycle_problem import CycleLearner
from paceline.allocation.equal import EtaProblem
from paceline.allocation.staleness import staleness
from paceline.allocation.sync import SyncProblem
from paceline.errors import ConfigError
from tests.allocation.cycles import largest_sum, learner, small_fields, try_all

FAST = CycleLearner(name="w0", c2=1e-4, c1=1e-4, c0=0.5)
SLOW = CycleLearner(name="w1", c2=4e-4, c1=1e-4, c0=0.5)
FIELDS = {"samples": 10_001, "cycle_seconds": 15, "learners": [FAST, SLOW]}


def sum_of_local_epochs(reply):
    return sum(share.iterations for share in reply.allocation)


def check(problem, reply):
    """The shares keep all limits and say what the formula says."""
    assert [share.learner for share in reply.allocation] == [learner.name for learner in problem.learners]
    assert sum(share.samples for share in reply.allocation) == problem.samples
    assert reply.allocation == problem.shares([share.samples for share in reply.allocation])
    assert [problem.broken(share) for share in reply.allocation] == [None] * len(reply.allocation)
    assert reply.objective == staleness(reply.allocation)
    assert reply.bound <= reply.objective
    assert (reply.status == "optimal") == (reply.bound == reply.objective)
    assert (reply.reason, reply.cost) == (None, None)


@pytest.mark.parametrize("block", range(5))
def test_nothing_is_better_of_all_that_can_be_tried(block):
    num_solved = 0
    for seed in range(150 * block, 150 * (block + 1)):
        fields = small_fields(random.Random(seed))
        problem = CsaProblem(**fields)
        best, reply, common = try_all(problem), problem.solve(), SyncProblem(**fields).solve()
        if best is None:
            assert reply.status == common.status == "infeasible", seed
            assert reply.reason == common.reason
            continue
        check(problem, reply)
        assert (reply.objective, sum_of_local_epochs(reply), common.objective) == best, seed
        num_solved += 1
    assert 50 < num_solved < 145


@pytest.mark.parametrize("seed", range(30))
def test_nothing_is_better_where_windows_are_wide(seed):
    chance = random.Random(seed)
    num_learners = chance.randint(3, 12)
    problem = CsaProblem(
        samples=chance.randint(5, 12) * num_learners,
        cycle_seconds=chance.uniform(5, 60),
        max_samples=20,
        learners=[learner(chance, number) for number in range(num_learners)],
    )
    reply = problem.solve()
    if reply.status == "infeasible":
        assert largest_sum(problem, 10**9) is None
        return
    check(problem, reply)
    assert largest_sum(problem, reply.objective - 1) is None
    assert largest_sum(problem, reply.objective) == sum_of_local_epochs(reply)


fleets = st.lists(
    st.builds(
        CycleLearner,
        name=st.just(""),
        c2=st.floats(1e-6, 10),
        c1=st.one_of(st.just(0.0), st.floats(1e-6, 1)),
        c0=st.floats(0, 5),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(
    fleet=fleets,
    per_learner=st.integers(1, 5000),
    cycle_seconds=st.floats(0.1, 1e4),
    lowest=st.floats(0, 1),
    highest=st.one_of(st.none(), st.floats(1, 5)),
    min_iterations=st.integers(0, 5),
    extra=st.integers(0, 29),
)
def test_what_holds_for_all(fleet, per_learner, cycle_seconds, lowest, highest, min_iterations, extra):
    fields = {
        "samples": per_learner * len(fleet) + extra % len(fleet),
        "cycle_seconds": cycle_seconds,
        "min_samples": max(1, int(lowest * per_learner)),
        "max_samples": None if highest is None else int(highest * per_learner) + 1,
        "min_iterations": min_iterations,
        "learners": [
            CycleLearner(name=f"w{number}", c2=own.c2, c1=own.c1, c0=own.c0) for number, own in enumerate(fleet)
        ],
    }
    problem = CsaProblem(**fields)
    reply, common = problem.solve(), SyncProblem(**fields).solve()
    most = [most_samples(problem, own) for own in problem.learners]
    is_possible = min(most) >= problem.min_samples and sum(most) >= problem.samples
    assert (reply.status != "infeasible") == is_possible
    if not is_possible:
        assert common.reason == reply.reason
        return
    check(problem, reply)
    assert common.objective >= min(share.iterations for share in reply.allocation)
    for baseline in (RelaxedCsaProblem, SuggestedCsaProblem):
        found = baseline(**fields).solve()
        check(problem, found)
        assert found.objective >= reply.objective


def most_samples(problem, own):
    """That leave time for the local epochs; less than the least if not even those do, or all have too few."""
    most = problem.samples - problem.min_samples * (len(problem.learners) - 1)
    most = most if problem.max_samples is None else min(most, problem.max_samples)
    counts = range(problem.min_samples, most + 1)
    return problem.min_samples - 1 + bisect_left(counts, True, key=lambda count: too_many(problem, own, count))


def too_many(problem, own, count):
    return problem.local_epochs(own, count) < problem.min_iterations


def test_of_equal_staleness_the_most_local_epochs():
    """Three samples for two: one has two samples and 5 local epochs, the other 10, or 3 of three; better the first."""
    fields = {"samples": 3, "cycle_seconds": 10, "learners": [CycleLearner(name=name, c2=1.0) for name in "ab"]}
    reply = CsaProblem(**fields).solve()
    assert (reply.objective, sum_of_local_epochs(reply)) == (5, 15)


def test_an_exact_fit_is_not_lost():
    """All of 0.1 s per sample and local epoch: 30 samples, three learners, and n local epochs take n seconds."""
    for count in range(1, 60):
        learners = [CycleLearner(name=name, c2=0.1) for name in "abc"]
        reply = CsaProblem(samples=30, cycle_seconds=count * 1.0, learners=learners).solve()
        assert [share.iterations for share in reply.allocation] == [count] * 3


def test_the_largest_numbers():
    learners = [CycleLearner(name=f"w{number}", c2=1e-15 * (1 + number), c0=number) for number in range(40)]
    problem = CsaProblem(samples=10**15, cycle_seconds=1e15, learners=learners)
    reply = problem.solve()
    check(problem, reply)
    many = CsaProblem(samples=40, cycle_seconds=1e15, learners=[CycleLearner(name="a", c2=1e-300)]).solve()
    assert many.allocation[0].iterations == 10**15


@pytest.mark.parametrize("kind", [CsaProblem, SyncProblem, RelaxedCsaProblem, SuggestedCsaProblem])
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"min_samples": 6000}, "2 × min_samples, 6000, is 12000, more than samples, 10001"),
        ({"max_samples": 5000}, "2 × max_samples, 5000, is 10000, less than samples, 10001"),
        (
            {"min_samples": 4000, "min_iterations": 9},
            "learner 'w1' has time for 8 iterations of min_samples, 4000, in cycle_seconds, 15; min_iterations is 9",
        ),
        (
            {"min_iterations": 30},
            "all learners together can take at most 5875 of samples, 10001, to do min_iterations, 30, in cycle_",
        ),
        (
            {"learners": [FAST, CycleLearner(name="w1", c2=4e-4, max_samples=5)], "max_samples": 900},
            "max_samples of all learners add up to 905, less than samples, 10001",
        ),
        ({"learners": [SLOW], "max_samples": 9}, "1 × max_samples, 9, is 9, less than samples, 10001"),
    ],
)
def test_the_reason_names_what_is_in_conflict(kind, changes, reason):
    reply = kind(**{**FIELDS, **changes}).solve()
    assert (reply.status, reply.objective, reply.bound, reply.allocation) == ("infeasible", None, None, [])
    assert reply.reason.startswith(reason)


def test_samples_that_learners_have_already_are_their_limit():
    has = [CycleLearner(name="w0", c2=1e-4, max_samples=2000), CycleLearner(name="w1", c2=4e-4, max_samples=9000)]
    fields = {**FIELDS, "learners": has}
    for kind in (CsaProblem, SyncProblem, EtaProblem, RelaxedCsaProblem, SuggestedCsaProblem):
        few, many = (share.samples for share in kind(**fields).solve().allocation)
        assert few <= 2000
        assert few + many == 10_001
    reply = EtaProblem(**{**fields, "samples": 11_001}).solve()
    assert reply.reason == "max_samples of all learners add up to 11000, less than samples, 11001"
    with pytest.raises(ConfigError, match="learner 'w0': max_samples is 2000, below min_samples, 2001"):
        CsaProblem(**fields, min_samples=2001)


def test_no_local_epochs_are_fine_if_asked_for():
    reply = CsaProblem(**{**FIELDS, "cycle_seconds": 0.4}, min_iterations=0).solve()
    assert (reply.objective, sum_of_local_epochs(reply)) == (0, 0)


def test_thousands_of_learners():
    chance = random.Random(0)
    learners = [learner(chance, number) for number in range(5000)]
    for max_samples, cycle_seconds in itertools.product((None, 4), (500.0, 5000.0)):
        problem = CsaProblem(samples=15_000, cycle_seconds=cycle_seconds, max_samples=max_samples, learners=learners)
        check(problem, problem.solve())
