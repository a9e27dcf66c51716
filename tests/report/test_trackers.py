"""Trackers keep every row of a run, whatever becomes of them; the libraries that their files are for read them."""

import contextlib
import json
import logging
import os
import struct
import threading

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from paceline import resume, train
from paceline.cli import main
from paceline.errors import ConfigError
from paceline.report import RunFolder
from paceline.report.trackers import Row, Tracker, Tracking, find_trackers
from paceline.report.trackers.tracking import MAX_WAITING
from paceline.topologies.parallel.events import RoundClosed
from tests.fleets.test_every_topology import FLEETS, JOBS
from tests.report import synthetic, synthetic_gossip, synthetic_pool, synthetic_split
from tests.report.synthetic_gossip import gossip_events
from tests.report.synthetic_split import split_events

KINDS = {
    "job": (synthetic.JOB, lambda: list(synthetic.run_events())),
    "gossip": (synthetic_gossip.JOB, lambda: list(gossip_events())),
    "split": (synthetic_split.JOB, lambda: list(split_events())),
}
FLEET = {"type": "local", "devices": [{"name": "pi"}, {"name": "jetson"}], "threads": 1}


class Notebook(Tracker):
    """Keeps all that it is told, in order."""

    entries = None  # set by each test

    def start(self, run):
        self.run = run
        self.entries.append(("start", run))

    def log(self, row):
        self.entries.append(("log", self.run.job, row))

    def end(self, end):
        self.entries.append(("end", self.run.job, end))


@pytest.fixture
def notebook(monkeypatch):
    monkeypatch.setattr(Notebook, "entries", [])
    return Notebook.entries


def track(path, trackers, kind="job", *, name="r", started_at=0.0, error=None, **options):
    """Record a run that never was, with trackers."""
    settings, events = KINDS[kind]
    with RunFolder.create(path, name, settings) as folder:
        tracking = Tracking(find_trackers(trackers), folder, FLEET, started_at, **options)
        with contextlib.suppress(type(error)) if error else contextlib.nullcontext(), tracking:
            for event in events():
                folder.record(event)
                tracking.feed(event)
            if error is not None:
                raise error
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_the_files_of_the_run(tmp_path, notebook, kind):
    folder = track(tmp_path, [Notebook], kind)
    rows = [entry[2] for entry in notebook if entry[0] == "log"]
    assert rows
    for recorded in folder.reporting.recorded:
        lines = (folder.path / recorded.file).read_text().splitlines()[1:]
        assert len(lines) == sum(row.table == recorded.name for row in rows)
    first = rows[0]
    assert first.step == 1
    assert "loss" in first.figures
    assert not {"at", "round", "epoch", "learner"} & first.figures.keys()
    assert {tuple(row.labels) for row in rows} <= {(), ("learner",)}
    kinds = [entry[0] for entry in notebook]
    assert kinds == ["start", *["log"] * len(rows), "end"]
    end = notebook[-1][2]
    assert (end.status, end.reason) == ("finished", folder.summary().ended)
    assert end.figures["loss"] == folder.summary().loss


def test_a_row_says_what_share_of_the_deadline_was_used(tmp_path, notebook):
    track(tmp_path, [Notebook])
    row = notebook[1][2]
    assert row.figures["deadline_use"] == pytest.approx(row.figures["seconds"] / row.figures["deadline_seconds"])
    assert {"late", "samples", "down_bytes", "up_bytes", "accuracy"} <= row.figures.keys()


def test_settings_are_those_of_job_fleet_and_versions(tmp_path, notebook):
    track(tmp_path, [Notebook])
    settings = notebook[0][1].settings
    assert settings["job.rounds"] == 10
    assert settings["allocation.policy"] == "adaptive-dab"
    assert (settings["fleet.type"], settings["fleet.num_devices"]) == ("local", 2)
    assert json.loads(settings["fleet.devices"]) == FLEET["devices"]
    assert "versions.torch" in settings


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [(KeyboardInterrupt(), "interrupted", "interrupted"), (OSError("gone"), "failed", "OSError: gone")],
)
def test_the_end_says_how_a_run_ended(tmp_path, notebook, error, status, reason):
    track(tmp_path, [Notebook], error=error)
    assert (notebook[-1][2].status, notebook[-1][2].reason) == (status, reason)


def test_jobs_of_a_pool_are_tracked_apart(tmp_path, notebook):
    own, jobs = synthetic_pool.pool_events()
    with (
        RunFolder.create(tmp_path, "pool", synthetic_pool.POOL) as folder,
        Tracking(find_trackers([Notebook]), folder) as tracking,
    ):
        for event in own:
            folder.record(event)
            tracking.feed(event)
        for name, events in jobs.items():
            inner = folder.open_job(name, synthetic.JOB)
            tracking.begin_job(name, inner)
            for event in events:
                inner.record(event)
                tracking.feed(event, name)
    assert [entry[1].job for entry in notebook if entry[0] == "start"] == ["", *jobs]
    assert [entry[1] for entry in notebook if entry[0] == "end"] == [*reversed(jobs), ""]
    assert {entry[2].table for entry in notebook if entry[0] == "log" and entry[1]} == {"metrics"}
    ledger = next(entry[2] for entry in notebook if entry[0] == "log" and not entry[1])
    assert (ledger.table, list(ledger.labels)) == ("ledger", ["job", "learner"])


