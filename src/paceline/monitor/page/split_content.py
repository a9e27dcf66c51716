"""The page of a split run: which parts it has, and what they say."""

from __future__ import annotations

from typing import Any

from paceline.monitor.footprint import Metered
from paceline.monitor.page.energy import energy_card, energy_section
from paceline.monitor.page.frame import facts, header, make_document, result_card, section, time_card
from paceline.monitor.page.markup import Markup, element
from paceline.monitor.page.split_plots import learning_section, network_section, sources_section, time_section
from paceline.monitor.page.split_tables import cuts_table, epochs_table, nodes_table, parts_table
from paceline.monitor.page.tables import happenings_section, settings_section
from paceline.monitor.split_figures import SplitSummary
from paceline.monitor.wording import (
    called,
    printable,
    say_bytes,
    say_count,
    say_known,
    say_seconds,
    setting,
)


def make_split_page(
    name: str, summary: SplitSummary, job: dict[str, Any], versions: dict[str, Any], grams_per_kwh: float
) -> str:
    """The whole page of a split run."""
    return make_document(f"{name} – Paceline split", _sections(name, summary, job, versions, grams_per_kwh))


def _sections(
    name: str, summary: SplitSummary, job: dict[str, Any], versions: dict[str, Any], grams_per_kwh: float
) -> list[Markup | None]:
    sections: list[Markup | None] = [_header(name, summary, job), _facts(summary, job, grams_per_kwh)]
    if summary.epochs:
        sections.append(learning_section(summary))
    else:
        sections.append(element("p", "No epoch has ended yet.", class_="card empty"))
    sections += [time_section(summary), network_section(summary), sources_section(summary), _model_section(summary)]
    if summary.nodes:
        sections.append(section("Nodes", nodes_table(summary.nodes)))
        metered = [Metered(name=node.name, footprint=node.footprint, power=node.power) for node in summary.nodes]
        sections.append(energy_section(metered, "in their epochs, and to hand over what they learned", grams_per_kwh))
    if summary.epochs:
        sections.append(section("Epochs", epochs_table(summary.epochs)))
    caption = "Sources that came, were masked and went, the cut and the junction"
    happened = happenings_section(summary.happenings, "What happened", caption)
    return [*sections, happened, settings_section("Job", job, versions)]


def _model_section(summary: SplitSummary) -> Markup | None:
    tables = [parts_table(summary) if summary.parts else None, cuts_table(summary.cut) if summary.cut else None]
    about = "Each source has a branch of its own; the junction merges what they put out, and the trunk has the rest."
    return section("Model", element("div", *tables, class_="two"), about=about) if any(tables) else None


def _header(name: str, summary: SplitSummary, job: dict[str, Any]) -> Markup:
    started = summary.started
    scheme, cut = (setting(job, "split", key) for key in ("scheme", "cut"))
    cut = summary.cut.cut if summary.cut else cut
    parts = [
        f"{called(job, 'model')} on {called(job, 'data')}",
        printable(str(scheme or "split")) + (f", cut before {printable(str(cut))}" if cut else ""),
        *([f"{summary.num_parameters:,} parameters"] if summary.parts else []),
        f"{started.clock} clock" if started else "nothing recorded by the trunk",
    ]
    return header("split", name, summary.ended.reason if summary.ended else None, parts)


def _facts(summary: SplitSummary, job: dict[str, Any], grams_per_kwh: float) -> Markup:
    num_epochs = setting(job, "split", "epochs")
    last = summary.epochs[-1].ended.epoch if summary.epochs else 0
    label, accuracy, loss = result_card(summary.accuracy, summary.loss, is_over=summary.ended is not None)
    per_epoch = f"{say_bytes(summary.bytes_moved / last)} per epoch" if last else ""
    return facts(
        [
            (label, accuracy, ", ".join(filter(None, [loss, f"best in epoch {summary.best.ended.epoch}"])))
            if summary.best
            else (label, accuracy, loss),
            ("epochs", f"{last:,}", f"of {num_epochs:,}" if isinstance(num_epochs, int) else ""),
            ("an epoch took", say_known(summary.mean_seconds, say_seconds), "of training, the mean"),
            time_card(summary.seconds, summary.started.clock if summary.started else None),
            ("over the network", say_bytes(summary.bytes_moved), per_epoch),
            energy_card(summary.footprint, grams_per_kwh),
            ("samples trained", f"{summary.num_samples:,}", "in all epochs"),
            ("sources", f"{len(summary.sources):,}", f"{say_count(summary.num_masked, 'input')} missing"),
        ]
    )
