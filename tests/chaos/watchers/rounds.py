"""Follows the rounds of one job: who took what, what came of it, and the model that must come of that."""

from dataclasses import dataclass, field

import torch

from paceline.errors import ConfigError
from paceline.learning import checkpoints
from paceline.learning.update_validation import MAX_GROWTH
from paceline.topologies.parallel import events

_GRACE_SECONDS = 0.5  # that closing may take on virtual time
_TOLERANCE = 2e-5  # of recomputed parameters: sums in another order
_MOMENTUM = 0.9  # of fedavgm, by default
_MOST_LATE = 2  # rounds that a late update may be late by


@dataclass
class Taken:
    """What a learner took."""

    num_samples: int
    local_epochs: int


@dataclass(frozen=True)
class Accepted:
    """An update that was let in, with the parameters that it started from."""

    learner: str
    round: int
    parameters: dict
    start: dict
    num_samples: int
    num_taken: int


@dataclass
class Round:
    """An open round as it looks from outside."""

    number: int
    opened_at: float
    start: dict
    taken: dict[str, Taken] = field(default_factory=dict)
    accepted: dict[str, Accepted] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)


class RoundsWatcher:
    """Follows a job from outside.

    Args:
        training: returns the job as the orchestrator has it.
        folder: returns the folder with its checkpoints.
    """

    def __init__(self, world, job, folder):
        self._world = world
        self.job = job
        self._folder = folder
        self.training = None
        self.open = None
        self.num_closed = 0
        self._models = {}  # parameters and momentum after each round
        self._late = {}  # what those took who are late, by round and learner
        self._kept = []
        self._told = None  # the last event about an update
        self.ended = None
        self.num_accepted = 0

    def fail(self, what):
        self._world.fail(f"{self.job.name or 'job'}: {what}")

    # Starting, and going on.

    def begin(self, prepared, first_round, *, is_over=False):
        """Follow the job as it starts, or goes on after a crash, from what was prepared."""
        self._layout = prepared.model.layout
        if not is_over:
            self.ended = None
        start = self._layout.pack(prepared.state)
        if not self._models:
            self._models[0] = (start, {kind: torch.zeros_like(vector) for kind, vector in start.items()})
        last = first_round - 1
        if last not in (self.num_closed, self.num_closed + 1):
            self.fail(f"the run goes on after round {last}, though round {self.num_closed} was closed")
        elif is_over and self.open is None:
            return
        elif last == self.num_closed + 1:  # it was saved, and the process ended before it could say so
            if self.open is None:
                self.fail(f"the run goes on after round {last}, which was never open")
                return
            self._close(self._kept)
        self._compare("the model that the run goes on with", start, last)
        self.open, self.num_closed, self._kept, self._late = None, last, [], {}

    # Events.

    def see(self, event):
        """Take note of an event of the job."""
        match event:
            case events.RoundOpened():
                self._see_opened(event)
            case events.RoundClosed():
                self._see_closed(event)
            case events.UpdateAccepted() | events.UpdateKept() | events.UpdateRefused():
                self._told = event
            case events.UpdateAudited() if not event.is_honest:
                self._see_failed(event)
            case events.RunEnded():
                self._see_ended(event)

    def _see_opened(self, event):
        if self.open is not None:
            self.fail(f"round {event.round} opens while {self.open.number} is open")
        if event.round != self.num_closed + 1:
            self.fail(f"round {event.round} opens after round {self.num_closed}")
        model = self._models.get(self.num_closed, self._models[max(self._models)])
        self.open = Round(event.round, self._world.now(), model[0])

    def _see_failed(self, event):
        if self._world.is_honest(event.learner):
            self.fail(f"the audit of {event.learner} failed, which is honest")
        if self.open is not None and self.open.number == event.round:
            self.open.failed.add(event.learner)
        self._kept = [one for one in self._kept if (one.round, one.learner) != (event.round, event.learner)]

    def _see_ended(self, event):
        if self.ended is not None:
            self.fail("the run ends twice")
        self.ended = event
        if event.rounds != self.num_closed:
            self.fail(f"it ends with {event.rounds} rounds, and {self.num_closed} were closed")

    def _see_closed(self, event):
        opened = self.open
        if opened is None or opened.number != event.round:
            self.fail(f"round {event.round} closes, and is not open")
            return
        self._check_time(opened, event)
        counted = {name: one for name, one in opened.accepted.items() if name not in opened.failed}
        num_samples = sum(one.num_samples for one in counted.values())
        if (event.num_samples, event.num_updates) != (num_samples, len(counted)):
            said = f"{event.num_samples} samples of {event.num_updates}"
            self.fail(f"round {event.round} closes with {said}; accepted were {num_samples} of {len(counted)}")
        due = [one for one in self._kept if one.round < event.round]
        if event.num_kept != len(due):
            self.fail(f"{event.num_kept} late updates count in round {event.round}; {len(due)} were kept")
        self._close(due)
        current = self._layout.pack(self.training.state)
        self._compare(f"the model after round {event.round}", current, event.round)
        self._compare_saved(event.round)

    def _check_time(self, opened, event):
        most = self.job.deadline_seconds * (1 + self.job.overtime)
        if event.seconds > most + 1e-6:
            self.fail(f"round {event.round} took {event.seconds:.3f} s of {most:g} s")
        now = self._world.now()
        took = now - opened.opened_at - self._world.stalled_within(opened.opened_at, now)
        if took > most + _GRACE_SECONDS:
            self.fail(f"round {event.round} was closed {took:.3f} s after it opened; it has {most:g} s")

    # The model.

    def _close(self, kept):
        """Compute what must come of the round that is open."""
        opened = self.open
        before, momentum = self._models[self.num_closed]
        counted = [one for name, one in opened.accepted.items() if name not in opened.failed]
        weighted = [(one.parameters, self._weight_of(one)) for one in counted]
        weighted += [(self._rebased(one, opened.number, before), self._weight_of(one)) for one in kept]
        after = before
        if weighted:
            total = sum(weight for _, weight in weighted)
            after = {
                kind: (sum(vectors[kind].double() * weight for vectors, weight in weighted) / total).float()
                for kind in before
            }
            if self.job.aggregation.remembers:
                momentum = {kind: _MOMENTUM * momentum[kind] + after[kind] - before[kind] for kind in before}
                after = {kind: before[kind] + momentum[kind] for kind in before}
        self._models[opened.number] = (after, momentum)
        came = opened.accepted.keys() | {one.learner for one in self._kept if one.round == opened.number}
        late = {name: (taken, opened.start) for name, taken in opened.taken.items() if name not in came}
        self._late = {number: one for number, one in self._late.items() if opened.number - number < _MOST_LATE}
        self._late[opened.number] = late
        self._kept = [one for one in self._kept if one not in kept]
        self.num_closed, self.open = opened.number, None

    def _weight_of(self, one):
        kind = self.job.aggregation.weight
        return {"work": one.num_samples, "samples": one.num_taken, "equal": 1}[kind]

    def _rebased(self, one, number, start):
        factor = (1 + number - one.round) ** -self.job.aggregation.staleness_exponent
        return {kind: start[kind] + factor * (one.parameters[kind] - one.start[kind]) for kind in start}

    def _compare(self, what, vectors, number):
        known = self._models.get(number)
        if known is None:
            self.fail(f"{what}: nothing is known of round {number}")
            return
        far = max(float((vectors[kind] - known[0][kind]).abs().max()) for kind in known[0])
        if not far <= _TOLERANCE:
            self.fail(f"{what} is off by {far:.3g} from what the updates make")

    def _compare_saved(self, number):
        try:
            saved = checkpoints.load(self._folder(), number)
        except ConfigError as error:
            self.fail(f"round {number} is closed, and its checkpoint cannot be read: {error}")
            return
        self._compare(f"the checkpoint of round {number}", self._layout.pack(saved), number)

    def check_saved(self):
        """Check the checkpoints that are left in the end."""
        kept = checkpoints.rounds(self._folder())
        for number in kept:
            self._compare_saved(number)
        if self.num_closed and self.num_closed not in kept:
            self.fail(f"round {self.num_closed} was the last, and has no checkpoint")

    def check_last(self):
        """Check the model of a run that was over when it was to go on after a crash."""
        if self.num_closed != self.job.rounds:
            self.fail(f"nothing is left to do after {self.num_closed} rounds of {self.job.rounds}")
        self.check_saved()

    # What learners call.

    def took(self, learner, round, work, local_epochs, num_own):
        """Take note of work that was handed out."""
        opened = self.open
        if opened is None or opened.number != round:
            self.fail(f"{learner} was given work of round {round}, which is not open")
            return
        num_samples = sum(len(shard[0]) for shard in work.shards) or num_own
        if learner not in opened.taken:
            opened.taken[learner] = Taken(num_samples, local_epochs)
        elif opened.taken[learner].num_samples < num_samples:
            self.fail(f"{learner} was given more when it asked again")
        if not all(work.parameters[kind].equal(vector) for kind, vector in self._layout.pack(self._state()).items()):
            self.fail(f"{learner} was given parameters in round {round} that are not those of the round before")
        self._compare(f"what {learner} was given in round {round}", work.parameters, self.num_closed)

    def _state(self):
        return self.training.state

    def took_more(self, learner, round, work):
        """Take note of further work."""
        opened = self.open
        if work.shards and opened is not None and opened.number == round:
            opened.taken[learner].num_samples += sum(len(shard[0]) for shard in work.shards)

    def why_not(self, learner, round, parameters, num_samples):
        """Return why an update must not be let in; None if it may."""
        opened, late = self.open, self._late.get(round, {}).get(learner)
        if opened is not None and opened.number == round:
            if learner in opened.accepted:
                return "the learner has handed in"
            taken, start = opened.taken.get(learner), opened.start
        elif late is not None and self.job.aggregation.late == "discount" and self.num_closed < self.job.rounds:
            taken, start = late
        else:
            return "its round is not open"
        if taken is None:
            return "the learner took nothing"
        if not 0 < num_samples <= taken.num_samples * taken.local_epochs:
            return "so many samples are impossible"
        return _why_unfit(parameters, start)

    def is_open(self, round):
        """Return whether the orchestrator has that round open, as it says itself."""
        opened = None if self.training is None else self.training.round
        return opened is not None and opened.number == round

    def let_in(self, learner, round, parameters, num_samples):
        """Take note of an update that was let in."""
        self.num_accepted += 1
        told, self._told = self._told, None
        if told is None or (told.learner, told.round, getattr(told, "num_samples", None)) != (
            learner,
            round,
            num_samples,
        ):
            self.fail(f"an update of {learner} in round {round} was let in, and the record says {told}")
        opened, late = self.open, self._late.get(round, {})
        is_kept = isinstance(told, events.UpdateKept)
        own = {kind: vector.clone() for kind, vector in parameters.items()}
        if opened is not None and opened.number == round and learner in opened.taken:
            update = Accepted(learner, round, own, opened.start, num_samples, opened.taken[learner].num_samples)
            if is_kept:  # the round is over, and waits for the disk
                self._kept.append(update)
            else:
                opened.accepted[learner] = update
        elif learner in late:
            taken, start = late.pop(learner)
            self._kept.append(Accepted(learner, round, own, start, num_samples, taken.num_samples))


def _why_unfit(parameters, like):
    if parameters.keys() != like.keys():
        return "its names are others"
    for kind, vector in parameters.items():
        if vector.shape != like[kind].shape or vector.dtype != like[kind].dtype:
            return "its shape or type is another"
        if not bool(vector.isfinite().all()):
            return "it is not finite"
        if float(vector.abs().max()) > MAX_GROWTH * max(1.0, float(like[kind].abs().max())):
            return "it is too large"
    return None
