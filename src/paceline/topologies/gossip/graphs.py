"""Who exchanges models with whom, and with which weights: the same answer at every peer that knows the same names."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from paceline.checks import Count, check_fields

GraphName: TypeAlias = Literal["ring", "torus", "regular", "full"]

_Edges: TypeAlias = set[tuple[int, int]]  # of numbered peers, the lesser number first

_SWAPS_PER_EDGE = 10  # after some ten tries for each edge, a graph hardly depends on the one it was made of
_TOLERANCE = 1e-9  # of a sum of weights that should be 1


class GraphSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The graph that the living peers form.

    Attributes:
        name: ``ring``; ``torus``, as square as the number of peers allows, and a ring if that is a prime; ``regular``,
            drawn at random; ``full``, everybody with everybody.
        degree: neighbours of each peer of a regular graph. It has all others if they are no more than that, one more
            if degree and number of peers are both odd, and at least two, since it is to be connected.
        seed: seed of a regular graph.
    """

    name: GraphName = "ring"
    degree: Count = 4
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, eq=False)
class Mixing:
    """Weights of mixing: the part of its next model that a peer takes from each other.

    Raises `ValueError` unless each row and each column of weights adds up to 1 and none is negative: only then do
    peers that mix again and again arrive at the average of what they started with.

    Attributes:
        names: names of the peers, sorted.
        matrix: a row for each peer, with the weights that it gives to every peer, itself included; read-only.
    """

    names: tuple[str, ...]
    matrix: NDArray[np.float64]

    def __post_init__(self) -> None:
        matrix = np.array(self.matrix, dtype=np.float64)
        if matrix.shape != (len(self.names), len(self.names)) or not self.names:
            raise ValueError(f"the weights of {len(self.names)} peers have the shape {matrix.shape}")
        sums = np.concatenate([matrix.sum(axis=0), matrix.sum(axis=1)])
        if not (matrix >= 0).all() or not (np.abs(sums - 1) <= _TOLERANCE).all():  # also for what is not a number
            raise ValueError(f"weights of peers must be at least 0, and add up to 1, not to {sums.tolist()}")
        matrix.setflags(write=False)
        object.__setattr__(self, "matrix", matrix)

    @classmethod
    def over(cls, names: Iterable[str], spec: GraphSpec) -> Mixing:
        """Return the Metropolis weights of a graph of these peers: 1 / (1 + the larger degree of two).

        A peer gives the rest to itself. Such weights are symmetric and can be had from the neighbours' degrees alone
        (Xiao, Boyd and Lall, "Distributed Average Consensus with Time-Varying Metropolis Weights").
        """
        neighbours = neighbours_of(names, spec)
        places = {name: place for place, name in enumerate(neighbours)}
        matrix = np.zeros((len(places), len(places)))
        for name, others in neighbours.items():
            for other in others:
                matrix[places[name], places[other]] = 1 / (1 + max(len(others), len(neighbours[other])))
        np.fill_diagonal(matrix, 1 - matrix.sum(axis=1))
        return cls(tuple(neighbours), matrix)

    def weights_of(self, name: str) -> dict[str, float]:
        """Return the weights that a peer gives to itself and its neighbours; raises `ValueError` if it is not there."""
        row = self.matrix[self.names.index(name)]
        return {self.names[place]: float(row[place]) for place in np.flatnonzero(row)}


def neighbours_of(names: Iterable[str], spec: GraphSpec) -> dict[str, tuple[str, ...]]:
    """Return the neighbours of each peer, sorted; they are mutual, and everybody can be reached from everybody.

    Raises `ValueError` if there is no peer, or two have the same name.
    """
    peers = sorted(names)
    if not 0 < len(peers) == len(set(peers)):
        raise ValueError("a graph needs at least one peer, and a name of its own for each")
    found: dict[str, list[str]] = {name: [] for name in peers}
    for one_place, other_place in GRAPHS[spec.name](len(peers), spec):
        found[peers[one_place]].append(peers[other_place])
        found[peers[other_place]].append(peers[one_place])
    return {name: tuple(sorted(others)) for name, others in found.items()}


def _torus(num_peers: int, spec: GraphSpec) -> _Edges:
    height = next(divisor for divisor in range(math.isqrt(num_peers), 0, -1) if num_peers % divisor == 0)
    width = num_peers // height
    edges: _Edges = set()
    for here in range(num_peers):
        row, column = divmod(here, width)
        edges.add(_edge(here, row * width + (column + 1) % width))
        edges.add(_edge(here, (row + 1) % height * width + column))
    return {(one, other) for one, other in edges if one != other}


def _regular(num_peers: int, spec: GraphSpec) -> _Edges:
    degree = min(max(spec.degree, 2), num_peers - 1)
    if degree % 2 and num_peers % 2:
        degree += 1
    draws = (_drawn(num_peers, degree, f"{spec.seed}/{draw}") for draw in itertools.count())
    return next(edges for edges in draws if _is_connected(num_peers, edges))  # nearly always the first


def _drawn(num_peers: int, degree: int, seed: str) -> _Edges:
    # Of this generator, Python promises the same `random()` in all versions; peers may run different ones.
    rng = random.Random(seed)
    keys = [rng.random() for _ in range(num_peers)]
    places = sorted(range(num_peers), key=keys.__getitem__)
    edges = {_edge(places[one], places[other]) for one, other in _circulant(num_peers, degree)}
    return _swapped(edges, rng) if degree > 2 else edges  # swapped ends would take a ring apart


def _circulant(num_peers: int, degree: int) -> _Edges:
    """Link peers in a circle to their nearest; an odd degree, which needs an even number, adds the opposite one."""
    steps = [*range(1, degree // 2 + 1), *([num_peers // 2] if degree % 2 else [])]
    edges = {_edge(place, (place + step) % num_peers) for place in range(num_peers) for step in steps}
    return {(one, other) for one, other in edges if one != other}


def _swapped(edges: _Edges, rng: random.Random) -> _Edges:
    """Let two edges, chosen at random, swap ends, many times; all degrees stay what they were."""
    ordered = sorted(edges)
    present = set(ordered)
    for _ in range(_SWAPS_PER_EDGE * len(ordered)):
        first, second = (int(rng.random() * len(ordered)) for _ in range(2))
        (a, b), (c, d) = ordered[first], ordered[second]
        if rng.random() < 0.5:
            c, d = d, c
        if len({a, b, c, d}) < 4 or _edge(a, d) in present or _edge(c, b) in present:
            continue
        present -= {ordered[first], ordered[second]}
        ordered[first], ordered[second] = _edge(a, d), _edge(c, b)
        present |= {ordered[first], ordered[second]}
    return present


def _is_connected(num_peers: int, edges: _Edges) -> bool:
    neighbours: list[list[int]] = [[] for _ in range(num_peers)]
    for one, other in edges:
        neighbours[one].append(other)
        neighbours[other].append(one)
    reached, border = {0}, [0]
    while border:
        border = [other for place in border for other in neighbours[place] if other not in reached]
        reached.update(border)
    return len(reached) == num_peers


def _edge(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)


GRAPHS: dict[str, Callable[[int, GraphSpec], _Edges]] = {
    "ring": lambda num_peers, spec: _circulant(num_peers, 2),
    "torus": _torus,
    "regular": _regular,
    "full": lambda num_peers, spec: set(itertools.combinations(range(num_peers), 2)),
}
"""How each graph is made for so many peers, by its name."""
