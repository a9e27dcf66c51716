"""Times steps of a model that is split over sources and a trunk: `python benchmarks/split.py` (half an hour).

All systems train the same parts on the same minibatches, and must come to the same loss. `one-process` does all parts'
work one after the other, with nothing between them. `paceline` are a trunk and sources, each a process, over HTTP on
loopback; `torch-rpc` sends the same values by torch.distributed.rpc, and `sockets` over bare ones. `virtual` is
Paceline on virtual time, in one process: its seconds are real ones.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import commandline
import steps
from repeats import Case, MeasurementFailed, Measurements
from report import Page, page_of_medians
from split_work import tensor_bytes
from steps import COST, CPU, KILOBYTES, LOSS, RATE, TENSOR_KILOBYTES, VIRTUAL_SECONDS
from targets import Target

MODULES = {
    "one-process": "peers.one_process",
    "sockets": "peers.raw_split",
    "torch-rpc": "peers.torch_rpc",
    "paceline": "own_split",
    "virtual": "own_virtual_split",
}
PACKAGES = ("paceline", "numpy", "torch", "msgspec", "uvloop", "httptools")


@dataclass(frozen=True)
class Fleet:
    """What is split, and over how many sources; other ways of sending are Paceline's alone."""

    work: str
    num_sources: int
    depth: int = 1
    bits: int = 32

    def __str__(self) -> str:
        """As it stands in tables, targets and JSON."""
        ways = [f"depth {self.depth}"] * (self.depth > 1) + [f"{self.bits} bits"] * (self.bits < 32)
        return ", ".join([self.work, str(self.num_sources), *ways])

    @property
    def is_plain(self) -> bool:
        """Whether it learns as one process would."""
        return self.depth == 1 and self.bits == 32


def _ways(work: str, num_sources: int) -> tuple[Fleet, ...]:
    return tuple(Fleet(work, num_sources, depth, bits) for depth, bits in ((1, 8), (2, 32), (4, 32)))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much is measured. The first half of the steps of each run is left out."""

    live_fleets: tuple[Fleet, ...] = (
        *(Fleet("tiny", num_sources) for num_sources in (2, 5, 10)),
        *(Fleet("three-nn", num_sources) for num_sources in (2, 5, 10)),
        *_ways("three-nn", 5),
        *(Fleet("leaf-cnn", num_sources) for num_sources in (2, 5)),
        *_ways("leaf-cnn", 5),
    )
    virtual_fleets: tuple[Fleet, ...] = (
        *(Fleet("tiny", num_sources) for num_sources in (2, 5, 10, 20)),
        *(Fleet("three-nn", num_sources) for num_sources in (2, 5, 10, 20)),
        *_ways("three-nn", 5),
    )
    num_steps: Mapping[str, int] = field(default_factory=lambda: {"tiny": 200, "three-nn": 60, "leaf-cnn": 12})
    num_repeats: int = 3


QUICK = Settings(
    live_fleets=(Fleet("tiny", 2), Fleet("tiny", 2, depth=2, bits=8)),
    virtual_fleets=(Fleet("tiny", 2),),
    num_steps={"tiny": 5},
    num_repeats=1,
)
"""A size for tests: shows that all of it runs, says little about speed."""


def name_of(system: str, fleet: Fleet) -> str:
    """As it stands in tables, targets and JSON."""
    return f"{system}, {fleet}"


def cases_of(systems: Sequence[str], settings: Settings) -> dict[str, Case]:
    """By fleet, so that what is compared is measured close together."""
    cases: dict[str, Case] = {}
    losses: dict[Fleet, float] = {}
    for fleet in dict.fromkeys((*settings.live_fleets, *settings.virtual_fleets)):
        for system, module in MODULES.items():
            is_there = fleet in settings.virtual_fleets if system == "virtual" else fleet in settings.live_fleets
            is_there |= system == "one-process" and fleet.is_plain  # beside both
            if system in systems and is_there and (fleet.is_plain or system in ("paceline", "virtual")):
                cases[name_of(system, fleet)] = case_of(module, fleet, settings, losses)
    return cases


def case_of(module: str, fleet: Fleet, settings: Settings, losses: dict[Fleet, float]) -> Case:
    """One system with one fleet, in fresh processes.

    Args:
        losses: that the first system to train a fleet came to; the others must, too.
    """
    setup = {**dataclasses.asdict(fleet), "num_steps": settings.num_steps[fleet.work]}

    def case(repeat: int) -> dict[str, float]:
        found = steps.measure(module, setup)
        expected = losses.setdefault(fleet, found[LOSS])
        if fleet.is_plain and not math.isclose(found[LOSS], expected, rel_tol=1e-4):
            raise MeasurementFailed(
                f"the loss is {found[LOSS]}, and that of others {expected}: not the same is trained"
            )
        return {**found, TENSOR_KILOBYTES: tensor_bytes(fleet.work, fleet.bits) / 1e3}

    return case


def targets_of(settings: Settings) -> list[Target]:
    """Little more than sockets where there is work to do, no more than torch's RPC, and no growth with the fleet."""
    targets = []
    for fleet in (fleet for fleet in settings.live_fleets if fleet.is_plain):
        own = name_of("paceline", fleet)
        limits = {"torch-rpc": 1.0} if fleet.work == "tiny" else {"torch-rpc": 1.0, "sockets": 1.5}
        for other, limit in limits.items():
            references = (name_of(other, fleet),)
            text = f"{fleet}, paceline / {other}"
            targets.append(Target(f"steps/s, {text}", own, (RATE,), references, round(1 / limit, 2)))
            targets.append(Target(f"CPU ms per step, {text}", own, (CPU,), references, limit, True))
        if fleet.work != "tiny":
            references = (name_of("sockets", fleet),)
            targets.append(Target(f"bytes, {fleet}, paceline / sockets", own, (KILOBYTES,), references, 1.01, True))
    for work in dict.fromkeys(fleet.work for fleet in settings.virtual_fleets):
        plain = [fleet for fleet in settings.virtual_fleets if fleet.work == work and fleet.is_plain]
        most, least = (name_of("virtual", fleet) for fleet in (plain[-1], plain[0]))
        text = f"real ms per source and step, {most} / {plain[0].num_sources} sources"
        targets.append(Target(text, most, (COST,), (least,), 1.2, True))
    return targets


def page_of(measurements: Measurements) -> Page:
    """The table."""
    return page_of_medians(
        measurements,
        setting="loopback or virtual time, one thread per process",
        system="System, model, sources",
        columns={
            RATE: "steps/s",
            COST: "ms per source and step",
            CPU: "CPU ms per step, all processes",
            KILOBYTES: "kB per source and step",
            TENSOR_KILOBYTES: "of them tensors",
            VIRTUAL_SECONDS: "virtual s/step",
        },
    )


if __name__ == "__main__":
    command = commandline.Command("split", __doc__, MODULES, PACKAGES)
    command.run((Settings(), QUICK), commandline.interleaved(cases_of), page_of, targets_of)
