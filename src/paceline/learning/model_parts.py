"""Parts of a model that is split over devices: branches at the sources, and a head where they meet.

Cut before a layer, a model has its earlier layers copied for each source (a branch), and the others once, behind a
layer that merges the branches (the head). A branch learns from the gradients of its outputs alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from paceline.errors import ConfigError
from paceline.learning.accelerators import CPU, Accelerator, TrainingSteps, on_cpu
from paceline.learning.averaging import State
from paceline.learning.chain import Chain
from paceline.learning.junction import Concatenation, Junction, JunctionSpec, Merge, sources_in, widen
from paceline.learning.local_model import make_module
from paceline.learning.optimizer_memory import load_memory, memory_of
from paceline.learning.optimizers import set_learning_rates
from paceline.learning.preprocessing import fitted_buffers
from paceline.learning.score_totals import ScoreTotals
from paceline.learning.tasks import Task
from paceline.learning.training_spec import TrainingSpec
from paceline.learning.vectors import copy_of, load_into


class Operations(NamedTuple):
    """Multiplications and additions for one sample, by torch's count, which counts matrix products only.

    Attributes:
        forward: operations of the forward pass.
        train: operations of forward and backward pass.
    """

    forward: float
    train: float

    @property
    def backward(self) -> float:
        """Operations of the backward pass."""
        return self.train - self.forward


def make_chain(spec: TrainingSpec, allowed: Collection[str] | None = (), start: State | None = None) -> Chain:
    """Build a job's model as a chain; raises `ConfigError` if it cannot be cut.

    Args:
        start: its parameters; None for initial ones, from the seed.
    """
    if spec.structure != "tuple" or len(spec.columns) != 2:
        names = ", ".join(column.name for column in spec.columns)
        raise ConfigError(f"samples are {names}; a model that is cut takes pairs of an input and a target")
    model = make_module(spec, spec.make_task(allowed))
    if start is not None:
        load_into(model, start)
    return Chain(model, example_inputs(spec, 2))


def example_inputs(spec: TrainingSpec, num_samples: int) -> torch.Tensor:
    """Make inputs to try a model with: bytes and real numbers at random, or zeros for tokens."""
    column = spec.columns[0]
    dtype, shape = np.dtype(column.dtype), (num_samples, *column.shape)
    random = np.random.default_rng(0)
    if dtype == np.uint8:
        return torch.from_numpy(random.integers(0, 256, shape, dtype=np.uint8))
    return torch.from_numpy(random.random(shape).astype(dtype) if dtype.kind == "f" else np.zeros(shape, dtype))


def make_merge(chain: Chain, cut: str, sources: Sequence[str], junction: JunctionSpec | None, seed: int) -> Merge:
    """Make the layer before the cut: a junction, or a concatenation if there is none."""
    chain.check_cut(cut)
    shape = chain.shapes[cut]
    return Concatenation(shape, sources) if junction is None else Junction(shape, sources, junction, seed)


def make_head(
    spec: TrainingSpec,
    chain: Chain,
    cut: str,
    sources: Sequence[str],
    junction: JunctionSpec | None,
    accelerator: Accelerator = CPU,
) -> Head:
    """Make the head of a chain with its initial parameters; concatenated inputs get a wider first layer."""
    layers = chain.after(cut)
    if junction is None:
        torch.manual_seed(spec.seed)
        layers = widen(layers, len(sources))
    return Head(spec, make_merge(chain, cut, sources, junction, spec.seed), layers, accelerator)


def operations_of(chain: Chain, spec: TrainingSpec) -> Operations:
    """Count the operations of the whole model for one sample."""
    return _count(nn.Sequential(*chain.layers.values()), example_inputs(spec, 1))


def count_parameters(module: nn.Module) -> int:
    """Count the parameters of a module."""
    return sum(parameter.numel() for parameter in module.parameters())


def sizes(chain: Chain, cut: str, sources: Sequence[str], junction: JunctionSpec | None) -> dict[str, int]:
    """Count the parameters of a ``branch``, the ``junction`` and the ``trunk``, without allocating them."""
    with torch.device("meta"):  # nothing is allocated
        merge = make_merge(chain, cut, sources, junction, 0)
        trunk = chain.after(cut) if junction is not None else widen(chain.after(cut), len(sources))
    return {
        "branch": count_parameters(chain.before(cut)),
        "junction": count_parameters(merge),
        "trunk": count_parameters(trunk),
    }


def learned_by(layers: nn.Module) -> State:
    """Copy the parameters and buffers of some layers, without those of preprocessing."""
    fitted = fitted_buffers(layers)
    return {name: tensor for name, tensor in copy_of(layers).items() if name not in fitted}


def load_learned(layers: nn.Module, state: Mapping[str, torch.Tensor]) -> None:
    """Set what `learned_by` copies; raises `ConfigError` if it does not fit."""
    load_into(layers, state, required=layers.state_dict().keys() - fitted_buffers(layers))


class Branch:
    """Part of the model at a source; learns from the gradients of its outputs. All that comes and goes is on the CPU.

    Args:
        depth: outputs that may wait for their gradients at once. With more than one, the parameters of each forward
            pass are stashed, so that its gradient is computed with them.
        accelerator: what it computes on.
    """

    def __init__(
        self,
        spec: TrainingSpec,
        layers: nn.Sequential,
        shape: Sequence[int],
        depth: int = 1,
        accelerator: Accelerator = CPU,
    ) -> None:
        accelerator.check(spec.precision)
        self.shape = tuple(shape)
        self.operations = _count(layers, example_inputs(spec, 1))
        self._accelerator = accelerator
        self._spec = spec
        self._layers = layers.to(accelerator.device)
        self._is_stashing = depth > 1
        parameters = [parameter for parameter in layers.parameters() if parameter.requires_grad]
        self._optimizer = spec.optimizer.make(parameters) if parameters else None
        self._steps = None if self._optimizer is None else TrainingSteps(accelerator, spec.precision, self._optimizer)
        self._waiting: dict[int, tuple[torch.Tensor, dict[str, torch.Tensor]]] = {}

    @property
    def num_parameters(self) -> int:
        """Number of parameters."""
        return count_parameters(self._layers)

    def begin(self, task: Task, epoch: int) -> None:
        """Set learning rates to those of an epoch."""
        if self._optimizer is not None:
            set_learning_rates(self._optimizer, self._spec.rate_factor(task, epoch))

    def forward(self, number: int, x: torch.Tensor) -> torch.Tensor:
        """Compute the output of a minibatch; `backward` takes its gradient under the same number."""
        self._layers.train()
        x, stash = self._accelerator.move(x), {}
        with self._accelerator.autocast(self._spec.precision):
            if self._is_stashing:
                own = self._layers.named_parameters()
                stash = {name: tensor.detach().clone().requires_grad_() for name, tensor in own}
                output: torch.Tensor = torch.func.functional_call(self._layers, stash, (x,))
            else:
                output = self._layers(x)
        output = output.float()
        self._waiting[number] = (output, stash)
        return on_cpu(output.detach())

    def backward(self, number: int, gradient: torch.Tensor) -> None:
        """Learn from the gradient of an output; that of a forgotten output is ignored."""
        output, stash = self._waiting.pop(number, (None, {}))
        if output is None or self._steps is None:
            return
        self._steps.backward(output, self._accelerator.move(gradient))
        for name, parameter in self._layers.named_parameters():
            if name in stash:
                parameter.grad = stash[name].grad
        self._steps.step()

    def forget(self) -> None:
        """Drop all outputs that wait for gradients."""
        self._waiting.clear()

    @torch.inference_mode()
    def infer(self, x: torch.Tensor) -> torch.Tensor:
        """Compute outputs for evaluation."""
        self._layers.eval()
        output: torch.Tensor = self._layers(self._accelerator.move(x))
        return on_cpu(output)

    def state(self) -> State:
        """Copy the parameters and buffers, without those of preprocessing: they follow from the job."""
        return learned_by(self._layers)

    def memory(self) -> State:
        """Copy what the optimizer remembers."""
        return {} if self._optimizer is None else memory_of(self._optimizer, self._layers)

    def load(self, state: Mapping[str, torch.Tensor], memory: Mapping[str, torch.Tensor]) -> None:
        """Set the parameters, and what the optimizer remembers; raises `ConfigError` if they do not fit."""
        load_learned(self._layers, state)
        if self._optimizer is not None:
            load_memory(self._optimizer, self._layers, memory)


class Head(nn.Module):
    """The merge and all layers behind it, with their optimizer.

    What `step` and `evaluate` take and return is on the CPU.
    """

    def __init__(self, spec: TrainingSpec, merge: Merge, layers: nn.Sequential, accelerator: Accelerator = CPU) -> None:
        super().__init__()
        accelerator.check(spec.precision)
        self._accelerator = accelerator
        self.merge = merge
        self.layers = layers
        self._spec = spec
        self._task = spec.make_task(None)
        self.to(accelerator.device)
        self._optimizer = spec.optimizer.make(self.parameters())
        self._steps = TrainingSteps(accelerator, spec.precision, self._optimizer)

    def begin(self, epoch: int) -> None:
        """Set learning rates to those of an epoch."""
        set_learning_rates(self._optimizer, self._spec.rate_factor(self._task, epoch))

    def forward(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Compute logits from the sources' outputs for the same samples; missing ones count as zeros."""
        logits: torch.Tensor = self.layers(self.merge(inputs))
        return logits

    def operations(self, shape: Sequence[int], sources: Sequence[str]) -> Operations:
        """Count the operations for one sample, with these sources."""
        device = self._accelerator.device
        inputs = {source: torch.zeros(1, *shape, requires_grad=True, device=device) for source in sources}
        return _count(self, inputs)

    def step(self, inputs: Mapping[str, torch.Tensor], labels: torch.Tensor) -> tuple[float, dict[str, torch.Tensor]]:
        """Train on a minibatch; returns the mean loss, and the gradients of the inputs by source."""
        self.train()
        inputs, labels = self._accelerator.move((inputs, labels))
        leaves = {source: x.detach().requires_grad_() for source, x in inputs.items()}
        with self._steps.autocast():
            loss = self._task.loss(self, (leaves, labels))
        self._steps.backward(loss)
        self._steps.step()
        gradients = {source: leaf.grad for source, leaf in leaves.items() if leaf.grad is not None}
        return float(loss.detach()), on_cpu(gradients)

    def new_totals(self) -> ScoreTotals:
        """Return what adds up how good this is on test data."""
        return ScoreTotals(self._task)

    @torch.inference_mode()
    def evaluate(self, inputs: Mapping[str, torch.Tensor], labels: torch.Tensor, totals: ScoreTotals) -> None:
        """Add how good this is on some test data."""
        self.eval()
        totals.add(self, self._accelerator.move((inputs, labels)))

    def add(self, source: str) -> None:
        """Add a source; the other weights and their optimizer state are kept."""
        self._optimizer.add_param_group({"params": self._junction().add(source)})

    def remove(self, source: str) -> None:
        """Remove a source and its optimizer state; the rest is kept."""
        removed = {id(parameter) for parameter in self._junction().remove(source)}
        for group in self._optimizer.param_groups:
            group["params"] = [parameter for parameter in group["params"] if id(parameter) not in removed]
        for parameter in [parameter for parameter in self._optimizer.state if id(parameter) in removed]:
            del self._optimizer.state[parameter]

    def memory(self) -> State:
        """Copy what the optimizer remembers."""
        return memory_of(self._optimizer, self)

    def load(self, state: Mapping[str, torch.Tensor], memory: Mapping[str, torch.Tensor]) -> None:
        """Set the parameters, and what the optimizer remembers; raises `ConfigError` if they do not fit."""
        load_into(self, state)
        load_memory(self._optimizer, self, memory)

    def _junction(self) -> Junction:
        if not isinstance(self.merge, Junction):
            raise ConfigError("sources cannot come and go where their outputs are concatenated; use a junction")
        return self.merge


