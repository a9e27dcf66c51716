"""The setting of the experiments with DAB (Mays; Mays et al.): data, devices, jobs, and names of policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from paceline import Job, VirtualDevice, allocation
from paceline.learning.datasets import DataSpec
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.preprocessing import Normalisation
from paceline.learning.tasks import TaskSpec
from papers import AVERAGE

TESTBED = Path(__file__).parents[2] / "examples" / "testbed"
"""Folder of the fleet files that describe the papers' devices."""

MNIST = DataSpec(name="mnist", shard_size=500)
FROM_0_TO_1 = Normalisation(scale=1 / 255, mean=(0.0,), std=(1.0,))  # as the authors feed their models
POLICIES = {"dab": "DAB", "csa": "CSA", "adaptive-dab": "adaptive DAB (ours)"}
"""Names for legends, by policy."""

# The paper's system waits for all learners. Ours closes a round at its deadline; learners halt in time for it.
OVERTIME = {"dab": 1.0, "csa": 1.0, "adaptive-dab": 0.0}
_SPEED_NOISE, _LINK_NOISE = 0.1, 0.2


def job_of(policy: str, model: str, data: DataSpec, **rules: Any) -> Job:
    """Build a job as the authors train: SGD on the cross-entropy of softmax outputs, under a policy."""
    fields = {"overtime": OVERTIME[policy], "local_epochs": 1, "batch_size": 32, **rules}
    return Job(
        task=TaskSpec(loss="cross-entropy-of-softmax"),
        model=ModelSpec(name=model),
        optimizer=OptimizerSpec(name="SGD", options={"lr": 0.1}),
        aggregation=AVERAGE,
        data=data,
        allocation=allocation.from_config({"policy": policy}),
        **fields,
    )


def slowed(device: VirtualDevice, times: float, **changes: Any) -> VirtualDevice:
    """Return a device of the testbed with links so many times slower, and with noise; `changes` replace more fields."""
    return msgspec.structs.replace(
        device,
        down_mbit=device.down_mbit / times,
        up_mbit=device.up_mbit / times,
        speed_noise=_SPEED_NOISE,
        link_noise=_LINK_NOISE,
        **changes,
    )
