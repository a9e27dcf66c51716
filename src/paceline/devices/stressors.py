"""Stressors: loads that keep a device busy beside its learner.

After the thesis on Axon, §4.3.1: another training is the repeated product of two 900 × 900 matrices, another download
that of a 900 × 900 matrix.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import ClassVar, TypeAlias

import numpy as np

from paceline.events import Phase

Fetch: TypeAlias = Callable[[], Awaitable[object]]
"""Downloads a matrix of `MATRIX_SIZE` rows and columns from the orchestrator; it may fail, and may be cancelled."""

MATRIX_SIZE = 900
_SLAB_ROWS = 100  # of a product at a time, so that it can be stopped halfway
_PAUSE_SECONDS = 0.2  # after a download that failed

_log = logging.getLogger(__name__)


class Stressor:
    """Contends with a learner for its device, from `start` to `stop`; this base class leaves the device alone.

    All methods are called on the learner's event loop. Starting twice, or stopping what does not run, does nothing.

    Attributes:
        phases: phases of the learner in which to run.
    """

    phases: ClassVar[frozenset[Phase]] = frozenset()

    def __init__(self) -> None:
        self._cancel: Callable[[], object] | None = None  # while it runs

    def start(self) -> None:
        """Begin; returns at once."""
        if self._cancel is None:
            self._cancel = self._begin()

    def stop(self) -> None:
        """End; returns at once, and what is under way ends within moments."""
        if self._cancel is not None:
            self._cancel()
            self._cancel = None

    async def aclose(self) -> None:
        """Stop, and wait until all has ended; if the wait is cancelled, it ends all the same."""
        self.stop()

    def _begin(self) -> Callable[[], object]:
        """Begin to contend, and return how to end it."""
        return lambda: None


class ComputeStressor(Stressor):
    """Multiplies two matrices repeatedly, in a thread, while the learner trains.

    NumPy releases the interpreter meanwhile, and works on as many cores as its BLAS is allowed (OMP_NUM_THREADS).
    """

    phases = frozenset({"benchmark", "train"})

    def __init__(self) -> None:
        super().__init__()
        chance = np.random.default_rng(0)
        self._left, self._right = (chance.random((MATRIX_SIZE, MATRIX_SIZE), dtype=np.float32) for _ in range(2))
        self._product = np.empty_like(self._left)
        self._threads: list[threading.Thread] = []  # that may not have ended

    def _begin(self) -> Callable[[], object]:
        is_cancelled = threading.Event()
        # A daemon thread, so that a process that fails can end.
        thread = threading.Thread(target=self._multiply, args=(is_cancelled,), name="stressor", daemon=True)
        self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]
        thread.start()
        return is_cancelled.set

    async def aclose(self) -> None:
        self.stop()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    def _multiply(self, is_cancelled: threading.Event) -> None:
        while True:
            for first in range(0, MATRIX_SIZE, _SLAB_ROWS):
                if is_cancelled.is_set():
                    return
                rows = slice(first, first + _SLAB_ROWS)
                np.matmul(self._left[rows], self._right, out=self._product[rows])


class TransferStressor(Stressor):
    """Downloads a matrix repeatedly, in a task, while the learner downloads.

    Args:
        fetch: the download; if it fails, it is tried again after a pause.
    """

    phases = frozenset({"benchmark", "download"})

    def __init__(self, fetch: Fetch) -> None:
        super().__init__()
        self._fetch = fetch
        self._running: asyncio.Task[None] | None = None  # the last that was started
        self._tasks: set[asyncio.Task[None]] = set()  # that have not ended, cancelled ones included

    def _begin(self) -> Callable[[], object]:
        self._running = asyncio.get_running_loop().create_task(self._keep_fetching())
        self._tasks.add(self._running)
        self._running.add_done_callback(self._tasks.discard)
        return self._running.cancel

    async def aclose(self) -> None:
        self.stop()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _keep_fetching(self) -> None:
        # Also ends if a fetch has swallowed the cancellation.
        while self._cancel is not None and self._running is asyncio.current_task():
            try:
                await self._fetch()
                await asyncio.sleep(0)  # a fetch that never waits would block the loop
            except Exception:  # a run does not fail because its disturbance did
                _log.debug("a download beside the learner failed", exc_info=True)
                await asyncio.sleep(_PAUSE_SECONDS)


STRESSORS: dict[str, Callable[[Fetch], Stressor]] = {
    "idle": lambda fetch: Stressor(),
    "training": lambda fetch: ComputeStressor(),
    "downloading": TransferStressor,
}
"""Stressors, by the name of the device's state."""
