"""A learner's place in a run: what was offered to it, and what its device made of that."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, field

import msgspec

from paceline import allocation, axon
from paceline.allocation import AllocationPolicy, RoundTerms, Timings
from paceline.devices.profiles import Profile
from paceline.devices.subset_benchmark import MeasuredLink
from paceline.errors import BadReply, ConfigError
from paceline.learning import privacy
from paceline.learning.averaging import State
from paceline.learning.compression import ErrorFeedback
from paceline.learning.exchange import digest_of
from paceline.learning.shards import Shard, ShardSampler, ShardStore
from paceline.learning.trainers import Trainer
from paceline.learning.training_spec import fitting
from paceline.learning.update_validation import why_unlike
from paceline.learning.vectors import Vectors
from paceline.topologies.parallel.messages import MASKED, Offer, Work
from paceline.topologies.parallel.own_data import OwnData

_KEPT_ROUNDS = 50  # of the history that policies see


@dataclass
class Enrolment:
    """A place in a run.

    Attributes:
        terms: terms as offered; the shards are the device's own where its data stays with it.
        like: parameters of the model's shapes.
        store: the device's own data; None if shards are served.
        feedback: compresses its updates, and keeps what was left out of them.
        profile: measurements of the device in the state it is in, or in the first one.
        profiles: measurements in each of its states, if the policy needs them.
        history: times and amounts of past rounds.
        last_round: number of the last round it took part in.
        is_measured_again: whether it was measured a second time, since it seemed too slow.
    """

    offer: Offer
    terms: RoundTerms
    policy: AllocationPolicy
    trainer: Trainer
    like: Vectors
    store: ShardStore | None
    feedback: ErrorFeedback
    profile: Profile | None = None
    profiles: tuple[Profile, ...] = ()
    history: list[Timings] = field(default_factory=list)
    last_round: int = 0
    is_measured_again: bool = False

    @classmethod
    def of(
        cls, offer: Offer, trainer: Trainer, own_data: OwnData | None, allowed: Collection[str] | None = None
    ) -> Enrolment:
        """Enrol for an offer; raises `ConfigError` if this device cannot take it, or does not allow its policy."""
        policy, like = allocation.from_config(offer.policy, allowed), trainer.initial_parameters()
        model_bytes = sum(tensor.nbytes for tensor in like.values())
        if offer.terms.model_bytes != model_bytes:
            raise ConfigError(
                f"the model has {model_bytes} bytes here, and {offer.terms.model_bytes} at the orchestrator: "
                "install the same version of it on both"
            )
        if not offer.compression.fits(like):
            raise ConfigError("the model has other buffers at the orchestrator: install the same version of it on both")
        feedback = ErrorFeedback(offer.compression)
        if offer.placement == "served":
            if own_data is not None:
                raise ConfigError(
                    "the orchestrator of this job serves its data, so --data would do nothing: leave it out, or set "
                    'placement = "local" in [data] of the job'
                )
            return cls(offer, offer.terms, policy, trainer, like, None, feedback)
        if own_data is None:
            raise ConfigError("this job trains on data of the devices' own: pass --data PATH")
        store = ShardStore(fitting(own_data(offer), offer.training), offer.terms.shard_samples, offer.training.seed)
        terms = msgspec.structs.replace(offer.terms, num_shards=len(store), shard_bytes=0)
        return cls(offer, terms, policy, trainer, like, store, feedback)

    def load_base(self, state: State) -> None:
        """Take what of the model does not travel; raises `BadReply` if it is not what was offered."""
        if digest_of(state) != self.offer.training.base:
            raise BadReply("the orchestrator sent another model than it offered, where parts of it do not travel")
        self.trainer.load_base(state)

    def is_for_the_same(self, offer: Offer) -> bool:
        """Return whether an offer is of the same job, so that what was measured still holds."""
        return offer == self.offer

    def remember(self, timings: Timings) -> None:
        """Add a round to the history that policies see."""
        self.history = [*self.history[1 - _KEPT_ROUNDS :], timings]

    def parameters_of(self, work: Work) -> Vectors:
        """Return the parameters to start from; raises `BadReply` if they are not of the model that was offered."""
        reason = why_unlike(work.parameters, self.like)
        if reason is not None:
            raise BadReply(f"the orchestrator sent parameters that do not fit the model: {reason}")
        return work.parameters

    def masked(
        self, masker: privacy.Masker, parameters: Vectors, start: Vectors, weight: int, rng: random.Random
    ) -> Vectors:
        """Return what to send of an update under masks, with its part of the noise; raises `MaskError`."""
        promised = self.offer.privacy
        change = privacy.clipped(privacy.change_of(parameters, start), promised.clip_norm)
        change = privacy.with_noise(change, promised.noise_of_one(masker.num_needed), rng)
        return {MASKED: masker.mask(change, weight)}

    def own_shards(self, count: int, seed: tuple[int, ...]) -> list[Shard]:
        """Draw shards of the device's own data at random; none if data is served."""
        if self.store is None:
            return []
        return [self.store[number] for number in ShardSampler(len(self.store), seed).draw(count)]

    def num_own_samples(self, count: int, seed: tuple[int, ...]) -> int:
        """Return the number of samples in the same shards, without reading them."""
        if self.store is None:
            return 0
        return sum(map(self.store.num_samples, ShardSampler(len(self.store), seed).draw(count)))


class OrchestratorLink(MeasuredLink):
    """The link between a learner and its orchestrator, to be measured."""

    def __init__(self, orchestrator: axon.Remote, session: str, enrolment: Enrolment) -> None:
        self._orchestrator = orchestrator
        self._session = session
        self._enrolment = enrolment

    async def fetch(self, num_shards: int, *, with_parameters: bool) -> tuple[list[Shard], int]:
        num_served = num_shards if self._enrolment.store is None else 0
        work: Work = await self._orchestrator.sample.coro(self._session, num_served, with_parameters)
        return work.served or self._enrolment.own_shards(num_shards, (0,)), work.num_bytes

    async def send(self, num_bytes: int) -> None:
        await self._orchestrator.discard.coro(self._session, bytes(num_bytes))