class SplitModel(nn.Module):
    """All parts of a split model in one module.

    Args:
        branches: layers of each source, by its name.
    """

    def __init__(self, branches: Mapping[str, nn.Module], head: Head) -> None:
        super().__init__()
        self._names = list(branches)
        self.branches = nn.ModuleList(branches.values())
        self.head = head

    def forward(self, views: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Compute logits from each source's view of the samples."""
        branches = dict(zip(self._names, self.branches, strict=True))
        logits: torch.Tensor = self.head({source: branches[source](x) for source, x in views.items()})
        return logits


def assemble(spec: TrainingSpec, cut: str, junction: JunctionSpec, state: Mapping[str, torch.Tensor]) -> SplitModel:
    """Assemble a model from a trunk's state, ``branches.<source>.…`` and ``head.…``; raises `ConfigError`."""
    sources = sources_in(name.removeprefix("head.merge.") for name in state if name.startswith("head.merge."))
    branches = {}
    for source in sources:
        branches[source] = make_chain(spec, None).before(cut)
        load_learned(branches[source], below(state, f"branches.{source}."))
    head = make_head(spec, make_chain(spec, None), cut, sources, junction)
    load_into(head, below(state, "head."))
    return SplitModel(branches, head).eval()


def below(state: Mapping[str, torch.Tensor], prefix: str) -> State:
    """Return what is in a state under names with this beginning, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}


def epoch_order(num_samples: int, seed: int, epoch: int) -> torch.Tensor:
    """Draw the order of samples in an epoch: the same on every device that knows the seed."""
    return torch.randperm(num_samples, generator=torch.Generator().manual_seed(seed * 1_000_003 + epoch))


def _count(module: nn.Module, inputs: object) -> Operations:
    def forward() -> torch.Tensor:
        output: torch.Tensor = module(inputs)
        return output

    was_training = module.training
    module.eval()  # buffers stay as they are
    try:
        ahead = _counted(forward)
        learned = any(parameter.requires_grad for parameter in module.parameters())
        train = _counted(lambda: forward().sum().backward()) if learned else ahead  # type: ignore[no-untyped-call]
    finally:
        module.train(was_training)
        module.zero_grad()
    return Operations(ahead, train)


def _counted(work: Callable[[], object]) -> float:
    with FlopCounterMode(display=False) as counter:
        work()
    return float(counter.get_total_flops())
