"""A job made ready to serve: its data cut into shards, its model's size known, its results judged."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from paceline import allocation
from paceline.allocation import RoundTerms
from paceline.learning import datasets
from paceline.learning.averaging import State
from paceline.learning.compression import Compression
from paceline.learning.local_model import LocalModel
from paceline.learning.shards import Array, Shard, ShardSampler, ShardStore
from paceline.learning.tasks import Task
from paceline.topologies.parallel.jobs import Job
from paceline.topologies.parallel.messages import Offer


@dataclass(frozen=True, kw_only=True)
class PreparedJob:
    """A job with all that is needed to serve it, and the parameters it starts from.

    Attributes:
        state: parameters to start from.
        memory: what the aggregation remembers of earlier rounds, in a run that goes on.
        store: shards to serve; None if data stays on the devices.
        model: the model, for evaluation and audits.
        compression: how updates are sent.
        evaluate: computes loss and accuracy of parameters on the test data; None to leave that out.
    """

    job: Job
    task: Task
    terms: RoundTerms
    state: State
    store: ShardStore | None
    model: LocalModel
    compression: Compression = field(default_factory=Compression)
    memory: State = field(default_factory=dict)
    evaluate: Callable[[Mapping[str, torch.Tensor]], tuple[float, float]] | None = None

    @property
    def largest_bytes(self) -> int:
        """Size of the parameters or of an update, whichever is larger as sent."""
        return max(self.terms.model_bytes, self.terms.up_bytes)

    @property
    def num_served_shards(self) -> int:
        """Number of shards that the orchestrator hands out."""
        return 0 if self.store is None else len(self.store)

    def draw(self, count: int) -> list[Shard]:
        """Return some of the shards to serve, drawn at random."""
        assert self.store is not None
        return [self.store[number] for number in ShardSampler(len(self.store), (self.job.seed,)).draw(count)]

    @property
    def offer(self) -> Offer:
        """The job as it is offered to learners."""
        return Offer(
            task=self.task,
            terms=self.terms,
            policy=allocation.describe(self.job.allocation),
            placement=self.job.data.placement,
            benchmark_shards=self.job.benchmark_shards,
            dataset=self.job.data.name or "",
            partition=self.job.partition,
            compression=self.compression,
        )

    def shards(self, numbers: list[int]) -> list[tuple[Array, Array]]:
        """Return shards as they are sent: views of the store."""
        assert self.store is not None or not numbers
        return [tuple(self.store[number]) for number in numbers] if self.store is not None else []  # type: ignore[misc]


def prepare_job(job: Job) -> PreparedJob:
    """Load a job's data and build its model; raises `ConfigError`."""
    dataset = datasets.load(job.data)
    task = Task.of(job, dataset, proximal_mu=job.aggregation.proximal_mu, name=job.name)
    model = LocalModel(task, allowed=None)
    state = model.state()
    compression = Compression(
        method=job.aggregation.compression,
        kept_share=job.aggregation.kept_share,
        exact=model.layout.spans(model.buffers()),
    )
    is_served = job.data.placement == "served"
    store = ShardStore(dataset.x_train, dataset.y_train, job.data.shard_size, job.seed) if is_served else None
    terms = RoundTerms(
        deadline_seconds=job.deadline_seconds,
        local_epochs=job.local_epochs,
        model_bytes=sum(tensor.nbytes for tensor in state.values()),
        shard_bytes=0 if store is None else store.shard_bytes,
        shard_samples=job.data.shard_size if store is None else store.shard_samples,
        num_shards=0 if store is None else len(store),
        overtime=job.overtime,
        compressed_bytes=None if compression.is_lossless else compression.num_bytes(model.layout.pack(state)),
    )

    evaluate = functools.partial(model.evaluate, x=dataset.x_test, y=dataset.y_test)
    return PreparedJob(
        job=job,
        task=task,
        terms=terms,
        state=state,
        store=store,
        model=model,
        compression=compression,
        evaluate=evaluate,
    )
