"""What happens in a run with an orchestrator, of one job or of several."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from paceline.events import Event
from paceline.topologies.events import DeviceEvent, ResultEvent, RoundEvent, StartEvent


class RunStarted(StartEvent, frozen=True, tag="run_started"):
    """The orchestrator is ready for learners.

    Attributes:
        first_round: 1, or the round at which an interrupted run goes on.
        num_parameters: size of the model.
        num_shards: shards that the orchestrator serves; 0 if data stays on the devices.
    """

    first_round: int
    num_parameters: int
    num_shards: int


class RoundOpened(Event, frozen=True, tag="round_opened"):
    """A round opened to the learners that are ready; `round` counts from 1.

    Attributes:
        num_learners: learners to wait for.
        num_ready: learners that they were drawn from; None if all of them take part.
        drawn: names of those that were drawn.
    """

    round: int
    deadline_seconds: float
    num_learners: int
    num_ready: int | None = None
    drawn: tuple[str, ...] = ()


class ShardsTaken(RoundEvent, frozen=True, tag="shards_taken"):
    """A learner took the parameters and its shards, `seconds` after the round opened, for so many local epochs."""

    num_shards: int
    seconds: float
    local_epochs: int = 1


class ShardsAdded(RoundEvent, frozen=True, tag="shards_added"):
    """A learner that was done took further shards of the round, `seconds` after it opened."""

    num_shards: int
    seconds: float


class UpdateAccepted(RoundEvent, frozen=True, tag="update_accepted"):
    """A learner's update arrived `seconds` after the round opened, and can be used.

    It is averaged in at once, or after its audit.

    Attributes:
        num_samples: samples trained, counted once per pass.
    """

    num_samples: int
    seconds: float


class UpdateRefused(RoundEvent, frozen=True, tag="update_refused"):
    """A learner's update was not used.

    Attributes:
        seconds: time since its round opened; None if there is no such round.
        is_late: whether all that was wrong with it is the time.
    """

    reason: str
    seconds: float | None = None
    is_late: bool = False


class UpdateKept(RoundEvent, frozen=True, tag="update_kept"):
    """A learner's update came after its round closed, and a part of its change counts in a later one.

    Attributes:
        counts_in: round that it counts in.
        part: part of its change that counts.
        num_samples: samples trained, counted once per pass.
        seconds: time since its own round opened.
    """

    counts_in: int
    part: float
    num_samples: int
    seconds: float


class UpdateAudited(RoundEvent, frozen=True, tag="update_audited"):
    """An update was trained again, to see whether the work was done.

    Attributes:
        is_honest: if not, the update does not count, and the learner is excluded.
        distance: between the update and what came of training again, over that between the latter and the start; None
            if it could not be trained again as reported.
    """

    is_honest: bool
    distance: float | None = None


class SavingFailed(Event, frozen=True, tag="saving_failed"):
    """What a round led to cannot be saved; that is tried again for so many seconds, before the next round opens."""

    round: int
    reason: str
    patience_seconds: float


class ClaimLimited(RoundEvent, frozen=True, tag="claim_limited"):
    """A learner claims more samples than the speed that it declared allows in the time that it had.

    Attributes:
        num_samples: samples that it claims to have trained, counted once per pass.
        num_plausible: number that its update counts by, if it counts by samples.
    """

    num_samples: int
    num_plausible: int


class UpdateLimited(RoundEvent, frozen=True, tag="update_limited"):
    """An update counts for less than it came with, by ``max_weight`` and ``clip`` of ``[aggregation]``.

    Attributes:
        weight: part of its weight that counts.
        part: part that counts of the way to it from where most updates are; 0 if the update does not count.
        distance: how far from there it is, over the limit for it; None if it was not compared.
        norm: length of its change.
    """

    weight: float
    part: float
    norm: float
    distance: float | None = None


class RoundRolledBack(Event, frozen=True, tag="round_rolled_back"):
    """A round made the model far worse, so what came of it is not kept.

    Attributes:
        loss: loss that it led to; None if it is NaN or infinite.
        lowest_loss: lowest so far.
        kept: what the run goes on with: the parameters from before the round, or the ``median`` of its updates.
        weights: part of all weight in the round, by learner.
        norms: length of the change, by learner; empty if updates were not measured.
    """

    round: int
    loss: float | None
    lowest_loss: float | None
    kept: Literal["before", "median"]
    weights: dict[str, float]
    norms: dict[str, float]


class RoundClosed(ResultEvent, frozen=True, tag="round_closed"):
    """A round is over: averaged, evaluated, saved.

    Attributes:
        seconds: time from opening to the last update that counts, or to the deadline (and the overtime, if the job has
            any) if a learner was still awaited.
        truancy: (seconds − deadline) / deadline; below 0 if all were early. Late updates have an `UpdateRefused`, or an
            `UpdateKept`.
        staleness: the most that the local epochs of two learners whose updates count differ by.
        average_staleness: the mean difference over all pairs of them.
        fulfilment: samples trained over samples wanted, passes counted. What is missing was dropped: learners halted,
            were late, or never came for what was allocated to them.
        is_satisfied: whether all was trained by the deadline.
        occupancy: part of the learners' time in the round until their updates came.
        num_learners: learners that took work.
        late: learners that took work and whose update was not in.
        num_samples: samples trained by all whose update came in time and counts.
        num_kept: late updates of earlier rounds that count in this one.
        down_bytes: size of the parameters and shards that learners were sent while it was open, and `up_bytes` of
            the updates that came, used or not.
        epsilon: what was spent so far of the privacy of the device that took part most; None if nothing is promised.
        loss: loss of the aggregated model on the test data; None if not evaluated.
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
    num_kept: int = 0
    down_bytes: int = 0
    up_bytes: int = 0
    epsilon: float | None = None


