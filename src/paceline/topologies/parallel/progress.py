"""Lines that show a run of one job on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from paceline.events import Event
from paceline.topologies.events import HostBack, HostLost, PhaseStarted, WaitingForLearners
from paceline.topologies.parallel import events
from paceline.topologies.reporting.base import Milestone, Progress
from paceline.topologies.reporting.formatting import (
    describe_metrics,
    format_bytes,
    format_count,
    format_energy,
    format_known,
    format_names,
    format_ratio,
    format_seconds,
    printable,
    setting,
)
from paceline.topologies.reporting.shared import describe_membership


def describe(event: Event) -> str | None:
    """Say in one line who came or went, what did not count, or what is awaited; None for other events."""
    match event:
        case events.UpdateRefused(round=number, learner=name, is_late=True, seconds=seconds) if seconds is not None:
            return f"round {number}: update of {printable(name)} too late, after {format_seconds(seconds)}"
        case events.UpdateKept(round=number, learner=name, seconds=seconds, counts_in=later, part=part):
            came = f"round {number}: update of {printable(name)} late, after {format_seconds(seconds)}"
            return f"{came}; counts in round {later}, discounted to {format_ratio(part)}"
        case events.UpdateRefused(round=number, learner=name, reason=reason):
            return f"round {number}: update of {printable(name)} refused: {printable(reason)}"
        case events.UpdateAudited(round=number, learner=name, is_honest=False, distance=distance):
            found = "it could not be trained again as reported"
            if distance is not None:
                found = f"it differs from the same work done again by {format_ratio(distance)} of the change"
            return f"round {number}: update of {printable(name)} failed its audit: {found}"
        case events.SavingFailed(round=number, reason=reason, patience_seconds=seconds):
            return f"round {number} cannot be saved, trying again for {format_seconds(seconds)}: {printable(reason)}"
        case events.UpdateLimited(round=number, learner=name, part=part, distance=float(distance)) if part < 1:
            counted = "does not count" if part == 0 else f"counts by {format_ratio(part)}"
            return (
                f"round {number}: update of {printable(name)} {counted}: it is {distance:.3g} times as far from most "
                "as clip in [aggregation] allows"
            )
        case events.ClaimLimited(round=number, learner=name, num_samples=claimed, num_plausible=plausible):
            return (
                f"round {number}: {printable(name)} claims {format_count(claimed, 'sample')}; by its own speed, it can "
                f"have trained {plausible:,}, which count"
            )
        case events.RoundRolledBack():
            return describe_rollback(event)
        case events.RunStarted(first_round=number) if number > 1:
            return f"run resumed after round {number - 1}"
    return describe_membership(event)


_NUM_NAMED = 3


def describe_rollback(event: events.RoundRolledBack) -> str:
    """Say in one line why a round was rolled back, and which learners had most to do with it."""
    loss = "no number" if event.loss is None else f"{event.loss:.3g}"
    lowest = "" if event.lowest_loss is None else f", and was {event.lowest_loss:.3g}"
    kept = "the median of its updates is kept instead" if event.kept == "median" else "it is rolled back"
    most = sorted(event.weights, key=lambda name: -event.weights[name] * event.norms[name])[:_NUM_NAMED]
    parts = (f"{printable(name)} ({format_ratio(event.weights[name])} of the weight)" for name in most)
    named = f"; most of it came from {', '.join(parts)}" if most else ""
    hint = '; if this goes on, try method = "median" in [aggregation]'
    return f"round {event.round}: the loss would be {loss}{lowest}, so {kept}{named}{hint}"


class LearnerProgress(Progress):
    """Lines that a learner prints about itself."""

    def lines(self, event: Event, job: str = "") -> Iterator[str]:
        match event:
            case PhaseStarted(phase="benchmark"):
                yield "joined; measuring this device …"
            case events.DeviceMeasured(profile=profile, seconds=seconds, threads=threads, device=device):
                rates = {name: profile[name]["per_second"] for name in ("train", "down", "up")}
                with_threads = "" if threads is None else f" with {format_count(threads, 'thread')}"
                where = "" if device in (None, "cpu") else f" on {printable(str(device))}"
                yield (
                    f"measured in {seconds:.1f} s: trains {rates['train']:,.0f} samples/s"
                    f"{where}{with_threads}, downloads "
                    f"{rates['down'] / 1e6:,.1f} MB/s, uploads {rates['up'] / 1e6:,.1f} MB/s"
                )
            case events.TrainingFailed(job=job, reason=reason):
                yield f"{printable(job)} could not be trained here: {printable(reason)}"
            case events.RoundSpent():
                yield Milestone(_round_of_a_learner(event))
            case HostLost() | HostBack():
                yield describe_membership(event) or ""


def _round_of_a_learner(spent: events.RoundSpent) -> str:
    job = f"{printable(spent.job)}, " if spent.job else ""
    halted = " (halted in time)" if spent.is_halted else ""
    upload = "no upload"
    if spent.diverged:
        upload = f"no upload, training diverged: {printable(spent.diverged)}"
    elif spent.upload_seconds is not None:
        upload = f"upload {spent.upload_seconds:.2f} s: {'accepted' if spent.is_accepted else 'not used'}"
    sent, received = (format_known(number, format_bytes) for number in (spent.bytes_sent, spent.bytes_received))
    return (
        f"{job}round {spent.round}: {spent.num_shards} shards, {spent.num_samples:,} samples; download "
        f"{spent.download_seconds:.2f} s, train {spent.train_seconds:.2f} s{halted}, {upload}; {sent} sent, "
        f"{received} received, {format_known(spent.joules, format_energy)}"
    )


class RoundLines:
    """Writes a job's closed rounds: the number, the time, and the results."""

    def __init__(self, num_rounds: int | None = None) -> None:
        self._num_rounds = num_rounds
        self._deadline_seconds: float | None = None
        self._num_ready: int | None = None
        self.num_closed = 0

    def feed(self, event: Event) -> None:
        """Note how many rounds there are, and how long they may take."""
        if isinstance(event, events.RunStarted):
            self._num_rounds = setting(event.job, "job", "rounds")
        elif isinstance(event, events.RoundOpened):
            self._deadline_seconds, self._num_ready = event.deadline_seconds, event.num_ready
        elif isinstance(event, events.RoundClosed):
            self.num_closed = event.round

    @property
    def num_rounds(self) -> int:
        """Number of rounds that there are to be; 0 if it is not known yet."""
        return self._num_rounds or 0

    def line(self, event: events.RoundClosed, *more: str) -> Milestone:
        """Write a closed round; `more` is put before its results."""
        of_deadline = "" if self._deadline_seconds is None else f" of {format_seconds(self._deadline_seconds)}"
        parts = [
            f"round {event.round}" + (f"/{self._num_rounds}" if self._num_rounds else ""),
            format_count(event.num_learners, "learner") + (f" of {self._num_ready:,}" if self._num_ready else ""),
            format_count(event.num_samples, "sample"),
            format_seconds(event.seconds) + of_deadline,
            *more,
            *describe_metrics(event.metrics),
            *([] if event.epsilon is None else [f"epsilon {event.epsilon:.2f}"]),
            *([f"late: {format_names(event.late)}"] if event.late else []),
            *([f"{format_count(event.num_kept, 'late update')} counted"] if event.num_kept else []),
        ]
        return Milestone("  ".join(parts))


def share_done(jobs: Iterable[RoundLines]) -> float | None:
    """Return the part of all jobs' rounds that is done; None if it is not known how many there are."""
    known = list(jobs)
    num_rounds = sum(one.num_rounds for one in known)
    return sum(one.num_closed for one in known) / num_rounds if num_rounds else None


class RunProgress(Progress):
    """A line per closed round, join, leave, refusal and wait."""

    def __init__(self) -> None:
        self._rounds = RoundLines()
        self._last_wait = ""

    @property
    def share_done(self) -> float | None:
        return share_done([self._rounds])

    def lines(self, event: Event, job: str = "") -> Iterator[str]:
        self._rounds.feed(event)
        if isinstance(event, events.RoundClosed):
            yield self._rounds.line(event, *([] if event.loss is None else [f"loss {event.loss:.3f}"]))
        elif isinstance(event, events.RunEnded):
            yield f"ended: {event.reason}, {format_count(event.rounds, 'round')} in {format_seconds(event.at)}"
        elif line := describe(event):
            is_again = isinstance(event, WaitingForLearners) and line == self._last_wait
            self._last_wait = line
            if not is_again:
                yield line
