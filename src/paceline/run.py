"""One way in: train a job of any kind on any fleet, and keep the run in a folder."""

from __future__ import annotations

import contextlib
import datetime
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import torch
from torch import nn

from paceline import files, topologies
from paceline.errors import ConfigError, NothingToResume, one_line
from paceline.events import Emit, Event
from paceline.fleets.base import Fleet
from paceline.fleets.caller_thread import call_in_caller, run_outside_loop
from paceline.learning import checkpoints, saved_models
from paceline.learning.averaging import State
from paceline.learning.saved_models import SavedModel
from paceline.report import START, RunFolder, Summary, frame, live_page, make_page, progress_callback, write_report
from paceline.topologies.base import Environment, JobSpec, KeptJob, Outcome, Plan, Recovered, Save
from paceline.topologies.events import StartEvent, StateLost
from paceline.topologies.job_files import parse_job

RUNS = Path("runs")
"""Where runs are kept if nothing else is said."""

Start: TypeAlias = nn.Module | Mapping[str, torch.Tensor] | Path | str
"""What a run may start from: a model, its state, or the folder or a file of a run."""

Callback: TypeAlias = Callable[..., None]
"""Receives each event of a run; of a job with further jobs in it also the name of the job that it belongs to.

It is called in the thread that trains, and may raise `StopRun`.
"""


class StopRun(Exception):
    """Raised by a callback to end the run early: after the round or epoch in progress, with what was learned."""


@dataclass(frozen=True, repr=False)
class Run:
    """A run that is over.

    Attributes:
        folder: where it is kept.
        state: what was learned, by name; empty where there are several jobs.
        metrics: final figures, such as ``loss`` and ``accuracy``.
        jobs: the runs of its jobs, by name, where there are several.
    """

    folder: Path
    state: State
    metrics: Mapping[str, Any]
    jobs: Mapping[str, Run] = field(default_factory=dict)

    def __repr__(self) -> str:
        figures = ", ".join(f"{name} {figure}" for name, figure in self._figures().items())
        return f"Run({self.folder}{': ' if figures else ''}{figures})"

    def _repr_html_(self) -> str:
        """Show the run in a notebook: its page, as it would be in a window of its own."""
        return frame(document=make_page(self.folder))

    def _figures(self) -> dict[str, str]:
        """Return the metrics that are single figures, and the names of jobs, as text."""
        numbers = {name: value for name, value in self.metrics.items() if isinstance(value, int | float)}
        shown = {name: f"{value:.4g}" if isinstance(value, float) else str(value) for name, value in numbers.items()}
        return {**shown, **({"jobs": ", ".join(self.jobs)} if self.jobs else {})}

    @property
    def loss(self) -> float | None:
        """Loss on the test data; None if it was not measured."""
        return self.metrics.get("loss")

    @property
    def accuracy(self) -> float | None:
        """Accuracy on the test data, as a ratio; None if it was not measured."""
        return self.metrics.get("accuracy")

    def summary(self) -> Summary:
        """Sum up what happened, in figures and tables."""
        return RunFolder.open(self.folder).summary()

    def report(self) -> Path:
        """Write the run's page; returns where it is."""
        return write_report(RunFolder.open(self.folder))

    def model(self) -> nn.Module:
        """Load the model that was learned, which takes samples as the data has them, by `paceline.load`."""
        return load(self.folder)


