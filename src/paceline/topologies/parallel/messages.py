"""Messages between orchestrator and learners, and the service that the orchestrator offers.

In a job whose policy is decided by the learner, these are all the bytes that leave a device: a name, the proof of a
key, requests for shards, trained parameters, how many samples they were trained on, and whether training diverged.
Nothing is said of the hardware; only policies that need profiles, such as csa, have learners declare them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import torch
from msgspec import Meta

from paceline.allocation import Allocation, RoundTerms
from paceline.devices.profiles import MAX_STATES, Outlook, Profile, StateName
from paceline.learning.aggregation import WeightKind
from paceline.learning.compression import Compression
from paceline.learning.partitions import PartitionSpec
from paceline.learning.privacy import PrivacySpec
from paceline.learning.shards import Shard
from paceline.learning.sources import ReadOptions
from paceline.learning.training_spec import TrainingSpec
from paceline.topologies.access import Proof
from paceline.topologies.base import TakesJobs

MAX_SHARDS = 1 << 20
"""Most shards that a learner may take in one round."""
MAX_FILL_BYTES = 1 << 24
MAX_SERVED_SHARDS = 1 << 14
"""Most shards that it is sent in one round: a message holds 65536 arrays at most, and two are a shard."""
MASKED = "masked"
"""Name of what is sent of a masked update."""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it is offered to a learner.

    Attributes:
        policy: name and fields of the allocation policy.
        placement: whether shards come from the orchestrator or from the device's own data.
        benchmark_shards: how many shards the subset benchmark uses.
        dataset: name of the data that devices may hold parts of; empty if it is a file.
        partition: how that is split among them.
        reading: how devices read stored data of their own.
        compression: how updates are sent.
        weight: what they count by; see `paceline.learning.aggregation.Aggregation`.
        privacy: how they are masked, clipped and hidden by noise.
    """

    training: TrainingSpec
    terms: RoundTerms
    policy: dict[str, Any]
    placement: Literal["served", "local"]
    benchmark_shards: int
    dataset: str = ""
    partition: PartitionSpec = PartitionSpec()
    reading: ReadOptions = ReadOptions()
    compression: Compression = Compression()
    weight: WeightKind = "work"
    privacy: PrivacySpec = PrivacySpec()


