"""A fifth topology in one folder: the frame gives it job files, fleets, commands, a run folder, lines and a page."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import paceline
from paceline import LocalDevice, LocalFleet, VirtualDevice, VirtualFleet, load_job, train
from paceline.cli import main
from paceline.report import RunFolder

TOY = Path(__file__).parent / "toy"
NAMES = ("ant", "horse", "elephant")
MEAN = sum(map(len, NAMES)) / len(NAMES)
JOB = "[ring]\nlaps = 2\nnodes = 3\n"
FLEET = "".join(f'[[device]]\nname = "{name}"\nsamples_per_second = 10\nlatency_ms = 5\n' for name in NAMES)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with a job and a fleet, where the toy is installed as a package would be."""
    monkeypatch.syspath_prepend(str(TOY))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(TOY), str(Path(paceline.__file__).parents[1]))))
    (tmp_path / "job.toml").write_text(JOB)
    (tmp_path / "fleet.toml").write_text(FLEET)
    return tmp_path


def start(home, *words):
    command = [sys.executable, "-m", "paceline", *words]
    return subprocess.Popen(command, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out


@pytest.fixture
def ended_with(home, monkeypatch, capsys):
    """Run a command in this process; returns exit code, output and errors."""
    monkeypatch.chdir(home)

    def run(*words):
        with pytest.raises(SystemExit) as ended:
            main(words)
        return ended.value.code, *capsys.readouterr()

    return run


def test_the_toy_is_one_small_file_and_nothing_else_knows_it():
    assert len((TOY / "paceline_ring/__init__.py").read_text().splitlines()) < 150
    product = Path(paceline.__file__).parent
    assert not [
        path for path in product.rglob("*.py") if re.search(r"\bring_?(job|node|plan)\b", path.read_text(), re.I)
    ]


def test_on_virtual_time_it_repeats_exactly(home):
    devices = [VirtualDevice(name=name, samples_per_second=10, latency_ms=5) for name in NAMES]
    seen = []
    runs = [
        train(load_job(home / "job.toml"), VirtualFleet(devices), folder=home / name, callbacks=[seen.append])
        for name in ("one", "two")
    ]
    assert runs[0].metrics == {"mean": pytest.approx(MEAN), "laps": 2}
    assert runs[0].state["mean"].item() == pytest.approx(MEAN)
    assert (home / "one/events.jsonl").read_bytes() == (home / "two/events.jsonl").read_bytes()
    assert [event.lap for event in seen] == [1, 2, 1, 2]
    assert seen[0].at == pytest.approx(0.355, abs=0.01)  # three turns: 0.1 s of work and 10 ms of latency each way


@pytest.mark.long
def test_on_local_processes(home):
    run = train(
        load_job(home / "job.toml"), LocalFleet([LocalDevice(name=name) for name in NAMES]), folder=home / "run"
    )
    assert run.metrics["mean"] == pytest.approx(MEAN)


def test_simulate_prints_lines_and_keeps_folder_and_page(home, ended_with):
    code, out, err = ended_with("simulate", "job.toml", "fleet.toml", "--folder", "run")
    assert code == 0, err
    assert out.splitlines()[1] == f"lap 2: mean {MEAN:.3f}"
    assert (home / "run/laps.csv").read_text().splitlines()[0] == "lap,mean"
    summary = RunFolder.open(home / "run").summary()
    assert (summary.mean, len(summary.tables["laps"].rows)) == (pytest.approx(MEAN), 2)
    page = (home / "run/report.html").read_text()
    assert "Mean per lap" in page and "It settles." in page


def test_serve_and_join_over_http(home, ended_with):
    server = start(home, "serve", "job.toml", "--port", "0", "--folder", "run", "--json")
    url = json.loads(server.stdout.readline())["url"]
    code, asked, _ = ended_with("status", url, "--json")
    assert code == 0
    nodes = [start(home, "join", url, "--name", name) for name in NAMES]
    assert json.loads(asked)["topology"] == "ring"
    assert [finish(node).splitlines()[-1] for node in nodes] == ["the run is over: all laps are done"] * 3
    assert json.loads(finish(server))["mean"] == pytest.approx(MEAN)


def test_its_bad_jobs_get_the_same_clear_errors(home, ended_with):
    (home / "job.toml").write_text("[ring]\nlaps = 0\n")
    code, _, err = ended_with("run", "job.toml", "--devices", "2")
    assert "paceline: job.toml: [ring]: laps is 0; it must be at least 1" in err
    assert code == 2
