"""Watchers: each follows the runs of a topology from outside, and knows what must be true of them."""

from tests.chaos.watchers.gossip import GossipWatcher
from tests.chaos.watchers.orchestrator import OrchestratorWatcher
from tests.chaos.watchers.pool import PoolWatcher
from tests.chaos.watchers.split import SplitWatcher

_WATCHERS = {
    "served": OrchestratorWatcher,
    "federated": OrchestratorWatcher,
    "pool": PoolWatcher,
    "mixing": GossipWatcher,
    "push-sum": GossipWatcher,
    "split": SplitWatcher,
}


def make_watcher(world):
    """Make the watcher of a world."""
    return _WATCHERS[world.schedule.topology](world)