# Trackers that fail, hang or lag.


class Failing(Notebook):
    def log(self, row):
        super().log(row)
        raise OSError(28, "No space left on device")


class Unmade(Tracker):
    """Can be made when it is looked for, and not when the run starts."""

    num_made = 0

    def __init__(self):
        Unmade.num_made += 1
        if Unmade.num_made > 1:
            raise RuntimeError("no more of these")

    start = log = end = None


@pytest.mark.parametrize(("tracker", "why"), [(Failing, "No space left on device"), (Unmade, "no more of these")])
def test_one_that_fails_says_so_once_and_is_left_alone(tmp_path, notebook, caplog, monkeypatch, tracker, why):
    monkeypatch.setattr(Unmade, "num_made", 0)
    folder = track(tmp_path, [tracker])
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.message.startswith(f"tracker {tracker.__name__} failed, and keeps nothing further of this run: ")
    assert why in record.message
    assert len([entry for entry in notebook if entry[0] == "log"]) <= 1
    assert folder.summary().ended == "rounds done"


class Hanging(Tracker):
    let_go = threading.Event()

    def start(self, run):
        self.let_go.wait()

    def log(self, row):
        pass

    def end(self, end):
        pass


@pytest.fixture
def hanging():
    Hanging.let_go.clear()
    yield Hanging
    Hanging.let_go.set()


def test_one_that_hangs_keeps_no_run_from_ending(tmp_path, hanging, caplog):
    track(tmp_path, [hanging], patience_seconds=0.01)
    assert caplog.records[-1].message == "tracker Hanging hangs: 10 rows are not kept"


def test_a_slow_one_leaves_out_rows_only_beyond_a_limit_and_says_how_many(tmp_path, hanging, caplog, monkeypatch):
    monkeypatch.setattr("paceline.report.trackers.tracking.MAX_WAITING", 4)
    assert MAX_WAITING == 100_000
    track(tmp_path, [hanging], patience_seconds=0.01)
    messages = [record.message for record in caplog.records]
    assert sum("further ones are left out" in message for message in messages) == 1
    assert messages[-1].startswith("tracker Hanging was too slow: ")


# Which there are.


def test_what_is_no_tracker_is_named(tmp_path):
    for given, message in [
        ("tensorbord", r"^tracker 'tensorbord' is unknown; .*tensorboard"),
        ("json:JSONDecoder", "no class derived from paceline.report.trackers.base.Tracker$"),
        ("nowhere.py:Mine", "nowhere.py"),
        (dict, "^tracker 'dict' is no class derived from"),
    ]:
        with pytest.raises(ConfigError, match=message):
            find_trackers([given])


def test_ones_own_is_named_by_its_import_path(tmp_path, monkeypatch, notebook):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("from tests.report.test_trackers import Notebook\n\nclass Mine(Notebook): ...\n")
    track(tmp_path, ["mine.py:Mine"])
    assert notebook[0][1].folder == tmp_path / "r/trackers/Mine"


def test_a_run_is_tracked_from_python_and_goes_on_there(tmp_path, notebook):
    run = train(JOBS["job"], FLEETS["virtual"](), folder=tmp_path / "r", track=[Notebook], progress=False)
    losses = [entry[2].figures["loss"] for entry in notebook if entry[0] == "log"]
    rounds = [event for event in RunFolder.open(run.folder).events() if isinstance(event, RoundClosed)]
    assert losses == [event.loss for event in rounds]
    resume(run.folder, FLEETS["virtual"](), rounds=len(rounds) + 1, track=[Notebook], progress=False)
    again = [entry for entry in notebook if entry[0] == "start"][1][1]
    assert again.is_resumed
    assert [entry[2].step for entry in notebook if entry[0] == "log"] == list(range(1, len(rounds) + 2))


def test_lines_of_json_are_all_that_a_command_prints_on_standard_output(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.toml").write_text("[job]\nrounds = 2\ndeadline_seconds = 5\n")
    (tmp_path / "fleet.toml").write_text('[[device]]\nname = "pi"\nsamples_per_second = 300\n')
    with pytest.raises(SystemExit, match="0"):
        main(["simulate", "job.toml", "fleet.toml", "--track", "json", "--folder", "r"])
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["track"] for line in printed] == ["start", "row", "row", "end"]
    assert {line["run"] for line in printed} == {"r"}
    assert printed[1]["figures"]["accuracy"] > 0
    with pytest.raises(SystemExit, match="2"):
        main(["simulate", "job.toml", "fleet.toml", "--track", "tensorbord", "--folder", "s"])
    assert not (tmp_path / "s").exists()
    assert "tracker 'tensorbord' is unknown" in capsys.readouterr().err


# What their libraries read.


def scalars_of(folder):
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    accumulator.Reload()
    return accumulator


