"""What it costs a run to be watched: `python benchmarks/viewers.py` (six minutes).

A thousand virtual devices in this process, paced to ten rounds a minute; the page in its process; a browser and
nineteen further readers of its stream. Blocks of rounds that are watched and of rounds that are not take turns.
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

import commandline
import processes
from paceline import Job, VirtualDevice, VirtualFleet, train
from paceline.events import Event
from paceline.report.serving.process import page_beside
from paceline.topologies.parallel.events import RoundClosed
from repeats import Case, MeasurementFailed, Measurements
from report import Page, page_of_medians

SLOWER, BROWSER, PAGE, FIRST_MB, LAST_MB, ROUND = "watched_over_not", "browser_busy", "page_busy", "mb", "last_mb", "ms"
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How many devices and viewers, and how long."""

    num_devices: int = 1000
    num_viewers: int = 20
    num_blocks: int = 6
    rounds_per_block: int = 8
    round_seconds: float = 6.0
    num_repeats: int = 1


QUICK = Settings(num_devices=20, num_viewers=3, num_blocks=2, rounds_per_block=2, round_seconds=2.0)
"""A size for tests: shows that all of it runs."""


class Watched:
    """Paces a run, and has it watched in every other block of rounds, from the first on."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._settings, self._folder = settings, folder
        self._viewing: contextlib.ExitStack | None = None
        self._began = 0.0
        self._number = 0
        self.seconds: dict[bool, list[float]] = {True: [], False: []}
        self.browser_busy: list[float] = []
        self.page_busy: list[float] = []
        self.page_mb: list[float] = []

    def __call__(self, event: Event) -> None:
        """Take note of a round that closed, and wait for the moment of the next one."""
        if not isinstance(event, RoundClosed):
            return
        took, self._number = time.monotonic() - self._began, self._number + 1
        is_watched = self._viewing is not None
        place = self._number % self._settings.rounds_per_block
        if self._began and place:  # the first of a block also starts or ends what watches
            self.seconds[is_watched].append(took)
        if not place:
            self._turn(is_on=not is_watched)
        time.sleep(max(self._settings.round_seconds - took, 0.0))
        self._began = time.monotonic()

    def _turn(self, *, is_on: bool) -> None:
        if self._viewing is not None:
            self._viewing.close()
            self._viewing = None
        if is_on:
            self._viewing = contextlib.ExitStack()
            self._viewing.enter_context(self._watching())

    def end(self) -> None:
        """Have nobody watch any more."""
        self._turn(is_on=False)

    @contextlib.contextmanager
    def _watching(self) -> Iterator[None]:
        ready, urls = threading.Event(), list[str]()

        def announce(url: str) -> None:
            urls.append(url)
            ready.set()

        before = set(psutil.Process().children())
        with page_beside(self._folder, 0, announce), contextlib.ExitStack() as stack:
            (page,) = set(psutil.Process().children()) - before
            if not ready.wait(60):
                raise MeasurementFailed("the page did not come up")
            readers = [str(self._settings.num_viewers - 1), f"{urls[0]}/page/events"]
            stack.enter_context(processes.child("viewers", "read", *readers))
            options = webdriver.ChromeOptions()
            for flag in _FLAGS:
                options.add_argument(flag)
            options.binary_location = shutil.which("chromium") or ""
            browser = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
            stack.callback(browser.quit)
            browser.get(urls[0])
            browser.execute_cdp_cmd("Performance.enable", {})
            tasks, cpu, began = _task_seconds(browser), _cpu_seconds(page), time.monotonic()
            yield
            seconds = time.monotonic() - began
            self.browser_busy.append((_task_seconds(browser) - tasks) / seconds)
            self.page_busy.append((_cpu_seconds(page) - cpu) / seconds)
            self.page_mb.append(page.memory_info().rss / 1e6)


def _task_seconds(browser: webdriver.Chrome) -> float:
    """Seconds that the main thread of the page has worked."""
    metrics = browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))


def _cpu_seconds(process: psutil.Process) -> float:
    used = process.cpu_times()
    return float(used.user + used.system)


def read(num_readers: int, url: str) -> None:
    """Read a stream so many times at once, until the parent ends."""
    processes.exit_with_parent()
    for _ in range(num_readers):
        subprocess.Popen(["curl", "--silent", "--no-buffer", url], stdout=subprocess.DEVNULL)
    threading.Event().wait()


def cases_of(systems: Sequence[str], settings: Settings) -> dict[str, Case]:
    """The one case there is."""
    return {name: lambda repeat: _measure(settings) for name in systems}


def _measure(settings: Settings) -> dict[str, float]:
    speed = 84 / settings.round_seconds  # four shards in three quarters of a round
    device = VirtualDevice(name="pi", count=settings.num_devices, samples_per_second=speed, max_shards=4)
    fleet = VirtualFleet([device], is_time_only=True)
    rounds = settings.num_blocks * settings.rounds_per_block + 1
    data: dict[str, Any] = {"name": "digits", "shard_size": 16}
    job = Job(rounds=rounds, deadline_seconds=settings.round_seconds, min_learners=settings.num_devices, data=data)
    with tempfile.TemporaryDirectory() as folder:
        watched = Watched(settings, Path(folder) / "run")
        try:
            train(job, fleet, folder=Path(folder) / "run", callbacks=[watched], progress=False)
        finally:
            watched.end()
    return {
        ROUND: 1000 * statistics.median(watched.seconds[False]),
        SLOWER: statistics.median(watched.seconds[True]) / statistics.median(watched.seconds[False]),
        BROWSER: statistics.median(watched.browser_busy),
        PAGE: statistics.median(watched.page_busy),
        FIRST_MB: watched.page_mb[0],
        LAST_MB: watched.page_mb[-1],
    }


def page_of(measurements: Measurements) -> Page:
    """The table."""
    return page_of_medians(
        measurements,
        setting="virtual devices without gradients, ten rounds a minute, a browser and nineteen other readers",
        system="devices",
        columns={
            ROUND: "a round's work, ms",
            SLOWER: "watched / not watched",
            BROWSER: "browser's main thread busy",
            PAGE: "page's process busy",
            FIRST_MB: "its MB, first block",
            LAST_MB: "its MB, last block",
        },
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["read"]:
        read(int(sys.argv[2]), sys.argv[3])
    command = commandline.Command("viewers", __doc__, ["1000 devices"], ("paceline", "selenium"))
    command.run((Settings(), QUICK), commandline.interleaved(cases_of), page_of)
