"""What happens in a run, as small typed events: the one thing that recorders, live tables and reports read.

Times are seconds. `at` counts from the start of the run on the clock that the run uses, real or virtual; after a
resume it goes on from the last recorded event. Events of the orchestrator tell what it can see. Events of a learner
(`DeviceMeasured`, `PhaseStarted`, `RoundSpent`) are told on the device only: a fleet that runs its learners itself
collects them, and a device that joined over the network keeps them. They name the job, where there are several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeAlias

import msgspec

Phase: TypeAlias = Literal[
    "benchmark", "download", "train", "upload", "idle", "aggregate", "rank", "exchange", "forward", "backward"
]


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", omit_defaults=True):
    """Base of all events."""

    at: float


class RunStarted(Event, frozen=True, tag="run_started"):
    """The orchestrator is ready for learners.

    Attributes:
        job: the resolved job, as in the run folder.
        clock: whether times are real or virtual.
        first_round: 1, or the round at which an interrupted run goes on.
        num_parameters: of the model.
        num_shards: that the orchestrator serves; 0 if data stays on the devices.
    """

    job: dict[str, Any]
    clock: Literal["live", "virtual"]
    first_round: int
    num_parameters: int
    num_shards: int
    paceline: str


class LearnerJoined(Event, frozen=True, tag="learner_joined"):
    """A learner joined; `is_back` if one of that name was there before."""

    learner: str
    is_back: bool = False


class LearnerLeft(Event, frozen=True, tag="learner_left"):
    """A learner said goodbye, or has not been heard of."""

    learner: str
    reason: str


class WaitingForLearners(Event, frozen=True, tag="waiting_for_learners"):
    """A round cannot open yet."""

    round: int
    num_ready: int
    min_learners: int


class RoundOpened(Event, frozen=True, tag="round_opened"):
    """A round opened to the learners that are ready; `round` counts from 1."""

    round: int
    deadline_seconds: float
    num_learners: int


class ShardsTaken(Event, frozen=True, tag="shards_taken"):
    """A learner took the parameters and its shards, `seconds` after the round opened, for so many iterations."""

    round: int
    learner: str
    num_shards: int
    seconds: float
    iterations: int = 1


class ShardsAdded(Event, frozen=True, tag="shards_added"):
    """A learner that was done took further shards of the round, `seconds` after it opened."""

    round: int
    learner: str
    num_shards: int
    seconds: float


class UpdateAccepted(Event, frozen=True, tag="update_accepted"):
    """A learner's update was averaged in, `seconds` after the round opened.

    Attributes:
        num_samples: samples trained, counted once per pass.
    """

    round: int
    learner: str
    num_samples: int
    seconds: float


class UpdateRefused(Event, frozen=True, tag="update_refused"):
    """A learner's update was not used.

    Attributes:
        seconds: since its round opened; None if there is no such round.
        is_late: whether all that was wrong with it is the time.
    """

    round: int
    learner: str
    reason: str
    seconds: float | None = None
    is_late: bool = False


class UpdateAudited(Event, frozen=True, tag="update_audited"):
    """An update was trained again, to see whether the work was done.

    Attributes:
        is_honest: if not, the update does not count, and the learner is excluded.
        distance: between the update and what came of training again, over that between the latter and the start; None
            if it could not be trained again as it is told.
    """

    round: int
    learner: str
    is_honest: bool
    distance: float | None = None


class RoundClosed(Event, frozen=True, tag="round_closed"):
    """A round is over: averaged, evaluated, saved.

    Attributes:
        seconds: from opening to the last update that counts, or to the deadline (and the overtime, if the job has any)
            if a learner was still awaited.
        truancy: (seconds − deadline) / deadline; below 0 if all were early. Late updates are told by `UpdateRefused`.
        staleness: the most that the iterations of two learners whose updates count differ by.
        average_staleness: the mean difference over all pairs of them.
        fulfilment: samples trained over samples wanted, passes counted. What is missing was dropped: learners halted,
            were late, or never came for what was allocated to them.
        is_satisfied: whether all was trained by the deadline.
        occupancy: of the learners' time in the round, the part until their updates came.
        num_learners: that took work.
        late: learners that took work and whose update was not in.
        num_samples: samples trained by all whose update counts.
        loss: of the averaged model on the test data; None if not evaluated.
    """

    round: int
    seconds: float
    truancy: float
    num_learners: int
    num_updates: int
    num_samples: int
    num_shards: int
    staleness: float = 0.0
    average_staleness: float = 0.0
    fulfilment: float = 0.0
    is_satisfied: bool = False
    occupancy: float = 0.0
    late: tuple[str, ...] = ()
    loss: float | None = None
    accuracy: float | None = None


class RunEnded(Event, frozen=True, tag="run_ended"):
    """The run is over; `rounds` were closed in all."""

    reason: Literal["rounds done", "target accuracy reached", "budget spent", "stopped"]
    rounds: int
    loss: float | None = None
    accuracy: float | None = None


class PoolStarted(Event, frozen=True, tag="pool_started"):
    """The orchestrator of several jobs is ready for learners and jobs.

    Attributes:
        pool: the resolved pool, as in the run folder.
    """

    pool: dict[str, Any]
    clock: Literal["live", "virtual"]
    paceline: str


class JobSubmitted(Event, frozen=True, tag="job_submitted"):
    """A job came to a pool; what happens in it is told by events of its own."""

    job: str
    rounds: int
    deadline_seconds: float
    num_shards: int


class JobsAllocated(Event, frozen=True, tag="jobs_allocated"):
    """The learners of a pool were placed in its jobs.

    Attributes:
        placements: the job and the number of shards, by learner.
        expected_seconds: Σ over jobs of how long a round is expected to take; no placement is below `bound`.
        cost: of one round of every job.
        idle: learners without a job.
        waiting: jobs that got nobody.
        waived: constraints that had to be given up.
    """

    placements: dict[str, tuple[str, int]]
    expected_seconds: float
    bound: float
    cost: float
    solve_seconds: float = 0.0
    idle: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    waived: tuple[str, ...] = ()


class LearnerPaid(Event, frozen=True, tag="learner_paid"):
    """The account of a learner's work in a round of a job: a line of the ledger.

    Attributes:
        num_shards: allocated to it.
        num_samples: of its update, passes counted; 0 if none counts.
        shards: that those come to, a part of one included.
        price: of a shard.
        amount: paid.
    """

    job: str
    round: int
    learner: str
    num_shards: int
    num_samples: int
    shards: float
    price: float
    amount: float


class JobEnded(Event, frozen=True, tag="job_ended"):
    """A job of a pool is over."""

    job: str
    reason: str
    rounds: int
    loss: float | None = None
    accuracy: float | None = None


class PoolEnded(Event, frozen=True, tag="pool_ended"):
    """All jobs of a pool are over, and so much was paid."""

    reason: str
    spent: float


class DeviceMeasured(Event, frozen=True, tag="device_measured"):
    """A learner benchmarked itself (told on the device only).

    Attributes:
        profile: the fields of a `paceline.devices.Profile`.
        power: what its energy is told by: the `source`, and the fields of a `paceline.devices.energy.PowerModel`; None
            if it is not told.
    """

    learner: str
    profile: dict[str, Any]
    seconds: float
    power: dict[str, Any] | None = None
    job: str = ""


class PhaseStarted(Event, frozen=True, tag="phase_started"):
    """A learner turned to something else (told on the device only); round 0 is before the first.

    A peer's rounds are its epochs.
    """

    learner: str
    round: int
    phase: Phase
    job: str = ""


class RoundSpent(Event, frozen=True, tag="round_spent"):
    """How a learner spent a round (told on the device only).

    Attributes:
        start_seconds: after the round opened.
        upload_seconds: None if the update did not arrive.
        is_halted: whether training stopped early to be in time.
        is_accepted: whether the orchestrator used the update.
        bytes_sent: from when the round was taken to the end of the upload; likewise `bytes_received`. None if nobody
            counted.
        cpu_seconds: of the processor in that time, and what it took in `joules`; None if nobody metered.
    """

    learner: str
    round: int
    deadline_seconds: float
    start_seconds: float
    num_shards: int
    num_samples: int
    download_seconds: float
    train_seconds: float
    upload_seconds: float | None = None
    is_halted: bool = False
    is_accepted: bool = False
    bytes_sent: int | None = None
    bytes_received: int | None = None
    cpu_seconds: float | None = None
    joules: float | None = None
    job: str = ""


class GossipStarted(Event, frozen=True, tag="gossip_started"):
    """Training without a server begins; told by whoever records it: a fleet, or a peer that is alone in its process.

    Attributes:
        job: the resolved gossip job, as in the run folder.
        num_parameters: of the model.
    """

    job: dict[str, Any]
    clock: Literal["live", "virtual"]
    num_parameters: int
    paceline: str


class PeerStarted(Event, frozen=True, tag="peer_started"):
    """A peer takes part from an epoch on; events of peers are told on the device only.

    Attributes:
        address: where others reach it.
        epoch: the first that it trains.
        num_samples: of its own.
        known: peers that it knew as it began.
        power: as for `DeviceMeasured`.
    """

    learner: str
    address: str
    epoch: int
    num_samples: int
    known: tuple[str, ...] = ()
    power: dict[str, Any] | None = None


class PeerListening(Event, frozen=True, tag="peer_listening"):
    """A peer can be called, at this address; with TLS, its certificate has this fingerprint."""

    learner: str
    address: str
    fingerprint: str | None = None


class PeerSeen(Event, frozen=True, tag="peer_seen"):
    """A peer heard of another that takes part."""

    learner: str
    other: str


class PeerLost(Event, frozen=True, tag="peer_lost"):
    """A peer takes another for gone: it said goodbye, or nobody hears of it."""

    learner: str
    other: str
    reason: str


class PointsMade(Event, frozen=True, tag="points_made"):
    """A peer has the aggregated points of its data.

    Attributes:
        num_samples: that they stand for.
        is_cached: whether they were found ready.
    """

    learner: str
    num_points: int
    num_samples: int
    seconds: float
    is_cached: bool = False


class EpochEnded(Event, frozen=True, tag="epoch_ended"):
    """A peer trained an epoch, and exchanged what it learned.

    Attributes:
        seconds: from the end of the last one; those of the parts are of this peer, waiting for others is in
            `exchange_seconds`.
        num_samples: trained.
        ratio: of its data, that it was to train.
        samples_per_second: that it expected of itself.
        num_exchanges: models that it took from others and mixed with its own.
        distance: between its model before and after mixing, over the length of what it learned in the epoch.
        mass: of its model in push-sum gossip, as a ratio of what a peer starts with; 0 elsewhere.
        cpu_seconds: of the processor, testing included, and what the epoch took in `joules`; None if nobody metered.
        loss: of its own model on the test data; None if not evaluated.
    """

    learner: str
    epoch: int
    seconds: float
    num_samples: int
    ratio: float
    samples_per_second: float
    train_seconds: float
    rank_seconds: float = 0.0
    exchange_seconds: float = 0.0
    num_exchanges: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    distance: float = 0.0
    mass: float = 0.0
    cpu_seconds: float | None = None
    joules: float | None = None
    loss: float | None = None
    accuracy: float | None = None


class PartTakenOver(Event, frozen=True, tag="part_taken_over"):
    """A peer trains the data of another that is gone, which it has a copy of, from an epoch on."""

    learner: str
    other: str
    epoch: int
    num_samples: int


class DataMissing(Event, frozen=True, tag="data_missing"):
    """More peers than is allowed have failed, and nobody has a copy of what they trained; it goes on without.

    Attributes:
        others: whose data it is.
        share_failed: of all peers.
        num_samples: that are missing.
    """

    learner: str
    epoch: int
    others: tuple[str, ...]
    share_failed: float
    num_samples: int


class StoreLost(Event, frozen=True, tag="store_lost"):
    """A peer cannot reach the shared store of figures, and uses those that peers tell each other."""

    learner: str
    store: str
    reason: str


class StoreBack(Event, frozen=True, tag="store_back"):
    """A peer reaches the shared store again."""

    learner: str
    store: str


class ConsensusMeasured(Event, frozen=True, tag="consensus_measured"):
    """How far peers are apart after an epoch, where a fleet sees them all.

    Attributes:
        distance: the root of the mean squared distance from their average, over the length of that.
        loss: of the average on the test data; None if not evaluated.
    """

    epoch: int
    num_learners: int
    distance: float
    loss: float | None = None
    accuracy: float | None = None


class PeerEnded(Event, frozen=True, tag="peer_ended"):
    """A peer is done.

    Attributes:
        epochs: that it trained.
        averaged: the living peers whose models make up its final one, its own included.
        loss: of that.
    """

    learner: str
    reason: Literal["epochs done", "target accuracy reached", "stopped"]
    epochs: int
    averaged: tuple[str, ...] = ()
    loss: float | None = None
    accuracy: float | None = None


class GossipEnded(Event, frozen=True, tag="gossip_ended"):
    """Training without a server is over, as far as whoever records it sees.

    Attributes:
        averaged: the living peers whose models make up the final one.
        loss: of that.
    """

    averaged: tuple[str, ...]
    loss: float | None = None
    accuracy: float | None = None


class SplitStarted(Event, frozen=True, tag="split_started"):
    """The trunk of a model that is spread over devices is ready for sources.

    Attributes:
        job: the resolved split job, as in the run folder.
        num_parameters: by part: ``branch`` (of each source), ``junction`` and ``trunk``; none before a cut is chosen.
    """

    job: dict[str, Any]
    clock: Literal["live", "virtual"]
    num_parameters: dict[str, int]
    paceline: str


class NodeStarted(Event, frozen=True, tag="node_started"):
    """A source or the trunk takes part (told on the device only).

    Attributes:
        number: of the source, from 1, by which it has its view; 0 for the trunk.
        power: what its energy is told by.
    """

    learner: str
    number: int
    power: dict[str, Any] | None = None


class CutChosen(Event, frozen=True, tag="cut_chosen"):
    """The trunk chose where to cut the model, by what its sources measured of themselves.

    Attributes:
        cut: the layer that the junction comes before.
        expected_seconds: of an epoch, by cut; those that were possible.
        num_parameters: as in `SplitStarted`, which does not know them before.
    """

    cut: str
    expected_seconds: dict[str, float]
    num_parameters: dict[str, int]


class JunctionChanged(Event, frozen=True, tag="junction_changed"):
    """The junction grew by a source, or lost one for good.

    Attributes:
        sources: that it merges now.
        num_parameters: that it has now.
    """

    epoch: int
    sources: tuple[str, ...]
    num_parameters: int


class SourceMasked(Event, frozen=True, tag="source_masked"):
    """A source did not deliver in time: from this step of the epoch on, training goes on without its inputs."""

    learner: str
    epoch: int
    step: int
    reason: str


class SourceBack(Event, frozen=True, tag="source_back"):
    """A source that was masked delivers again from this step on."""

    learner: str
    epoch: int
    step: int


class SplitEpochEnded(Event, frozen=True, tag="split_epoch_ended"):
    """All nodes have trained an epoch together, and tested what they learned.

    Attributes:
        seconds: of training; testing is in `test_seconds`.
        num_steps: minibatches.
        num_masked: inputs of sources that were missing, over all steps.
        train_loss: the mean over the epoch.
        loss: on the test data; None if not tested.
    """

    epoch: int
    seconds: float
    num_steps: int
    num_samples: int
    num_sources: int
    num_masked: int = 0
    train_loss: float | None = None
    test_seconds: float = 0.0
    loss: float | None = None
    accuracy: float | None = None


class NodeSpent(Event, frozen=True, tag="node_spent"):
    """How a source or the trunk spent an epoch, with its test (told on the device only).

    Attributes:
        epoch: 0 for what is outside of all, such as handing over what was learned.
        compute_seconds: that it worked.
        wait_seconds: that it had nothing to do but wait for others or for the network.
        bytes_sent: by this node; likewise `bytes_received`.
        cpu_seconds: of the processor, and what that took in `joules`.
    """

    learner: str
    epoch: int
    seconds: float
    compute_seconds: float
    wait_seconds: float
    bytes_sent: int
    bytes_received: int
    cpu_seconds: float = 0.0
    joules: float = 0.0


class SplitEnded(Event, frozen=True, tag="split_ended"):
    """Training over a split model is over; loss and accuracy are those that were last tested."""

    reason: Literal["epochs done", "target accuracy reached", "no improvement"]
    epochs: int
    loss: float | None = None
    accuracy: float | None = None


AnyEvent: TypeAlias = (
    RunStarted
    | LearnerJoined
    | LearnerLeft
    | WaitingForLearners
    | RoundOpened
    | ShardsTaken
    | ShardsAdded
    | UpdateAccepted
    | UpdateRefused
    | UpdateAudited
    | RoundClosed
    | RunEnded
    | PoolStarted
    | JobSubmitted
    | JobsAllocated
    | LearnerPaid
    | JobEnded
    | PoolEnded
    | DeviceMeasured
    | PhaseStarted
    | RoundSpent
    | GossipStarted
    | PeerListening
    | PeerStarted
    | PeerSeen
    | PeerLost
    | PointsMade
    | EpochEnded
    | PartTakenOver
    | DataMissing
    | StoreLost
    | StoreBack
    | ConsensusMeasured
    | PeerEnded
    | GossipEnded
    | SplitStarted
    | NodeStarted
    | CutChosen
    | JunctionChanged
    | SourceMasked
    | SourceBack
    | SplitEpochEnded
    | NodeSpent
    | SplitEnded
)

Emit: TypeAlias = Callable[[AnyEvent], None]
"""Whoever is told of events; must return at once, and must not raise."""

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


def to_line(event: AnyEvent) -> bytes:
    """The event as one line of JSON, newline included."""
    return _encoder.encode(event) + b"\n"


def from_line(line: bytes) -> AnyEvent:
    """The event in a line of JSON; raises `msgspec.ValidationError` or `msgspec.DecodeError` for any other line."""
    return _decoder.decode(line)


def from_lines(lines: Iterable[bytes]) -> Iterator[AnyEvent]:
    """The events of a file, up to a last line that a crash cut short."""
    for line in lines:
        if not line.endswith(b"\n"):
            return
        yield from_line(line)
