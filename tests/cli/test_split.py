"""``paceline split``: a trunk and its sources, all on this machine or not, and one line for whatever is wrong."""

import json
import queue
import threading

import numpy as np
import pytest

from paceline import axon, config, runs
from paceline.axon.transports import HttpTransport
from paceline.fleets.joined import JoinedFleet
from paceline.fleets.live import Door
from paceline.learning import checkpoints
from paceline.report import RunFolder
from tests.topologies.split.runs import digits

JOB = """\
[split]
cut = "3"
epochs = 2
sources = {sources}
[data]
{data}
[model]
name = "two-nn"
[optimizer]
name = "Adam"
lr = 0.005
[[view]]
kind = "plain"
[[view]]
kind = "flip-vertical"
"""
FLEET = """\
[[device]]
name = "pi"
count = 2
samples_per_second = 1000
down_mbit = 100
up_mbit = 100
"""


def few(count=200):
    data = digits()
    return {name: getattr(data, name)[:count] for name in ("x_train", "y_train", "x_test", "y_test")}


@pytest.fixture
def paceline_in(paceline_in):
    """The same, in a folder with split jobs, a fleet, and a file with some digits."""
    np.savez(paceline_in.folder / "digits.npz", **few())
    np.savez(paceline_in.folder / "fewer.npz", **few(150))
    (paceline_in.folder / "job.toml").write_text(JOB.format(sources=2, data='path = "digits.npz"'))
    (paceline_in.folder / "named.toml").write_text(JOB.format(sources=1, data='name = "digits"'))
    (paceline_in.folder / "alone.toml").write_text(JOB.format(sources=1, data='path = "digits.npz"'))
    (paceline_in.folder / "fleet.toml").write_text(FLEET)
    for name, cut in (("lost", "f9"), ("between", "2")):
        text = JOB.format(sources=2, data='name = "digits"').replace('cut = "3"', f'cut = "{cut}"')
        (paceline_in.folder / f"{name}.toml").write_text(text.replace("[split]", '[split]\nscheme = "split-learning"'))
    return paceline_in


def test_help_has_an_example(paceline_in):
    code, out, _ = paceline_in("split", "--help")
    assert code == 0
    assert "Example: paceline split job.toml --local" in " ".join(out.split())


NOBODY = "http://127.0.0.1:1"
WRONG = {
    "no such file": (("split", "nothing.toml"), "nothing.toml: cannot be read"),
    "no job": (("split", "fleet.toml"), "fleet.toml: unknown table 'device'"),
    "no such cut": (("split", "lost.toml"), "cut is 'f9'; allowed: 0, 1, 2, 3, 4, 5"),
    "cut before no layer to widen": (("split", "between.toml"), "must be linear or a convolution, not ReLU"),
    "no sources": (("split", "job.toml", "--local", "0"), "--local"),
    "a name for many": (("split", "job.toml", "--local", "2", "--name", "x"), "leave out --name"),
    "a word for a number": (("split", "job.toml", "--local", "two"), "--local"),
    "token": (("split", "job.toml", "--token", "a b\n"), "a token is made of"),
    "cert alone": (("split", "job.toml", "--cert", "x.pem"), "--cert and --key belong together"),
    "no port": (("split", "job.toml", "--port", "99999"), "99999"),
    "address": (("split", "http://[x"), "[x"),
    "slowdown": (("split", NOBODY, "--slowdown", "0.5"), "slowdown is 0.5; it must be at least 1"),
    "rate": (("split", NOBODY, "--up-mbit", "0"), "above 0"),
    "time only": (("simulate", "job.toml", "fleet.toml", "--time-only"), "--time-only: the messages of a split job"),
    "too few devices": (("simulate", "five.toml", "fleet.toml"), "the fleet has 2 sources; the job begins with 5"),
}


