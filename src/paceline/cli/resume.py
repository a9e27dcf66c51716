"""``paceline resume``: go on with a run that was interrupted, the way it was run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paceline.cli import show_run
from paceline.cli.options import PagePort, ResultAsJson, Save, Track, option
from paceline.cli.serve import resume_served
from paceline.errors import ConfigError
from paceline.fleets.kept_fleets import fleet_of
from paceline.report import RunFolder
from paceline.report.folder import FLEET, LISTEN
from paceline.report.trackers import find_trackers
from paceline.run import reopen


def resume(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run.")],
    rounds: Annotated[int | None, option("N", "Rounds in all, if more are wanted.", min=1)] = None,
    save: Save = None,
    page: PagePort = None,
    track: Track = None,
    as_json: ResultAsJson = False,
) -> None:
    """Go on with a run that was interrupted, the way it was run.

    That is with the same devices, or at the same address, with the same token and certificate. With --rounds, a run
    that is over goes on, too.

    Example: paceline resume runs/20261116-103430
    """
    trackers = find_trackers(track or ())
    folder = RunFolder.open(run).path  # raises if it is none
    kept = folder / FLEET
    if kept.exists():
        try:
            fleet = fleet_of(kept.read_bytes(), str(kept))
        except OSError as error:
            raise ConfigError(f"{kept} cannot be read: {error.strerror}") from error
        opening = f"Starting its devices again: {len(fleet.devices or ())} …"
        prepared = reopen(run, rounds)
        show_run.start_and_show(
            prepared, fleet, as_json=as_json, save=save, page=page, trackers=trackers, opening=opening
        )
    elif (folder / LISTEN).exists():
        resume_served(folder, lambda: reopen(run, rounds), as_json=as_json, save=save, page=page, trackers=trackers)
    else:
        raise ConfigError(
            f"{run}: its folder has neither {FLEET} nor {LISTEN}, so nothing says how it was run; in Python, "
            "paceline.resume goes on with any fleet"
        )
