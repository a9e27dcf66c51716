"""Executions of jobs on fleets, each kept in a folder: where jobs, fleets and recorders meet."""

from paceline.runs.folders import RUNS
from paceline.runs.gossip import GossipRun, PreparedGossip, prepare_gossip, train_gossip
from paceline.runs.jobs import PreparedRun, Run, prepare, reopen, train
from paceline.runs.pools import PoolEmit, PoolRun, PreparedPool, prepare_pool, train_pool
from paceline.runs.split import NodeFleet, PreparedSplit, SplitRun, load_split_model, prepare_split, train_split

__all__ = [
    "RUNS",
    "GossipRun",
    "NodeFleet",
    "PoolEmit",
    "PoolRun",
    "PreparedGossip",
    "PreparedPool",
    "PreparedRun",
    "PreparedSplit",
    "Run",
    "SplitRun",
    "load_split_model",
    "prepare",
    "prepare_gossip",
    "prepare_pool",
    "prepare_split",
    "reopen",
    "train",
    "train_gossip",
    "train_pool",
    "train_split",
]
