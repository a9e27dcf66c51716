"""``paceline bench``: the subset benchmark of this device for a job."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from paceline import config
from paceline.devices.flops import measure_flops
from paceline.devices.subset import measure_training
from paceline.errors import ConfigError
from paceline.fleets.live import run_live
from paceline.learning.tasks import Task
from paceline.learning.trainers import ThreadTrainer, Trainer
from paceline.learning.training import LocalModel
from paceline.topologies.parallel import Learner, make_plan, reach


def bench(
    job: Annotated[Path, typer.Argument(help="The job file (TOML).")],
    shards: Annotated[int | None, typer.Option(min=1, help="Shards to measure with; else as the job says.")] = None,
    url: Annotated[str | None, typer.Option(help="An orchestrator that serves the job: measure the link, too.")] = None,
    token: Annotated[str | None, typer.Option(envvar="PACELINE_TOKEN", help="What the orchestrator asks for.")] = None,
    fingerprint: Annotated[str | None, typer.Option(help="Of the orchestrator's self-made certificate.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Measure how fast this device trains a job's model, by training a dummy on a few of its shards.

    Example: paceline bench job.toml --shards 8
    """
    plan, _ = make_plan(config.load_job(job))
    if plan.store is None:
        raise ConfigError(f"{job}: [data] placement is local, so there are no shards to measure with; use served")
    num_shards = min(shards or plan.job.benchmark_shards, plan.num_served_shards)

    def make_trainer(task: Task) -> Trainer:
        return ThreadTrainer(LocalModel(task, allowed=None))

    train = run_live(measure_training(make_trainer(plan.task), plan.draw(num_shards)))
    seconds_per_shard = plan.terms.local_epochs * plan.terms.shard_samples / train.per_second
    figures: dict[str, Any] = {
        "shards": num_shards,
        "samples_per_second": train.per_second,
        "spread": train.spread,
        "shards_by_deadline": int(plan.terms.deadline_seconds / seconds_per_shard),
        "flops": measure_flops(),
    }
    if url is not None:
        orchestrator = reach(url, token=token, fingerprint=fingerprint)
        profile = run_live(Learner(orchestrator, f"bench-{secrets.token_hex(3)}", make_trainer).measure())
        figures |= {
            "down_bytes_per_second": profile.down.per_second,
            "up_bytes_per_second": profile.up.per_second,
            "latency_seconds": profile.latency_seconds,
        }
    if as_json:
        print(json.dumps(figures))
    else:
        _print(figures, plan.terms.deadline_seconds)


def _print(figures: dict[str, Any], deadline_seconds: float) -> None:
    table = Table("", "", title=f"This device, measured with {figures['shards']} shards", show_header=False)
    table.columns[1].justify = "right"
    table.add_row(
        "trains, one local epoch", f"{figures['samples_per_second']:,.0f} samples/s ± {figures['spread']:.1%}"
    )
    table.add_row(f"shards in {deadline_seconds:g} s, network aside", f"{figures['shards_by_deadline']:,}")
    table.add_row("FLOPS baseline", f"{figures['flops'] / 1e9:,.1f} GFLOPS")
    if "latency_seconds" in figures:
        table.add_row("downloads", f"{figures['down_bytes_per_second'] / 1e6:,.1f} MB/s")
        table.add_row("uploads", f"{figures['up_bytes_per_second'] / 1e6:,.1f} MB/s")
        table.add_row("latency of a call", f"{figures['latency_seconds'] * 1000:.1f} ms")
    Console().print(table)
