"""A folder with a job file of each kind for the commands of each test, and hosts that serve one."""

import queue
import threading

import numpy as np
import pytest

from paceline import JoinedFleet, load_job
from paceline.cli import main
from paceline.fleets.live import ListenOptions
from paceline.learning import datasets
from paceline.run import prepare
from tests.learning.small_data import arrays_of

JOB = """\
[job]
rounds = 2
deadline_seconds = 4
[data]
name = "digits"
shard_size = 32
[allocation]
policy = "dab"
"""
FILES = {
    "job.toml": JOB,
    "small.toml": JOB.partition("[allocation]")[0].replace("seconds = 4", "seconds = 60"),
    "large.toml": JOB.partition("[allocation]")[0].replace("seconds = 4", "seconds = 60\nlocal_epochs = 2"),
    "pool.toml": """\
[pool]
jobs = ["small.toml", "large.toml"]
min_learners = 2
total_budget = 500
[allocation]
budget = 60
""",
    "gossip.toml": """\
[gossip]
epochs = 2
min_peers = 1
evaluate_samples = 100
[data]
name = "digits"
[model]
name = "two-nn"
""",
    "split.toml": """\
[split]
cut = "3"
epochs = 2
sources = 2
[data]
path = "digits.npz"
[model]
name = "two-nn"
[optimizer]
name = "Adam"
lr = 0.005
[[view]]
kind = "plain"
[[view]]
kind = "flip-vertical"
""",
    "fleet.toml": """\
[[device]]
name = "pi"
count = 2
samples_per_second = 200
speed_noise = 0.2
down_mbit = 20
up_mbit = 10
price = 1.0
""",
}


@pytest.fixture
def paceline_in(tmp_path, monkeypatch, capsys):
    """Run a command in this process, in a new folder; returns exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PACELINE_TOKEN", raising=False)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)

    def run(*arguments):
        with pytest.raises(SystemExit) as exit:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return exit.value.code, captured.out, captured.err

    run.folder = tmp_path
    return run


@pytest.fixture
def printed(paceline_in):
    """Run a command that must succeed; returns what it prints."""

    def run(*arguments):
        code, out, err = paceline_in(*arguments)
        assert code == 0, err
        return out

    return run


@pytest.fixture
def refused(paceline_in):
    """Run a command that must fail, with one line and nothing else; returns that line."""

    def run(*arguments, code=2):
        found, out, err = paceline_in(*arguments)
        assert (found, out, err.count("\n")) == (code, "", 1), err
        assert err.startswith("paceline: ")
        assert err[:-1].isprintable()
        return err[:-1]

    return run


@pytest.fixture
def change(paceline_in):
    """Change a file in that folder."""

    def change(file, old, new):
        path = paceline_in.folder / file
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    return change


@pytest.fixture
def few_digits(paceline_in):
    """A file with so many digits, in that folder."""
    digits = datasets.load(datasets.DataSpec(name="digits"))

    def write(name="digits.npz", count=200):
        np.savez(paceline_in.folder / name, **arrays_of(digits, slice(count)))

    write()
    return write


@pytest.fixture
def served(paceline_in):
    """Serve a job in a thread, with a token; returns its address, and what waits for its run."""
    threads = []

    def serve(file, **options):
        prepared = prepare(load_job(paceline_in.folder / file), paceline_in.folder / "run")
        heard = queue.SimpleQueue()
        fleet = JoinedFleet(ListenOptions(port=0, token="S3cret", **options), heard.put)
        threads.append(threading.Thread(target=lambda: heard.put(prepared.start(fleet))))
        threads[-1].start()
        return heard.get(timeout=60), lambda: heard.get(timeout=60)

    yield serve
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
