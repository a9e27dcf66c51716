"""The page of a run: which parts it has, and what they say."""

from __future__ import annotations

from typing import Any

from paceline.monitor.figures import Summary
from paceline.monitor.footprint import Metered
from paceline.monitor.page.energy import ROUNDS, bytes_card, energy_card, energy_section
from paceline.monitor.page.frame import facts, header, make_document, result_card, section, time_card
from paceline.monitor.page.markup import Markup, element
from paceline.monitor.page.plots import (
    allocation_section,
    learning_section,
    of_all_learners,
    shown_learners,
    time_section,
    truancy_section,
)
from paceline.monitor.page.tables import (
    happenings_section,
    learners_table,
    profiles_table,
    rounds_table,
    settings_section,
)
from paceline.monitor.wording import called, say_count, say_known, say_ratio, setting


def make_page(name: str, summary: Summary, job: dict[str, Any], versions: dict[str, Any], grams_per_kwh: float) -> str:
    """The whole page of a run."""
    return make_document(f"{name} – Paceline run", _sections(name, summary, job, versions, grams_per_kwh))


def _sections(
    name: str, summary: Summary, job: dict[str, Any], versions: dict[str, Any], grams_per_kwh: float
) -> list[Markup | None]:
    sections: list[Markup | None] = [_header(name, summary, job), _facts(summary, job, grams_per_kwh)]
    if not summary.rounds:
        sections.append(element("p", "No round has closed yet, so there is nothing to plot.", class_="card empty"))
    else:
        sections.append(learning_section(summary.rounds))
        if summary.learners:
            sections += [time_section(summary), allocation_section(summary)]
        sections.append(truancy_section(summary))
    if summary.learners:
        shown = shown_learners(summary)
        tables = [learners_table(shown, f"What they did{of_all_learners(summary)}")]
        if any(learner.profile for learner in shown):
            tables.append(profiles_table(shown, f"What was measured of them{of_all_learners(summary)}"))
        sections.append(section("Learners", *tables))
    if summary.rounds:
        metered = [Metered(name=one.name, footprint=one.footprint, power=one.power) for one in summary.learners]
        sections.append(energy_section(metered, ROUNDS, grams_per_kwh))
        sections.append(section("Rounds", rounds_table(summary.rounds)))
    happened = happenings_section(
        summary.happenings, "Who came, left and was refused", "Joins, leaves, refusals and waits"
    )
    return [*sections, happened, settings_section("Job", job, versions)]


def _header(name: str, summary: Summary, job: dict[str, Any]) -> Markup:
    started = summary.started
    parts = [
        f"{called(job, 'model')} on {called(job, 'data')}",
        *([f"{started.num_parameters:,} parameters"] if started else []),
        f"shares by {called(job, 'allocation')}",
        f"{started.clock} clock" if started else "nothing recorded",
    ]
    return header("run", name, summary.ended.reason if summary.ended else None, parts)


def _facts(summary: Summary, job: dict[str, Any], grams_per_kwh: float) -> Markup:
    num_rounds = setting(job, "job", "rounds")
    late = f"{summary.num_late / summary.num_learner_rounds:.1%}".replace("%", " %") if summary.num_late else "none"
    truancy_mean = summary.truancy_mean
    num_satisfied = sum(closed.is_satisfied for closed in summary.rounds)
    return facts(
        [
            result_card(summary.accuracy, summary.loss, is_over=summary.ended is not None),
            ("rounds", f"{len(summary.rounds):,}", f"of {num_rounds:,}" if isinstance(num_rounds, int) else ""),
            (
                "truancy, most",
                say_known(summary.truancy_max, lambda ratio: say_ratio(ratio, signed=True)),
                f"mean {say_ratio(truancy_mean, signed=True)}" if truancy_mean is not None else "",
            ),
            ("late or missing", late, f"{summary.num_late:,} of {say_count(summary.num_learner_rounds, 'share')}"),
            ("use of the deadline", say_known(summary.deadline_use, say_ratio), "mean of the learners"),
            ("samples trained", f"{summary.num_samples:,}", f"by {say_count(len(summary.learners), 'learner')}"),
            (
                "fulfilment",
                say_known(summary.fulfilment, say_ratio),
                f"{num_satisfied:,} of {say_count(len(summary.rounds), 'round')} in full and in time",
            ),
            bytes_card(summary.footprint),
            energy_card(summary.footprint, grams_per_kwh),
            time_card(summary.seconds, summary.started.clock if summary.started else None),
        ]
    )
