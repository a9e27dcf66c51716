"""Split models over torch.distributed.rpc: sources call the trunk with a minibatch's values and get their gradients.

Run as a module, by `lifeline`, it starts trunk and sources and prints what they took. TensorPipe is told to use TCP: by
itself it would share memory on one machine, which devices cannot. Sources wait as `async_execution` lets callers wait:
the last to call does the trunk's step for all.
"""

from __future__ import annotations

import threading
import warnings

import numpy as np
import torch
from torch.distributed import rpc

import forks
import split_work
from paceline.topologies.split.prepared import PreparedSplit
from split_work import NUM_EPOCHS, SourcePart, TrunkPart, source_name
from steps import Mark

_TRUNK = "trunk"


class _Trunk:
    """Keeps what sources brought until all have."""

    def __init__(self, prepared: PreparedSplit) -> None:
        self._part = TrunkPart(prepared)
        self._num_sources = prepared.job.sources
        self._num_steps = split_work.num_steps(prepared)
        self._lock = threading.Lock()
        self._inputs: dict[str, torch.Tensor] = {}
        self._answers: dict[str, torch.futures.Future] = {}
        self._started = self._taken = Mark.now()

    def bring(self, source: str, epoch: int, step: int, values: torch.Tensor) -> torch.futures.Future:
        """The gradients of these values, once all have brought theirs."""
        answer: torch.futures.Future = torch.futures.Future()
        with self._lock:
            self._inputs[source], self._answers[source] = values, answer
            if len(self._inputs) < self._num_sources:
                return answer
            inputs, answers = dict(sorted(self._inputs.items())), self._answers
            self._inputs, self._answers = {}, {}
        gradients = self._part.step(epoch, step, inputs)
        if step == self._num_steps - 1:
            now = Mark.now()
            self._taken, self._started = now.since(self._started), now
        for name, waiting in answers.items():
            waiting.set_result(gradients[name])
        return answer

    def concluded(self) -> tuple[Mark, float]:
        """What the last epoch took, and its loss."""
        return self._taken, float(np.mean(self._part.losses[-self._num_steps :]))


_trunks: list[_Trunk] = []  # one, in the trunk's process


@rpc.functions.async_execution
def bring(source: str, epoch: int, step: int, values: torch.Tensor) -> torch.futures.Future:
    """What sources call."""
    return _trunks[0].bring(source, epoch, step, values)


def take_part(number: int, port: int, prepared: PreparedSplit) -> tuple[Mark, float]:
    """The trunk, which is number 0, or a source; what it took for the last epoch, and the trunk's loss."""
    warnings.simplefilter("ignore")  # torch warns of itself
    if number == 0:
        _trunks.append(_Trunk(prepared))
    options = rpc.TensorPipeRpcBackendOptions(
        num_worker_threads=prepared.job.sources + 1,
        init_method=f"tcp://127.0.0.1:{port}",
        _transports=["uv"],
        _channels=["basic"],
    )
    name = source_name(number) if number else _TRUNK
    rpc.init_rpc(name, rank=number, world_size=prepared.job.sources + 1, rpc_backend_options=options)
    given = _give(name, prepared) if number else None
    forks.wait_for_all()
    rpc.shutdown(graceful=False)  # a graceful one may fail, where the trunk is gone before the others have heard of it
    forks.wait_for_all()
    return _trunks[0].concluded() if given is None else (given, 0.0)


def _give(name: str, prepared: PreparedSplit) -> Mark:
    part, start = SourcePart(prepared), Mark.now()
    for epoch in range(1, NUM_EPOCHS + 1):
        start = Mark.now()
        for step in range(split_work.num_steps(prepared)):
            values = part.forward(epoch, step)
            part.backward(step, rpc.rpc_sync(_TRUNK, bring, args=(name, epoch, step, values)))
    return Mark.now().since(start)


if __name__ == "__main__":
    split_work.run_all(take_part)
