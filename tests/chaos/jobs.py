"""Makes the job of a schedule."""

from paceline.allocation import MedAllocation
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.parallel.jobs import Job, Pool
from paceline.topologies.split.jobs import SplitJob
from tests.chaos.small import MODEL

_SHARD_SIZE = 8


def make_job(schedule, points):
    """Make the job of a schedule, on the points in a file."""
    return _MAKERS[schedule.topology](dict(schedule.rules), {"path": str(points)})


def _job(rules, data):
    placement = rules.pop("placement", "served")
    policy = rules.pop("policy", None)
    data = {**data, "shard_size": _SHARD_SIZE, "placement": placement}
    more = {} if policy is None else {"allocation": policy}
    # Limits of an update's influence are off, so that what comes of a round can be computed from what was let in.
    rules["aggregation"] = {"max_weight": 0, "clip": 0, **rules.get("aggregation", {})}
    return Job(rolls_back=False, **rules, data=data, model=MODEL, **more)


def _pool(rules, data):
    jobs = rules.pop("jobs")
    policy = MedAllocation(held_back=rules.pop("held_back"), max_steps=20)
    made = [_job({"name": name, "benchmark_shards": 1, **fields}, data) for name, fields in jobs.items()]
    return Pool(jobs=tuple(made), allocation=policy, **rules)


def _gossip(rules, data):
    return GossipJob(**rules, data=data, model=MODEL)


def _split(rules, data):
    return SplitJob(**rules, cut="2", data=data, model=MODEL, view=({"kind": "plain"},))


_MAKERS = {"served": _job, "federated": _job, "pool": _pool, "mixing": _gossip, "push-sum": _gossip, "split": _split}
