"""Shoots mutated and random requests at a live worker, and checks that it takes no harm.

    python -m tests.axon.fuzz --requests 100000 [--seed N] [--seconds-limit N] [--loop asyncio]

Ends with status 0 if the worker, in the same process as ever, still answers, has not grown, has executed nothing
that was sent to it, has answered every whole request and has logged no traceback.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import torch

from paceline.axon import client, loops
from paceline.axon.transports import HttpTransport
from tests.axon.fuzz_client import ANSWER_SECONDS, Gunner, Result, dead_ports
from tests.axon.fuzz_requests import RequestMaker

TOKEN = "fuzz-token"
MAX_GROWTH_BYTES = 300 << 20
_NUM_CONNECTIONS = 48
_CHECK_EVERY = 2000
_START_SECONDS = 120.0
_STOP_SECONDS = 30.0
_ROOT = Path(__file__).parents[2]


class Target:
    """The worker process."""

    def __init__(self, directory: Path, loop: str) -> None:
        self.marker = directory / "marker"
        self._stderr = directory / "stderr"
        with self._stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.axon.fuzz_worker", str(self.marker), TOKEN, loop],
                cwd=_ROOT,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        self.status = psutil.Process(self.process.pid)

    async def port(self) -> int:
        """Where it listens, once it does."""
        assert self.process.stdout is not None
        line = await asyncio.wait_for(asyncio.to_thread(self.process.stdout.readline), _START_SECONDS)
        if not line:
            raise RuntimeError(f"the worker did not start: {self.log()[-2000:]}")
        return int(line)

    def log(self) -> str:
        """What it wrote to standard error."""
        return self._stderr.read_text(errors="replace")

    def stop(self) -> int | None:
        """End it in order; its exit status, or None if it had to be killed."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None
        finally:
            assert self.process.stdout is not None
            self.process.stdout.close()


class Examiner:
    """Checks the worker's health."""

    def __init__(self, target: Target, port: int, result: Result) -> None:
        self._target = target
        self._result = result
        settings = {"port": port, "token": TOKEN, "transport": HttpTransport(), "timeout_seconds": ANSWER_SECONDS}
        self._double = client.CoroSimplexStub("127.0.0.1", "double", **settings)
        self._echo = client.CoroSimplexStub("127.0.0.1", "echo", **settings)
        self._noted: list[object] = []
        self._num_checked = 0  # characters of the log
        result.start_rss_bytes = result.peak_rss_bytes = self._rss_bytes()

    async def examine(self) -> bool:
        """Note what is wrong; False if it is no use to go on."""
        is_alive = self._is_alive()
        if is_alive:
            is_alive = await self._answers()
        self._check_memory()
        self.check_log()
        if self._target.marker.exists():
            self._result.problems.append(f"code was executed: {self._target.marker.read_text()}")
            is_alive = False
        return is_alive

    async def watch_memory(self) -> None:
        """Sample memory until cancelled: a peak between two checks counts too."""
        while True:
            self._result.peak_rss_bytes = max(self._result.peak_rss_bytes, self._rss_bytes())
            await asyncio.sleep(0.05)

    def _is_alive(self) -> bool:
        status = self._target.process.poll()
        if status is None and self._target.status.is_running():
            return True
        self._result.problems.append(f"the worker died with status {status}: {self._target.log()[-2000:]}")
        return False

    async def _answers(self) -> bool:
        sent = torch.arange(1000.0)
        try:
            is_right = await self._double(21) == 42 and torch.equal(await self._echo(sent), sent)
        except Exception as error:
            self._result.problems.append(f"an ordinary call failed: {type(error).__name__}: {error}")
            return False
        if not is_right:
            self._result.problems.append("an ordinary call returned something else")
        return is_right

    def _rss_bytes(self) -> int:
        try:
            return self._target.status.memory_info().rss
        except psutil.NoSuchProcess:
            return 0

    def _check_memory(self) -> None:
        growth = self._result.peak_rss_bytes - self._result.start_rss_bytes
        if growth > MAX_GROWTH_BYTES:
            self._note("growth", f"the worker grew by more than {MAX_GROWTH_BYTES >> 20} MB")

    def check_log(self) -> None:
        """Note tasks that were lost, and each exception that was logged, once for each place that raised it."""
        log = self._target.log()[self._num_checked :]
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

    def _note(self, key: object, problem: str) -> None:
        if key not in self._noted:
            self._noted.append(key)
            self._result.problems.append(problem)


@contextlib.asynccontextmanager
async def _running(coroutine) -> AsyncIterator[None]:
    task = asyncio.ensure_future(coroutine)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _bombard(target: Target, result: Result, num_requests: int, until: float) -> None:
    port = await target.port()
    examiner = Examiner(target, port, result)
    await examiner.examine()
    loop = asyncio.get_running_loop()
    with dead_ports(4) as ports:
        shots = iter(RequestMaker(result.seed, TOKEN, str(target.marker), ports))
        async with _running(examiner.watch_memory()):
            for start in range(0, num_requests, _CHECK_EVERY):
                batch = itertools.islice(shots, min(_CHECK_EVERY, num_requests - start))
                gunners = [Gunner(port, result) for _ in range(_NUM_CONNECTIONS)]
                await asyncio.gather(*(gunner.fire(batch, until) for gunner in gunners))
                if not await examiner.examine() or loop.time() > until or result.is_hopeless:
                    break
        result.exit_status = await asyncio.to_thread(target.stop)
        if result.exit_status != 0:
            result.problems.append(f"the worker ended with status {result.exit_status} instead of 0 when told to stop")
        examiner.check_log()


def run(num_requests: int, *, seed: int = 0, seconds_limit: float = 1800.0, worker_loop: str = "fastest") -> Result:
    """Start a worker, shoot at it, stop it."""
    result = Result(seed)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="axon-fuzz-") as directory:
        target = Target(Path(directory), worker_loop)
        loop = loops.new_event_loop()
        try:
            loop.run_until_complete(_bombard(target, result, num_requests, loop.time() + seconds_limit))
        finally:
            if target.process.poll() is None:
                target.stop()  # first: a thread may wait for it
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()
    result.seconds = time.monotonic() - started
    return result


def main() -> int:
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
