"""Where to cut a model, for given devices and links: two fixed cuts, and the one that is chosen by measuring."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

from paceline.devices.lte_cell import Cell
from paceline.fleets.devices import in_cell
from paceline.fleets.modelled import VirtualDevice
from papers.fpl.measures import epochs_to_target, seconds_to_target
from papers.fpl.setting import NUM_SOURCES
from papers.fpl.variants import CUTS, FULL_SIZE, QUICK_SIZE, cut_rules, learned, timed
from reproduction import About, Row
from reproduction.rows import where

ABOUT = About(
    figure="beyond Malandrino and Chiasserini, Fig. 6 (c)",
    claim="A cut that is chosen by measuring is as fast to an accuracy as the better of two fixed ones, or faster.",
    duration="25 minutes",
    num_seeds=2,
)
NUM_DRAWN = 4  # fleets that nobody looked at before the rule of choice was fixed
AUTO, FIXED = "auto", ("f1", "f2")


def fleets(seed: int) -> Mapping[str, Sequence[VirtualDevice]]:
    """Five sources and an edge server each: of speeds and links that there are, and drawn at random; ours."""
    edge = VirtualDevice(name="edge", samples_per_second=3000.0, is_server=True)
    small_edge = VirtualDevice(name="edge", samples_per_second=600.0, is_server=True)
    phones = VirtualDevice(name="phone", count=NUM_SOURCES, samples_per_second=400.0)
    pis = VirtualDevice(
        name="pi", count=NUM_SOURCES, samples_per_second=30.0, down_mbit=100.0, up_mbit=100.0, latency_ms=1.0
    )
    jetsons = VirtualDevice(
        name="jetson", count=NUM_SOURCES, samples_per_second=500.0, down_mbit=60.0, up_mbit=60.0, latency_ms=4.0
    )
    mixed = [
        VirtualDevice(name="laptop", count=2, samples_per_second=500.0, down_mbit=100.0, up_mbit=100.0, latency_ms=2.0),
        VirtualDevice(name="old-pi", count=3, samples_per_second=60.0, down_mbit=40.0, up_mbit=20.0, latency_ms=5.0),
    ]
    return {
        "Pis on Ethernet": [edge, pis],
        "phones in a cell": [edge, *in_cell(Cell(seed=seed), [phones])],
        "Jetsons on WiFi": [small_edge, jetsons],
        "laptops and old Pis": [edge, *mixed],
        **{f"drawn {number}": _drawn(seed, number) for number in range(1, NUM_DRAWN + 1)},
    }


def _drawn(seed: int, number: int) -> Sequence[VirtualDevice]:
    """Sources and trunk of any speed, on any links, evenly by their logarithm."""
    chance = random.Random(f"fleet {number} of trial {seed}")

    def draw(least: float, most: float) -> float:
        return float(least * (most / least) ** chance.random())

    sources = [
        VirtualDevice(
            name=f"source-{source}",
            samples_per_second=draw(20.0, 600.0),
            down_mbit=draw(5.0, 200.0),
            up_mbit=draw(5.0, 200.0),
            latency_ms=draw(1.0, 10.0),
        )
        for source in range(1, NUM_SOURCES + 1)
    ]
    return [VirtualDevice(name="edge", samples_per_second=draw(500.0, 4000.0), is_server=True), *sources]


def run(seed: int, *, is_quick: bool) -> Iterator[Row]:
    """Each cut is trained, and timed on every fleet; so is what is chosen there."""
    size = QUICK_SIZE if is_quick else FULL_SIZE
    for cut in CUTS:
        for row in learned(cut_rules(cut), size, seed, is_kept=not is_quick):
            yield _row("learning", "", cut, cut, row["epoch"], row["accuracy"], None)
    for fleet, devices in list(fleets(seed).items())[: 1 if is_quick else None]:
        for cut in (*CUTS, AUTO):
            found = timed(cut_rules(cut), devices, size, seed)
            yield _row("time", fleet, cut, found.cut, None, None, round(found.epoch_seconds, 4))


def _row(
    part: str, fleet: str, cut: str, chosen: str, epoch: int | None, accuracy: float | None, seconds: float | None
) -> Row:
    return {
        "part": part,
        "fleet": fleet,
        "cut": cut,
        "chosen": chosen,
        "epoch": epoch,
        "accuracy": accuracy,
        "epoch_seconds": seconds,
    }


def measures(rows: Sequence[Row]) -> dict[str, float]:
    """Of each fleet: seconds to an accuracy that all reach, and those of the choice over those of the fixed cuts."""
    found: dict[str, float] = {}
    epochs = epochs_to_target(rows)
    for cut, number in epochs.items():
        found[f"{cut}: epochs to the accuracy"] = number
        found[f"{cut}: best accuracy"] = max(row["accuracy"] for row in where(rows, part="learning", cut=cut))
    gains: list[float] = []
    for fleet in dict.fromkeys(row["fleet"] for row in where(rows, part="time")):
        seconds = seconds_to_target(rows, fleet)
        for cut, value in seconds.items():
            found[f"{fleet}, {cut}: seconds to the accuracy"] = value
        best = min(seconds[cut] for cut in FIXED)
        found[f"{fleet}: auto, times the better fixed cut"] = seconds[AUTO] / best
        gains.append(seconds[AUTO] / best)
    found["auto, times the better fixed cut: where it gains most"] = min(gains)
    found["auto, times the better fixed cut: where it gains least"] = max(gains)
    return found
