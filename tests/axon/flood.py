"""Floods workers that may have few files open with malformed and unauthenticated requests, beside honest callers.

    python -m tests.axon.flood --requests 1000000 [--seed N] [--seconds-limit N]

Ends with status 0 if nothing was executed, every answer was a refusal, memory stayed bounded, and no call of the honest
callers failed. Prints what was sent and answered, memory, and how long honest calls took before and meanwhile.
"""

import argparse
import asyncio
import collections
import contextlib
import json
import random
import re
import resource
import ssl
import statistics
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from paceline import axon
from paceline.axon import loops
from tests.axon.flood_requests import make_kinds

TOKEN = "a-token-that-nobody-guesses"
LIMIT = 1024
MAX_GROWTH_BYTES = 256 << 20
_NUM_AT_ONCE = 150  # connections that wait for an answer
_MAX_HELD = 1200  # connections that are held open
_NUM_PIPELINES = 8
_PIPELINED = 50
_PATIENCE_SECONDS = 3.0
_TRICKLE_SECONDS = 0.5
_WARM_UP_SECONDS = 3.0
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
_WORKERS = {"plain": (TOKEN,), "tls": (TOKEN, "tls"), "open": ("",)}


@dataclass
class Result:
    """What happened; `problems` is empty if all is well."""

    seed: int
    sent: Counter = field(default_factory=Counter)
    answers: dict = field(default_factory=lambda: collections.defaultdict(Counter))
    problems: list = field(default_factory=list)
    seconds: float = 0.0
    rss_bytes: dict = field(default_factory=dict)  # of each worker: at the start, at most, at the end
    num_calls: dict = field(default_factory=dict)  # of each honest caller, in the flood
    latencies: dict = field(default_factory=dict)  # median, 99th percentile, maximum: before, and in the flood

    def table(self):
        """Return the figures as Markdown."""
        rows = ["| kind | sent | answered |", "|---|---:|---|"]
        for kind, count in self.sent.items():
            answers = ", ".join(f"{count:,} × {status}" for status, count in sorted(self.answers[kind].items()))
            rows.append(f"| {kind} | {count:,} | {answers or 'nothing'} |")
        rows.append(f"| all, in {self.seconds:.0f} s | {self.sent.total():,} | |")
        rows += ["", "| worker | MB before | most | after |", "|---|---:|---:|---:|"]
        for name, sizes in self.rss_bytes.items():
            rows.append(f"| {name} | {' | '.join(str(size >> 20) for size in sizes)} |")
        rows += [
            "",
            "| honest calls to, over connections | count | before: p50 ms | p99 | most | meanwhile: p50 | p99 | most |",
        ]
        rows.append("|---|---:|---:|---:|---:|---:|---:|---:|")
        for name, figures in self.latencies.items():
            rows.append(f"| {name} | {self.num_calls[name]:,} | {' | '.join(f'{one:.1f}' for one in figures)} |")
        verdict = "no worker took harm" if not self.problems else f"{len(self.problems)} problems"
        return "\n".join([*rows, "", *(f"PROBLEM: {one}" for one in self.problems[:30]), verdict])


class Process:
    """A module of this folder in a process of its own."""

    def __init__(self, module, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"tests.axon.{module}", *arguments],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._status = psutil.Process(self.process.pid)

    @property
    def rss_bytes(self):
        return self._status.memory_info().rss

    async def ask(self, line=""):
        """Send a line, if one is given, and return the next one."""
        if line:
            self.process.stdin.write(line)
            self.process.stdin.flush()
        return await asyncio.to_thread(self.process.stdout.readline)

    def stop(self):
        self.process.stdin.close()
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
        finally:
            self.process.stdout.close()


