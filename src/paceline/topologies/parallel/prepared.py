"""A job made ready to serve: its data cut into shards, its model's size known, its results judged."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from paceline import allocation
from paceline.allocation import RoundTerms
from paceline.errors import ConfigError
from paceline.learning import datasets
from paceline.learning.averaging import State
from paceline.learning.compression import Compression
from paceline.learning.local_model import LocalModel
from paceline.learning.privacy import PrivacyAccount
from paceline.learning.privacy.masks import masked_size
from paceline.learning.scores import Scores
from paceline.learning.shards import Array, Shard, ShardSampler, ShardStore
from paceline.learning.starts import make_model
from paceline.learning.training_spec import TrainingSpec
from paceline.learning.vectors import Vectors
from paceline.topologies.parallel.jobs import Job
from paceline.topologies.parallel.messages import Offer
from paceline.topologies.parallel.tables import RunTables
from paceline.topologies.reporting.shared import check_metric_names


@dataclass(frozen=True, kw_only=True)
class PreparedJob:
    """A job with all that is needed to serve it, and the parameters it starts from.

    Attributes:
        state: parameters to start from.
        memory: what the aggregation remembers of earlier rounds, in a run that goes on.
        store: shards to serve; None if data stays on the devices.
        model: the model, for evaluation and audits.
        compression: how updates are sent.
        history: scores of earlier rounds, in a run that goes on.
        num_rounds: number of them with an update of a learner, by its name, where privacy depends on it.
        evaluate: computes what parameters achieve on the test data; None to leave that out.
    """

    job: Job
    training: TrainingSpec
    terms: RoundTerms
    state: State
    store: ShardStore | None
    model: LocalModel
    compression: Compression = field(default_factory=Compression)
    memory: State = field(default_factory=dict)
    history: Sequence[Scores] = ()
    num_rounds: Mapping[str, int] = field(default_factory=dict)
    evaluate: Callable[[Mapping[str, torch.Tensor]], Scores] | None = None

    @property
    def base_bytes(self) -> int:
        """Bytes of what of the model is sent once, to learners that do not make the same by themselves."""
        return sum(tensor.nbytes for tensor in self.model.base().values())

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
            training=self.training,
            terms=self.terms,
            policy=allocation.describe(self.job.allocation),
            placement=self.job.data.placement,
            benchmark_shards=self.job.benchmark_shards,
            dataset=self.job.data.name or "",
            partition=self.job.partition,
            reading=self.job.data.reading,
            compression=self.compression,
            weight=self.job.aggregation.weight,
            privacy=self.job.privacy,
        )

    def shards(self, numbers: list[int]) -> list[list[Array]]:
        """Return shards as they are sent: in memory, views of the store."""
        assert self.store is not None or not numbers
        return [list(self.store[number]) for number in numbers] if self.store is not None else []


def prepare_job(
    job: Job, start: State | None = None, check: Callable[[TrainingSpec, int], None] = lambda spec, num_samples: None
) -> PreparedJob:
    """Load a job's data and build its model; raises `ConfigError`.

    Args:
        start: parameters to start from; None for what the job says.
        check: called with what is trained, and on how many samples, before the model is built.
    """
    dataset = datasets.load(job.data)
    model = make_model(
        job,
        dataset,
        start,
        lambda spec: check(spec, len(dataset.train)),
        proximal_mu=job.aggregation.proximal_mu,
        exchange=job.aggregation.exchange,
        rounds=job.rounds,
        name=job.name,
    )
    check_metric_names(model.metric_names, RunTables({}).tables())
    job.early_stopping().check(model.metric_names)
    if job.audit_rate and model.kept_names:
        raise ConfigError(
            f"what is trained in {min(model.kept_names)} stays on the devices, but audit_rate is above 0: without it, "
            "the same work cannot be done again; set audit_rate = 0, or add it to exchange in [aggregation]"
        )
    state = model.state()
    compression = Compression(
        method=job.aggregation.compression,
        kept_share=job.aggregation.kept_share,
        exact=model.layout.spans(model.buffers()),
    )
    _check_privacy(job, model)
    is_served = job.data.placement == "served"
    store = ShardStore(dataset.train, job.data.shard_size, job.seed) if is_served else None
    terms = RoundTerms(
        deadline_seconds=job.update_seconds,
        local_epochs=job.local_epochs,
        model_bytes=sum(vector.nbytes for vector in model.parameters().values()),
        shard_bytes=0 if store is None else store.shard_bytes,
        shard_samples=job.data.shard_size if store is None else store.shard_samples,
        num_shards=0 if store is None else len(store),
        overtime=job.overtime,
        compressed_bytes=_sent_bytes(job, compression, model.layout.pack(state)),
    )

    evaluate = functools.partial(model.evaluate, table=dataset.test)
    return PreparedJob(
        job=job,
        training=model.spec,
        terms=terms,
        state=state,
        store=store,
        model=model,
        compression=compression,
        evaluate=evaluate,
    )


def _check_privacy(job: Job, model: LocalModel) -> None:
    """Raise `ConfigError` for a model whose updates cannot be masked, or not be hidden by noise."""
    travelling = model.parameters()
    if job.privacy.secure_aggregation and any(vector.is_complex() for vector in travelling.values()):
        raise ConfigError("secure_aggregation is true, but the model has complex parameters, which cannot be masked")
    PrivacyAccount(job.privacy).check()
    if job.privacy.noise_multiplier and model.layout.spans(model.buffers()):
        raise ConfigError(
            "noise_multiplier is set, but the model has buffers that travel, such as the statistics of batch "
            "normalisation, which noise would ruin: use a model without, or leave them out of exchange in [aggregation]"
        )


def _sent_bytes(job: Job, compression: Compression, parameters: Vectors) -> int | None:
    """Return the size of an update as it is sent; None if that is the size of the parameters."""
    if job.privacy.secure_aggregation:
        return 8 * masked_size(parameters)
    return None if compression.is_lossless else compression.num_bytes(parameters)