@pytest.mark.parametrize(("arguments", "said"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_told_in_one_line(paceline_in, arguments, said):
    (paceline_in.folder / "five.toml").write_text(JOB.format(sources=5, data='path = "digits.npz"'))
    code, out, err = paceline_in(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert said in err
    assert err.startswith("paceline: ")


@pytest.mark.parametrize("name", ["no such file", "no such cut", "cut before no layer to widen", "cert alone"])
def test_what_is_wrong_with_a_job_leaves_no_folder_behind(paceline_in, name):
    paceline_in(*WRONG[name][0])
    assert not (paceline_in.folder / "runs").exists()


def test_a_trunk_that_is_not_there_is_told_in_one_line(paceline_in):
    code, out, err = paceline_in("split", NOBODY, "--patience", "0", "--json")
    assert (code, err.count("\n")) == (1, 1)
    assert NOBODY in err
    assert [json.loads(line)["event"] for line in out.splitlines()] == ["phase_started"]


def test_another_worker_is_no_trunk(paceline_in):
    worker = axon.Worker("no-trunk")
    worker.rpc(name="progress")(lambda: 7)
    with worker.serve(transport=HttpTransport(), port=0) as address:
        code, _, err = paceline_in("split", str(address), "--patience", "0")
    assert (code, err.count("\n")) == (2, 1)
    assert "is not what is expected" in err


@pytest.fixture
def trunk(paceline_in):
    """Start a trunk in a thread; gives its address, and later its run."""
    started = []

    def start(job, token=None):
        prepared = runs.prepare_split(config.load_split(paceline_in.folder / job), paceline_in.folder / "run")
        told = queue.SimpleQueue()
        fleet = JoinedFleet(Door(port=0, token=token), lambda address: told.put(str(address)))
        thread = threading.Thread(target=lambda: told.put(prepared.start(fleet)))
        thread.start()
        started.append(thread)
        return told.get(timeout=60), lambda: told.get(timeout=60)

    yield start
    for thread in started:
        thread.join(timeout=60)
        assert not thread.is_alive()


def test_a_source_takes_part_and_tells_what_it_does(paceline_in, trunk):
    url, run = trunk("alone.toml", token="S3cret")
    code, _, err = paceline_in("split", url, "--name", "cam", "--token", "wrong", "--data", "digits.npz")
    assert (code, err.count("\n")) == (1, 1)
    assert "token" in err
    code, _, err = paceline_in("split", url, "--name", "cam", "--token", "S3cret")
    assert (code, err.count("\n")) == (2, 1)
    assert "the trunk's data is a file of its own; say where this source's view of it is, with --data" in err
    code, _, err = paceline_in("split", url, "--name", "cam", "--token", "S3cret", "--data", "fewer.npz")
    assert (code, err.count("\n")) == (2, 1)
    assert "fewer.npz: x_train has 150 samples of shape (1, 8, 8); the trunk has 200 of shape (1, 8, 8)" in err
    code, _, err = paceline_in("split", url, "--name", "a/b", "--token", "S3cret", "--data", "digits.npz")
    assert (code, err.count("\n")) == (2, 1)
    assert "'a/b' cannot be a learner's name" in err
    code, _, err = paceline_in("split", url, "--name", "trunk", "--token", "S3cret", "--data", "digits.npz")
    assert code == 2
    assert "'trunk' cannot be a source's name; it is the trunk's" in err

    code, out, err = paceline_in("split", url, "--name", "cam", "--token", "S3cret", "--data", "digits.npz", "--json")
    assert (code, err) == (0, "")
    told = [json.loads(line) for line in out.splitlines()]
    assert [event["epoch"] for event in told if event["event"] == "node_spent"] == [1, 2, 0]
    assert {event["learner"] for event in told} == {"cam"}
    ended = run()
    assert (ended.epochs, ended.accuracy > 0.3) == (2, True)
    assert ended.state.keys() == checkpoints.read(paceline_in.folder / "run/checkpoints/final.safetensors").keys()


def test_a_source_of_named_data_needs_no_file_and_says_how_it_goes(paceline_in, trunk):
    url, run = trunk("named.toml")
    code, out, err = paceline_in("split", url)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "joining …"
    assert lines[1].startswith("epoch 1: ")
    assert "sent 0." in lines[1]
    assert lines[-1] == "the run is over: epochs done"
    summary = run().summary()
    assert summary.tables["epochs"].values("epoch") == [1, 2]
    (name,) = joined(paceline_in.folder / "run")
    assert name.startswith("source-")  # it was given none


def joined(folder):
    return [event.learner for event in RunFolder.open(folder).events() if type(event).__name__ == "LearnerJoined"]


def test_a_split_job_is_simulated(paceline_in):
    code, out, err = paceline_in("simulate", "job.toml", "fleet.toml", "--folder", "run", "--json")
    assert code == 0, err
    told = json.loads(out)
    assert (told["epochs"], told["run"]) == (2, "run")
    assert told["accuracy"] > 0.3
    folder = paceline_in.folder / "run"
    assert (folder / "report.html").exists()
    assert sorted(joined(folder)) == ["pi-1", "pi-2"]
    state = checkpoints.read(folder / "checkpoints/final.safetensors")
    assert {name.split(".")[1] for name in state if name.startswith("branches.")} == {"pi-1", "pi-2"}
    code, out, err = paceline_in("report", "run")
    assert (code, err) == (0, "")
    code, _, err = paceline_in("simulate", "job.toml", "fleet.toml", "--folder", "run")
    assert (code, err.count("\n")) == (2, 1)  # the folder is taken


@pytest.mark.slow
def test_all_nodes_may_run_on_this_machine(paceline_in):
    code, out, err = paceline_in("split", "job.toml", "--local", "2", "--folder", "run", "--json")
    assert code == 0, err
    told = json.loads(out)
    assert (told["epochs"], told["accuracy"] > 0.3) == (2, True)
    assert sorted(joined(paceline_in.folder / "run")) == ["source-1", "source-2"]
    state = checkpoints.read(paceline_in.folder / "run/checkpoints/final.safetensors")
    assert state["branches.source-2.1.weight"].shape == (50, 64)