class Victim:
    """A worker, the honest caller that it has, and what becomes of both."""

    def __init__(self, name):
        self.name = name
        self._worker = Process("limited_worker", str(LIMIT), str(LIMIT), *_WORKERS[name])
        self._caller = None

    async def start(self):
        port, _, fingerprint = (await self._worker.ask()).strip().partition(" ")
        self.port = int(port)
        url = f"{'https' if fingerprint else 'http'}://127.0.0.1:{port}"
        token = _WORKERS[self.name][0]
        self._remote = axon.connect(url, token=token or None, fingerprint=fingerprint or None)
        self._caller = Process("flood_caller", url, token, *([fingerprint] if fingerprint else []))
        await self._remote.double.coro(1)
        self._rss_bytes = [self._worker.rss_bytes] * 3

    def look(self):
        size = self._worker.rss_bytes
        self._rss_bytes[1:] = max(self._rss_bytes[1], size), size

    async def measure_calls(self, result):
        """Note how many honest calls there were since the last time, and how long they took."""
        figures = json.loads(await self._caller.ask("now\n"))
        result.problems += [f"an honest call at {self.name} failed: {one}" for one in figures["failures"]]
        for how in ("kept", "new"):
            taken, name = sorted(figures[how]) or [0.0], f"{self.name}, {how}"
            latencies = statistics.median(taken), taken[int(0.99 * len(taken))], taken[-1]
            result.num_calls[name] = len(figures[how])
            result.latencies[name] = (*result.latencies.get(name, ()), *latencies)

    async def examine(self, result):
        self.look()
        result.rss_bytes[self.name] = tuple(self._rss_bytes)
        if self._rss_bytes[1] - self._rss_bytes[0] > MAX_GROWTH_BYTES:
            result.problems.append(f"the {self.name} worker grew by more than {MAX_GROWTH_BYTES >> 20} MB")
        num_executed = await self._remote.count_trespasses.coro()
        if num_executed:
            result.problems.append(f"{num_executed} requests were executed at {self.name}")

    def stop(self, result):
        statuses = [process.stop() for process in (self._caller, self._worker) if process is not None]
        if any(statuses):
            result.problems.append(f"caller and worker {self.name} ended with {statuses}")


class Shot(asyncio.Protocol):
    """Sends bytes when connected, and counts what comes back."""

    def __init__(self, attack, kind, data, count=1):
        self._attack, self._kind, self._data, self._count = attack, kind, data, count
        self._tail, self._num_answers = b"", 0
        self.over = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.transport = transport
        transport.write(self._data)

    def data_received(self, data):
        received = self._tail + data
        statuses = [int(status) for status in _STATUS.findall(received)]
        self._attack.count_answers(self._kind, statuses)
        self._num_answers += len(statuses)
        self._tail = received[-12:] if not _STATUS.search(received[-13:]) else b""
        if self._num_answers >= self._count:
            self.end()

    def connection_lost(self, error):
        self.end()

    def end(self):
        if not self.over.done():
            self.over.set_result(self._num_answers)


