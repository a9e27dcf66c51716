"""Stressors: what keeps a device busy beside its learner, for as long as it is told to.

After the thesis on Axon, §4.3.1: another training is the product of two 900 × 900 matrices, another download that of a
900 × 900 matrix, over and over.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import ClassVar, TypeAlias

import numpy as np

from paceline.events import Phase

Fetch: TypeAlias = Callable[[], Awaitable[object]]
"""Downloads a matrix of `MATRIX_SIZE` rows and columns from the orchestrator; it may fail, and may be cancelled."""

MATRIX_SIZE = 900
_SLAB_ROWS = 100  # of a product at a time, so that it can be left in the middle
_PAUSE_SECONDS = 0.2  # after a download that failed

_log = logging.getLogger(__name__)


class Stressor(ABC):
    """Contends with a learner for its device, from `start` to `stop`.

    All of it is called on the learner's event loop. Starting what runs, and stopping what does not, does nothing.

    Attributes:
        phases: of the learner, that it is meant to disturb.
    """

    phases: ClassVar[frozenset[Phase]]

    @abstractmethod
    def start(self) -> None:
        """Begin; returns at once."""

    @abstractmethod
    def stop(self) -> None:
        """End; returns at once, and what is under way ends within moments."""

    @abstractmethod
    async def aclose(self) -> None:
        """Stop, and wait until all has ended; if the wait is cancelled, it ends all the same."""


class NoStressor(Stressor):
    """Leaves the device to the learner."""

    phases = frozenset()

    def start(self) -> None:
        return

    def stop(self) -> None:
        return

    async def aclose(self) -> None:
        return


class ComputeStressor(Stressor):
    """Multiplies two matrices, over and over, in a thread, while the learner trains.

    NumPy releases the interpreter meanwhile, and works on as many cores as its BLAS is allowed (OMP_NUM_THREADS).
    """

    phases = frozenset({"benchmark", "train"})

    def __init__(self) -> None:
        chance = np.random.default_rng(0)
        self._left, self._right = (chance.random((MATRIX_SIZE, MATRIX_SIZE), dtype=np.float32) for _ in range(2))
        self._product = np.empty_like(self._left)
        self._is_unwanted: threading.Event | None = None  # of the thread that runs, if any
        self._threads: list[threading.Thread] = []  # that may not have ended

    def start(self) -> None:
        if self._is_unwanted is not None:
            return
        self._is_unwanted = threading.Event()
        # A daemon, because a process that fails must not go on for the sake of what disturbs it.
        thread = threading.Thread(target=self._multiply, args=(self._is_unwanted,), name="stressor", daemon=True)
        self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]
        thread.start()

    def stop(self) -> None:
        if self._is_unwanted is not None:
            self._is_unwanted.set()
            self._is_unwanted = None

    async def aclose(self) -> None:
        self.stop()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    def _multiply(self, is_unwanted: threading.Event) -> None:
        while True:
            for first in range(0, MATRIX_SIZE, _SLAB_ROWS):
                if is_unwanted.is_set():
                    return
                rows = slice(first, first + _SLAB_ROWS)
                np.matmul(self._left[rows], self._right, out=self._product[rows])


class TransferStressor(Stressor):
    """Downloads a matrix, over and over, in a task, while the learner downloads.

    Args:
        fetch: what it does over and over; when that fails, it tries again after a pause.
    """

    phases = frozenset({"benchmark", "download"})

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # that have not ended: that one, and those that were cancelled

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._keep_fetching())
            self._tasks.add(self._task)
            self._task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def aclose(self) -> None:
        self.stop()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _keep_fetching(self) -> None:
        while self._task is asyncio.current_task():  # also ends if whoever fetches took no notice of being cancelled
            try:
                await self._fetch()
                await asyncio.sleep(0)  # one that never waits would stop the loop
            except Exception:  # whatever it is, a run does not fail because a disturbance did
                _log.debug("a download beside the learner failed", exc_info=True)
                await asyncio.sleep(_PAUSE_SECONDS)


STRESSORS: dict[str, Callable[[Fetch], Stressor]] = {
    "idle": lambda fetch: NoStressor(),
    "training": lambda fetch: ComputeStressor(),
    "downloading": TransferStressor,
}
"""By the name of the state that a device is in."""
