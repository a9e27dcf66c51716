"""Junctions: layers that merge the outputs of several sources for the same sample.

A junction (Malandrino and Chiasserini, 2021, flexible parallel learning) is fully connected, learned, and as wide as
what it stands before. With d values of each of n branches, its output is

    b + Σ_i W_i·x_i,

with one d×d block W_i for each source: one linear layer over all inputs, kept in pieces, so that a source can come and
go while the rest stays. That is n·d² weights. Two other forms have fewer, in which a block is

    low-rank    diag(s_i) + U_i·V_i,  with U_i of d×r and V_i of r×d:    n·d·(2r + 1) weights;
    grouped     g blocks of d/g × d/g on its diagonal:                   n·d²/g weights.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import nn

from paceline.checks import Count, Spec, check_fields
from paceline.errors import ConfigError


class JunctionSpec(Spec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Junction of a job: its ``[junction]`` table; `ValueError` for a value out of range.

    Attributes:
        form: see the module.
        rank: r, for low-rank blocks.
        groups: g, for grouped blocks; it must divide the width.
        start: initial weights: ``average`` gives the mean of the branches, ``plain`` those of torch's linear layer.
    """

    form: Literal["full", "low-rank", "grouped"] = "full"
    rank: Count = 32
    groups: Count = 8
    start: Literal["average", "plain"] = "average"

    def __post_init__(self) -> None:
        check_fields(self)


