"""Puts the subcommands together, and turns errors into one line and an exit code.

Only the module of the command that was asked for is imported, so that those that need no PyTorch start without it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
import typer.core
import typer.main

import paceline
from paceline.cli.lines import one_line
from paceline.errors import ConfigError, PacelineError

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_INFEASIBLE = 3
EXIT_INTERRUPTED = 130

_UsageError: Any = typer.BadParameter.__base__  # typer brings its own copy of click, and exports only this much of it

COMMANDS = {
    "demo": "Train on four unequal devices on this machine: each takes as much as it can finish by the deadline.",
    "serve": "Orchestrate a run: print the line that a device runs to join, then play the job's rounds "
    "with whoever does.",
    "submit": "Have a job trained by an orchestrator that runs a pool; its learners move to it after the rounds that "
    "are open.",
    "join": "Take part in a run: measure this device, train what it can by each deadline, until the run is over.",
    "bench": "Measure how fast this device trains a job's model, by training a dummy on a few of its shards.",
    "profile": "Profile how much slower this device trains a job's model while others use it, by training beside "
    "loads.",
    "gossip": "Train without a server: take part as a peer, or start a few peers on this machine.",
    "split": "Spread one model over several devices: be its trunk, or a source of it, or start all of them on this "
    "machine.",
    "ask": "Ask a peer how far it is and whom it knows, and save its model as it is now.",
    "simulate": "Run a job on a modelled fleet: the same code on virtual time, exactly repeatable from the job's seed.",
    "testbed": "Run a job on an emulated testbed: each device has its own network namespace, link and share of the "
    "processor.",
    "allocate": "Solve one allocation problem: who gets how much, JSON in, a table or JSON out.",
    "reproduce": "Make a figure of a paper again: rows, a plot, and a verdict on each number that the paper gives.",
    "report": "Make one HTML page of a run: accuracy, time against the deadline, shares, energy, and who came and "
    "left.",
    "worker": "Serve the functions that a Python file offers with @axon.worker.rpc(), until interrupted.",
    "call": "Call a worker's function and print the result as JSON; without a function, list what there is.",
}
"""Every command, with the first line of its help; it is the function of that name in the file of that name."""


class _LazyGroup(typer.core.TyperGroup):
    """Puts a command in the place of its stand-in when it is asked for."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in COMMANDS:
            self.commands[args[0]] = _load(args[0])
        return super().resolve_command(ctx, args)


def _load(name: str) -> Any:
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name)(getattr(importlib.import_module(f"paceline.cli.{name}"), name))
    return typer.main.get_command(alone)


app = typer.Typer(
    name="paceline",
    cls=_LazyGroup,
    help="Train PyTorch models on fleets of unequal edge devices, all done by the deadline.",
    epilog="Exit codes: 0 done, 1 failed while running, 2 bad input, 3 no solution exists, 130 interrupted.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
for _name, _help in COMMANDS.items():
    app.command(_name, help=_help)(lambda: None)


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
        code: int = app(arguments, standalone_mode=False) or 0
    except (KeyboardInterrupt, typer.Abort):
        code = EXIT_INTERRUPTED
    except PacelineError as error:
        if is_debug:
            raise
        return _tell(str(error), EXIT_BAD_INPUT if isinstance(error, ConfigError) else EXIT_FAILED)
    except _UsageError as error:
        return _tell(error.format_message(), EXIT_BAD_INPUT)
    return _tell("interrupted", code) if code == EXIT_INTERRUPTED else code  # typer makes a code of an interrupt


def _tell(message: str, code: int) -> int:
    print(f"paceline: {one_line(message)}", file=sys.stderr)
    return code
