"""Writes the report of a run: one HTML page that needs no network and no other file."""

from __future__ import annotations

import os
from pathlib import Path

from paceline.errors import ConfigError
from paceline.monitor.folder import RunFolder
from paceline.monitor.page import make_page
from paceline.monitor.summary import summarise


def write_report(folder: RunFolder, output: Path | None = None) -> Path:
    """Write the page of a run, finished or not, into its folder or to `output`; returns where it is."""
    path = output or folder.report
    page = make_page(folder.path.resolve().name, summarise(folder.events()), folder.job, folder.versions)
    temporary = path.with_name(path.name + ".new")
    try:
        temporary.write_text(page, encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        raise ConfigError(f"{path}: the report cannot be written there: {error.strerror}") from error
    return path
