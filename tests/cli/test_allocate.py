"""`paceline allocate` as a user sees it."""

import json
import subprocess
import sys

import pytest

from paceline.cli.allocate import MAX_PROBLEM_BYTES

PI = {"name": "[b]pi", "samples_per_second": 2500, "down_bytes_per_second": 2e6, "up_bytes_per_second": 1e6}
DAB = {
    "policy": "dab",
    "deadline_seconds": 15,
    "iterations": 5,
    "model_bytes": 160_000,
    "shard_bytes": 400_000,
    "shard_samples": 500,
    "learners": [PI],
}
ETA = {
    "policy": "eta",
    "samples": 10_000,
    "cycle_seconds": 15,
    "learners": [{"name": "w0", "c2": 1e-4, "c1": 1e-4, "c0": 0.5}, {"name": "w1", "c2": 4e-4, "c1": 1e-4, "c0": 0.5}],
}


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "paceline", "allocate", *map(str, arguments)],
        **{"capture_output": True, "text": True, "timeout": 60, **options},
    )


@pytest.fixture
def problem_file(tmp_path):
    def write(problem):
        path = tmp_path / "problem.json"
        path.write_text(json.dumps(problem))
        return path

    return write


def test_json_from_a_file_and_from_standard_input(problem_file):
    from_file = run(problem_file(DAB), "--json", "--time-limit", 5)
    assert (from_file.returncode, from_file.stderr) == (0, "")
    reply = json.loads(from_file.stdout)
    assert reply.pop("solve_seconds") >= 0
    assert reply == {
        "status": "optimal",
        "objective": 12,
        "bound": 12,
        "allocation": [{"learner": "[b]pi", "shards": 12, "iterations": 5}],
        "cost": None,
        "reason": None,
    }
    from_input = run("-", "--json", input=json.dumps(ETA))
    assert from_input.returncode == 0
    assert json.loads(from_input.stdout)["allocation"] == [
        {"learner": "w0", "samples": 5000, "iterations": 28},
        {"learner": "w1", "samples": 5000, "iterations": 7},
    ]


@pytest.mark.parametrize(
    ("policy", "status", "objective", "iterations"),
    [
        ("csa", "optimal", 0, [17, 17]),
        ("sync", "optimal", 17, [17, 17]),
        ("csa-relaxed", "optimal", 0, [17, 17]),
        ("csa-sai", "optimal", 0, [17, 17]),
        ("eta", "feasible", 21, [28, 7]),
    ],
)
def test_the_policies_of_a_cycle(policy, status, objective, iterations):
    result = run("-", "--json", input=json.dumps({**ETA, "policy": policy}))
    assert (result.returncode, result.stderr) == (0, "")
    reply = json.loads(result.stdout)
    assert (reply["status"], reply["objective"]) == (status, objective)
    assert [share["iterations"] for share in reply["allocation"]] == iterations
    assert sum(share["samples"] for share in reply["allocation"]) == 10_000
    beyond = run("-", "--json", input=json.dumps({**ETA, "policy": policy, "min_iterations": 30}))
    assert beyond.returncode == 3
    assert "min_iterations" in json.loads(beyond.stdout)["reason"]


def test_the_balancer_of_peers():
    learners = [
        {"name": "w0", "samples_per_second": 100, "samples": 500},
        {"name": "w1", "samples_per_second": 10, "samples": 500},
    ]
    result = run("-", "--json", input=json.dumps({"policy": "edge-gossip", "learners": learners}))
    assert (result.returncode, result.stderr) == (0, "")
    reply = json.loads(result.stdout)
    assert (reply["status"], reply["objective"], reply["cost"]) == ("optimal", 5, None)
    assert [share["samples"] for share in reply["allocation"]] == [500, 50]
    learners[1]["samples_per_second"] = 0
    halted = run("-", input=json.dumps({"policy": "edge-gossip", "learners": learners}))
    assert halted.returncode == 3
    assert "infeasible: 1 of 2 learners failed" in halted.stderr
    assert "'w1'; max_failed is 0.1" in halted.stderr


def test_a_table_for_people(problem_file):
    result = run(problem_file(DAB))
    assert (result.returncode, result.stderr) == (0, "")
    assert "optimal: 12 shards in all" in " ".join(result.stdout.split())
    assert all(word in result.stdout for word in ("learner", "shards", "iterations", "[b]pi"))


def test_infeasible_is_an_answer_with_an_exit_code_of_its_own(problem_file):
    path = problem_file({**DAB, "deadline_seconds": 1})
    as_json, plain = run(path, "--json"), run(path)
    assert (as_json.returncode, plain.returncode) == (3, 3)
    assert json.loads(as_json.stdout)["status"] == "infeasible"
    assert "within deadline_seconds, 1;" in json.loads(as_json.stdout)["reason"]
    assert plain.stdout == ""
    assert plain.stderr.startswith(f"paceline: {path}: infeasible: no learner can finish one shard")
    assert plain.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("problem", "options", "message"),
    [
        (
            {**DAB, "policy": "pace"},
            (),
            "problem.json: policy is 'pace'; allowed: csa, csa-relaxed, csa-sai, dab, edge-gossip, eta, ",
        ),
        (
            {**DAB, "learners": [{**PI, "samples_per_second": 0}]},
            (),
            "problem.json: learners[0].samples_per_second is 0",
        ),
        (DAB, ("--time-limit", "0"), "--time-limit is 0; it must be above 0"),
        (DAB, ("--time-limit", "nan"), "--time-limit is nan; it must be above 0"),
    ],
)
def test_bad_input_is_reported_in_one_line(problem_file, problem, options, message):
    result = run(problem_file(problem), *options)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_files_that_cannot_be_read(tmp_path):
    large = tmp_path / "large.json"
    with open(large, "wb") as file:
        file.truncate(MAX_PROBLEM_BYTES + 1)
    for path, message in (
        (tmp_path / "none.json", "none.json: cannot be read: No such file"),
        (tmp_path, "cannot be read: Is a directory"),
        (large, "large.json: larger than"),
    ):
        result = run(path)
        assert (result.returncode, result.stdout) == (2, "")
        assert message in result.stderr
    assert "standard input: not JSON" in run("-", input="?").stderr
