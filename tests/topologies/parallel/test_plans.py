"""Plans and jobs: what can be served, and what cannot be asked."""

import pytest

from paceline.learning.datasets import DataSpec
from paceline.learning.shards import ShardSampler
from paceline.topologies.parallel import make_plan, plans
from tests.topologies.parallel.runs import small_job


def test_no_more_shards_are_served_than_a_message_holds(monkeypatch):
    plan, _ = make_plan(small_job())
    monkeypatch.setattr(plans, "MAX_SERVED_SHARDS", 3)
    share = plan.share(ShardSampler(plan.num_served_shards, (0,)), 10, 2)
    assert (share.num_shards, len(share.portions[0]), share.num_samples, share.local_epochs) == (3, 3, 96, 2)


def test_what_devices_have_cannot_be_divided_by_the_orchestrator():
    with pytest.raises(ValueError, match='placement is "local"'):
        small_job("eta", data=DataSpec(name="digits", placement="local"))