def test_tensorboard_reads_its_files(tmp_path):
    folder = track(tmp_path, ["tensorboard"])
    read = scalars_of(folder.path / "trackers/tensorboard")
    rounds = folder.summary().tables["rounds"]
    assert [one.value for one in read.Scalars("metrics/loss")] == pytest.approx(rounds.values("loss"))
    assert [one.step for one in read.Scalars("metrics/loss")] == rounds.values("round")
    times = [one.wall_time for one in read.Scalars("metrics/loss")]
    at = [event.at for event in folder.events() if isinstance(event, RoundClosed)]
    assert times[-1] - times[0] == pytest.approx(at[-1] - at[0], abs=1e-3)
    assert read.Scalars("summary/loss")[0].value == pytest.approx(folder.summary().loss)
    assert set(read.PluginTagToContent("hparams")) == {"_hparams_/session_start_info", "_hparams_/session_end_info"}
    folder.delete_files()  # what trackers keep is of the run, and goes with it
    assert not list(folder.path.iterdir())


def test_rounds_that_were_lost_give_way_in_tensorboard(tmp_path):
    folder = track(tmp_path, ["tensorboard"])
    kinds = find_trackers(["tensorboard"])
    with Tracking(kinds, folder, started_at=5.0) as tracking:
        rounds = [event for event in folder.events() if isinstance(event, RoundClosed)]
        for event in [next(folder.events()), *rounds[7:]]:
            tracking.feed(event)
    steps = [one.step for one in scalars_of(folder.path / "trackers/tensorboard").Scalars("metrics/samples")]
    assert sorted(steps) == list(range(1, 11))


def test_mlflow_reads_its_files(tmp_path, monkeypatch):
    from mlflow.tracking import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    folder = track(tmp_path, ["mlflow"], error=KeyboardInterrupt())
    client = MlflowClient(tracking_uri=(folder.path / "trackers/mlflow/mlruns").as_uri())
    (run,) = client.search_runs([client.get_experiment_by_name("paceline").experiment_id])
    assert (run.info.run_name, run.info.status) == ("r", "KILLED")
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"  # its makers hear nothing of it
    assert run.data.params["job.rounds"] == "10"
    assert run.data.tags["paceline.kind"] == "run"
    losses = client.get_metric_history(run.info.run_id, "metrics/loss")
    rounds = folder.summary().tables["rounds"]
    assert [(one.step, one.value) for one in losses] == list(
        zip(rounds.values("round"), rounds.values("loss"), strict=True)
    )
    kinds = find_trackers(["mlflow"])
    with Tracking(kinds, folder, started_at=5.0):
        pass
    (run,) = client.search_runs([run.info.experiment_id])
    assert run.info.status == "FINISHED"


def test_mlflow_is_kept_where_its_user_says_and_names_fit(tmp_path, monkeypatch):
    from mlflow.tracking import MlflowClient

    uri = (tmp_path / "elsewhere").as_uri()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    (kind,) = find_trackers(["mlflow"]).values()
    with RunFolder.create(tmp_path, "r", synthetic.JOB) as folder, Tracking({"mlflow": kind}, folder) as tracking:
        row = Row(table="epochs", step=1, at=1.0, labels={"learner": "pi@home"}, figures={"recall@5": 0.5})
        tracking._followers[0].hand_over("", "log", row)
    client = MlflowClient(tracking_uri=uri)
    (run,) = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
    assert run.data.metrics["epochs/pi_at_home/recall_at_5"] == 0.5


def wandb_records(content):
    """The records of a file of wandb, which has no reader in Python: a log of LevelDB, in blocks of 32 KiB."""
    assert content[:4] == b":W&B"
    at, parts = 7, []
    while at < len(content):
        if (1 << 15) - at % (1 << 15) < 7:
            at += (1 << 15) - at % (1 << 15)  # what is left of a block is too short for a head
            continue
        _, length, kind = struct.unpack_from("<IHB", content, at)
        parts.append(content[at + 7 : at + 7 + length])
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield b"".join(parts)
            parts = []


def test_wandb_reads_its_file_and_sends_nothing(tmp_path, monkeypatch):
    import wandb
    from wandb.proto import wandb_internal_pb2

    monkeypatch.delenv("WANDB_MODE", raising=False)
    try:
        folder = track(tmp_path, ["wandb"])
    finally:
        wandb.teardown()  # the process that writes for it
    assert os.environ["WANDB_ERROR_REPORTING"] == "false"  # its makers hear nothing of it
    (path,) = (folder.path / "trackers/wandb").glob("wandb/offline-run-*/*.wandb")
    records = [wandb_internal_pb2.Record.FromString(data) for data in wandb_records(path.read_bytes())]
    (run,) = (record.run for record in records if record.HasField("run"))
    assert (run.project, run.display_name) == ("paceline", "r")
    settings = {item.key: json.loads(item.value_json) for item in run.config.update}
    assert settings["job.rounds"] == 10
    rows = [
        {"".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
        for record in records
        if record.HasField("history")
    ]
    rounds = folder.summary().tables["rounds"]
    assert [(row["step"], row["metrics/loss"]) for row in rows] == list(
        zip(rounds.values("round"), rounds.values("loss"), strict=True)
    )
