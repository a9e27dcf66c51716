"""The problems of several tasks as `paceline allocate` reads and answers them."""

import json
import subprocess
import sys

import pytest

from paceline.allocation import read_problem
from paceline.errors import ConfigError

STATE = {"probability": 1, "bytes_per_second": 1000, "shards_per_second": {"t0": 1, "t1": 2}}
BUSY = {"bytes_per_second": 500, "shards_per_second": {"t0": 0.5, "t1": 1}}
TASK = {"name": "t0", "shards": 6, "deadline_seconds": 20, "model_bytes": 500, "shard_bytes": 1000}
MED = {
    "policy": "med",
    "budget": 100,
    "min_shards": 1,
    "tasks": [TASK, {**TASK, "name": "t1", "iterations": 2}],
    "learners": [{"name": f"w{number}", "price": 1.0, "states": [STATE]} for number in range(4)],
}


def read(problem, **changes):
    return read_problem(json.dumps({**problem, **changes}).encode(), "problem.json")


def test_expected_seconds_weigh_the_states():
    """Idle: 1 s for the model there and back, 2 s for a shard and its training; busy: twice that."""
    learner = {"name": "w0", "states": [{**STATE, "probability": 0.75}, {**BUSY, "probability": 0.25}]}
    instance = read(MED, learners=[learner]).instance()
    assert instance.fixed_seconds[:, 0] == pytest.approx([1.25, 1.25])
    assert instance.unit_seconds[:, 0] == pytest.approx([2.5, 2.5])


@pytest.mark.parametrize("problem", [MED, {key: MED[key] for key in MED if key != "budget"}])
def test_equal_learners_share_equally(problem):
    reply = read(problem).solve()
    assert (reply.status, reply.objective, reply.cost) == ("optimal", pytest.approx(14.0), pytest.approx(12.0))
    assert sorted((share.task, share.shards, share.iterations) for share in reply.allocation) == [
        ("t0", 3, 1),
        ("t0", 3, 1),
        ("t1", 3, 2),
        ("t1", 3, 2),
    ]


def test_the_budget_makes_cheap_learners_work_longer():
    """w0 is free: with 9 it takes 2 shards more than its half of 6, and t0's others 1 each."""
    learners = [{**learner, "price": float(number > 0)} for number, learner in enumerate(MED["learners"])]
    reply = read(MED, learners=learners, budget=8).solve()
    assert (reply.status, reply.cost) == ("optimal", pytest.approx(8.0))
    assert reply.objective == pytest.approx(7.0 + 9.0)
    [cheap] = [share for share in reply.allocation if share.learner == "w0"]
    assert cheap.shards == 4


def test_an_idle_learner_is_left_out():
    slow = {"name": "slow", "states": [{**STATE, "bytes_per_second": 1}]}
    reply = read(MED, learners=[*MED["learners"], slow], min_shards=0).solve()
    assert reply.objective == pytest.approx(14.0)
    assert {share.learner for share in reply.allocation} == {"w0", "w1", "w2", "w3"}


@pytest.mark.parametrize("policy", ["med", "mmtt", "greedy"])
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"learners": MED["learners"][:1]}, "2 tasks need as many learners, since each is in one task at most; there"),
        (
            {"tasks": [MED["tasks"][1], {**TASK, "deadline_seconds": 4}]},
            "task 't0': all learners together can do 4 of its 6 shards by its deadline_seconds, 4",
        ),
        ({"min_shards": 4}, "4 learners × min_shards, 4, is 16, more than the shards of all tasks, 12"),
        (
            {"min_shards": 2, "tasks": [{**TASK, "shards": 5}, {**TASK, "name": "t1", "shards": 3}]},
            "of min_shards, 2, the shards of the tasks are enough for 3 learners, each in one task; there are 4",
        ),
        (
            {"learners": [*MED["learners"], {"name": "slow", "states": [{**STATE, "bytes_per_second": 1}]}]},
            "learner 'slow' can do min_shards, 1, of no task by its deadline_seconds",
        ),
        ({"budget": 11}, "budget, 11, is at least 1 short: the cheapest learners would cost 12"),
    ],
)
def test_the_reason_names_the_constraint(policy, changes, reason):
    reply = read({**MED, "policy": policy}, **changes).solve()
    assert (reply.status, reply.objective, reply.bound, reply.allocation) == ("infeasible", None, None, [])
    assert reason in reply.reason


