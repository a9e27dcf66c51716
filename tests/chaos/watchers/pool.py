"""Watches a pool: the rounds of each of its jobs, and its money."""

import dataclasses
import math

from paceline.topologies.parallel.events import JobEnded, LearnerPaid, PoolEnded, UpdateAccepted
from tests.chaos.watchers.orchestrator import OrchestratorWatcher
from tests.chaos.watchers.rounds import RoundsWatcher

_ROUNDING = 1e-9


class PoolWatcher(OrchestratorWatcher):
    """Watches the orchestrator of several jobs."""

    def longest_seconds(self):
        jobs = self._world.job.jobs
        return sum(job.rounds * (job.deadline_seconds + 40) for job in jobs)

    def _begin(self, plan, folder):
        for prepared in plan.jobs:
            name = prepared.job.name
            path = folder.path / "jobs" / name / "checkpoints"
            watcher = self.rounds.setdefault(name, RoundsWatcher(self._world, prepared.job, lambda path=path: path))
            last = plan._kept.num_closed.get(name, 0)
            watcher.begin(prepared, last + 1, is_over=name in plan._kept.ended.keys() - plan._kept.untold)

    def _attach(self):
        pass

    def _watched(self, env):
        def open_nested(job):
            emit, save = env.open_nested(job)
            return self._after_nested(emit, job.name), save

        return dataclasses.replace(env, emit=self._after(env.emit, ""), open_nested=open_nested)

    def _after_nested(self, record, name):
        emit = self._after(record, name)

        def attached(event):
            pooled = self.host._by_name.get(name)
            self.rounds[name].training = None if pooled is None else pooled.training
            emit(event)

        return attached

    def _rounds_of(self, session):
        found = self.host._roster._by_key.get(session)
        return None if found is None else self.rounds.get(found.job)

    def check(self, record):
        accepted = {}
        for name, folder in self._world.record_of_jobs().items():
            events = list(folder.events())
            if not self._world.was_done:
                self._check_record(events, self.rounds[name])
                self.rounds[name].check_saved()
            failed = self._failed(events)
            accepted.update(
                {
                    (name, event.round, event.learner): event.num_samples
                    for event in events
                    if isinstance(event, UpdateAccepted) and (event.round, event.learner) not in failed
                }
            )
        self._check_money(record, accepted)
        self._check_memory()

    def _failed(self, events):
        return {(event.round, event.learner) for event in events if not getattr(event, "is_honest", True)}

    def _check_money(self, record, accepted):
        lines = [event for event in record if isinstance(event, LearnerPaid)]
        paid = {(line.job, line.round, line.learner): line.num_samples for line in lines if line.num_samples}
        if len({(line.job, line.round, line.learner) for line in lines}) != len(lines):
            self._world.fail("somebody was paid twice for the same")
        is_new = self._world.was_done and not self.num_closed  # it begins anew: nothing was ever paid for
        if self._world.error is None and paid != accepted and not is_new:
            self._world.fail(f"paid were {paid}, accepted {accepted}")
        spent = math.fsum(line.amount for line in lines)
        budget = self._world.job.total_budget
        if budget is not None and spent > budget * (1 + _ROUNDING):
            self._world.fail(f"{spent} was spent of a budget of {budget}")
        for line in lines:
            if not 0 <= line.shards <= line.num_shards or not math.isclose(line.amount, line.shards * line.price):
                self._world.fail(f"a line of the ledger does not add up: {line}")
        ends = [event for event in record if isinstance(event, PoolEnded)]
        if self._world.was_done and self.num_closed and len(ends) != 1:
            self._world.fail("nothing is left to do, and the end of the pool is not recorded once")
        if self._world.error is None and not self._world.failures and not self._world.was_done:
            if len(ends) != 1 or not math.isclose(ends[0].spent, spent, abs_tol=_ROUNDING):
                self._world.fail(f"{spent} was paid, and the pool ended with {ends}")
            over = sorted(event.job for event in record if isinstance(event, JobEnded))
            if over != sorted(self.rounds):
                self._world.fail(f"the jobs {sorted(self.rounds)} ended as {over}")