RunEndReason: TypeAlias = Literal[
    "rounds done",
    "target reached",
    "no improvement",
    "budget spent",
    "privacy budget spent",
    "nothing trained",
    "diverged",
    "infeasible",
    "failed",
    "cancelled",
    "not saved",
    "stopped by a callback",
]


class RunEnded(ResultEvent, frozen=True, tag="run_ended"):
    """The run is over; `rounds` were closed in all."""

    reason: RunEndReason
    rounds: int


class PoolStarted(Event, frozen=True, tag="pool_started"):
    """The orchestrator of several jobs is ready for learners and jobs.

    Attributes:
        pool: the resolved pool, as in the run folder.
        jobs: the resolved jobs that it begins with, by name.
    """

    pool: dict[str, Any]
    clock: Literal["live", "virtual"]
    paceline: str
    jobs: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)


class JobSubmitted(Event, frozen=True, tag="job_submitted"):
    """A job came to a pool; what happens in it has events of its own."""

    job: str
    rounds: int
    deadline_seconds: float
    num_shards: int


class JobsAllocated(Event, frozen=True, tag="jobs_allocated"):
    """The learners of a pool were placed in its jobs.

    Attributes:
        placements: the job and the number of shards, by learner.
        expected_seconds: Σ over jobs of how long a round is expected to take; no placement is below `bound`.
        cost: price of one round of every job.
        idle: learners without a job.
        waiting: jobs that got nobody.
        hindered: those of them that these learners could not do even if they had no other job, and why.
        waived: constraints that had to be given up.
        failure: error of the solver, if learners were placed without it; else empty.
    """

    placements: dict[str, tuple[str, int]]
    expected_seconds: float
    bound: float
    cost: float
    solve_seconds: float = 0.0
    idle: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    hindered: dict[str, str] = msgspec.field(default_factory=dict)
    waived: tuple[str, ...] = ()
    failure: str = ""


class LearnerPaid(RoundEvent, frozen=True, tag="learner_paid"):
    """The account of a learner's work in a round of a job: a line of the ledger.

    Attributes:
        num_shards: shards allocated to it.
        num_samples: samples of its update, passes counted; 0 if none counts.
        shards: number of shards that those make, a part of one included.
        price: price of a shard.
        amount: sum paid.
    """

    job: str
    num_shards: int
    num_samples: int
    shards: float
    price: float
    amount: float


class TrainingFailed(RoundEvent, frozen=True, tag="training_failed"):
    """An error kept a learner from training a job of a pool; it stays for the others.

    Attributes:
        job: the job; `round` is 0 if the learner could not even begin with it.
        reason: the error.
    """

    job: str
    reason: str


class JobEnded(ResultEvent, frozen=True, tag="job_ended"):
    """A job of a pool is over.

    Attributes:
        detail: what the reason was, in words, if there is more to say.
    """

    job: str
    reason: str
    rounds: int
    detail: str = ""


class PoolEnded(Event, frozen=True, tag="pool_ended"):
    """All jobs of a pool are over, and so much was paid."""

    reason: str
    spent: float


class DeviceMeasured(DeviceEvent, frozen=True, tag="device_measured"):
    """A learner benchmarked itself (recorded on the device only).

    Attributes:
        profile: the fields of a `paceline.devices.Profile`.
        power: what its energy is computed from: the `source`, and the fields of a `PowerModel`; None
            if nobody meters it.
        threads: number of threads that it trains with; None if that is not known.
        device: what it trains on, such as ``cuda:0``; None if that is only modelled.
        precision: precision that it trains in.
    """

    profile: dict[str, Any]
    seconds: float
    power: dict[str, Any] | None = None
    job: str = ""
    threads: int | None = None
    device: str | None = None
    precision: str = "float32"


class RoundSpent(RoundEvent, frozen=True, tag="round_spent"):
    """How a learner spent a round (recorded on the device only).

    Attributes:
        start_seconds: time from the opening of the round until it was taken.
        upload_seconds: time of the upload; None if the update did not arrive.
        is_halted: whether training stopped early to be in time.
        is_accepted: whether the orchestrator used the update.
        bytes_sent: bytes sent from when the round was taken to the end of the upload; likewise `bytes_received`. None
            if nobody counted.
        cpu_seconds: processor time meanwhile, and the energy it took in `joules`; None if nobody metered.
        diverged: what shows that training diverged, so that nothing was uploaded; empty if it did not.
    """

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
    diverged: str = ""
