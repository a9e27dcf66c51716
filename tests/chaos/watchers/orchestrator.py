"""Watches an orchestrator: sessions, what is handed out, what is let in, and the record that is left."""

import dataclasses
import functools

from paceline.topologies.events import LearnerLeft
from paceline.topologies.parallel.events import (
    RoundClosed,
    RoundOpened,
    RunEnded,
    ShardsTaken,
    UpdateAccepted,
    UpdateAudited,
)
from tests.chaos.watchers.rounds import RoundsWatcher

_MOST_SESSIONS_PER_NAME = 2  # the newest, and the one that it replaced


class OrchestratorWatcher:
    """Watches the orchestrator of one job."""

    def __init__(self, world):
        self._world = world
        self.host = None
        self.rounds = {}  # by the name of the job
        self._names = {}  # of sessions, by key
        self._current = {}  # key of the newest session, by name
        self._all_names = set()
        self._last_taken = None
        world.is_honest = lambda name: not name.startswith("mallory")

    def longest_seconds(self):
        """Return how long the rounds may take."""
        job = self._world.job
        return job.rounds * (job.deadline_seconds * (1 + job.overtime) + 25)

    @property
    def num_closed(self):
        """Number of rounds that were closed, of all jobs."""
        return sum(rounds.num_closed for rounds in self.rounds.values())

    # Watching.

    def watch(self, prepared):
        """Watch a run that is about to start, or to go on."""
        self._names.clear()
        self._current.clear()
        plan = prepared.plan
        make = plan.host
        self._begin(plan, prepared.folder)

        def host(env):
            self.host = make(self._watched(env))
            self._wrap(self.host)
            self._attach()
            return self.host

        plan.host = host

    def _begin(self, plan, folder):
        watcher = self.rounds.setdefault("", RoundsWatcher(self._world, plan.job, lambda: folder.checkpoints))
        watcher.begin(plan.prepared, plan.first_round)

    def _attach(self):
        self.rounds[""].training = self.host._training

    def _watched(self, env):
        return dataclasses.replace(env, emit=self._after(env.emit, ""))

    def _after(self, record, job):
        def emit(event):
            record(event)
            self._see(event, job)

        return emit

    def _see(self, event, job):
        if isinstance(event, LearnerLeft):
            self._current.pop(event.learner, None)
            if event.reason.startswith("excluded") and self._world.is_honest(event.learner):
                self._world.fail(f"{event.learner} is excluded: {event.reason}")
        elif isinstance(event, ShardsTaken):
            self._last_taken = event
        if job in self.rounds:
            self.rounds[job].see(event)

    def _rounds_of(self, session):
        return self.rounds.get("")

    # What is called.

    def _wrap(self, host):
        for name in ("join", "leave", "take", "more", "update"):
            call = getattr(host, name)
            wrapped = functools.partial(getattr(self, "_" + name), call)
            setattr(host, name, functools.wraps(call)(wrapped))

    async def _join(self, call, learner, version, price, *more):
        welcome = await call(learner, version, price, *more)
        self._names[welcome.session] = learner
        self._current[learner] = welcome.session
        self._all_names.add(learner)
        return welcome

    async def _leave(self, call, session):
        await call(session)
        self._names.pop(session, None)

    def _is_valid(self, session):
        name = self._names.get(session)
        return name is not None and self._current.get(name) == session

    def _must_be_valid(self, session, what):
        if not self._is_valid(session):
            self._world.fail(f"{what} with a session that is not valid: {self._names.get(session)}")

    async def _take(self, call, session, round, num_shards, num_samples=None):
        rounds = self._rounds_of(session)
        work = await call(session, round, num_shards, num_samples)
        self._must_be_valid(session, "work was taken")
        taken, learner = self._last_taken, self._names.get(session, "")
        epochs = taken.local_epochs if taken is not None and taken.learner == learner else 1
        rounds.took(learner, round, work, epochs, num_samples or 0)
        return work

    async def _more(self, call, session, round, num_portions):
        rounds = self._rounds_of(session)
        work = await call(session, round, num_portions)
        rounds.took_more(self._names.get(session, ""), round, work)
        return work

    async def _update(self, call, session, round, parameters, num_samples):
        rounds, learner = self._rounds_of(session), self._names.get(session, "")
        why_not = "its session is not valid" if not self._is_valid(session) else None
        if rounds is not None and why_not is None:
            why_not = rounds.why_not(learner, round, parameters, num_samples)
        is_open = rounds is not None and rounds.is_open(round)
        receipt = await call(session, round, parameters, num_samples)
        if receipt.is_accepted and why_not is not None:
            self._world.fail(f"an update of {learner!r} in round {round} was let in, though {why_not}")
        if not receipt.is_accepted and why_not is None and is_open:
            self._world.fail(f"an update of {learner!r} in round {round} was refused: {receipt.reason}")
        if receipt.is_accepted and rounds is not None:
            rounds.let_in(learner, round, parameters, num_samples)
        return receipt

    # After the run.

    def check_error(self, error):
        """Judge the error that a run ended with."""
        num_accepted = sum(rounds.num_accepted for rounds in self.rounds.values())
        nothing_came = not num_accepted and "nothing was trained" in str(error)
        if not nothing_came:
            self._world.fail(f"the run ended with {type(error).__name__}: {error}")

    def check(self, record):
        """Check what is left after the run."""
        self._check_record(record, self.rounds[""])
        if not self._world.was_done:
            self.rounds[""].check_saved()
        self._check_memory()

    def _check_record(self, record, rounds):
        if self._world.was_done:  # the process ended after it had said so
            self._check_done(record, rounds)
            return
        closed = [event for event in record if isinstance(event, RoundClosed)]
        if [event.round for event in closed] != list(range(1, rounds.num_closed + 1)):
            self._world.fail(f"the record has rounds {[event.round for event in closed]}, of {rounds.num_closed}")
        if self._world.error is None and not self._world.failures:
            reason = rounds.ended.reason if rounds.ended is not None else "rounds done"
            if reason == "rounds done" and rounds.num_closed != rounds.job.rounds:
                self._world.fail(f"it is over after {rounds.num_closed} rounds of {rounds.job.rounds}")
        accepted = {}
        for event in record:
            match event:
                case RoundOpened():
                    accepted = {}
                case UpdateAccepted():
                    accepted[event.learner] = event.num_samples
                case UpdateAudited() if not event.is_honest:
                    accepted.pop(event.learner, None)
                case RoundClosed() if event.num_samples != sum(accepted.values()):
                    said = f"{event.num_samples} samples; accepted were {sum(accepted.values())}"
                    self._world.fail(f"the record of round {event.round} has {said}")
        at = [event.at for event in closed]
        if at != sorted(at):
            self._world.fail(f"rounds were closed at {at}")

    def _check_done(self, record, rounds):
        closed = [event.round for event in record if isinstance(event, RoundClosed)]
        if closed != list(range(1, rounds.job.rounds + 1)):
            self._world.fail(f"nothing is left to do, and the record has rounds {closed}")
        if sum(isinstance(event, RunEnded) for event in record) != 1:
            self._world.fail("nothing is left to do, and the end is not recorded once")
        rounds.check_last()

    def _check_memory(self):
        roster = self.host._roster
        most = _MOST_SESSIONS_PER_NAME * max(len(self._all_names), 1)
        if len(roster._by_key) > most:
            self._world.fail(f"{len(roster._by_key)} sessions are kept of {len(self._all_names)} names")
        for training in self.host._jobs:
            late = training._late
            if max(len(late._shares), len(training._opened_at)) > late.max_rounds + 1:
                self._world.fail(f"{len(late._shares)} closed rounds are kept")