@dataclass(frozen=True)
class PreparedRun:
    """A run whose folder, data and model are ready, and whose fleet is not chosen yet.

    Attributes:
        lost: what was damaged or missing of a run that goes on; recorded as it starts.
    """

    folder: RunFolder
    plan: Plan[Any]
    started_at: float = 0.0
    lost: Sequence[str] = ()

    def start(self, fleet: Fleet, callbacks: Sequence[Callback] = ()) -> Run:
        """Train on a fleet; blocks until the run is over. Callbacks receive each event."""
        called = _Callbacks(callbacks)

        def open_nested(nested: JobSpec) -> tuple[Emit, Save]:
            name = str(getattr(nested, "name", ""))
            folder = self.folder.open_job(name, nested.described())
            return called.after(folder.record, name), _save_in(folder, self.folder)

        # A simulation can be repeated, so it does not wait for the disk.
        with self.folder, files.unsynced() if fleet.is_in_this_process else contextlib.nullcontext():
            why_not_kept = self.folder.keep_fleet(fleet.described())
            env = Environment(
                emit=called.after(self.folder.record, *([""] if self.plan.job.nested else [])),
                save=_save_in(self.folder),
                open_nested=open_nested,
                is_stopping=lambda: called.is_stopped or self.folder.has_failed,
                folder=self.folder.path,
            )
            for what in (*self.lost, *filter(None, [why_not_kept])):
                env.emit(StateLost(at=self.started_at, what=what))
            outcome = run_outside_loop(lambda: fleet.run(self.plan, env, self.started_at))
        return _run(self.folder.path, outcome)


def train(
    job: JobSpec,
    fleet: Fleet,
    *,
    start: Start | None = None,
    folder: Path | str | None = None,
    overwrite: bool = False,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
    page: bool | int = False,
) -> Run:
    """Train a job on a fleet; blocks until the run is over. Works in scripts and in notebooks.

    Args:
        start: what to start from instead of new parameters: a model, its state, or the folder or file of a run.
        folder: a new folder for the run; by default one named for the moment, in ``runs``.
        overwrite: delete the run in that folder first, if there is one. What is not a run, or is being recorded by a
            process, is not deleted: that is a `ConfigError`.
        callbacks: receive each event; one that raises `StopRun` ends the run early.
        progress: show how far the run is: a bar in a notebook, lines on standard error elsewhere.
        page: show the run in a browser on this machine while it goes on: in the output of a notebook, else at an
            address on standard error; a number chooses its port.
    """
    _check_fleet(fleet)
    prepared = prepare(job, folder, fleet, start=start, overwrite=overwrite)
    return _start(prepared, fleet, callbacks, progress=progress, page=page)


def prepare(
    job: JobSpec,
    folder: Path | str | None = None,
    fleet: Fleet | None = None,
    *,
    start: Start | None = None,
    overwrite: bool = False,
) -> PreparedRun:
    """Load a new run's data, build its model and make its folder; checks the fleet, too, if it is given."""
    if not isinstance(job, JobSpec):
        raise ConfigError(f"job is {one_line(repr(job))}; it must be a job, such as Job(…), or what load_job returns")
    if fleet is not None:
        _check_fleet(fleet)
    with _as_file(start) as source:
        given = job if source is None else _starting_from(job, source)
        plan = topologies.of_job(job).prepare(given)  # first: what is wrong should leave no folder behind
        if fleet is not None:
            fleet.check(plan)
        path = _new_folder(RUNS) if folder is None else Path(folder)
        if source is None or isinstance(start, str | Path):
            if overwrite and source is not None and source.is_relative_to(path.absolute()):
                raise ConfigError(f"start is {start}, which overwriting {path} would delete: name another folder")
            return PreparedRun(_create(path, given, overwrite=overwrite), plan)
        given = _starting_from(job, path.absolute() / START)
        kept = _create(path, given, overwrite=overwrite)
        kept.keep_start(source)  # where processes of devices find it, and whoever resumes the run
    return PreparedRun(kept, topologies.of_job(job).prepare(given))


def _create(path: Path, job: JobSpec, *, overwrite: bool) -> RunFolder:
    return RunFolder.create(path.parent, path.name, job.described(), overwrite=overwrite)


