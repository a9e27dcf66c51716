import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.topologies.gossip.graphs import GRAPHS, GraphSpec, Mixing, neighbours_of
from tests.topologies.gossip.spectra import spectral_gap

SPECS = st.builds(GraphSpec, name=st.sampled_from(list(GRAPHS)), degree=st.integers(1, 12), seed=st.integers(0, 2**62))
NAMES = st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=24, unique=True)


def peers(count):
    return [f"pi{number:03}" for number in range(count)]


def reachable(neighbours):
    reached, border = set(), list(neighbours)[:1]
    while border:
        name = border.pop()
        if name not in reached:
            reached.add(name)
            border += neighbours[name]
    return reached


@given(names=NAMES, spec=SPECS)
@settings(max_examples=150, deadline=None)
def test_weights_are_symmetric_and_doubly_stochastic_on_a_connected_graph(names, spec):
    neighbours = neighbours_of(names, spec)
    assert reachable(neighbours) == set(names)
    assert all(name in neighbours[other] and name != other for name in names for other in neighbours[name])
    mixing = Mixing.over(names, spec)
    assert mixing.names == tuple(sorted(names))
    assert np.array_equal(mixing.matrix, mixing.matrix.T)
    assert np.allclose(mixing.matrix.sum(axis=0), 1, atol=1e-12)
    assert (mixing.matrix >= 0).all()
    assert 0 < spectral_gap(mixing) <= 1
    for name in names:
        weights = mixing.weights_of(name)
        assert set(weights) == {name, *neighbours[name]}
        for other in neighbours[name]:
            assert weights[other] == 1 / (1 + max(len(neighbours[name]), len(neighbours[other])))


@pytest.mark.parametrize("count", [3, 4, 5, 13, 64])
def test_the_gaps_that_are_known(count):
    assert spectral_gap(Mixing.over(peers(count), GraphSpec(name="full"))) == pytest.approx(1)
    # Of (I + A) / 3: 1/3 + 2/3 · cos 2πk/n.
    eigenvalues = [1 / 3 + 2 / 3 * math.cos(2 * math.pi * k / count) for k in range(1, count)]
    gap = spectral_gap(Mixing.over(peers(count), GraphSpec(name="ring")))
    assert gap == pytest.approx(1 - max(map(abs, eigenvalues)))


@pytest.mark.parametrize(
    ("count", "degrees"), [(1, {0}), (2, {1}), (4, {2}), (6, {3}), (7, {2}), (9, {4}), (12, {4}), (13, {2}), (64, {4})]
)
def test_a_torus_is_as_square_as_can_be(count, degrees):
    neighbours = neighbours_of(peers(count), GraphSpec(name="torus"))
    assert {len(others) for others in neighbours.values()} == degrees
    if count == 12:  # three rows of four: 0 to 3, 4 to 7, 8 to 11
        assert neighbours["pi000"] == ("pi001", "pi003", "pi004", "pi008")


@given(count=st.integers(1, 40), degree=st.integers(1, 45), seed=st.integers(0, 1000))
@settings(max_examples=100, deadline=None)
def test_a_regular_graph_has_one_degree(count, degree, seed):
    neighbours = neighbours_of(peers(count), GraphSpec(name="regular", degree=degree, seed=seed))
    [found] = {len(others) for others in neighbours.values()}
    wanted = min(max(degree, 2), count - 1)
    assert found == wanted + (wanted % 2 and count % 2)


def test_regular_graphs_differ_by_seed_and_mix_faster_than_a_ring():
    graphs = [neighbours_of(peers(64), GraphSpec(name="regular", degree=4, seed=seed)) for seed in range(5)]
    assert len({str(graph) for graph in graphs}) == 5
    gaps = [spectral_gap(Mixing.over(peers(64), GraphSpec(name="regular", seed=seed))) for seed in range(5)]
    torus, ring = (spectral_gap(Mixing.over(peers(64), GraphSpec(name=name))) for name in ("torus", "ring"))
    assert sum(gaps) / len(gaps) > torus
    assert min(gaps) > 10 * ring


def test_a_regular_graph_is_the_same_in_every_process():
    neighbours = neighbours_of((f"p{number}" for number in range(8)), GraphSpec(name="regular", degree=3, seed=7))
    found = "; ".join(" ".join(others) for others in neighbours.values())
    assert found == "p1 p3 p6; p0 p2 p7; p1 p4 p5; p0 p4 p7; p2 p3 p5; p2 p4 p6; p0 p5 p7; p1 p3 p6"


@pytest.mark.parametrize(
    "matrix",
    [
        [[0.5, 0.5], [0.6, 0.5]],
        [[0.5, 0.5], [0.4, 0.6]],
        [[1.5, -0.5], [-0.5, 1.5]],
        [[math.nan, 0.5], [0.5, 0.5]],
        [[1.0]],
    ],
)
def test_weights_that_would_not_lead_to_the_average(matrix):
    with pytest.raises(ValueError, match="weights of"):
        Mixing(("a", "b"), np.array(matrix))


def test_weights_cannot_be_written_to():
    given = np.array([[0.5, 0.5], [0.5, 0.5]])
    mixing = Mixing(("a", "b"), given)
    given[0, 0] = 7
    assert mixing.weights_of("a") == {"a": 0.5, "b": 0.5}
    with pytest.raises(ValueError, match="read-only"):
        mixing.matrix[0, 0] = 1
    with pytest.raises(ValueError, match="not in tuple"):
        mixing.weights_of("c")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GraphSpec(name="star"), "name is 'star'; allowed: ring, torus, regular, full"),
        (lambda: GraphSpec(degree=0), "degree is 0; it must be at least 1"),
        (lambda: neighbours_of([], GraphSpec()), "at least one peer"),
        (lambda: neighbours_of(["a", "b", "a"], GraphSpec()), "a name of its own"),
    ],
)
def test_what_cannot_be(make, message):
    with pytest.raises(ValueError, match=message):
        make()
