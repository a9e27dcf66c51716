"""One model over several devices: sources send what their branches make of a minibatch, and learn from its gradients.

This is flexible parallel learning, where the trunk merges by a junction, and split learning, where it concatenates the
branches' outputs.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Collection, Mapping, Sequence

import torch

from paceline.learning.averaging import State
from paceline.learning.divergence import are_finite, diverged, has_exploded
from paceline.learning.engines import Engine
from paceline.learning.model_parts import Branch, below, count_parameters, learned_by, make_chain, make_head
from paceline.learning.optimizer_memory import split_off
from paceline.learning.quantisation import decode, encode
from paceline.learning.vectors import Layout, Vectors, copy_of
from paceline.topologies.reporting.formatting import format_names
from paceline.topologies.split.messages import SplitTerms, SyncPoint, Tensors
from paceline.topologies.split.prepared import PreparedSplit
from paceline.topologies.split.samples import Minibatches, Samples, as_tensor
from paceline.topologies.split.schedule import part
from paceline.topologies.split.schemes.base import Copies, SourceScheme, TrunkScheme


class BranchesAtTrunk(TrunkScheme):
    """The head of a model, which learns from the outputs of these sources' branches."""

    def __init__(self, prepared: PreparedSplit, cut: str, sources: Sequence[str], engine: Engine) -> None:
        super().__init__()
        self._bits = prepared.job.bits
        self._labels = {"step": prepared.dataset.train.labels(), "test": prepared.dataset.test.labels()}
        self._engine = engine
        chain = prepared.chain()
        self._shape = chain.shapes[cut]
        branch = learned_by(chain.before(cut))
        self._layout = Layout(branch)
        self._head = make_head(prepared.training, chain, cut, sources, prepared.job.merge, engine.accelerator)
        self._tested = self._head.new_totals()
        start = self._layout.pack(branch)
        self._copies = Copies(branch, start, {} if prepared.start is None else dict.fromkeys(sources, start))
        self._sources = list(sources)
        self._minibatches = Minibatches(prepared.terms(1, (cut,)))
        self._operations = self._head.operations(self._shape, sources)
        self.takes_newcomers = prepared.job.scheme == "fpl"

    def unpack(self, epoch: int, point: SyncPoint, tensors: Tensors) -> torch.Tensor | Vectors:
        if point.phase == "backup":
            reason = self._copies.why_none(tensors)
            if reason is not None:
                raise ValueError(f"the copy of a branch does not fit: {reason}")
            return tensors
        return decode(tensors, (self._num_samples(point), *self._shape), self._bits)

    async def process(
        self, epoch: int, point: SyncPoint, received: Mapping[str, torch.Tensor]
    ) -> Mapping[str, Tensors]:
        match point.phase:
            case "step":
                return await self._step(epoch, point, received)
            case "test":
                await self._test(point, received)
            case _:
                self._copies.update(received)  # type: ignore[arg-type]
        return {}

    async def _step(self, epoch: int, point: SyncPoint, inputs: Mapping[str, torch.Tensor]) -> Mapping[str, Tensors]:
        labels = as_tensor(self._labels["step"][self._minibatches.samples(epoch, point.number)])

        def step() -> tuple[float, dict[str, Tensors]]:
            self._head.begin(epoch)
            loss, gradients = self._head.step(inputs, labels)
            return loss, {
                source: encode(gradient, self._bits, _rounding_seed(epoch, point, f"to {source}"))
                for source, gradient in gradients.items()
            }

        loss, replies = await self._engine.run(step, self._operations.train * len(labels))
        if has_exploded(loss):
            where = f"epoch {epoch}, step {point.number + 1}, with {format_names(inputs)}"
            raise diverged(where, f"the loss is {loss:g}")
        self.totals.add_step(loss, len(labels))
        return replies

    async def _test(self, point: SyncPoint, inputs: Mapping[str, torch.Tensor]) -> None:
        labels = as_tensor(self._labels["test"][part(point.number)])
        if not self.totals.tested:
            self._tested = self._head.new_totals()
        evaluate = functools.partial(self._head.evaluate, inputs, labels, self._tested)
        await self._engine.run(evaluate, self._operations.forward * len(labels))
        self.totals.tested = [(self._tested.scores, self._tested.num_samples)]

    def _num_samples(self, point: SyncPoint) -> int:
        if point.phase == "step":
            return self._minibatches.size(point.number)
        return len(self._labels["test"][part(point.number)])

    def add(self, source: str) -> None:
        self._head.add(source)
        self._change([*self._sources, source])

    def remove(self, source: str) -> None:
        self._head.remove(source)
        self._copies.remove(source)
        self._change([name for name in self._sources if name != source])

    def _change(self, sources: list[str]) -> None:
        self._sources = sources
        if sources:
            self._operations = self._head.operations(self._shape, sources)

    def num_merged(self) -> int:
        return count_parameters(self._head.merge)

    def parameters_for(self, source: str) -> Vectors:
        return self._copies.of(source)

    def memory(self) -> State:
        return {**self._copies.kept(), **self._head.memory()}

    def restore(self, state: State, memory: State) -> None:
        self._copies.restore(memory)
        self._head.load(below(state, "head."), split_off(memory)[1])

    def state(self) -> State:
        branches = {source: self._layout.unpack(copy) for source, copy in self._copies.parameters().items()}
        return {
            **{f"branches.{source}.{name}": tensor for source, own in branches.items() for name, tensor in own.items()},
            **{f"head.{name}": tensor for name, tensor in copy_of(self._head).items()},
        }