class Welcome(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a learner that joins.

    Attributes:
        session: key that the learner sends in every later call.
        offer: the job to begin with; None if there is none yet.
    """

    session: str
    offer: Offer | None


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a learner that is ready for a round.

    Attributes:
        status: ``open``: take part now; ``wait``: ask again; ``move``: enrol in another job, then ask again;
            ``over``: there is no further round.
        seconds_left: time until the round's deadline.
        allocation: shards and local epochs, where the orchestrator decides.
        offer: the other job, to move to.
        reason: why to wait, or why it is over.
    """

    status: Literal["open", "wait", "move", "over"]
    round: int = 0
    seconds_left: float = 0.0
    allocation: Allocation | None = None
    offer: Offer | None = None
    reason: str = ""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """The newest parameters, and the shards to train them on.

    Attributes:
        parameters: parameters as vectors; see `paceline.learning.vectors`.
        seconds_left: time until the round's deadline, when this was sent.
        may_be_more: whether further shards can be asked for when these are trained.
    """

    parameters: dict[str, torch.Tensor]
    shards: list[list[np.ndarray]]
    seconds_left: float = 0.0
    may_be_more: bool = False

    @property
    def served(self) -> list[Shard]:
        """The shards, as they are trained; none if the device has data of its own."""
        return [Shard(*arrays) for arrays in self.shards]

    @property
    def num_bytes(self) -> int:
        """Bytes of parameters and shards together."""
        num_shard_bytes = sum(column.nbytes for shard in self.shards for column in shard)
        return sum(vector.nbytes for vector in self.parameters.values()) + num_shard_bytes


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """What a learner declares about itself where the orchestrator decides, or data stays on the devices.

    Attributes:
        max_shards: most shards it takes in a round; None for no limit.
        num_shards: shards of its own data, where that stays on the devices: no more are ever taken in a round.
        profile: measurements of the device; None unless the policy needs them.
        outlook: the same for each state that it may be in; empty unless the policy needs it.
        state: state it was found in; None unless the policy wants to know it.
    """

    max_shards: Annotated[int, Meta(ge=1, le=MAX_SHARDS)] | None = None
    num_shards: Annotated[int, Meta(ge=0, le=MAX_SHARDS)] | None = None
    profile: Profile | None = None
    outlook: Annotated[tuple[Outlook, ...], Meta(max_length=MAX_STATES)] = ()
    state: StateName | None = None

    @property
    def probabilities(self) -> dict[str, float]:
        """How likely each of its states is."""
        return {outlook.state: outlook.probability for outlook in self.outlook}

    def with_probabilities(self, likely: Mapping[str, float]) -> Declaration:
        """Return it with other probabilities, unless these are of other states."""
        if self.probabilities.keys() != likely.keys():
            return self
        outlook = [msgspec.structs.replace(one, probability=likely[one.state]) for one in self.outlook]
        return msgspec.structs.replace(self, outlook=tuple(outlook))

    @property
    def samples_per_second(self) -> float:
        """Speed of its fastest state, counted once per pass; infinite if it is not known."""
        profiles = (*([] if self.profile is None else [self.profile]), *(one.profile for one in self.outlook))
        return max((profile.train.per_second for profile in profiles), default=math.inf)


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an update is used, and if not, why."""

    is_accepted: bool
    reason: str = ""


class OrchestratorService(TakesJobs):
    """What learners, and those who submit jobs, call; a session that is not known any more raises `LookupError`."""

    @abstractmethod
    async def join(self, learner: str, version: str, price: float, proof: Proof | None = None) -> Welcome:
        """Take part; a device that joins under its name again takes its own place.

        Raises `ValueError` with a reason for a name or version that cannot take part, or a name of another device.

        Args:
            price: price the learner asks for a shard, where work is paid for.
            proof: shows that it is the device to which the name belongs.
        """

    @abstractmethod
    async def declare(self, session: str, declaration: Declaration) -> None:
        """Declare what the orchestrator needs to decide what the learner trains, or how much data of its own it has.

        Not called if the learner decides, and data is served. Raises `ValueError` for another number of shards than
        before in the session.
        """

    @abstractmethod
    async def sample(self, session: str, num_shards: int, with_parameters: bool) -> Work:
        """Return something to measure with: shards drawn at random, and the parameters if they are wanted."""

    @abstractmethod
    async def base(self, session: str) -> dict[str, torch.Tensor]:
        """Return what of the model does not travel in rounds, for learners that do not make the same by themselves."""

    @abstractmethod
    async def discard(self, session: str, data: bytes) -> None:
        """Take bytes and forget them, so that a learner can time its uploads."""

    @abstractmethod
    async def fill(self, session: str, num_bytes: int) -> bytes:
        """Return bytes without meaning, to keep a link busy."""

    @abstractmethod
    async def next_round(self, session: str, after: int, state: StateName | None) -> Ticket:
        """Wait for a round of the learner's job later than `after` that is open; answers ``wait`` when that takes long.

        Args:
            state: state of the device, where the policy wants to know it.
        """

    @abstractmethod
    async def take(self, session: str, round: int, num_shards: int, num_samples: int | None = None) -> Work:
        """Take the newest parameters and so many shards; the same ones if asked again. Raises `ValueError` if too late.

        Where data stays on the devices, `num_shards` is how many of its own shards the learner will train.

        Args:
            num_samples: samples in those of its own; None for shards that are all full.
        """

    @abstractmethod
    async def more(self, session: str, round: int, num_portions: int) -> Work:
        """Take further shards, when so many portions are trained; none if there are none for this learner."""

    @abstractmethod
    async def update(self, session: str, round: int, parameters: dict[str, torch.Tensor], num_samples: int) -> Receipt:
        """Hand in what was trained, as the job's compression has it sent, and on how many samples.

        Samples are counted once per pass.
        """

    @abstractmethod
    async def report_divergence(self, session: str, round: int, shown_by: str) -> None:
        """Hand in nothing, because training diverged, and what shows that: so nobody waits for this learner."""

    @abstractmethod
    async def report_failure(self, session: str, round: int, reason: str) -> bool:
        """Report that an error kept the learner from training its job; returns whether to stay, for other jobs.

        Args:
            round: the round that it happened in; 0 if the learner could not even begin with the job.
        """

    @abstractmethod
    async def show_keys(self, session: str, round: int, keys: bytes, commitment: bytes) -> dict[str, bytes] | None:
        """Take part in a round under masks; returns the keys of all who do, or None: ask again.

        This and the next four raise `ValueError` when it is too late, and for what does not belong there.

        Args:
            keys: the public keys of its masks and messages.
            commitment: what it is held to when its own mask is put together.
        """

    @abstractmethod
    async def share_secrets(self, session: str, round: int, sealed: dict[str, bytes]) -> None:
        """Hand on what is sealed for each of the others: shares of its secrets."""

    @abstractmethod
    async def sealed_secrets(self, session: str, round: int) -> dict[str, bytes] | None:
        """Return what others have sealed for the learner, or None: ask again."""

    @abstractmethod
    async def survivors(self, session: str, round: int) -> list[str] | None:
        """Return the names of those whose masked updates came, when no more can, or None: ask again."""

    @abstractmethod
    async def reveal(self, session: str, round: int, shares: dict[str, bytes]) -> None:
        """Help to unmask the sum of the updates, with a share of one secret of each learner."""

    @abstractmethod
    async def leave(self, session: str) -> None:
        """Take no further part."""
