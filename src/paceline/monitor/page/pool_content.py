"""The page of a pool: which parts it has, and what they say."""

from __future__ import annotations

from typing import Any

from paceline.monitor.footprint import Metered
from paceline.monitor.page.energy import ROUNDS, bytes_card, energy_card, energy_section
from paceline.monitor.page.frame import facts, header, make_document, section, time_card
from paceline.monitor.page.markup import Markup
from paceline.monitor.page.pool_plots import accuracy_charts, lanes_section
from paceline.monitor.page.pool_tables import accounts_table, allocations_table, jobs_table
from paceline.monitor.page.tables import happenings_table, settings_section
from paceline.monitor.pool_figures import PoolSummary
from paceline.monitor.wording import called, say_amount, say_count, say_known, say_ratio, say_seconds


def make_pool_page(
    name: str, summary: PoolSummary, pool: dict[str, Any], versions: dict[str, Any], grams_per_kwh: float
) -> str:
    """The whole page of a pool."""
    return make_document(f"{name} – Paceline pool", _sections(name, summary, pool, versions, grams_per_kwh))


def _sections(
    name: str, summary: PoolSummary, pool: dict[str, Any], versions: dict[str, Any], grams_per_kwh: float
) -> list[Markup]:
    sections = [_header(name, summary, pool), _facts(summary, grams_per_kwh)]
    if summary.jobs:
        about = "Means over the rounds of a job. Each job has a run folder below jobs/, to make a page of its own from."
        tables = (jobs_table(summary.jobs, summary), accuracy_charts(summary.jobs))
        sections.append(section("Jobs", *tables, about=about))
    if summary.stays:
        sections.append(lanes_section(summary))
    if summary.allocations:
        about = "Which learner trains how much of which job, whenever that was decided."
        sections.append(section("Allocations", allocations_table(summary.allocations), about=about))
    if summary.accounts:
        about = "What was trained and counted is paid for, at the learner's price; ledger.csv has every line."
        sections.append(section("Ledger", accounts_table(summary.accounts), about=about))
    if any(job.summary.rounds for job in summary.jobs):
        metered = [Metered(name=one.learner, footprint=one.footprint, power=one.power) for one in summary.accounts]
        sections.append(energy_section(metered, ROUNDS, grams_per_kwh))
    if summary.happenings:
        told = happenings_table(summary.happenings, "Jobs and learners that came and went, refusals and cheats")
        sections.append(section("What happened", told))
    return [*sections, settings_section("Pool", pool, versions)]


def _header(name: str, summary: PoolSummary, pool: dict[str, Any]) -> Markup:
    parts = [
        say_count(len(summary.jobs), "job"),
        f"learners placed by {called(pool, 'allocation')}",
        f"{summary.started.clock} clock" if summary.started else "nothing recorded",
    ]
    return header("pool", name, summary.ended.reason if summary.ended else None, parts)


def _facts(summary: PoolSummary, grams_per_kwh: float) -> Markup:
    num_over = sum(job.ended is not None for job in summary.jobs)
    num_played = sum(bool(job.summary.rounds) for job in summary.jobs)
    num_audits = sum(job.summary.num_audits for job in summary.jobs)
    budget = "no limit" if summary.total_budget is None else f"of {say_amount(summary.total_budget)}"
    of_jobs = f"mean of {say_count(num_played, 'job')}" + (
        f", {len(summary.jobs) - num_played} had no round" if num_played < len(summary.jobs) else ""
    )
    return facts(
        [
            ("jobs", f"{len(summary.jobs):,}", f"{num_over:,} over"),
            ("spent", say_amount(summary.spent), budget),
            ("satisfaction", say_known(summary.satisfaction, say_ratio), of_jobs),
            (
                "fulfilment",
                say_known(summary.fulfilment, say_ratio),
                f"{say_known(summary.drop_rate, say_ratio)} dropped",
            ),
            ("a round took", say_known(summary.training_seconds, say_seconds), of_jobs),
            ("occupancy", say_known(summary.occupancy, say_ratio), "of the learners' time in rounds"),
            (
                "learners",
                f"{len(summary.accounts):,}",
                f"{say_count(len(summary.moves), 'move')} between jobs, {say_count(num_audits, 'audit')}",
            ),
            bytes_card(summary.footprint),
            energy_card(summary.footprint, grams_per_kwh),
            time_card(summary.seconds, summary.started.clock if summary.started else None),
        ]
    )