class BranchAtSource(SourceScheme):
    """A branch of a model, which learns from the gradients that the trunk sends."""

    def __init__(
        self, terms: SplitTerms, cut: str, name: str, samples: Samples, engine: Engine, allowed: Collection[str] | None
    ) -> None:
        self._terms = terms
        self._name = name
        self._samples = samples
        self._engine = engine
        self._task = terms.training.make_task(allowed)
        chain = make_chain(terms.training, allowed)
        layers = chain.before(cut)
        self._branch = Branch(terms.training, layers, chain.shapes[cut], terms.depth, engine.accelerator)
        self._layout = Layout(self._branch.state())
        self._minibatches = Minibatches(terms)

    def load(self, parameters: Vectors) -> None:
        vectors, memory = split_off(parameters)
        self._branch.load(self._layout.unpack(vectors), memory)

    async def compute(self, epoch: int, point: SyncPoint) -> Tensors:
        if point.phase == "backup" and epoch > self._terms.epochs:
            return self._layout.pack(self._branch.state())
        if point.phase == "backup":
            return {**self._layout.pack(self._branch.state()), **self._branch.memory()}
        is_step, branch, samples = point.phase == "step", self._branch, self._samples
        chosen = self._minibatches.samples(epoch, point.number) if is_step else part(point.number)
        stored = samples.train.x[chosen] if is_step else samples.test.x[chosen]

        def forward() -> Tensors:
            x = as_tensor(stored)
            output = branch.forward(point.number, x) if is_step else branch.infer(x)
            if not are_finite({"output": output}):
                raise diverged(f"epoch {epoch} on {self._name}", "its branch has outputs that are NaN or infinite")
            return encode(output, self._terms.bits, _rounding_seed(epoch, point, f"from {self._name}"))

        return await self._engine.run(forward, branch.operations.forward * len(stored))

    async def apply(self, epoch: int, point: SyncPoint, reply: Tensors) -> None:
        if point.phase != "step":
            return
        num_samples = self._minibatches.size(point.number)
        gradient = decode(reply, (num_samples, *self._branch.shape), self._terms.bits)
        self._branch.begin(self._task, epoch)
        learn = functools.partial(self._branch.backward, point.number, gradient)
        await self._engine.run(learn, self._branch.operations.backward * num_samples)

    def forget(self) -> None:
        self._branch.forget()


def _rounding_seed(epoch: int, point: SyncPoint, what: str) -> int:
    """Return the seed of what is rounded at random in one message."""
    return zlib.crc32(f"{epoch} {point.phase} {point.number} {what}".encode())
