"""Programs beside an experiment that run in processes of their own, such as on an emulated device, and answer it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from paceline.errors import PacelineError


class Companion:
    """A program that reads a question per line and answers each with a line, both JSON objects."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @property
    def process_id(self) -> int:
        """ID of the process that the program runs in."""
        return self._process.pid

    def ask(self, **question: Any) -> dict[str, Any]:
        """Ask, and wait for the answer; raises `PacelineError` if it ended instead."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise PacelineError(f"{' '.join(map(str, self._process.args))} ended with {self._process.wait()}")  # type: ignore[arg-type]
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextlib.contextmanager
def started(program: Path, *, prefix: Sequence[str] = (), environment: Mapping[str, str] = {}) -> Iterator[Companion]:
    """Run a Python file while the block runs; what it prints on standard error is shown.

    Args:
        prefix: the program that runs it, with its arguments; it must end as that process, as ``nsenter`` does.
        environment: variables besides those of this process.
    """
    process = subprocess.Popen(
        [*prefix, sys.executable, str(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )
    try:
        yield Companion(process)
    finally:
        process.kill()
        process.communicate()


async def answer_all(reply: Callable[..., Awaitable[Mapping[str, Any]]]) -> None:
    """In such a program: answer questions until there are no more, by what `reply` returns for their values.

    Between questions it waits for the next, and so does everything else on the running loop.
    """
    for line in sys.stdin:
        print(json.dumps(await reply(**json.loads(line))), flush=True)
