"""The ``paceline`` command: one file per subcommand; each parses, calls, prints."""

from paceline.cli.main import main

__all__ = ["main"]
