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
from paceline.cli.options import flag
from paceline.errors import Busy, ConfigError, PacelineError, Refused, TlsFailed, TurnedAway, one_line

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_INFEASIBLE = 3
EXIT_REFUSED = 4
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143

_UsageError: Any = typer.BadParameter.__base__  # typer brings its own copy of click, and exports only this much of it

COMMANDS = {
    "demo": "Train on four unequal devices, emulated on this machine.",
    "new": "Write a project that runs: task, data, job, fleet, test.",
    "run": "Run any job on this machine, each device a process.",
    "serve": "Serve a job; prints the command with which devices join.",
    "resume": "Go on with a run that was interrupted, the way it was run.",
    "join": "Take part in a run, as a learner, a source or a peer.",
    "gossip": "Train without a server: start the first peer, or another.",
    "status": "Show the progress of a host or a peer, or save its model.",
    "submit": "Submit one more job to an orchestrator that runs a pool.",
    "cancel": "End one job of an orchestrator that runs a pool.",
    "invite": "Invite a device, or a person, to a run that is served.",
    "devices": "List the devices of a run that is served, or revoke one.",
    "simulate": "Run any job on a modelled fleet, in virtual time.",
    "testbed": "Run any job on emulated devices: own link, own CPU share.",
    "bench": "Measure how fast this device trains a job's model.",
    "contention": "Measure how much other processes slow down training here.",
    "allocate": "Solve one allocation problem, given as JSON.",
    "reproduce": "Reproduce a figure of a paper, and compare the two.",
    "page": "Show runs in a browser: live, finished, or compared.",
    "report": "Write a report on a run, as one HTML page.",
    "install-service": "Have systemd run a command, from each boot on.",
    "export": "Write the model that a run learned as an ONNX file.",
    "axon": "Serve functions of a Python file, or call those of others.",
}
"""Every command, with the first line of its help; see `function_of`."""

_SETTINGS: dict[str, dict[str, Any]] = {
    "install-service": {"allow_interspersed_args": False}  # what follows its first argument is another command's
}

_FILES = {"devices": "device_list"}  # in place of its name: cli/devices.py is about the device that a command runs


class _LazyGroup(typer.core.TyperGroup):
    """Puts a command in the place of its stand-in when it is asked for."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in COMMANDS:
            self.commands[args[0]] = load(args[0])
        return super().resolve_command(ctx, args)


def function_of(name: str) -> Any:
    """Return a command: what has that name, in the file of that name or the one in `_FILES`."""
    own = name.replace("-", "_")
    return getattr(importlib.import_module(f"paceline.cli.{_FILES.get(name, own)}"), own)


def load(name: str) -> Any:
    """Return a command, ready to parse its arguments."""
    command = function_of(name)
    if isinstance(command, typer.Typer):
        return typer.main.get_command(command)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name, context_settings=_SETTINGS.get(name))(command)
    return typer.main.get_command(alone)


app = typer.Typer(
    name="paceline",
    cls=_LazyGroup,
    help="Train PyTorch models on fleets of unequal edge devices, all done by the deadline.",
    epilog="Exit codes: 0 done, 1 failed while running, 2 bad input, 3 no solution exists, 4 refused, 130 "
    "interrupted, 143 terminated.",
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
    version: Annotated[bool, flag("--version", "Print the version.", callback=_print_version, is_eager=True)] = False,
    debug: Annotated[bool, flag("--debug", "Show the traceback of an error.")] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    is_debug = "--debug" in given  # accepted anywhere, also after the subcommand
    given = ["--page=0" if argument == "--page" else argument for argument in given]  # its port may be left out
    sys.exit(_run([argument for argument in given if argument != "--debug"], is_debug))


def _run(arguments: list[str], is_debug: bool) -> int:
    try:
        code: int = app(arguments, standalone_mode=False) or 0
    except (KeyboardInterrupt, typer.Abort):
        code = EXIT_INTERRUPTED
    except PacelineError as error:
        if is_debug:
            raise
        return _fail(str(error), _code_of(error))
    except _UsageError as error:
        return _fail(error.format_message(), EXIT_BAD_INPUT)
    return _fail("interrupted", code) if code == EXIT_INTERRUPTED else code  # typer makes a code of an interrupt


def _code_of(error: PacelineError) -> int:
    if isinstance(error, ConfigError):
        return EXIT_BAD_INPUT
    is_final = isinstance(error, (Refused, TlsFailed, TurnedAway)) and not isinstance(error, Busy)
    return EXIT_REFUSED if is_final else EXIT_FAILED


def _fail(message: str, code: int) -> int:
    print(f"paceline: {one_line(message)}", file=sys.stderr)
    return code
