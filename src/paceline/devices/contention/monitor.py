"""Monitor of other processes' use of this device: reads once a second, reports the mean over the last minute."""

from __future__ import annotations

import collections
import logging
import threading
from types import TracebackType

from paceline.devices.contention.usage import ForeignUsage, Reader, SystemReader, usage_between

WINDOW_SECONDS = 60.0
INTERVAL_SECONDS = 1.0

_log = logging.getLogger(__name__)


class ContentionMonitor:
    """Watches other processes' use of this device in a thread, while used as a context.

    Args:
        read: reads the counters; by default those of this machine, less those of this process and its children.
        window_seconds: window of the means; less right after the start.
        interval_seconds: time between two readings.
    """

    def __init__(
        self,
        read: Reader | None = None,
        *,
        window_seconds: float = WINDOW_SECONDS,
        interval_seconds: float = INTERVAL_SECONDS,
    ) -> None:
        self._read = read or SystemReader()
        self._window_seconds = window_seconds
        self._interval_seconds = interval_seconds
        self._readings = collections.deque([self._read()])
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> ContentionMonitor:
        self._is_over.clear()
        # A daemon thread, so that a process that fails can end.
        self._thread = threading.Thread(target=self._watch, name="contention", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def usage(self) -> ForeignUsage:
        """Return the mean usage by others over the window, up to the last reading; none before there are two."""
        readings = tuple(self._readings)
        return usage_between(readings[0], readings[-1])

    def read(self) -> None:
        """Read the counters now; the thread does so once per interval."""
        reading, readings = self._read(), self._readings
        readings.append(reading)
        # The oldest kept is the last that is a whole window old.
        while len(readings) > 2 and readings[1].at_seconds <= reading.at_seconds - self._window_seconds:
            readings.popleft()

    def _watch(self) -> None:
        while not self._is_over.wait(self._interval_seconds):
            try:
                self.read()
            except Exception:  # a system file that is missing for a moment must not end it
                _log.debug("the counters could not be read", exc_info=True)
