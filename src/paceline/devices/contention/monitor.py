"""The monitor: reads what others use of this device once a second, and tells the mean over the last minute."""

from __future__ import annotations

import collections
import logging
import threading
from types import TracebackType

from paceline.devices.contention.usage import Reader, SystemReader, Usage, usage_between

WINDOW_SECONDS = 60.0
INTERVAL_SECONDS = 1.0

_log = logging.getLogger(__name__)


class ContentionMonitor:
    """Watches what others use of this device, in a thread, from entering it as a context until leaving it.

    Args:
        read: reads the counters; by default those of this machine, less what this process and its children use.
        window_seconds: that means are taken over; right after the start, over as long as it has run.
        interval_seconds: between two readings.
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
        # A daemon, because a process that fails must not go on for the sake of what watches it.
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

    def usage(self) -> Usage:
        """What others used on average over the window, up to the last reading; nothing, before there are two."""
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
            except Exception:  # a file of the system that is gone for a moment must not end it
                _log.debug("the counters could not be read", exc_info=True)