class Attack:
    """Sends requests of all kinds until there were enough."""

    def __init__(self, result, victims, num_requests):
        self._result, self._loop = result, asyncio.get_running_loop()
        self._kinds = make_kinds(TOKEN, result.seed)
        self._allowed = {kind.name: {*kind.allowed, 429, 503} for kind in self._kinds}
        self._ports = {victim.name: victim.port for victim in victims}
        self._rng = random.Random(result.seed)
        self._left = {kind.name: max(1, num_requests * kind.share // 1000) for kind in self._kinds}
        self._left[self._kinds[0].name] += num_requests - sum(self._left.values())
        self._held = collections.deque()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE

    def count_answers(self, kind, statuses):
        self._result.answers[kind.name].update(statuses)
        for status in set(statuses) - self._allowed[kind.name]:
            self._result.problems.append(f"{kind.name} was answered with {status}")

    async def run(self, until):
        """Send all, or as much as there is time for."""
        once = [kind for kind in self._kinds if kind.manner != "pipeline"]
        pipelined = [kind for kind in self._kinds if kind.manner == "pipeline"]
        gunners = [self._shoot(once, until) for _ in range(_NUM_AT_ONCE)]
        gunners += [self._pipeline(kind, until) for kind in pipelined for _ in range(_NUM_PIPELINES)]
        await asyncio.gather(*gunners, self._trickle_on(until))
        while self._held:
            self._held.popleft()[0].abort()

    def _take(self, kind, count):
        taken = min(count, self._left[kind.name])
        self._left[kind.name] -= taken
        self._result.sent[kind.name] += taken
        return taken

    def _is_over(self, kinds, until):
        return self._loop.time() > until or not any(self._left[kind.name] for kind in kinds)

    async def _shoot(self, kinds, until):
        while not self._is_over(kinds, until):
            weights = [self._left[kind.name] for kind in kinds]
            kind = self._rng.choices(kinds, weights)[0]
            if not self._take(kind, 1):
                continue
            with contextlib.suppress(OSError):
                await self._shoot_one(kind, self._rng.choice(kind.samples))

    async def _shoot_one(self, kind, data):
        is_slow = kind.manner == "trickle"
        shot = await self._connect(kind, data[:1] if is_slow else data, 1)
        if kind.manner in ("hold", "trickle"):
            self._held.append((shot.transport, data[1:] if is_slow else b""))
            if len(self._held) > _MAX_HELD:
                self._held.popleft()[0].abort()
            return
        await loops.settled(shot.over, _PATIENCE_SECONDS)
        shot.transport.abort()

    async def _connect(self, kind, data, count):
        options = {"ssl": self._context, "server_hostname": "x"} if kind.manner == "handshake" else {}
        port = self._ports[kind.where]
        opening = self._loop.create_connection(lambda: Shot(self, kind, data, count), "127.0.0.1", port, **options)
        return (await asyncio.wait_for(opening, 10 * _PATIENCE_SECONDS))[1]

    async def _pipeline(self, kind, until):
        """Send malformed requests over connections that are kept: who has the token may."""
        while not self._is_over([kind], until):
            count = self._take(kind, _PIPELINED)
            shot = await self._connect(kind, b"".join(self._rng.choices(kind.samples, k=count)), count)
            await loops.settled(shot.over, 10 * _PATIENCE_SECONDS)
            shot.transport.abort()
            if not shot.over.done() or shot.over.result() != count:
                self._result.problems.append(f"{kind.name}: fewer answers than the {count} requests of a known caller")

    async def _trickle_on(self, until):
        """Send the next byte of each slow request now and then."""
        while not self._is_over(self._kinds, until):
            await asyncio.sleep(_TRICKLE_SECONDS)
            for number, (transport, rest) in enumerate(self._held):
                if rest and not transport.is_closing():
                    transport.write(rest[:1])
                    self._held[number] = (transport, rest[1:])


async def _flood(result, num_requests, seconds_limit):
    victims = [Victim(name) for name in _WORKERS]
    try:
        for victim in victims:
            await victim.start()
        await asyncio.sleep(_WARM_UP_SECONDS)
        for victim in victims:
            await victim.measure_calls(result)
        watching = asyncio.ensure_future(_watch(victims))
        started = time.monotonic()
        await Attack(result, victims, num_requests).run(asyncio.get_running_loop().time() + seconds_limit)
        result.seconds = time.monotonic() - started
        watching.cancel()
        for victim in victims:
            await victim.measure_calls(result)
            await victim.examine(result)
    finally:
        for victim in victims:
            victim.stop(result)


async def _watch(victims):
    while True:
        for victim in victims:
            victim.look()
        await asyncio.sleep(0.1)


def run(num_requests, *, seed=0, seconds_limit=1200.0):
    """Start workers and honest callers, flood them, stop them."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    result = Result(seed)
    loop = loops.new_event_loop()
    try:
        loop.run_until_complete(_flood(result, num_requests, seconds_limit))
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loops.shut_down(loop)
    if result.sent.total() < num_requests:
        result.problems.append(f"only {result.sent.total()} requests were sent in {seconds_limit:g} s")
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds-limit", type=float, default=1200.0)
    given = parser.parse_args()
    result = run(given.requests, seed=given.seed, seconds_limit=given.seconds_limit)
    print(result.table())
    return 1 if result.problems else 0


if __name__ == "__main__":
    sys.exit(main())
