"""What a device does: measures itself by a few shards, trains many, and tells how long that took."""

from __future__ import annotations

import time
from typing import Any

from paceline.devices.flops import measure_flops, predict_training_seconds
from paceline.devices.subset_benchmark import measure_training
from paceline.fleets.live import run_live
from paceline.learning.datasets import DataSpec
from paceline.learning.local_model import LocalModel
from paceline.learning.trainers import ThreadTrainer
from paceline.topologies.parallel.jobs import Job
from paceline.topologies.parallel.prepared import PreparedJob, prepare_job
from reproduction.companions import answer_all

OPERATIONS_PER_PARAMETER = 6  # for a sample: two forward, four backward


class Device:
    """Keeps the job from question to question."""

    prepared: PreparedJob
    trainer: ThreadTrainer

    async def answer(self, *, what: str, **given: Any) -> dict[str, float]:
        """Do one of the things below."""
        found: dict[str, float] = await getattr(self, what)(**given)
        return found

    async def prepare(self, *, data: str, shard_size: int, seed: int) -> dict[str, float]:
        """Load the data, build TwoNN, and have PyTorch load what it needs."""
        job = Job(deadline_seconds=15, seed=seed, data=DataSpec(name=data, shard_size=shard_size))
        self.prepared = prepare_job(job)
        self.trainer = ThreadTrainer(LocalModel(self.prepared.training))
        return await self.train(num_shards=1)

    async def measure_flops(self) -> dict[str, float]:
        """The FLOPS baseline, and the seconds for a sample if operations were all that counts."""
        flops = measure_flops()
        operations = OPERATIONS_PER_PARAMETER * self.prepared.terms.model_bytes / 4
        return {"flops": flops, "seconds_per_sample": predict_training_seconds(flops, operations, 1)}

    async def measure_training(self, *, num_shards: int) -> dict[str, float]:
        """The subset benchmark."""
        rate = await measure_training(self.trainer, self.prepared.draw(num_shards))
        return {"seconds_per_sample": 1 / rate.per_second}

    async def train(self, *, num_shards: int) -> dict[str, float]:
        """One pass over so many shards: what is to be predicted, and with a few shards the thesis' own benchmark."""
        busy_seconds = time.process_time()
        trained = await self.trainer.train(self.trainer.initial_parameters(), self.prepared.draw(num_shards))
        return {
            "seconds": trained.seconds,
            "seconds_per_sample": trained.seconds / trained.num_samples,
            "busy_seconds": time.process_time() - busy_seconds,
        }


if __name__ == "__main__":
    run_live(answer_all(Device().answer))
