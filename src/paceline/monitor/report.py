"""Writes the report of a run of any kind, or of a pool: one HTML page that needs no network and no other file."""

from __future__ import annotations

from pathlib import Path

from paceline.devices.energy import GRAMS_CO2_PER_KWH
from paceline.errors import ConfigError
from paceline.monitor.event_folder import EventFolder
from paceline.monitor.folder import RunFolder
from paceline.monitor.gossip_folder import GossipFolder
from paceline.monitor.gossip_summary import summarise_gossip
from paceline.monitor.page import make_gossip_page, make_page, make_pool_page, make_split_page
from paceline.monitor.pool_folder import PoolFolder
from paceline.monitor.pool_summary import summarise_pool
from paceline.monitor.recording import replace
from paceline.monitor.split_folder import SplitFolder
from paceline.monitor.split_summary import summarise_split
from paceline.monitor.summary import summarise


def write_report(folder: RunFolder, output: Path | None = None, grams_per_kwh: float = GRAMS_CO2_PER_KWH) -> Path:
    """Write the page of a run, finished or not, into its folder or to `output`; returns where it is.

    Args:
        grams_per_kwh: the carbon intensity of the learners' energy; likewise for the other two.
    """
    page = make_page(_name(folder), summarise(folder.events()), folder.job, folder.versions, grams_per_kwh)
    return _write(output or folder.report, page)


def write_pool_report(folder: PoolFolder, output: Path | None = None, grams_per_kwh: float = GRAMS_CO2_PER_KWH) -> Path:
    """Write the page of a pool, finished or not, into its folder or to `output`; returns where it is."""
    page = make_pool_page(_name(folder), summarise_pool(folder), folder.pool, folder.versions, grams_per_kwh)
    return _write(output or folder.report, page)


def write_gossip_report(
    folder: GossipFolder, output: Path | None = None, grams_per_kwh: float = GRAMS_CO2_PER_KWH
) -> Path:
    """Write the page of a gossip run, finished or not, into its folder or to `output`; returns where it is."""
    summary = summarise_gossip(folder.events())
    page = make_gossip_page(_name(folder), summary, folder.job, folder.versions, grams_per_kwh)
    return _write(output or folder.report, page)


def write_split_report(
    folder: SplitFolder, output: Path | None = None, grams_per_kwh: float = GRAMS_CO2_PER_KWH
) -> Path:
    """The same of a split run."""
    page = make_split_page(_name(folder), summarise_split(folder.events()), folder.job, folder.versions, grams_per_kwh)
    return _write(output or folder.report, page)


def _name(folder: EventFolder) -> str:
    return folder.path.resolve().name


def _write(path: Path, page: str) -> Path:
    try:
        replace(path, page.encode())
    except OSError as error:
        raise ConfigError(f"{path}: the report cannot be written there: {error.strerror}") from error
    return path
