"""``paceline run``, and how any run goes on that was interrupted."""

import shlex
import signal
import subprocess
import sys

import pytest

from paceline import load_job
from paceline.cli import show_run
from paceline.fleets.base import Fleet
from paceline.report import RunFolder
from paceline.run import prepare
from paceline.topologies.gossip.events import EpochEnded
from paceline.topologies.parallel.events import RoundClosed, RoundOpened

RESUMED = "to go on, run\n  paceline resume 'my run'\n"


class InterruptedFleet(Fleet):
    """Keeps a model or none, and is then interrupted."""

    def __init__(self, keys, description):
        self._keys, self._description = keys, description

    def described(self):
        return self._description

    def run(self, plan, env, started_at=0.0):
        for key in self._keys:
            env.save(key, plan.prepared.model.state())
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("job", "keys", "description", "line"),
    [
        ("job.toml", [1], {"type": "local"}, RESUMED),
        ("job.toml", [], {"type": "local"}, RESUMED),
        ("job.toml", [1], None, "this run cannot go on; what it has learned is in my run/checkpoints\n"),
        ("pool.toml", [], None, "no model was kept yet; the record of the run is in my run\n"),
        ("pool.toml", [], {"type": "local"}, RESUMED),
    ],
)
def test_an_interrupted_run_says_how_to_go_on(paceline_in, capsys, job, keys, description, line):
    prepared = prepare(load_job(paceline_in.folder / job), "my run")
    with pytest.raises(KeyboardInterrupt):
        show_run.start_and_show(prepared, InterruptedFleet(keys, description), as_json=True)
    assert capsys.readouterr().err == line


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [pytest.param(signal.SIGINT, 130, "interrupted", marks=pytest.mark.long), (signal.SIGTERM, 143, "terminated")],
)
def test_the_line_of_an_interrupted_run_resumes_it(paceline_in, printed, change, number, code, said):
    change("job.toml", "rounds = 2", "rounds = 3")
    change("job.toml", "deadline_seconds = 4", "deadline_seconds = 1")
    (paceline_in.folder / "slow.toml").write_text('[[device]]\nname = "slow"\nslowdown = 300\n')
    command = [sys.executable, "-m", "paceline", "run", "job.toml", "--fleet", "slow.toml", "--folder", "run"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert any(line.startswith("round 1/3") for line in process.stdout)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == code
    first, line, last = err.splitlines()
    assert (first, last) == ("to go on, run", f"paceline: {said}")
    assert line == "  paceline resume run"
    recorded = list(RunFolder.open(paceline_in.folder / "run").events())
    opened, closed = (sum(isinstance(event, kind) for event in recorded) for kind in (RoundOpened, RoundClosed))
    assert number == signal.SIGINT or opened == closed  # SIGTERM leaves no round open
    out = printed(*shlex.split(line)[1:])
    assert f"run resumed after round {closed}" in out
    assert "ended: rounds done, 3 rounds" in out


@pytest.mark.long
def test_peers_that_are_told_to_end_finish_their_epochs_first(paceline_in, printed, change):
    change("gossip.toml", "epochs = 2\nmin_peers = 1", "epochs = 6\nmin_peers = 2")
    (paceline_in.folder / "slow.toml").write_text('[[device]]\nname = "slow"\ncount = 2\nslowdown = 100\n')
    command = [sys.executable, "-m", "paceline", "run", "gossip.toml", "--fleet", "slow.toml", "--folder", "run"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert any(line.startswith("epoch 1/6") for line in process.stdout)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=100)
    assert process.returncode == 143
    assert err.splitlines()[-3:] == ["to go on, run", "  paceline resume run", "paceline: terminated"]

    def ended():
        events = RunFolder.open(paceline_in.folder / "run").events()
        return sorted((event.learner, event.epoch) for event in events if isinstance(event, EpochEnded))

    before = ended()
    printed("resume", "run")
    after = ended()
    assert len(set(before)) >= 4  # the first epoch, and the one that was open
    assert after == sorted(set(after))  # none was trained twice
    assert {epoch for _, epoch in after} == set(range(1, 7))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("job.toml",), "give the devices to start: either --devices N or --fleet FILE"),
        (("--devices", "1"), "Missing argument 'JOB'"),
        (("job.toml", "--rounds", "3", "--devices", "1"), "No such option: --rounds"),
    ],
)
def test_bad_input_gets_one_clear_line(refused, arguments, message):
    assert message in refused("run", *arguments)
