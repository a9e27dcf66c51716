"""Puts the subcommands together, and turns errors into one line and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

import paceline
from paceline.cli import bench, call, demo, join, report, serve, simulate, worker
from paceline.errors import ConfigError, PacelineError

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130

_UsageError: Any = typer.BadParameter.__base__  # typer brings its own copy of click, and exports only this much of it

app = typer.Typer(
    name="paceline",
    help="Train PyTorch models on fleets of unequal edge devices, all done by the deadline.",
    epilog="Exit codes: 0 done, 1 failed while running, 2 bad input, 130 interrupted.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)
app.command("serve")(serve.serve)
app.command("join")(join.join)
app.command("bench")(bench.bench)
app.command("simulate")(simulate.simulate)
app.command("report")(report.report)
app.command("worker")(worker.worker)
app.command("call")(call.call)


def _print_version(value: bool) -> None:
    if value:
        print(f"paceline {paceline.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    is_debug = "--debug" in given  # accepted anywhere, also after the subcommand
    sys.exit(_run([argument for argument in given if argument != "--debug"], is_debug))


def _run(arguments: list[str], is_debug: bool) -> int:
    try:
        return app(arguments, standalone_mode=False) or 0
    except (KeyboardInterrupt, typer.Abort):
        return _tell("interrupted", EXIT_INTERRUPTED)
    except PacelineError as error:
        if is_debug:
            raise
        return _tell(str(error), EXIT_BAD_INPUT if isinstance(error, ConfigError) else EXIT_FAILED)
    except _UsageError as error:
        return _tell(error.format_message(), EXIT_BAD_INPUT)


def _tell(message: str, code: int) -> int:
    print(f"paceline: {message}", file=sys.stderr)
    return code
