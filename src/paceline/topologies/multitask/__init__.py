"""Several jobs at once over one pool of learners, each of which is in one of them at most."""

from paceline.topologies.multitask.jobs import Admitted, PoolSpec
from paceline.topologies.multitask.ledger import Ledger
from paceline.topologies.multitask.messages import JobProgress, PoolService, reach_pool
from paceline.topologies.multitask.pool import Pool

__all__ = ["Admitted", "JobProgress", "Ledger", "Pool", "PoolService", "PoolSpec", "reach_pool"]
