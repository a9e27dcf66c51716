"""The kinds of runs that can be reported, by the table of the job that announces each."""

from __future__ import annotations

from typing import Any

from paceline.errors import ConfigError
from paceline.topologies.gossip.report import GossipReporting
from paceline.topologies.parallel.pool_report import PoolReporting
from paceline.topologies.parallel.report import RunReporting
from paceline.topologies.reporting import Reporting
from paceline.topologies.split.report import SplitReporting

REPORTINGS: dict[str, Reporting] = {
    "job": RunReporting(),
    "pool": PoolReporting(),
    "gossip": GossipReporting(),
    "split": SplitReporting(),
}


def reporting_of(settings: dict[str, Any]) -> Reporting:
    """Find how runs of a resolved job are reported, by its first table that is known."""
    for table, reporting in REPORTINGS.items():
        if table in settings:
            return reporting
    raise ConfigError(f"a job has one of the tables {', '.join(REPORTINGS)}; this has {', '.join(settings) or 'none'}")