def test_what_only_a_search_proves_is_told_as_such():
    """Each task can be done by 7 s with three learners, not with two."""
    tasks = [{**TASK, "deadline_seconds": 6.5}, {**TASK, "name": "t1", "deadline_seconds": 6.5}]
    reply = read(MED, tasks=tasks).solve()
    assert reply.status == "infeasible"
    assert "no allocation keeps all deadlines and min_shards" in reply.reason
    # w0 and w1 are cheap and have time for five shards of t1, but it has no more than six
    cheap = [{**learner, "price": 0.1 + (number > 1)} for number, learner in enumerate(MED["learners"])]
    tasks = [{**TASK, "deadline_seconds": 7.5}, {**MED["tasks"][1], "deadline_seconds": 11.5}]
    reply = read(MED, tasks=tasks, learners=cheap, budget=4).solve()
    assert reply.status == "infeasible"
    assert "without the budget, 4, there is one that costs" in reply.reason
    assert read(MED, tasks=tasks, learners=cheap, budget=5.2).solve().cost == pytest.approx(5.2)


def test_greedy_does_not_look_at_the_budget():
    learners = [{**learner, "price": float(number > 0)} for number, learner in enumerate(MED["learners"])]
    reply = read({**MED, "policy": "greedy"}, learners=learners, budget=8).solve()
    assert "greedy: its allocation costs 9, more than budget, 8" in reply.reason
    reply = read({**MED, "policy": "greedy"}).solve()
    assert (reply.status, reply.objective) == ("feasible", pytest.approx(14.0))


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ({**MED, "policy": "medd"}, "policy is 'medd'; did you mean 'med'?"),
        ({**MED, "tasks": []}, "tasks is []: Expected `array` of length >= 1"),
        ({**MED, "tasks": [TASK, TASK]}, "tasks[1].name is 't0', as in tasks[0]; names must differ"),
        ({**MED, "tasks": [{**TASK, "shards": 0}]}, "tasks[0].shards is 0; it must be at least 1"),
        ({**MED, "budget": -1}, "budget is -1; it must be at least 0"),
        ({**MED, "min_shard": 1}, "unknown key 'min_shard'; did you mean 'min_shards'?"),
        (
            {**MED, "tasks": [*MED["tasks"], {**TASK, "name": "t2"}]},
            "learners[0].states[0].shards_per_second has no rate for task 't2'",
        ),
        ({**MED, "tasks": [TASK]}, "learners[0].states[0].shards_per_second names 't1', which is no task"),
        (
            {**MED, "learners": [{"name": "w0", "states": [{**STATE, "probability": 0.5}]}]},
            "learners[0].states have probabilities that add up to 0.5; they must add up to 1",
        ),
        ({**MED, "learners": [{"name": "w0", "states": []}]}, "learners[0].states is []: Expected `array`"),
        (
            {**MED, "learners": [{"name": "w0", "states": [{**STATE, "bytes_per_second": 0}]}]},
            "learners[0].states[0].bytes_per_second is 0; it must be above 0",
        ),
        (
            {
                **MED,
                "policy": "mmtt",
                "learners": [{"name": "w0", "states": [{**STATE, "probability": 0.5}, {**BUSY, "probability": 0.5}]}],
            },
            "learners[0].states has 2 states; mmtt takes each learner's state as known",
        ),
    ],
)
def test_bad_input_is_told_in_one_line(problem, message):
    with pytest.raises(ConfigError) as caught:
        read(problem)
    assert str(caught.value).startswith(f"problem.json: {message}")
    assert "\n" not in str(caught.value)


def run(problem, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "paceline", "allocate", "-", *arguments],
        input=json.dumps(problem),
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_command_line_names_the_tasks():
    result = run(MED, "--json", "--time-limit", "20")
    assert (result.returncode, result.stderr) == (0, "")
    reply = json.loads(result.stdout)
    assert reply["bound"] <= reply["objective"] == pytest.approx(14.0)
    assert (reply["status"], reply["cost"], reply["reason"]) == ("optimal", pytest.approx(12.0), None)
    assert all(set(share) == {"learner", "task", "shards", "iterations"} for share in reply["allocation"])
    table = run(MED)
    assert table.returncode == 0
    assert "optimal: 14 seconds, summed over tasks" in " ".join(table.stdout.split())
    assert "t1" in table.stdout


def test_a_time_limit_gives_the_best_found_and_its_bound():
    """Of fifty learners nothing can be proven in a fifth of a second."""
    learners = []
    for number in range(50):
        rate = 0.6 + 0.017 * number
        rates = {f"t{task}": rate * (1 + 0.013 * (number * task % 11)) for task in range(5)}
        state = {"bytes_per_second": 900 + 37 * (number * 7 % 50), "shards_per_second": rates}
        learners.append({"name": f"w{number}", "states": [state]})
    tasks = [{**TASK, "name": f"t{task}", "shards": 97 + task, "deadline_seconds": 500} for task in range(5)]
    result = run({**MED, "budget": None, "tasks": tasks, "learners": learners}, "--json", "--time-limit", "0.2")
    assert result.returncode == 0
    reply = json.loads(result.stdout)
    assert reply["status"] == "feasible"
    assert 0 < reply["bound"] < reply["objective"]
    assert sum(share["shards"] for share in reply["allocation"]) == sum(task["shards"] for task in tasks)
