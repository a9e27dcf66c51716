"""``paceline allocate``: solve one allocation problem."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import msgspec
import typer

from paceline.allocation import Problem, Reply, read_problem
from paceline.cli.main import EXIT_INFEASIBLE
from paceline.cli.options import ResultAsJson, option
from paceline.errors import ConfigError

MAX_PROBLEM_BYTES = 1 << 26


def allocate(
    problem: Annotated[str, typer.Argument(metavar="FILE", help="Problem (JSON); - reads standard input.")],
    time_limit: Annotated[
        float | None, option("SECONDS", "Time limit; the best solution found by then is printed.")
    ] = None,
    as_json: ResultAsJson = False,
) -> None:
    """Solve one allocation problem, given as JSON.

    Example: paceline allocate problem.json --json
    """
    if time_limit is not None and not time_limit > 0:
        raise ConfigError(f"--time-limit is {time_limit:g}; it must be above 0")
    source = "standard input" if problem == "-" else problem
    posed = read_problem(_read(problem), source)
    start = time.perf_counter()
    reply = posed.solve(time_limit_seconds=time_limit)
    reply = msgspec.structs.replace(reply, solve_seconds=round(time.perf_counter() - start, 6))
    if as_json:
        print(msgspec.json.encode(reply).decode())
    elif reply.status == "infeasible":
        print(f"paceline: {source}: infeasible: {reply.reason}", file=sys.stderr)
    else:
        _print(posed, reply)
    if reply.status == "infeasible":
        raise typer.Exit(EXIT_INFEASIBLE)


def _read(path: str) -> bytes:
    try:
        if path == "-":
            text = sys.stdin.buffer.read(MAX_PROBLEM_BYTES + 1)
        else:
            with open(path, "rb") as file:
                text = file.read(MAX_PROBLEM_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if len(text) > MAX_PROBLEM_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_PROBLEM_BYTES} bytes; is it the right file?")
    return text


def _print(posed: Problem, reply: Reply) -> None:
    from rich.console import Console  # takes as long to import as all the rest; JSON does without
    from rich.markup import escape
    from rich.table import Table

    rows = [msgspec.to_builtins(share) for share in reply.allocation]
    table = Table(title=f"{reply.status}: {reply.objective:,g} {posed.objective_name}")
    for heading in rows[0]:
        table.add_column(heading, justify="left" if heading in ("learner", "task") else "right")
    for row in rows:
        table.add_row(*(escape(cell) if isinstance(cell, str) else f"{cell:,}" for cell in row.values()))
    Console().print(table)
