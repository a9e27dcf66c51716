"""Times epochs of gossip without training: `python benchmarks/gossip.py` (about six minutes).

`virtual` are peers on virtual time, from 2 to 64, a model of 40,480 parameters: the real seconds are what the framework
costs. `paceline` are live peers, each a process, over HTTP on loopback. `sockets` sends the same models to the same
neighbours over bare sockets, and nothing else; `mixing-sockets` adds and mixes them, too. `hivemind` averages among all
peers, which is what mixing in a full graph comes to; it needs `make bench-hivemind` first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import commandline
import own_gossip
import own_virtual_gossip
from epochs import COST, MEGABYTES, MODELS, OTHER_KILOBYTES, SECONDS, VIRTUAL_SECONDS
from model_sizes import SIZES, num_parameters
from peers import hivemind, raw_gossip
from repeats import Case, Measurements
from report import Page, page_of_medians
from targets import Target

LIVE = ("paceline", "sockets", "mixing-sockets", "hivemind")
SYSTEMS = ("virtual", *LIVE)
PACKAGES = ("paceline", "numpy", "torch", "msgspec", "uvloop", "httptools")
EXCHANGES = ("ring", "full", "push-sum")


@dataclass(frozen=True)
class Fleet:
    """Live peers: who mixes with whom, how many they are, and the model."""

    graph: str
    num_peers: int
    size: str


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much is measured. The first epoch of each run is left out."""

    virtual_fleets: Mapping[str, Sequence[int]] = field(
        default_factory=lambda: dict.fromkeys(EXCHANGES, (2, 8, 32, 64))
    )
    live_fleets: tuple[Fleet, ...] = tuple(
        Fleet(graph, num_peers, size)
        for size in SIZES
        for graph, num_peers in (("ring", 2), ("ring", 4), ("ring", 8), ("full", 4))
    )
    num_virtual_models: int = 600
    """That are sent at least, in as many epochs as that takes, and in three at least."""
    num_live_epochs: Mapping[str, int] = field(default_factory=lambda: {"40k": 20, "10M": 4})
    num_repeats: int = 3


QUICK = Settings(
    virtual_fleets=dict.fromkeys(EXCHANGES, (2, 4)),
    live_fleets=(Fleet("ring", 2, "40k"),),
    num_virtual_models=20,
    num_live_epochs={"40k": 3},
    num_repeats=1,
)
"""A size for tests: shows that all of it runs, says little about speed."""


def virtual_name(exchange: str, num_peers: int) -> str:
    """As it stands in tables, targets and JSON."""
    return f"virtual, {exchange}, {num_peers}"


def live_name(system: str, fleet: Fleet) -> str:
    """As it stands in tables, targets and JSON."""
    return f"{system}, {fleet.graph}, {fleet.num_peers}, {fleet.size}"


def cases_of(systems: Sequence[str], settings: Settings) -> dict[str, Case]:
    """By fleet, so that what is compared is measured close together."""
    cases: dict[str, Case] = {}
    if "virtual" in systems:
        for exchange, sizes in settings.virtual_fleets.items():
            for num_peers in sizes:
                cases[virtual_name(exchange, num_peers)] = virtual_case(exchange, num_peers, settings)
    for fleet in settings.live_fleets:
        for system in LIVE:
            if system in systems and (system != "hivemind" or fleet.graph == "full"):
                cases[live_name(system, fleet)] = live_case(system, fleet, settings)
    return cases


def virtual_case(exchange: str, num_peers: int, settings: Settings) -> Case:
    """One exchange among so many peers on virtual time."""
    models_per_epoch = num_peers * {"ring": min(2, num_peers - 1), "full": num_peers - 1, "push-sum": 1}[exchange]
    num_epochs = 1 + max(2, settings.num_virtual_models // models_per_epoch)

    def case(repeat: int) -> dict[str, float]:
        return own_virtual_gossip.measure_virtual_epochs(exchange=exchange, num_peers=num_peers, num_epochs=num_epochs)

    return case


def live_case(system: str, fleet: Fleet, settings: Settings) -> Case:
    """One system with one fleet, in fresh processes."""
    widths, num_epochs = SIZES[fleet.size], settings.num_live_epochs[fleet.size]

    def case(repeat: int) -> dict[str, float]:
        if system == "hivemind":
            _, *seconds = hivemind.measure_rounds(
                num_parameters=num_parameters(widths), num_peers=fleet.num_peers, num_rounds=num_epochs
            )
            return {SECONDS: sum(seconds) / len(seconds)}
        setup = {"widths": widths, "graph": fleet.graph, "num_peers": fleet.num_peers, "num_epochs": num_epochs}
        if system == "paceline":
            return own_gossip.measure_epochs(**setup)
        return raw_gossip.measure_epochs(**setup, is_mixed=system == "mixing-sockets")

    return case


def targets_of(settings: Settings) -> list[Target]:
    """The cost of a model does not grow with the fleet; live peers cost little more than what they send."""
    targets = []
    for exchange, sizes in settings.virtual_fleets.items():
        largest = virtual_name(exchange, max(sizes))
        text = f"real ms per model, {largest} / 8 peers"
        targets.append(Target(text, largest, (COST,), (virtual_name(exchange, 8),), 1.2, True))
    for other, limit in (("sockets", 3.0), ("mixing-sockets", 2.0), ("hivemind", 1.0)):
        for fleet in settings.live_fleets:
            if other != "hivemind" or fleet.graph == "full":
                text = f"s/epoch, {fleet.graph} of {fleet.num_peers}, {fleet.size}, paceline / {other}"
                references = (live_name(other, fleet),)
                targets.append(Target(text, live_name("paceline", fleet), (SECONDS,), references, limit, True))
    return targets


def page_of(measurements: Measurements) -> Page:
    """The table."""
    return page_of_medians(
        measurements,
        setting="loopback or virtual time, no training",
        system="System, exchange, peers, parameters",
        columns={
            SECONDS: "s/epoch",
            COST: "ms per model",
            VIRTUAL_SECONDS: "virtual s/epoch",
            MODELS: "models per peer and epoch",
            MEGABYTES: "MB per peer and epoch",
            OTHER_KILOBYTES: "of them no model, kB",
        },
    )


if __name__ == "__main__":
    command = commandline.Command("gossip", __doc__, SYSTEMS, PACKAGES, hivemind.versions)
    command.run((Settings(), QUICK), commandline.interleaved(cases_of), page_of, targets_of)