@contextlib.contextmanager
def _as_file(start: Start | None) -> Iterator[Path | None]:
    """Keep what to start from in a file while the block runs, unless it is one; None for new parameters."""
    if start is None or isinstance(start, str | Path):
        yield None if start is None else Path(start).absolute()
        return
    state = start.state_dict() if isinstance(start, nn.Module) else start
    if not isinstance(state, Mapping) or not all(isinstance(tensor, torch.Tensor) for tensor in state.values()):
        raise ConfigError(
            f"start is a {type(start).__name__}; it must be a model, its state, or a run's folder or file"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / START
        checkpoints.write(path, dict(state))
        yield path


def _starting_from(job: JobSpec, source: Path) -> JobSpec:
    model = getattr(job, "model", None)
    if model is None:
        raise ConfigError("start is for one job; give each job of a pool its own, [model] start")
    return msgspec.structs.replace(job, model=msgspec.structs.replace(model, start=str(source)))


def _with_rounds(job: JobSpec, rounds: int) -> JobSpec:
    if not hasattr(job, "rounds"):
        raise ConfigError(f"rounds are for jobs that have rounds; this is a [{job.table}]")
    try:
        return msgspec.structs.replace(job, rounds=rounds)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _new_folder(root: Path) -> Path:
    """Make a folder named for the moment; further ones of the same second are numbered, to be sorted by time."""
    moment = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    number = 1
    while True:
        path = root / (moment if number == 1 else f"{moment}-{number:02}")
        try:
            files.make_folder(path, exist_ok=False)
            return path
        except FileExistsError:
            number += 1
        except OSError as error:
            raise ConfigError(f"{path}: a run cannot be kept there: {error.strerror}") from error


def resume(
    folder: Path | str,
    fleet: Fleet,
    *,
    rounds: int | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
    page: bool | int = False,
) -> Run:
    """Go on with a run that was interrupted, or for more rounds with one that is over; blocks until it is over.

    Args:
        rounds: number of rounds in all; None for that of the job. The others are those of `train`.
    """
    _check_fleet(fleet)
    prepared = reopen(folder, rounds)
    fleet.check(prepared.plan)
    return _start(prepared, fleet, callbacks, progress=progress, page=page)


def _start(
    prepared: PreparedRun, fleet: Fleet, callbacks: Sequence[Callback], *, progress: bool, page: bool | int
) -> Run:
    shown = [progress_callback(prepared.folder.reporting)] if progress else []
    port = 0 if page is True else page
    with contextlib.nullcontext() if port is False else live_page(prepared.folder.path, port):
        return prepared.start(fleet, [*shown, *callbacks])


def _check_fleet(fleet: Any) -> None:
    if not isinstance(fleet, Fleet):
        raise ConfigError(f"fleet is {one_line(repr(fleet))}; it must be a fleet, such as VirtualFleet([…])")


def reopen(folder: Path | str, rounds: int | None = None) -> PreparedRun:
    """Make a run ready to go on; at most the round that was open when it was interrupted is lost.

    If files are damaged, it goes on after the newest round that is whole. What was lost is recorded as it starts.

    Args:
        rounds: number of rounds in all; None for that of the job.
    """
    kept = RunFolder.open(Path(folder))
    kept.claim()
    try:
        return _reopened(kept, rounds)
    except BaseException:
        kept.close()
        raise


def _reopened(folder: RunFolder, rounds: int | None) -> PreparedRun:
    events, damage = folder.whole_events()
    lost = [] if damage is None else [damage]
    settings = _settings_of(folder, events, lost)
    job = parse_job(settings, str(folder.path))
    if rounds is not None:
        job, settings = (given := _with_rounds(job, rounds)), given.described()
    try:
        load = _Load(folder)
        recovered = folder.topology.recover(job, events, load)
        plan = folder.topology.resume(job, recovered, load)
    except NothingToResume as error:
        raise NothingToResume(f"{folder.path}: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{folder.path}: {error}") from error
    folder.reopen(recovered.events, settings)
    checkpoints.remove(folder.checkpoints, recovered.damaged)
    for name, inner in folder.jobs().items():
        _mend(inner, load.jobs[name].recovered)
    kept = [event for one in (recovered, *(inner.recovered for inner in load.jobs.values())) for event in one.events]
    return PreparedRun(folder, plan, max((event.at for event in kept), default=0.0), [*lost, *recovered.lost])


def _mend(folder: RunFolder, recovered: Recovered) -> None:
    """Put the record of a job in order, if it has not what the job goes on from."""
    events, damage = folder.whole_events()
    if damage is not None or recovered.lost or set(map(repr, recovered.events)) - set(map(repr, events)):
        folder.reopen(recovered.events)
        folder.close()
    checkpoints.remove(folder.checkpoints, recovered.damaged)


def _settings_of(folder: RunFolder, events: Sequence[Event], lost: list[str]) -> dict[str, Any]:
    """Return the job of a run: that of its folder, or that which it was started with if the folder's is damaged."""
    started = next((event.job for event in reversed(events) if isinstance(event, StartEvent)), None)
    try:
        kept = folder.settings
    except ConfigError:
        if started is None:
            raise
        kept = {}
    if started is None or _but_rounds(kept) == _but_rounds(started):
        return kept
    lost.append(f"{folder.path.name}: the job was damaged or changed; it goes on with that which it was started with")
    return started


def _but_rounds(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of a job without the number of rounds, which may be raised."""
    return {
        name: {key: value for key, value in table.items() if key != "rounds"} if isinstance(table, dict) else table
        for name, table in settings.items()
    }


def load(source: Path | str) -> nn.Module:
    """Load the model that a run learned: a module that takes samples as the data has them, and needs no data.

    Raises `ConfigError` if there is no single model.

    Args:
        source: the folder of a run, or one of the files in its folder ``checkpoints``.
    """
    return _load(source)[1]


def export(source: Path | str, path: Path | str) -> list[str]:
    """Write the model that a run learned as an ONNX file; returns the names of its inputs, which are raw samples.

    Raises `ConfigError` if there is no single model of one input, or a package is missing (extra ``onnx``).

    Args:
        source: the folder of a run, or one of the files in its folder ``checkpoints``.
    """
    from paceline.learning import onnx_file  # packages that few need

    return onnx_file.write(Path(path), *_load(source))


def _load(source: Path | str) -> tuple[SavedModel, nn.Module]:
    path = checkpoints.newest_in(Path(source))
    saved, state = saved_models.read(path)
    try:
        return saved, saved.build(state)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _run(folder: Path, outcome: Outcome) -> Run:
    jobs = {name: _run(folder / "jobs" / name, one) for name, one in outcome.jobs.items()}
    return Run(folder, outcome.state, outcome.metrics, jobs)


class _Callbacks:
    """The callbacks of a run, and whether one of them has stopped it."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self._callbacks = callbacks
        self.is_stopped = False

    def after(self, record: Emit, *job: str) -> Emit:
        """Return what records an event, and then calls all; `job` is what they get besides."""

        def emit(event: Event) -> None:
            record(event)
            if self._callbacks:
                call_in_caller(lambda: self._call(event, *job))

        return emit

    def _call(self, event: Event, *job: str) -> None:
        for callback in self._callbacks:
            try:
                callback(event, *job)
            except StopRun:
                self.is_stopped = True


class _Load(checkpoints.CheckpointFolder):
    """Reads what is kept in the folder of a run, and in those of the jobs in it."""

    def __init__(self, folder: RunFolder) -> None:
        super().__init__(folder.checkpoints)
        self.jobs: Mapping[str, KeptJob] = {name: _kept_job(inner) for name, inner in folder.jobs().items()}


def _kept_job(folder: RunFolder) -> KeptJob:
    events, damage = folder.whole_events()
    lost = [] if damage is None else [damage]
    settings, load = _settings_of(folder, events, lost), _Load(folder)
    recovered = folder.topology.recover(parse_job(settings, str(folder.path)), events, load)
    lost = [f"job {folder.path.name}: {one}" for one in (*lost, *recovered.lost)]
    return KeptJob(settings, recovered._replace(lost=lost), load)


def _save_in(folder: RunFolder, outer: RunFolder | None = None) -> Save:
    def save(
        key: int | str, state: State, model: SavedModel | None = None, notes: Mapping[str, str] | None = None
    ) -> None:
        if outer is not None:
            outer.sync()
        folder.sync()  # first: a model must not be ahead of the record
        header = {**(model.header() if model is not None else {}), **(notes or {})}
        if isinstance(key, int):
            checkpoints.save(folder.checkpoints, key, state, header)
        else:
            checkpoints.write(folder.checkpoints / f"{key}.safetensors", state, header)

    return save
