"""Writes the report of a run of any kind, or of a pool: one HTML page that needs no network and no other file."""

from __future__ import annotations

from pathlib import Path

from paceline.errors import ConfigError
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


def write_report(folder: RunFolder, output: Path | None = None) -> Path:
    """Write the page of a run, finished or not, into its folder or to `output`; returns where it is."""
    page = make_page(folder.path.resolve().name, summarise(folder.events()), folder.job, folder.versions)
    return _write(output or folder.report, page)


def write_pool_report(folder: PoolFolder, output: Path | None = None) -> Path:
    """Write the page of a pool, finished or not, into its folder or to `output`; returns where it is."""
    page = make_pool_page(folder.path.resolve().name, summarise_pool(folder), folder.pool, folder.versions)
    return _write(output or folder.report, page)


def write_gossip_report(folder: GossipFolder, output: Path | None = None) -> Path:
    """Write the page of a gossip run, finished or not, into its folder or to `output`; returns where it is."""
    page = make_gossip_page(folder.path.resolve().name, summarise_gossip(folder.events()), folder.job, folder.versions)
    return _write(output or folder.report, page)


def write_split_report(folder: SplitFolder, output: Path | None = None) -> Path:
    """Write the page of a split run, finished or not, into its folder or to `output`; returns where it is."""
    page = make_split_page(folder.path.resolve().name, summarise_split(folder.events()), folder.job, folder.versions)
    return _write(output or folder.report, page)


def _write(path: Path, page: str) -> Path:
    try:
        replace(path, page.encode())
    except OSError as error:
        raise ConfigError(f"{path}: the report cannot be written there: {error.strerror}") from error
    return path
