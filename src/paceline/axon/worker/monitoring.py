"""What a worker counts while it serves, and shows to whoever watches it: ``/metrics`` and ``/healthz``."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from paceline.axon.messages import Reply
from paceline.axon.metrics import TEXT_TYPE, Durations, Metric, Sample, render
from paceline.axon.transports.base import Listener

HEALTH_PATH, METRICS_PATH = "/healthz", "/metrics"

MetricSource = Callable[[], Iterable[Metric]]
"""Returns figures as they are now; called on the worker's loop."""


class Monitoring:
    """Counts of a worker, and further figures of what it is part of.

    Attributes:
        sources: further figures.
        is_draining: whether what it serves is about to end, so that others should not begin to rely on it.
        calls: calls by function.
        refused: requests for which no function was run, by status.
        num_body_bytes: bytes of requests, and of replies.
        listener: what it is served by; None if it is not yet.
    """

    def __init__(self) -> None:
        self.sources: list[MetricSource] = []
        self.is_draining: Callable[[], bool] = lambda: False
        self.calls: dict[str, Calls] = {}
        self.refused: Counter[int] = Counter()
        self.num_body_bytes = [0, 0]
        self.listener: Listener | None = None

    def health(self, *, is_stopping: bool) -> Reply:
        """Say whether all is well; open to everybody, so it says no more."""
        is_well = not (is_stopping or self.is_draining())
        return Reply.json({"status": "ok" if is_well else "draining"}, 200 if is_well else 503)

    def metrics(self) -> Reply:
        """Return all figures."""
        found = itertools.chain(self._own(), _of_process(), *(source() for source in self.sources))
        return Reply(200, {"content-type": TEXT_TYPE}, [render(found)])

    def _own(self) -> Iterator[Metric]:
        took = [
            sample
            for name, calls in self.calls.items()
            for outcome, durations in (("done", calls.done), ("raised", calls.raised))
            if any(durations.counts)
            for sample in durations.samples({"call": name, "outcome": outcome})
        ]
        yield Metric("paceline_call_seconds", "histogram", "Time that calls of functions took.", took)
        running = [Sample(calls.num_running, {"call": name}) for name, calls in self.calls.items()]
        yield Metric("paceline_calls_running", "gauge", "Calls that run, or wait for a thread or process.", running)
        refused = [Sample(count, {"status": str(status)}) for status, count in sorted(self.refused.items())]
        yield Metric("paceline_refused_requests_total", "counter", "Requests for which no function was run.", refused)
        for num_bytes, way in zip(self.num_body_bytes, ("request", "reply"), strict=True):
            name, text = f"paceline_{way}_bytes_total", f"Bytes of the bodies of {way.replace('y', 'ie')}s."
            yield Metric(name, "counter", text, [Sample(num_bytes)])
        if self.listener is not None:
            yield from self.listener.metrics()


class Calls:
    """Calls of a function: those that run, and how long others took until they were done, or raised."""

    __slots__ = ("done", "num_running", "raised")

    def __init__(self) -> None:
        self.num_running = 0
        self.done, self.raised = Durations(), Durations()


class RunningCall:
    """Counts a call of a function while the block runs. Every call has one, so it does no more than that."""

    __slots__ = ("_began_at", "_calls")

    def __init__(self, monitoring: Monitoring, name: str) -> None:
        calls = monitoring.calls.get(name)
        self._calls = monitoring.calls.setdefault(name, Calls()) if calls is None else calls

    def __enter__(self) -> None:
        self._calls.num_running += 1
        self._began_at = time.perf_counter()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        calls = self._calls
        calls.num_running -= 1
        (calls.done if kind is None else calls.raised).add(time.perf_counter() - self._began_at)


def _of_process() -> Iterator[Metric]:
    """Return what Prometheus calls the standard figures of a process."""
    import psutil  # few workers are watched

    process = psutil.Process()
    with process.oneshot():
        used, memory = process.cpu_times(), process.memory_info()
        figures = {
            "process_resident_memory_bytes": ("Memory of this process.", memory.rss),
            "process_virtual_memory_bytes": ("Addresses of this process.", memory.vms),
            "process_start_time_seconds": ("Start of this process, since 1970.", process.create_time()),
            "process_threads": ("Threads of this process.", process.num_threads()),
        }
        if hasattr(process, "num_fds"):
            figures["process_open_fds"] = ("Files and connections that this process has open.", process.num_fds())
    for name, (text, value) in figures.items():
        yield Metric(name, "gauge", text, [Sample(value)])
    spent = [Sample(used.user + used.system)]
    yield Metric("process_cpu_seconds_total", "counter", "Processor time of this process.", spent)
