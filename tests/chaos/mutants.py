"""Mutants: faults put into the product on purpose, each of which some schedule must find."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from unittest import mock

from paceline import files
from paceline.learning import checkpoints
from paceline.learning.aggregation import means
from paceline.learning.update_validation import UpdateValidator
from paceline.topologies.gossip.mass import MassAccount
from paceline.topologies.gossip.push_sum import PushSumExchange
from paceline.topologies.parallel import resuming
from paceline.topologies.parallel.job_training import JobTraining
from paceline.topologies.parallel.late_updates import LateUpdates
from paceline.topologies.parallel.ledger import Ledger
from paceline.topologies.parallel.messages import Receipt
from paceline.topologies.parallel.orchestrator import Orchestrator
from paceline.topologies.parallel.rounds import OpenRound, Share
from paceline.topologies.parallel.topology import Parallel
from paceline.topologies.sessions import Roster
from tests.chaos.playing import play_seed


@dataclass(frozen=True)
class Mutant:
    """A fault in the product.

    Attributes:
        patches: put it in place, as context managers.
        topologies: where it should be found.
    """

    name: str
    topologies: tuple[str, ...]
    patches: Callable[[], list]

    @contextlib.contextmanager
    def in_place(self):
        """Have the product be at fault while the block runs."""
        with contextlib.ExitStack() as stack:
            for patch in self.patches():
                stack.enter_context(patch)
            yield


def _replaced(owner, name, make):
    """Replace a method or function by what `make` makes of it."""
    return mock.patch.object(owner, name, make(getattr(owner, name)))


# Rounds.


def _twice(inner):
    def why_refused(self, learner, num_samples):
        self.delivered.pop(learner, None)
        return inner(self, learner, num_samples)

    return why_refused


def _count_weighing_one(inner):
    """Have audited updates weigh 1, whatever was trained."""

    def count(self, learner, parameters, share, num_samples):
        audited = any(vectors is parameters for vectors, _ in self.unaudited.values())
        if not audited:
            return inner(self, learner, parameters, share, num_samples)
        light = mock.patch.object(type(self.aggregation), "weight_of", return_value=1.0)
        with light:
            return inner(self, learner, parameters, share, num_samples)

    return count


def _averaging_refused(inner):
    def accept(self, learner, sent, num_samples, **more):
        reason = inner(self, learner, sent, num_samples, **more)
        if reason is not None and learner in self.shares and "impossible" in reason:
            self.count(learner, sent, self.shares[learner], 1)
        return reason

    return accept


def _late_counts_now(inner):
    """Take a late update into the round that is open, as if it were of that."""

    def update(self, learner, round, sent, num_samples):
        opened = self.round
        is_late = opened is not None and round == opened.number - 1 and self._late.is_late(learner, round)
        if is_late and learner not in opened.delivered:
            self._late.drop(learner, round)
            opened.shares.setdefault(learner, Share([[]], 1, 10**6, 10**6))
            return inner(self, learner, opened.number, sent, num_samples)
        return inner(self, learner, round, sent, num_samples)

    return update


def _closed_twice(inner):
    async def close(self, closed, seconds, *settle):
        await inner(self, closed, seconds, *settle)
        if closed.number == 2:
            await inner(self, closed, seconds, *settle)

    return close


def _numbers_with_gaps(inner):
    async def close(self, closed, seconds, *settle):
        await inner(self, closed, seconds, *settle)
        self.num_closed += closed.number == 2

    return close


def _stale(inner):
    """Hand out the parameters of the first round for ever."""

    async def take(self, *arguments):
        first = self.__dict__.setdefault("_first", self._validator)
        now, self._validator = self._validator, first
        try:
            return await inner(self, *arguments)
        finally:
            self._validator = now

    return take


def _never_in_time(inner):
    async def wait(self, opened):
        seconds = await inner(self, opened)
        await self._changes.next(3.0)
        return seconds

    return wait


def _lost_updates(inner):
    """Lose every third update without a word."""

    def count(self, learner, parameters, share, num_samples):
        self.__dict__["_count"] = self.__dict__.get("_count", 0) + 1
        if self.__dict__["_count"] % 3:
            inner(self, learner, parameters, share, num_samples)

    return count


def _refusing_in_time(inner):
    """Refuse what comes in the last second."""

    def update(self, learner, round, sent, num_samples):
        opened = self.round
        if opened is not None and opened.number == round and self.time() > opened.due_at - 1:
            return Receipt(is_accepted=False, reason="too late")
        return inner(self, learner, round, sent, num_samples)

    return update


def _excluding(inner):
    def exclude_failed(self, closed):
        closed.failed_audit.update(closed.late)
        return inner(self, closed)

    return exclude_failed


# Sessions.


def _anybody(inner):
    """Take a session that is not known for that of the newest device."""

    def find(self, key):
        if key not in self._by_key and self._by_name:
            return list(self._by_name.values())[-1]
        return inner(self, key)

    return find


def _former(inner):
    def find(self, key):
        session = self._by_key.get(key)
        return session if session is not None else inner(self, key)

    return find


def _keeping_all(inner):
    def join(self, name, *proof):
        session, is_back = inner(self, name, *proof)
        if session.former is not None:
            self.__dict__.setdefault("_old", []).append(session.former)
            for number, old in enumerate(self._old):
                self._by_key[f"{number}"] = old
        return session, is_back

    return join


# Disks, and going on.


def _resume_later(inner):
    def resume(self, job, events, load):
        plan = inner(self, job, events, load)
        plan.first_round += plan.first_round < job.rounds
        return plan

    return resume


def _resume_sooner(inner):
    def recover(job, events, load):
        closed = [event for event in events if type(event).__name__ == "RoundClosed"]
        if len(closed) > 1:
            last = closed[-1].round
            events = [event for event in events if getattr(event, "round", 0) < last]
            return inner(job, events, _WithoutLast(load))
        return inner(job, events, load)

    return recover


class _WithoutLast:
    """Checkpoints without the newest."""

    def __init__(self, load):
        self._load = load
        self.rounds = list(load.rounds)[:-1]

    def __call__(self, key):
        return self._load(key)

    def read_whole(self, key):
        return self._load.read_whole(key)


def _unsaved(inner):
    def save(folder, round, *more):
        return inner(folder, round, *more) if round % 2 else None

    return save


# Money, mass and masks.


def _losing_mass(inner):
    def take_back(self, transfer):
        self._under_way.pop(transfer, None)

    return take_back


def _doubling_mass(inner):
    """Take a push back that was not confirmed, though it may have arrived."""

    async def deliver(self, push, parameters):
        await inner(self, push, parameters)
        if push.transfer in self.account._under_way:
            self.account.take_back(push.transfer)

    return deliver


def _unpaid_for(inner):
    def settle(self, job, closed, *more):
        lines = inner(self, job, closed, *more)
        return lines[:-1] if len(lines) > 1 else lines

    return settle


MUTANTS = (
    Mutant("double updates let in", ("served", "federated"), lambda: [_replaced(OpenRound, "_why_refused", _twice)]),
    Mutant("weight 1 for audited updates", ("served",), lambda: [_replaced(OpenRound, "count", _count_weighing_one)]),
    Mutant(
        "refused updates averaged",
        ("served", "federated"),
        lambda: [_replaced(OpenRound, "accept", _averaging_refused)],
    ),
    Mutant(
        "late updates counted", ("served", "federated"), lambda: [_replaced(JobTraining, "update", _late_counts_now)]
    ),
    Mutant("a round closed twice", ("served", "federated"), lambda: [_replaced(JobTraining, "close", _closed_twice)]),
    Mutant("a gap between rounds", ("served", "pool"), lambda: [_replaced(JobTraining, "close", _numbers_with_gaps)]),
    Mutant("stale parameters handed out", ("served", "pool"), lambda: [_replaced(JobTraining, "take", _stale)]),
    Mutant(
        "rounds closed late", ("served", "pool"), lambda: [_replaced(JobTraining, "wait_until_over", _never_in_time)]
    ),
    Mutant("accepted updates lost", ("served", "pool"), lambda: [_replaced(OpenRound, "count", _lost_updates)]),
    Mutant(
        "updates in time refused",
        ("served", "federated"),
        lambda: [_replaced(JobTraining, "update", _refusing_in_time)],
    ),
    Mutant("who is late excluded", ("served",), lambda: [_replaced(Orchestrator, "_exclude_failed", _excluding)]),
    Mutant(
        "impossible numbers of samples let in",
        ("served", "federated"),
        lambda: [mock.patch.object(Share, "why_impossible", return_value=None)],
    ),
    Mutant(
        "NaN let in",
        ("served", "federated", "push-sum"),
        lambda: [mock.patch.object(UpdateValidator, "why_diverged", return_value=None)],
    ),
    Mutant(
        "weights of the aggregation ignored",
        ("served", "federated"),
        lambda: [mock.patch.object(means.MeanAggregation, "weight_of", return_value=1.0)],
    ),
    Mutant(
        "late updates not rebased",
        ("served", "federated"),
        lambda: [mock.patch.object(LateUpdates, "rebased", lambda self, update, start, number: update.parameters)],
    ),
    Mutant("session check skipped", ("served", "federated", "split"), lambda: [_replaced(Roster, "find", _anybody)]),
    Mutant("former sessions accepted", ("served", "federated"), lambda: [_replaced(Roster, "find", _former)]),
    Mutant("former sessions kept", ("served", "split"), lambda: [_replaced(Roster, "join", _keeping_all)]),
    Mutant("lost fsync", ("served", "federated"), lambda: [mock.patch.object(files, "replace", _replace_unsynced)]),
    Mutant("unsaved checkpoints", ("served", "federated"), lambda: [_replaced(checkpoints, "save", _unsaved)]),
    Mutant("resumed a round later", ("served", "federated"), lambda: [_replaced(Parallel, "resume", _resume_later)]),
    Mutant("resumed a round sooner", ("served", "federated"), lambda: [_replaced(resuming, "recover", _resume_sooner)]),
    Mutant("mass lost", ("push-sum",), lambda: [_replaced(MassAccount, "take_back", _losing_mass)]),
    Mutant(
        "mass doubled on a lost confirmation",
        ("push-sum",),
        lambda: [_replaced(PushSumExchange, "_deliver", _doubling_mass)],
    ),
    Mutant(
        "pushes counted each time they arrive",
        ("push-sum",),
        lambda: [mock.patch.object(MassAccount, "has_arrived", return_value=False)],
    ),
    Mutant(
        "budget check skipped",
        ("pool",),
        lambda: [mock.patch.object(Ledger, "left", property(lambda self: float("inf")))],
    ),
    Mutant("a line missing in the ledger", ("pool",), lambda: [_replaced(Ledger, "settle", _unpaid_for)]),
)


def _replace_unsynced(path, content, **more):
    """Write a file as if nobody had ever heard of syncing."""
    partial = path.with_name(path.name + files.NEW)
    files.disk().fill(partial, content)
    files.disk().rename(partial, path)


def find(number, most_seeds=150):
    """Play seeds with a mutant in place until one fails; returns what came of that, None if none does."""
    mutant = MUTANTS[number]
    with mutant.in_place():
        for seed in range(most_seeds):
            for topology in mutant.topologies:
                result = play_seed(topology, seed)
                if result.failures:
                    return result
    return None