class Merge(nn.Module):
    """Merges the outputs (batch, …) of several sources, given by the source's name."""

    @abstractmethod
    def forward(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Merge; a missing source counts as zeros."""


class Junction(Merge):
    """A learned layer that merges branches.

    Args:
        shape: shape of one sample in each branch's output, and in the junction's own.
        sources: names of the merged sources.
        seed: seed of the initial weights; those of a block follow from it and the source's name alone.
    """

    def __init__(self, shape: Sequence[int], sources: Sequence[str], spec: JunctionSpec, seed: int) -> None:
        super().__init__()
        self._shape = tuple(shape)
        self._width = math.prod(shape)
        self._spec = spec
        self._seed = seed
        if spec.form == "grouped" and self._width % spec.groups:
            raise ConfigError(f"groups is {spec.groups}; it must divide the {self._width} values of a branch's output")
        self.bias = nn.Parameter(torch.zeros(self._width))
        if spec.start == "plain":
            bound = 1 / math.sqrt(len(sources) * self._width)
            nn.init.uniform_(self.bias, -bound, bound, generator=self._chance("the bias"))
        self.blocks = nn.ModuleDict()
        for source in sources:
            block = self.blocks[_key(source)] = self._block()
            block.start(spec.start, len(sources), self._chance(source))

    def forward(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        total: torch.Tensor = self.bias
        for source, x in inputs.items():
            total = total + self.blocks[_key(source)](x.flatten(1))
        return total.view(-1, *self._shape)

    @property
    def sources(self) -> list[str]:
        """Names of the merged sources."""
        return [_name(key) for key in self.blocks]

    def add(self, source: str) -> list[nn.Parameter]:
        """Add a source; returns its new weights, which leave the output as it is at first."""
        block = self.blocks[_key(source)] = self._block()
        block.start("nothing", len(self.blocks), self._chance(source))
        block.to(self.bias.device)
        return list(block.parameters())

    def remove(self, source: str) -> list[nn.Parameter]:
        """Remove a source; returns its weights."""
        block = self.blocks.pop(_key(source))
        return list(block.parameters())

    def _block(self) -> _Block:
        match self._spec.form:
            case "full":
                return _FullBlock(self._width, 1)
            case "grouped":
                return _FullBlock(self._width, self._spec.groups)
            case "low-rank":
                return _LowRankBlock(self._width, self._spec.rank)

    def _chance(self, what: str) -> torch.Generator:
        # From the name's bytes, since Python's own hash differs from process to process.
        number = int.from_bytes(what.encode(), "big") % ((1 << 61) - 1)
        return torch.Generator().manual_seed((self._seed * 1_000_003 + number) % (1 << 63))


class _Block(nn.Module):
    """Contribution of one source to a junction's output."""

    @abstractmethod
    def start(self, way: Literal["average", "plain", "nothing"], num_sources: int, chance: torch.Generator) -> None:
        """Set the initial weights of one of several sources."""


class _FullBlock(_Block):
    """A full matrix for each group of values."""

    def __init__(self, width: int, groups: int) -> None:
        super().__init__()
        self._groups = groups
        self.weight = nn.Parameter(torch.empty(groups, width // groups, width // groups))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self._groups == 1:
            return nn.functional.linear(x, self.weight[0])
        parts = x.view(len(x), self._groups, -1).transpose(0, 1)
        return torch.bmm(parts, self.weight.transpose(1, 2)).transpose(0, 1).reshape(len(x), -1)

    @torch.no_grad()
    def start(self, way: Literal["average", "plain", "nothing"], num_sources: int, chance: torch.Generator) -> None:
        size = self.weight.shape[-1]
        if way == "plain":
            bound = 1 / math.sqrt(num_sources * size)
            self.weight.uniform_(-bound, bound, generator=chance)
        else:
            self.weight.zero_()
            if way == "average":
                self.weight.diagonal(dim1=1, dim2=2).fill_(1 / num_sources)


class _LowRankBlock(_Block):
    """A diagonal matrix, plus a product of two narrow ones."""

    def __init__(self, width: int, rank: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.empty(width))
        self.inner = nn.Parameter(torch.empty(rank, width))
        self.outer = nn.Parameter(torch.empty(width, rank))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        narrow = nn.functional.linear(x, self.inner)
        return torch.addcmul(nn.functional.linear(narrow, self.outer), x, self.scale)

    @torch.no_grad()
    def start(self, way: Literal["average", "plain", "nothing"], num_sources: int, chance: torch.Generator) -> None:
        rank, width = self.inner.shape
        bound = 1 / math.sqrt(width)
        self.inner.uniform_(-bound, bound, generator=chance)
        self.scale.fill_(1 / num_sources if way == "average" else 0.0)
        if way == "plain":
            bound = 1 / math.sqrt(num_sources * rank)
            self.outer.uniform_(-bound, bound, generator=chance)
        else:  # the product counts for nothing at first, and learns at once
            self.outer.zero_()


class Concatenation(Merge):
    """Puts the outputs of all branches side by side, as split learning does with vertically partitioned data.

    Args:
        shape: shape of one sample in each branch's output.
    """

    def __init__(self, shape: Sequence[int], sources: Sequence[str]) -> None:
        super().__init__()
        self._shape = tuple(shape)
        self.sources = list(sources)

    def forward(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        some = next(iter(inputs.values()))
        missing = some.new_zeros(len(some), *self._shape)
        return torch.cat([inputs.get(source, missing) for source in self.sources], dim=1)


def widen(layers: nn.Sequential, num_sources: int) -> nn.Sequential:
    """Widen the first layer to take a `Concatenation` of so many sources; its weights are drawn anew.

    Raises `ConfigError` if the first layer is neither linear nor a convolution.
    """
    name, first = next(iter(layers.named_children()))
    has_bias = getattr(first, "bias", None) is not None
    if isinstance(first, nn.Linear):
        wide: nn.Module = nn.Linear(num_sources * first.in_features, first.out_features, has_bias)
    elif isinstance(first, nn.Conv2d) and first.groups == 1:
        form: Any = {key: getattr(first, key) for key in ("kernel_size", "stride", "padding", "dilation")}
        wide = nn.Conv2d(num_sources * first.in_channels, first.out_channels, bias=has_bias, **form)
    else:
        raise ConfigError(
            f"cut is {name!r}: split learning widens that layer, which must be linear or a convolution, not "
            f"{type(first).__name__}"
        )
    return nn.Sequential(OrderedDict({**dict(layers.named_children()), name: wide}))


def sources_in(names: Iterable[str]) -> list[str]:
    """List the sources of a junction whose state has these names, in their order."""
    keys = (name.split(".")[1] for name in names if name.startswith("blocks."))
    return [_name(key) for key in dict.fromkeys(keys)]


_TAKEN = frozenset(dir(nn.ModuleDict()))
"""Names that a module in a `ModuleDict` cannot have."""


def _key(source: str) -> str:
    """Return a source's name as that of a module, which has no dots; no name begins with a space."""
    return f" {source}" if source in _TAKEN else source.replace(".", "·")


def _name(key: str) -> str:
    return key.removeprefix(" ").replace("·", ".")
