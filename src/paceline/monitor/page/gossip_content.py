"""The page of a gossip run: which parts it has, and what they say."""

from __future__ import annotations

from typing import Any

from paceline.monitor.footprint import Metered
from paceline.monitor.gossip_figures import GossipSummary
from paceline.monitor.page.energy import bytes_card, energy_card, energy_section
from paceline.monitor.page.frame import facts, header, make_document, result_card, section, time_card
from paceline.monitor.page.gossip_plots import balance_section, bytes_section, learning_section, time_section
from paceline.monitor.page.gossip_tables import epochs_table, missing_tables, peers_table
from paceline.monitor.page.markup import Markup, element
from paceline.monitor.page.tables import happenings_section, settings_section
from paceline.monitor.wording import called, say_count, say_known, say_ratio, say_seconds, setting


def make_gossip_page(
    name: str, summary: GossipSummary, job: dict[str, Any], versions: dict[str, Any], grams_per_kwh: float
) -> str:
    """The whole page of a gossip run."""
    return make_document(f"{name} – Paceline gossip", _sections(name, summary, job, versions, grams_per_kwh))


def _sections(
    name: str, summary: GossipSummary, job: dict[str, Any], versions: dict[str, Any], grams_per_kwh: float
) -> list[Markup | None]:
    sections: list[Markup | None] = [_header(name, summary, job), _facts(summary, job, grams_per_kwh)]
    if summary.epochs:
        sections += [learning_section(summary), balance_section(summary)]
    else:
        sections.append(element("p", "No peer has ended an epoch yet.", class_="card empty"))
    sections.append(time_section(summary))
    if summary.epochs:
        sections.append(bytes_section(summary))
    if summary.peers:
        sections.append(section("Peers", peers_table(summary.peers)))
    if summary.epochs:
        metered = [Metered(name=peer.name, footprint=peer.footprint, power=peer.power) for peer in summary.peers]
        sections.append(energy_section(metered, "in their epochs", grams_per_kwh))
        sections.append(section("Epochs", epochs_table(summary.epochs)))
    missing = missing_tables(summary)
    if missing:
        about = "Where more peers failed than is allowed, others train their data, if they have a copy of it."
        sections.append(section("What was missing", *missing, about=about))
    caption = "Peers that came and went, data that was missing, and the store"
    happened = happenings_section(summary.happenings, "What happened", caption)
    return [*sections, happened, settings_section("Job", job, versions)]


def _header(name: str, summary: GossipSummary, job: dict[str, Any]) -> Markup:
    started = summary.started
    exchange, graph = (setting(job, "gossip", key) for key in ("exchange", "graph"))
    parts = [
        f"{called(job, 'model')} on {called(job, 'data')}",
        *([f"{started.num_parameters:,} parameters"] if started else []),
        f"{exchange} on a {graph} graph" if exchange == "mixing" else f"{exchange or 'gossip'}",
        f"shares by {called(job, 'allocation')}",
        f"{started.clock} clock" if started else "nothing recorded",
    ]
    ended = summary.ended
    reason = None if ended is None else f"{say_count(len(ended.averaged), 'peer')} averaged"
    return header("gossip", name, reason, parts)


def _facts(summary: GossipSummary, job: dict[str, Any], grams_per_kwh: float) -> Markup:
    num_epochs, target = (setting(job, "gossip", key) for key in ("epochs", "target_accuracy"))
    last = summary.epochs[-1].epoch if summary.epochs else 0
    num_missing = sum(one.num_samples for one in summary.missing)
    taken = say_count(len(summary.taken_over), "part")
    cards = [
        result_card(summary.accuracy, summary.loss, is_over=summary.ended is not None),
        ("epochs", f"{last:,}", f"of {num_epochs:,}" if isinstance(num_epochs, int) else ""),
        ("an epoch took", say_known(summary.mean_seconds, say_seconds), "mean of all peers"),
        ("kept of the data", say_known(summary.mean_ratio, say_ratio), f"{summary.num_samples:,} samples trained"),
        bytes_card(summary.footprint),
        energy_card(summary.footprint, grams_per_kwh),
        ("peers", f"{len(summary.peers):,}", f"{summary.num_joined:,} came later, {summary.num_lost:,} lost"),
        ("samples missing", f"{num_missing:,}", f"{taken} of failed peers taken over"),
        time_card(summary.seconds, summary.started.clock if summary.started else None),
    ]
    if isinstance(target, int | float):
        reached = say_known(summary.average_seconds_to(target), say_seconds)
        median = say_known(summary.median_seconds_to(target), say_seconds)
        cards.insert(1, (f"to {say_ratio(target)}", reached, f"the average; {median} half of the peers"))
    return facts(cards)
