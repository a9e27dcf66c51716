"""Tables of the report of a pool: its jobs, its allocations and its ledger."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.monitor.figures import Metrics
from paceline.monitor.page.gantt import job_mark
from paceline.monitor.page.markup import Child, Markup, element
from paceline.monitor.page.tables import MAX_ROWS, NONE, Column, end_of, left_out, table
from paceline.monitor.pool_figures import Account, JobSummary
from paceline.monitor.wording import (
    printable,
    say_amount,
    say_known,
    say_names,
    say_placements,
    say_ratio,
    say_seconds,
)
from paceline.topologies.parallel.events import JobsAllocated

MAX_NAMES = 20


def jobs_table(jobs: Sequence[JobSummary], mean: Metrics) -> Markup:
    """A row per job with its metrics, and one with their means."""
    columns = [
        *(Column("job", is_number=False), Column("state", is_number=False), Column("rounds"), Column("deadline")),
        *(Column("round took"), Column("satisfaction"), Column("fulfilment"), Column("drop rate")),
        *(Column("occupancy"), Column("accuracy"), Column("loss"), Column("paid")),
    ]
    rows = [_job_row(index, job) for index, job in enumerate(jobs)]
    if len(jobs) > 1:
        rows.append(["mean", "", "", "", *_metrics(mean), "", "", ""])
    return table("The metrics of each job", columns, rows)


def _job_row(index: int, job: JobSummary) -> list[Child]:
    summary = job.summary
    return [
        job_mark(index, printable(job.name)),
        "under way" if job.ended is None else printable(job.ended.reason),
        f"{len(summary.rounds):,} of {job.submitted.rounds:,}",
        say_seconds(job.submitted.deadline_seconds),
        *_metrics(job),
        say_known(summary.accuracy, say_ratio),
        say_known(summary.loss, "{:.4f}".format),
        say_amount(job.paid),
    ]


def _metrics(metrics: Metrics) -> list[str]:
    ratios = (metrics.satisfaction, metrics.fulfilment, metrics.drop_rate, metrics.occupancy)
    return [say_known(metrics.training_seconds, say_seconds), *(say_known(ratio, say_ratio) for ratio in ratios)]


def allocations_table(allocations: Sequence[JobsAllocated]) -> Markup:
    """A row per allocation: who was placed where, and what was expected of it."""
    columns = [
        *(Column("at"), Column("learners with their shards", is_number=False), Column("expected")),
        *(Column("above the bound"), Column("cost"), Column("idle", is_number=False)),
        *(Column("jobs that wait", is_number=False), Column("given up", is_number=False)),
    ]
    rows = (
        [
            say_seconds(event.at),
            say_placements(event, MAX_NAMES),
            say_seconds(event.expected_seconds),
            say_ratio(event.expected_seconds / event.bound - 1) if event.bound > 0 else NONE,
            say_amount(event.cost),
            *(say_names(names) or NONE for names in (event.idle, event.waiting, event.waived)),
        ]
        for event in allocations[:MAX_ROWS]
    )
    return table("A row per allocation" + left_out(len(allocations)), columns, rows)


def accounts_table(accounts: Sequence[Account]) -> Markup:
    """A row per learner: what it was given, what of it counted, and what was paid for that."""
    columns = [
        *(Column("learner", is_number=False), Column("jobs", is_number=False), Column("rounds")),
        *(Column("not paid"), Column("shards given"), Column("shards paid"), Column("samples"), Column("paid")),
        Column("at the end", is_number=False),
    ]
    rows = (
        [
            element("bdi", printable(account.learner)),
            say_names(account.jobs) or NONE,
            f"{account.num_rounds:,}",
            f"{account.num_unpaid:,}",
            f"{account.num_shards:,}",
            f"{account.shards:,.1f}",
            f"{account.num_samples:,}",
            say_amount(account.paid),
            end_of(account.left_because),
        ]
        for account in accounts[:MAX_ROWS]
    )
    return table("A row per learner" + left_out(len(accounts), "ledger.csv"), columns, rows)
