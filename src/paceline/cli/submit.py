"""``paceline submit``: have a job trained by an orchestrator that runs a pool."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from paceline import axon
from paceline.cli.calling import Caller, takes_caller
from paceline.cli.devices import parse_contact
from paceline.cli.options import JobFile, ResultAsJson, flag
from paceline.config import read_tables
from paceline.errors import ConfigError, RemoteError, one_line
from paceline.fleets.live import run_live
from paceline.topologies.base import JobProgress, TakesJobs
from paceline.topologies.reporting.formatting import describe_metrics, printable


@takes_caller
def submit(
    job: JobFile,
    url: Annotated[str, typer.Option("--to", metavar="URL", help="Address of the orchestrator.")],
    caller: Caller,
    wait: Annotated[bool, flag("--wait", "Wait until the job is over, then print its result.")] = False,
    as_json: ResultAsJson = False,
) -> None:
    """Submit one more job to an orchestrator that runs a pool.

    The job's data and model must be built-in ones. Learners move to it when their open rounds end.

    Example: paceline submit fashion.toml --to https://10.0.0.2:7223
    """
    tables = read_tables(job)
    if isinstance(tables.get("job"), dict):
        tables["job"] = {"name": job.stem, **tables["job"]}
    pool = caller.connect(*parse_contact("--to", url), interface=TakesJobs)
    progress = run_live(_submit(pool, tables, str(job), wait=wait))
    if as_json:
        print(json.dumps(progress.flat()))
    elif not wait:
        print(f"{progress.job} is in the pool: {progress.rounds} rounds to train")
    else:
        reason = [printable(progress.reason)] if progress.reason else []
        parts = [*reason, f"{progress.num_closed} rounds", *describe_metrics(progress.metrics)]
        print(f"{progress.job} is over: {', '.join(parts)}")


async def _submit(pool: axon.Remote, tables: dict[str, object], source: str, *, wait: bool) -> JobProgress:
    try:
        name: str = await pool.submit.coro(tables)
    except RemoteError as error:
        raise ConfigError(f"{source}: the pool refused it: {one_line(error.remote_message)}") from error
    if not wait:
        known: list[JobProgress] = await pool.progress.coro()
        return next(job for job in known if job.job == name)
    while True:
        progress: JobProgress = await pool.follow.coro(name)
        if progress.status == "over":
            return progress
