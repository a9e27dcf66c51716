"""Problems as `paceline allocate` reads and answers them."""

import json
import re
from pathlib import Path

import msgspec
import pytest

from paceline.allocation import PROBLEMS, AllocatedShare, read_problem
from paceline.errors import ConfigError

PI = {"name": "pi", "samples_per_second": 2500, "down_bytes_per_second": 2e6, "up_bytes_per_second": 1e6}
SLOW = {**PI, "name": "slow", "samples_per_second": 100}
DAB = {
    "policy": "dab",
    "deadline_seconds": 15,
    "iterations": 5,
    "model_bytes": 160_000,
    "shard_bytes": 400_000,
    "shard_samples": 500,
    "learners": [PI, SLOW],
}
FAST = {"name": "w0", "c2": 1e-4, "c1": 1e-4, "c0": 0.5}
SLUG = {"name": "w1", "c2": 4e-4, "c1": 1e-4, "c0": 0.5}
ETA = {
    "policy": "eta",
    "samples": 10_001,
    "cycle_seconds": 15,
    "min_samples": 1000,
    "max_samples": 20_000,
    "min_iterations": 1,
    "learners": [FAST, SLUG],
}


def read(problem):
    return read_problem(json.dumps(problem).replace("Infinity", "1e999").encode(), "problem.json")


def solve(problem, **changes):
    return read({**problem, **changes}).solve()


class TestDab:
    def test_each_learner_gets_what_it_can_finish(self):
        """15 s − 0.24 s for the parameters; a shard takes 0.2 s to download and 1 s to train, or 25 s."""
        reply = solve(DAB)
        assert reply.allocation == [
            AllocatedShare(learner="pi", shards=12, iterations=5),
            AllocatedShare(learner="slow", shards=0, iterations=0),
        ]
        assert (reply.status, reply.objective, reply.bound) == ("optimal", 12, 12)
        assert (reply.cost, reply.reason) == (None, None)

    def test_nobody_can_finish_a_shard(self):
        reply = solve(DAB, deadline_seconds=1.4)
        assert (reply.status, reply.objective, reply.bound, reply.allocation) == ("infeasible", None, None, [])
        assert "deadline_seconds, 1.4; the fastest, 'pi', needs 1.44" in reply.reason


class TestEta:
    def test_equal_samples_and_as_many_local_epochs_as_fit(self):
        reply = solve(ETA)
        assert reply.allocation == [
            AllocatedShare(learner="w0", samples=5001, iterations=27),  # (15 − 0.5 − 0.5001) / 0.5001
            AllocatedShare(learner="w1", samples=5000, iterations=7),
        ]
        assert (reply.status, reply.objective, reply.bound) == ("feasible", 20, 0)

    def test_limits_of_samples_may_be_left_out(self):
        plain = {
            key: value for key, value in ETA.items() if key not in ("min_samples", "max_samples", "min_iterations")
        }
        assert solve(plain) == solve(ETA)

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"min_samples": 5001}, "learner 'w1' would get 5000 samples; min_samples is 5001"),
            ({"max_samples": 5000}, "learner 'w0' would get 5001 samples; max_samples is 5000"),
            ({"min_iterations": 8}, "learner 'w1' has time for 7 iterations of its 5000 samples in cycle_seconds, 15"),
            ({"cycle_seconds": 0.4}, "learner 'w0' has time for 0 iterations"),
            ({"samples": 1, "min_samples": 1}, "learner 'w1' would get 0 samples; min_samples is 1"),
        ],
    )
    def test_the_reason_names_learner_and_constraint(self, changes, reason):
        reply = solve(ETA, **changes)
        assert reply.status == "infeasible"
        assert reason in reply.reason


def test_a_reply_has_all_keys_and_a_share_those_that_apply():
    assert json.loads(msgspec.json.encode(solve(DAB, learners=[PI]))) == {
        "status": "optimal",
        "objective": 12,
        "bound": 12,
        "cost": None,
        "solve_seconds": 0.0,
        "reason": None,
        "allocation": [{"learner": "pi", "shards": 12, "iterations": 5}],
    }


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ([], 'a problem is an object, like {"policy": …}; this is []'),
        ({}, "policy is None; allowed: csa, csa-relaxed, csa-sai, dab, edge-gossip, eta, greedy, med, mmtt, sync"),
        (
            {"policy": "dap"},
            "policy is 'dap'; did you mean 'dab'? Allowed: csa, csa-relaxed, csa-sai, dab, edge-gossip, eta, ",
        ),
        ({**DAB, "iteration": 5}, "unknown key 'iteration'; did you mean 'iterations'? Allowed: deadline_seconds, "),
        ({"policy": "eta", "samples": 5}, "cycle_seconds is missing"),
        ({**DAB, "learners": []}, "learners is []: Expected `array` of length >= 1"),
        ({**DAB, "learners": [PI, PI]}, "learners[1].name is 'pi', as in learners[0]; names must differ"),
        ({**DAB, "learners": [PI, 7]}, "learners[1] is 7; it must be a table, or a DabLearner"),
        ({**DAB, "learners": [{**PI, "name": "a\nb"}]}, "learners[0].name is 'a\\nb'"),
        ({**DAB, "learners": [PI, {"name": "x"}]}, "learners[1]: samples_per_second is missing"),
        ({**DAB, "learners": [{**PI, "price": 1}]}, "learners[0]: unknown key 'price'; allowed: down_bytes_per_second"),
        (
            {**DAB, "learners": [PI, {**SLOW, "samples_per_second": -3}]},
            "learners[1].samples_per_second is -3; it must be above 0",
        ),
        ({**DAB, "deadline_seconds": float("inf")}, "deadline_seconds is inf; it must be above 0 and at most "),
        ({**DAB, "deadline_seconds": "15"}, "deadline_seconds is '15'; it must be a number"),
        ({**DAB, "iterations": 0}, "iterations is 0; it must be at least 1"),
        ({**DAB, "iterations": 2.5}, "iterations is 2.5; it must be a whole number"),
        ({**DAB, "model_bytes": 10**30}, "model_bytes is 1000000000000000000000000000000; "),
        ({**ETA, "min_samples": 30_000}, "min_samples is 30000, above max_samples, 20000"),
        ({**ETA, "learners": [FAST, FAST]}, "learners[1].name is 'w0', as in learners[0]"),
    ],
)
def test_bad_input_is_told_in_one_line(problem, message):
    with pytest.raises(ConfigError) as caught:
        read(problem)
    assert str(caught.value).startswith(f"problem.json: {message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b'{"policy": NaN}', b"[" * 100_000])
def test_what_is_not_json(text):
    with pytest.raises(ConfigError, match="problem.json: not JSON: "):
        read_problem(text, "problem.json")


def test_whole_floats_are_whole_numbers():
    assert solve(DAB, shard_bytes=4e5) == solve(DAB)


def test_the_reference_has_an_example_of_each_problem_and_it_can_be_solved():
    page = Path(__file__).parents[2] / "docs/reference/allocation.md"
    examples = re.findall(r"^```json\n(.*?)^```", page.read_text(), re.M | re.S)
    assert [json.loads(example)["policy"] for example in examples] == list(PROBLEMS)
    assert all(read_problem(e.encode(), "example").solve().status != "infeasible" for e in examples)
