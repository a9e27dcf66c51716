"""One model over several devices: sources send what their branches make of a minibatch, and learn from its gradients.

This is flexible parallel learning, where the trunk merges by a junction, and split learning, where it puts the
branches' outputs side by side.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Collection, Mapping, Sequence

import torch

from paceline.errors import PacelineError
from paceline.learning.averaging import State, UpdateValidator
from paceline.learning.coding import decode, encode
from paceline.learning.datasets import Dataset
from paceline.learning.engines import Engine
from paceline.learning.segments import Branch, copy_of, count_parameters, make_chain, make_head
from paceline.learning.vectors import Layout, Vectors
from paceline.topologies.split.agendas import part
from paceline.topologies.split.jobs import SplitJob
from paceline.topologies.split.messages import Meeting, Tensors, Terms
from paceline.topologies.split.samples import Passes, Samples, inputs_of, labels_of
from paceline.topologies.split.schemes import SourceScheme, TrunkScheme, mean_of


class BranchesAtTrunk(TrunkScheme):
    """The head of a model, which learns from what the branches of these sources give."""

    def __init__(
        self, job: SplitJob, terms: Terms, cut: str, sources: Sequence[str], dataset: Dataset, engine: Engine
    ) -> None:
        super().__init__()
        self._terms = terms
        self._dataset = dataset
        self._engine = engine
        chain = make_chain(terms.task, None)
        self._shape = chain.shapes[cut]
        branch = copy_of(chain.before(cut))
        self._layout = Layout(branch)
        self._validator = UpdateValidator(self._layout.pack(branch))
        self._head = make_head(terms.task, chain, cut, sources, job.merge)
        self._copies: dict[str, Vectors] = {}
        self._sources = list(sources)
        self._passes = Passes(terms)
        self._operations = self._head.operations(self._shape, sources)
        self.takes_newcomers = job.scheme == "fpl"

    def unpack(self, epoch: int, meeting: Meeting, tensors: Tensors) -> torch.Tensor | Vectors:
        if meeting.phase == "backup":
            reason = self._validator.why_unusable(tensors)
            if reason is not None:
                raise ValueError(f"the copy of a branch does not fit: {reason}")
            return tensors
        return decode(tensors, (self._num_samples(meeting), *self._shape), self._terms.bits)

    async def meet(self, epoch: int, meeting: Meeting, brought: Mapping[str, torch.Tensor]) -> Mapping[str, Tensors]:
        match meeting.phase:
            case "step":
                return await self._step(epoch, meeting, brought)
            case "test":
                await self._test(meeting, brought)
            case _:
                self._copies.update(brought)  # type: ignore[arg-type]
        return {}

    async def _step(self, epoch: int, meeting: Meeting, inputs: Mapping[str, torch.Tensor]) -> Mapping[str, Tensors]:
        labels = labels_of(self._dataset.y_train[self._passes.samples(epoch, meeting.number)])

        def step() -> tuple[float, dict[str, Tensors]]:
            loss, gradients = self._head.step(inputs, labels)
            bits = self._terms.bits
            return loss, {
                source: encode(gradient, bits, _draw(epoch, meeting, f"to {source}"))
                for source, gradient in gradients.items()
            }

        loss, answers = await self._engine.run(step, self._operations.train * len(labels))
        if not math.isfinite(loss):
            raise PacelineError(
                f"training has diverged in epoch {epoch}, step {meeting.number + 1}: the loss is {loss}; try a lower "
                "learning rate"
            )
        self.tally.count_step(loss, len(labels))
        return answers

    async def _test(self, meeting: Meeting, inputs: Mapping[str, torch.Tensor]) -> None:
        labels = labels_of(self._dataset.y_test[part(meeting.number)])
        evaluate = functools.partial(self._head.evaluate, inputs, labels)
        loss, num_right = await self._engine.run(evaluate, self._operations.forward * len(labels))
        self.tally.count_test(loss, num_right, len(labels))

    def _num_samples(self, meeting: Meeting) -> int:
        if meeting.phase == "step":
            return self._passes.size(meeting.number)
        return len(self._dataset.y_test[part(meeting.number)])

    def add(self, source: str) -> None:
        self._head.add(source)
        self._change([*self._sources, source])

    def remove(self, source: str) -> None:
        self._head.remove(source)
        self._copies.pop(source, None)
        self._change([name for name in self._sources if name != source])

    def _change(self, sources: list[str]) -> None:
        self._sources = sources
        if sources:
            self._operations = self._head.operations(self._shape, sources)

    def num_merged(self) -> int:
        return count_parameters(self._head.merge)

    def parameters_for(self, source: str) -> Vectors:
        own = self._copies.get(source)
        return mean_of(list(self._copies.values())) if own is None else own

    def state(self) -> State:
        branches = {source: self._layout.unpack(copy) for source, copy in self._copies.items()}
        return {
            **{f"branches.{source}.{name}": tensor for source, own in branches.items() for name, tensor in own.items()},
            **{f"head.{name}": tensor for name, tensor in copy_of(self._head).items()},
        }


class BranchAtSource(SourceScheme):
    """A branch of a model, which learns from the gradients that the trunk sends."""

    def __init__(
        self, terms: Terms, cut: str, name: str, samples: Samples, engine: Engine, allowed: Collection[str] | None
    ) -> None:
        self._terms = terms
        self._name = name
        self._samples = samples
        self._engine = engine
        chain = make_chain(terms.task, allowed)
        layers = chain.before(cut)
        self._layout = Layout(layers.state_dict())
        self._branch = Branch(terms.task, layers, chain.shapes[cut], terms.depth)
        self._passes = Passes(terms)

    def load(self, parameters: Vectors) -> None:
        self._branch.load(self._layout.unpack(parameters))

    async def prepare(self, epoch: int, meeting: Meeting) -> Tensors:
        if meeting.phase == "backup":
            return self._layout.pack(self._branch.state())
        is_step, branch, samples = meeting.phase == "step", self._branch, self._samples
        chosen = self._passes.samples(epoch, meeting.number) if is_step else part(meeting.number)
        stored = samples.train.x[chosen] if is_step else samples.test.x[chosen]

        def forward() -> Tensors:
            x = inputs_of(stored, self._terms)
            output = branch.forward(meeting.number, x) if is_step else branch.infer(x)
            return encode(output, self._terms.bits, _draw(epoch, meeting, f"from {self._name}"))

        return await self._engine.run(forward, branch.operations.forward * len(stored))

    async def settle(self, epoch: int, meeting: Meeting, answer: Tensors) -> None:
        if meeting.phase != "step":
            return
        num_samples = self._passes.size(meeting.number)
        gradient = decode(answer, (num_samples, *self._branch.shape), self._terms.bits)
        learn = functools.partial(self._branch.backward, meeting.number, gradient)
        await self._engine.run(learn, self._branch.operations.backward * num_samples)

    def forget(self) -> None:
        self._branch.forget()


def _draw(epoch: int, meeting: Meeting, what: str) -> int:
    """The seed of what is rounded at random, for one message."""
    return zlib.crc32(f"{epoch} {meeting.phase} {meeting.number} {what}".encode())
