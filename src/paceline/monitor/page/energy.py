"""The part of each report that tells what learners used up: bytes, processor time, energy, and what that emits."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.monitor.footprint import Footprint, Metered
from paceline.monitor.page.frame import section
from paceline.monitor.page.markup import Child, Markup, element
from paceline.monitor.page.tables import MAX_ROWS, Column, left_out, table
from paceline.monitor.wording import (
    printable,
    say_bytes,
    say_energy,
    say_grams,
    say_known,
    say_names,
    say_power,
    say_seconds,
)

ROUNDS = "in their rounds, each from when it was taken to the end of its upload"
"""What is counted where learners take rounds."""
_MAX_MODELS = 3


def energy_card(footprint: Footprint, grams_per_kwh: float) -> tuple[str, str, str]:
    """The card with the energy of all, and what that emits."""
    grams = footprint.grams_co2(grams_per_kwh)
    return (
        "energy",
        say_known(footprint.joules, say_energy),
        "not told" if grams is None else f"{say_grams(grams)} CO₂e",
    )


def bytes_card(footprint: Footprint) -> tuple[str, str, str]:
    """The card with the bytes of all."""
    received = footprint.bytes_received
    said = "not told" if received is None else f"{say_bytes(received)} received"
    return "sent", say_known(footprint.bytes_sent, say_bytes), said


def energy_section(learners: Sequence[Metered], counted: str, grams_per_kwh: float) -> Markup:
    """A row per learner that told what it used, and how that was reckoned.

    Args:
        counted: the time that the figures are of, as the end of a sentence.
        grams_per_kwh: what it emits to make the energy.
    """
    told = [learner for learner in learners if learner.footprint != Footprint()]
    silent = [learner.name for learner in learners if learner.footprint == Footprint()]
    if not told:
        nothing = "No learner told what it used: devices that join over the network keep that to themselves."
        return section("Energy and bytes", element("p", nothing, class_="card empty"))
    about = [f"What learners used {counted}.", _say_models(told), _say_intensity(grams_per_kwh)]
    if silent:
        keep = "keeps its" if len(silent) == 1 else "keep their"
        about.append(f"{say_names(silent)} {keep} figures to {'itself' if len(silent) == 1 else 'themselves'}.")
    return section("Energy and bytes", _table(told, grams_per_kwh), about=" ".join(about))


def _say_models(told: Sequence[Metered]) -> str:
    """What the energy is told by."""
    models = {say_power(learner.power): None for learner in told if learner.power}
    if not models:
        return "What their energy is told by is not known."
    shown = "; ".join(list(models)[:_MAX_MODELS])
    more = f" and {len(models) - _MAX_MODELS} more" if len(models) > _MAX_MODELS else ""
    return f"Energy is told by: {shown}{more}. A power model is an assumption, not a measurement."


def _say_intensity(grams_per_kwh: float) -> str:
    return f"Each kWh is taken to emit {grams_per_kwh:g} g of CO₂ equivalents."


def _table(told: Sequence[Metered], grams_per_kwh: float) -> Markup:
    columns = [
        *(Column("learner", is_number=False), Column("sent"), Column("received"), Column("processor")),
        *(Column("energy"), Column("CO₂e"), Column("told by", is_number=False)),
    ]
    rows: list[list[Child]] = [
        [
            element("bdi", printable(learner.name)),
            *_figures(learner.footprint, grams_per_kwh),
            say_power(learner.power),
        ]
        for learner in told[:MAX_ROWS]
    ]
    total = Footprint.total(learner.footprint for learner in told)
    rows.append(["all", *_figures(total, grams_per_kwh), ""])
    return table("What each learner used" + left_out(len(told), "events.jsonl"), columns, rows)


def _figures(footprint: Footprint, grams_per_kwh: float) -> list[str]:
    return [
        say_known(footprint.bytes_sent, say_bytes),
        say_known(footprint.bytes_received, say_bytes),
        say_known(footprint.cpu_seconds, say_seconds),
        say_known(footprint.joules, say_energy),
        say_known(footprint.grams_co2(grams_per_kwh), say_grams),
    ]
