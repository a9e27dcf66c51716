"""How far predicted download times are off over the size of the benchmark, on links that the testbed emulates."""

from __future__ import annotations

import contextlib
import math
import random
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from paceline.fleets.testbed import TestbedDevice, network, tools
from paceline.fleets.testbed.testbed import build_testbed
from reproduction import About, Row
from reproduction.companions import started
from reproduction.rows import where

ABOUT = About(
    figure="Mays, Fig. 3.3",
    claim="The more shards are downloaded to measure, the better a download is predicted: to 10 % wired, 8 % on WiFi.",
    duration="15 minutes",
    num_seeds=10,
)
FOLDER = Path(__file__).parent
SIZES, QUICK_SIZES = (2, 4, 6, 8, 10), (2, 10)
SHARDS, QUICK_SHARDS = 60, 6
STEP_SECONDS = 0.1  # between changes of a link's rate


@dataclass(frozen=True, kw_only=True)
class Link:
    """An emulated link.

    Attributes:
        ratios: what is left of its rate, step by step; None if it is steady.
    """

    mbit: float
    latency_ms: float
    ratios: Callable[[random.Random], Iterator[float]] | None = None


def shared(chance: random.Random) -> Iterator[float]:
    """Other traffic takes half of the link, for a second on average, then leaves it for as long."""
    ratio = 1.0
    while True:
        yield ratio
        if chance.random() < STEP_SECONDS / 1.0:
            ratio = 1.5 - ratio


def fading(chance: random.Random) -> Iterator[float]:
    """Wanders around 1 by 30 % (standard deviation of the logarithm), and forgets where it was in half a second."""
    kept = math.exp(-STEP_SECONDS / 0.5)
    level = chance.gauss(0, 0.3)
    while True:
        yield math.exp(level)
        level = kept * level + chance.gauss(0, 0.3 * math.sqrt(1 - kept**2))


LINKS = {
    "wired": Link(mbit=100, latency_ms=1),
    "wired, shared": Link(mbit=100, latency_ms=1, ratios=shared),
    "wifi": Link(mbit=30, latency_ms=4, ratios=fading),
}
QUICK_LINKS = ("wired", "wifi")


def run(seed: int, *, is_quick: bool) -> Iterator[Row]:
    """A row per link, size of the benchmark and way to predict; one link after the other."""
    tools.check()
    chance, token = random.Random(seed), secrets.token_urlsafe(16)
    links = {name: link for name, link in LINKS.items() if not is_quick or name in QUICK_LINKS}
    devices = [TestbedDevice(name=f"device{number}", down_mbit=link.mbit) for number, link in enumerate(links.values())]
    with build_testbed(devices) as place, contextlib.ExitStack() as stack:
        orchestrator = stack.enter_context(started(FOLDER / "orchestrator.py"))
        url = orchestrator.ask(host=place.address, token=token)["url"]
        prefixes = [place.prefix(number) for number in range(1, len(devices) + 1)]
        programs = [stack.enter_context(started(FOLDER / "device.py", prefix=prefix)) for prefix in prefixes]
        for number, (name, link) in enumerate(links.items(), 1):
            with _varied(network.place_of(place.number, number), link, chance):
                for size in QUICK_SIZES if is_quick else SIZES:
                    found = programs[number - 1].ask(
                        num_benchmark=size,
                        num_shards=QUICK_SHARDS if is_quick else SHARDS,
                        url=url,
                        token=token,
                        latency_ms=link.latency_ms,
                    )
                    for way in ("fitted", "plain"):
                        yield {
                            "link": name,
                            "size": size,
                            "way": way,
                            "predicted_seconds": round(found[way], 4),
                            "seconds": round(found["seconds"], 4),
                            "off": round(100 * (found[way] / found["seconds"] - 1), 2),
                        }


@contextlib.contextmanager
def _varied(place: str, link: Link, chance: random.Random) -> Iterator[None]:
    """Have a link's rate vary while the block runs."""
    if link.ratios is None:
        yield
        return
    is_over = threading.Event()

    def vary(ratios: Iterator[float]) -> None:
        for ratio in ratios:
            rate = f"rate {round(ratio * link.mbit * 1e6)}bit"
            tools.batch("tc", [f"qdisc change dev {place} root tbf {rate} burst 30000 limit 1000000"])
            if is_over.wait(STEP_SECONDS):
                return

    with ThreadPoolExecutor(1) as pool:
        varying = pool.submit(vary, link.ratios(random.Random(chance.random())))
        try:
            yield
        finally:
            is_over.set()
        varying.result()


def measures(rows: Sequence[Row]) -> dict[str, float]:
    """What the thesis says of the figure, for our way to fit and for its own."""
    found = {}
    for link in dict.fromkeys(row["link"] for row in rows):
        for way in ("fitted", "plain"):
            errors = {size: _error(rows, link, way, size) for size in (SIZES[0], SIZES[-1])}
            found |= {f"{way}, {link}: error from {size} shards": error for size, error in errors.items()}
            found[f"{way}, {link}: error from {SIZES[0]} shards, more than from {SIZES[-1]} by"] = (
                errors[SIZES[0]] - errors[SIZES[-1]]
            )
        offs = [row["off"] for row in where(rows, link=link, way="plain", size=SIZES[0])]
        found[f"plain, {link}: bias from {SIZES[0]} shards"] = sum(offs) / len(offs)
    return found


def _error(rows: Sequence[Row], link: str, way: str, size: int) -> float:
    """The mean error, in per cent."""
    errors = [abs(row["off"]) for row in where(rows, link=link, way=way, size=size)]
    return sum(errors) / len(errors)
