"""``paceline axon``: serve functions of a Python file, and call them."""

from __future__ import annotations

import typer

from paceline.cli.call import call
from paceline.cli.worker import worker

axon = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)
axon.command("worker")(worker)
axon.command("call")(call)
