"""`paceline allocate` as a user sees it."""

import io
import json

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


@pytest.fixture
def pose(paceline_in):
    """Write a problem to a file of that folder."""

    def pose(problem):
        (paceline_in.folder / "problem.json").write_text(json.dumps(problem))
        return "problem.json"

    return pose


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
def test_the_policies_of_a_cycle_answer_in_json(printed, pose, policy, status, objective, iterations):
    reply = json.loads(printed("allocate", pose({**ETA, "policy": policy}), "--json", "--time-limit", 5))
    assert reply.keys() == {"status", "objective", "bound", "allocation", "cost", "reason", "solve_seconds"}
    assert (reply["status"], reply["objective"]) == (status, objective)
    assert [share["iterations"] for share in reply["allocation"]] == iterations
    assert sum(share["samples"] for share in reply["allocation"]) == 10_000
    assert reply["solve_seconds"] >= 0


def test_a_table_for_people(printed, pose):
    out = printed("allocate", pose(DAB))
    assert "optimal: 12 shards in all" in " ".join(out.split())
    assert all(word in out for word in ("learner", "shards", "iterations", "[b]pi"))


def test_infeasible_is_an_answer_with_an_exit_code_of_its_own(paceline_in, refused, pose):
    problem = pose({**DAB, "deadline_seconds": 1})
    code, out, err = paceline_in("allocate", problem, "--json")
    reply = json.loads(out)
    assert (code, reply["status"], err) == (3, "infeasible", "")
    assert "within deadline_seconds, 1;" in reply["reason"]
    err = refused("allocate", problem, code=3)
    assert err.startswith("paceline: problem.json: infeasible: no learner can finish one shard")


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"policy": "pace"}, (), "problem.json: policy is 'pace'; allowed: csa, csa-relaxed, csa-sai, dab, edge-"),
        ({"learners": [{**PI, "samples_per_second": 0}]}, (), "problem.json: learners[0].samples_per_second is 0"),
        ({}, ("--time-limit", "0"), "--time-limit is 0; it must be above 0"),
        ({}, ("--time-limit", "nan"), "--time-limit is nan; it must be above 0"),
    ],
)
def test_bad_input_is_reported_in_one_line(refused, pose, changes, options, message):
    assert message in refused("allocate", pose({**DAB, **changes}), *options)


def test_what_cannot_be_read_is_reported_in_one_line(refused, tmp_path, monkeypatch):
    with open(tmp_path / "large.json", "wb") as file:
        file.truncate(MAX_PROBLEM_BYTES + 1)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"?")))
    for path, message in (
        ("none.json", "none.json: cannot be read: No such file"),
        (".", "cannot be read: Is a directory"),
        ("large.json", "large.json: larger than"),
        ("-", "standard input: not JSON"),
    ):
        assert message in refused("allocate", path)
