"""``paceline cancel``: end one job of a pool."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from paceline import axon
from paceline.cli.calling import Caller, takes_caller
from paceline.cli.devices import parse_contact
from paceline.cli.options import ResultAsJson
from paceline.errors import ConfigError, RemoteError, one_line
from paceline.fleets.live import run_live
from paceline.topologies.base import JobProgress, TakesJobs
from paceline.topologies.reporting.formatting import format_count, printable


@takes_caller
def cancel(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Name of the job.")],
    url: Annotated[str, typer.Option("--to", metavar="URL", help="Address of the orchestrator.")],
    caller: Caller,
    as_json: ResultAsJson = False,
) -> None:
    """End one job of an orchestrator that runs a pool.

    Its open round is closed at once, with the updates that came. What it has learned stays in the run's folder, and
    learners go on with other jobs.

    Example: paceline cancel fashion --to https://10.0.0.2:7223
    """
    pool = caller.connect(*parse_contact("--to", url), interface=TakesJobs)
    progress = run_live(_cancel(pool, job))
    if as_json:
        print(json.dumps(progress.flat()))
    elif progress.status == "over":
        print(f"{progress.job} is cancelled, after {format_count(progress.num_closed, 'round')}")
    else:
        print(f"{progress.job} will end in a moment: a round of it is being closed")


async def _cancel(pool: axon.Remote, job: str) -> JobProgress:
    try:
        progress: JobProgress = await pool.cancel.coro(job)
    except RemoteError as error:
        raise ConfigError(f"{printable(job)} is not cancelled: {one_line(error.remote_message)}") from error
    return progress
