"""``paceline contention``: how much slower this device trains a job's model while others use it."""

from __future__ import annotations

import collections
import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from paceline import topologies
from paceline.cli.options import DeviceName, JobFile, ResultAsJson, option
from paceline.devices.contention.loads import loads_for
from paceline.devices.contention.profiles import ContentionProfile, save_profile
from paceline.devices.contention.profiling import profile_training
from paceline.devices.contention.regression import Observation, cross_validate, fit_slowdown
from paceline.devices.machines import LiveMachine
from paceline.errors import ConfigError
from paceline.fleets.live import run_live
from paceline.learning.accelerators import find_accelerator
from paceline.topologies.job_files import load_job

_QUIET_RATIO = 0.2  # share of the CPU that others may use while a device counts as left alone


def contention(
    job: JobFile,
    out: Annotated[Path, typer.Option(metavar="FILE", help="File to write the profile to (JSON).")],
    seconds: Annotated[float, option("SECONDS", "Approximate duration (120).", min=2, max=3600)] = 120,
    device: DeviceName = "cpu",
    as_json: ResultAsJson = False,
) -> None:
    """Measure how much other processes slow down training here.

    Trains the job's model beside artificial loads and fits a profile, for paceline join --contention.

    Example: paceline contention job.toml --out device.json
    """
    if not out.parent.is_dir():
        raise ConfigError(f"--out: there is no folder {str(out.parent)!r}")
    spec = load_job(job)
    try:
        task, shards = topologies.of_job(spec).prepare(spec).benchmark_work()
    except ConfigError as error:
        raise ConfigError(f"{job}: {error}") from error
    trainer = LiveMachine(accelerator=find_accelerator(device)).trainer(task)
    loads = loads_for(os.cpu_count() or 1)
    with _progress() as watch:
        observations = run_live(profile_training(trainer, shards, loads, seconds=seconds, watch=watch))
    alone, slowdown = fit_slowdown(observations)
    found = ContentionProfile(
        version=1,
        model=task.chosen_model.import_path or task.chosen_model.name or "",
        seconds_per_sample=alone,
        slowdown=slowdown,
        error_ratio=cross_validate(observations),
        num_observations=len(observations),
    )
    save_profile(found, out)
    if as_json:
        figures = {
            "out": str(out),
            "seconds_per_sample": alone,
            "error_ratio": found.error_ratio,
            "observations": observations,
        }
        print(msgspec.json.encode(figures).decode())
    else:
        _print(found, observations, out)


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error; on anything but a terminal, only its end."""
    columns = (TextColumn("training beside loads"), BarColumn(), TextColumn("{task.completed}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task("", total=None)
        yield lambda num_done, num_turns: progress.update(bar, completed=num_done, total=num_turns)


def _seconds_per_sample(observation: Observation) -> float:
    return observation.seconds_per_sample


def _print(found: ContentionProfile, observations: Sequence[Observation], out: Path) -> None:
    table = Table(
        "load",
        "cpu",
        "network",
        "disk",
        "slowdown",
        "predicted",
        title="Load by other processes, and the slowdown it causes",
    )
    for column in table.columns[1:]:
        column.justify = "right"
    groups: dict[str, list[Observation]] = collections.defaultdict(list)
    for observation in observations:
        groups[observation.load].append(observation)
    middles = [sorted(own, key=_seconds_per_sample)[len(own) // 2] for own in groups.values()]
    for middle in sorted(middles, key=_seconds_per_sample):
        table.add_row(
            middle.load,
            f"{middle.usage.cpu_ratio:.0%}",
            f"{middle.usage.network_bytes_per_second / 1e6:,.0f} MB/s",
            f"{middle.usage.disk_bytes_per_second / 1e6:,.0f} MB/s",
            f"× {middle.seconds_per_sample / found.seconds_per_sample:.2f}",
            f"× {found.slowdown.ratio(middle.usage):.2f}",
        )
    console = Console()
    console.print(table)
    least = min(observation.usage.cpu_ratio for observation in observations)
    if least > _QUIET_RATIO:
        warning = f"other processes used at least {least:.0%} of the CPU throughout; 'alone' includes that load"
        console.print(warning, highlight=False, style="yellow")
    console.print(f"trains {1 / found.seconds_per_sample:,.0f} samples/s alone", highlight=False)
    console.print(f"cross-validated error {found.error_ratio:.1%}", highlight=False)
    console.print(f"profile  {out}", highlight=False, soft_wrap=True, markup=False)
