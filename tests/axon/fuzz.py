"""Shoots mutated and random requests at a live worker, and checks that it takes no harm.

    python -m tests.axon.fuzz --requests 100000 [--seed N] [--seconds-limit N] [--loop asyncio]

Ends with status 0 if the worker, in the same process as ever, still answers, has not grown, has executed nothing
that was sent to it, has answered every whole request and has logged no traceback.
"""

import argparse
import asyncio
import contextlib
import itertools
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import torch

from paceline.axon import client, loops
from paceline.axon.transports import HttpTransport
from tests.axon.fuzz_requests import RequestMaker

TOKEN = "fuzz-token"
MAX_GROWTH_BYTES = 300 << 20
ANSWER_SECONDS = 20.0  # a whole request is answered within this, on a busy machine too
_PATIENCE_SECONDS = 0.05  # how long to wait for an answer that may not come
_MAX_PROBLEMS = 30
_NUM_CONNECTIONS = 48
_CHECK_EVERY = 2000
_START_SECONDS = 120.0
_STOP_SECONDS = 30.0


@dataclass
class Result:
    """What happened; `problems` is empty if all is well."""

    seed: int
    sent: Counter = field(default_factory=Counter)
    statuses: Counter = field(default_factory=Counter)
    problems: list = field(default_factory=list)
    num_connections: int = 0
    seconds: float = 0.0
    start_rss_bytes: int = 0
    peak_rss_bytes: int = 0
    exit_status: int | None = None

    def is_hopeless(self):
        """Whether so much is wrong that it is no use to go on."""
        return len(self.problems) > _MAX_PROBLEMS

    def summary(self):
        total = self.sent.total()
        return "\n".join(
            [
                f"{total} requests (seed {self.seed}) over {self.num_connections} connections in {self.seconds:.1f} s",
                "sent:     " + ", ".join(f"{kind} {count}" for kind, count in self.sent.most_common()),
                "answers:  " + ", ".join(f"{status} × {count}" for status, count in sorted(self.statuses.items())),
                f"memory:   {self.start_rss_bytes >> 20} MB at the start, {self.peak_rss_bytes >> 20} MB at most",
                *(f"PROBLEM:  {problem}" for problem in self.problems),
                "the worker took no harm" if not self.problems else f"{len(self.problems)} problems",
            ]
        )


