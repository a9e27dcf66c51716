"""Readers of the events of runs, pools, gossip and split runs: their folders and reports, the live table and lines.

None of them reaches into a run: a run tells each event to whoever listens, and behaves the same without a listener.
"""

from paceline.monitor.figures import LearnerRound, LearnerSummary, Metrics, RoundSummary, Summary
from paceline.monitor.folder import Resumption, RunFolder
from paceline.monitor.footprint import Footprint
from paceline.monitor.gossip_figures import EpochSummary, GossipSummary, PeerSummary
from paceline.monitor.gossip_folder import GossipFolder
from paceline.monitor.gossip_lines import GossipLines
from paceline.monitor.gossip_summary import summarise_gossip
from paceline.monitor.lines import PlainLines, PoolLines
from paceline.monitor.live import LiveTable, watcher
from paceline.monitor.pool_figures import Account, JobSummary, PoolSummary
from paceline.monitor.pool_folder import PoolFolder
from paceline.monitor.pool_summary import summarise_pool
from paceline.monitor.report import write_gossip_report, write_pool_report, write_report, write_split_report
from paceline.monitor.split_figures import NodeSummary, SplitEpochSummary, SplitSummary
from paceline.monitor.split_folder import SplitFolder
from paceline.monitor.split_lines import SplitLines
from paceline.monitor.split_summary import summarise_split
from paceline.monitor.summary import summarise

__all__ = [
    "Account",
    "EpochSummary",
    "Footprint",
    "GossipFolder",
    "GossipLines",
    "GossipSummary",
    "JobSummary",
    "LearnerRound",
    "LearnerSummary",
    "LiveTable",
    "Metrics",
    "NodeSummary",
    "PeerSummary",
    "PlainLines",
    "PoolFolder",
    "PoolLines",
    "PoolSummary",
    "Resumption",
    "RoundSummary",
    "RunFolder",
    "SplitEpochSummary",
    "SplitFolder",
    "SplitLines",
    "SplitSummary",
    "Summary",
    "summarise",
    "summarise_gossip",
    "summarise_pool",
    "summarise_split",
    "watcher",
    "write_gossip_report",
    "write_pool_report",
    "write_report",
    "write_split_report",
]