class Target:
    """The worker process, and checks of its health."""

    def __init__(self, directory, loop, result):
        self.marker, self._stderr, self._result = directory / "marker", directory / "stderr", result
        command = [sys.executable, "-m", "tests.axon.fuzz_worker", str(self.marker), TOKEN, loop]
        with self._stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, stderr=stderr, text=True
            )
        self._status = psutil.Process(self.process.pid)
        self._noted = []
        self._num_checked = 0  # characters of the log

    async def connect(self):
        """Wait until it listens, and return the port."""
        line = await asyncio.wait_for(asyncio.to_thread(self.process.stdout.readline), _START_SECONDS)
        if not line:
            raise RuntimeError(f"the worker did not start: {self._log()[-2000:]}")
        settings = {"port": int(line), "token": TOKEN, "transport": HttpTransport(), "timeout_seconds": ANSWER_SECONDS}
        self._double = client.CoroSimplexStub("127.0.0.1", "double", **settings)
        self._echo = client.CoroSimplexStub("127.0.0.1", "echo", **settings)
        self._result.start_rss_bytes = self._result.peak_rss_bytes = self._rss_bytes()
        return int(line)

    def stop(self):
        """End it in order; its exit status, or None if it had to be killed."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None
        finally:
            self.process.stdout.close()

    async def examine(self):
        """Note what is wrong; False if it is no use to go on."""
        num_fatal = len(self._result.problems)
        if self.process.poll() is not None or not self._status.is_running():
            self._result.problems.append(f"the worker died with {self.process.poll()}: {self._log()[-2000:]}")
        else:
            sent = torch.arange(1000.0)
            try:
                if await self._double(21) != 42 or not torch.equal(await self._echo(sent), sent):
                    self._result.problems.append("an ordinary call returned something else")
            except Exception as error:
                self._result.problems.append(f"an ordinary call failed: {type(error).__name__}: {error}")
        if self.marker.exists():
            self._result.problems.append(f"code was executed: {self.marker.read_text()}")
        is_well = len(self._result.problems) == num_fatal
        if self._result.peak_rss_bytes - self._result.start_rss_bytes > MAX_GROWTH_BYTES:
            self._note("growth", f"the worker grew by more than {MAX_GROWTH_BYTES >> 20} MB")
        self.check_log()
        return is_well

    async def watch_memory(self):
        """Sample memory until cancelled: a peak between two checks counts too."""
        while True:
            self._result.peak_rss_bytes = max(self._result.peak_rss_bytes, self._rss_bytes())
            await asyncio.sleep(0.05)

    def check_log(self):
        """Note tasks that were lost, and each exception that was logged, once for each place that raised it."""
        log = self._log()[self._num_checked :]
        self._num_checked += len(log)
        for line in re.findall(r".*(?:Task was destroyed|never awaited|never retrieved).*", log):
            text = re.sub(r"0x[0-9a-f]+", "…", line)
            self._note(text, f"this was logged: {text}")
        for logged in log.split("Traceback (most recent call last):\n")[1:]:
            if re.search(r"^(During handling of|The above exception was) ", logged, re.MULTILINE):
                continue  # the cause of the one that follows
            places = re.findall(r'^  File "(.*)", line (\d+), in (.*)', logged, re.MULTILINE)[-1:]
            raised = re.search(r"^\S.*", logged, re.MULTILINE)
            text = raised[0][:300] if raised else "an unknown exception"
            self._note((text.split(":")[0], places), f"a traceback was logged: {text} at {places}")

    def _log(self):
        return self._stderr.read_text(errors="replace")

    def _rss_bytes(self):
        try:
            return self._status.memory_info().rss
        except psutil.NoSuchProcess:
            return 0

    def _note(self, key, problem):
        if key not in self._noted:
            self._noted.append(key)
            self._result.problems.append(problem)


class Gunner:
    """Sends shots over raw sockets, one after the other, and keeps each for as long as the worker does."""

    def __init__(self, port, result):
        self._port, self._result = port, result
        self._loop = asyncio.get_running_loop()
        self._reader = self._writer = None

    async def fire(self, shots, until):
        """Send shots until there are no more, or no more time."""
        try:
            for shot in shots:
                await self._fire_one(shot)
                if self._loop.time() > until or self._result.is_hopeless():
                    return
        finally:
            self._drop()

    async def _fire_one(self, shot):
        num_received = 0
        try:
            if self._writer is None:
                await self._connect()
            num_received = await self._exchange(shot)
        except (ConnectionError, asyncio.IncompleteReadError):
            self._drop()
        self._result.sent[shot.kind] += 1
        if shot.num_replies is not None and num_received < shot.num_replies:
            text = f"{num_received} answers instead of {shot.num_replies} to {shot.kind} {shot.data[:300]!r}"
            self._result.problems.append(text)
        if not shot.num_replies:
            self._drop()  # where its next request would begin is anyone's guess

    async def _exchange(self, shot):
        """Send a shot and read what comes back; the number of answers."""
        seconds = _PATIENCE_SECONDS if shot.num_replies is None else ANSWER_SECONDS
        watchdog = self._loop.call_later(seconds, self._writer.transport.abort)
        num_received = 0
        try:
            self._writer.write(shot.data)
            await self._writer.drain()
            while num_received != shot.num_replies and await self._read_reply():
                num_received += 1
        finally:
            watchdog.cancel()
        return num_received

    async def _connect(self):
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._result.num_connections += 1
        if self._result.num_connections % 2:  # every other connection ends with a reset
            connection = self._writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def _read_reply(self):
        """Read one answer; False if the connection had ended."""
        if self._reader is None:
            return False
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        status = int(head[9:12])
        if status == 100:
            return await self._read_reply()
        if b"\r\ntransfer-encoding: chunked\r\n" in head:
            while size := int(await self._reader.readuntil(b"\r\n"), 16):
                await self._reader.readexactly(size + 2)
            await self._reader.readexactly(2)
        else:
            await self._reader.readexactly(int(re.search(rb"\r\ncontent-length: (\d+)\r\n", head)[1]))
        self._result.statuses[status] += 1
        if b"\r\nconnection: close\r\n" in head:
            self._drop()
        return True

    def _drop(self):
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None


@contextlib.contextmanager
def dead_ports(count):
    """Ports of this machine that refuse connections: taken, so that nobody else can listen there."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for taken in sockets:
            taken.bind(("127.0.0.1", 0))
        yield [taken.getsockname()[1] for taken in sockets]


async def _bombard(target, result, num_requests, until):
    port = await target.connect()
    await target.examine()
    watching = asyncio.ensure_future(target.watch_memory())
    with dead_ports(4) as ports:
        shots = iter(RequestMaker(result.seed, TOKEN, str(target.marker), ports))
        for start in range(0, num_requests, _CHECK_EVERY):
            batch = itertools.islice(shots, min(_CHECK_EVERY, num_requests - start))
            await asyncio.gather(*(Gunner(port, result).fire(batch, until) for _ in range(_NUM_CONNECTIONS)))
            is_over = asyncio.get_running_loop().time() > until or result.is_hopeless()
            if not await target.examine() or is_over:
                break
        watching.cancel()
        result.exit_status = await asyncio.to_thread(target.stop)
        if result.exit_status != 0:
            result.problems.append(f"the worker ended with status {result.exit_status} instead of 0 on SIGTERM")
        target.check_log()


def run(num_requests, *, seed=0, seconds_limit=1800.0, worker_loop="fastest"):
    """Start a worker, shoot at it, stop it."""
    result = Result(seed)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="axon-fuzz-") as directory:
        target = Target(Path(directory), worker_loop, result)
        loop = loops.new_event_loop()
        try:
            loop.run_until_complete(_bombard(target, result, num_requests, loop.time() + seconds_limit))
        finally:
            if target.process.poll() is None:
                target.stop()  # first: a thread may wait for it
            loop.run_until_complete(loop.shutdown_default_executor())
            loops.shut_down(loop)
    result.seconds = time.monotonic() - started
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds-limit", type=float, default=1800.0)
    parser.add_argument("--loop", choices=("fastest", "asyncio"), default="fastest", help="the worker's event loop")
    given = parser.parse_args()
    result = run(given.requests, seed=given.seed, seconds_limit=given.seconds_limit, worker_loop=given.loop)
    print(result.summary())
    return 1 if result.problems else 0


if __name__ == "__main__":
    sys.exit(main())
