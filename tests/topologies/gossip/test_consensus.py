"""Peers that stop learning become alike as fast as the weights of their graph say."""

import numpy as np
import pytest

from paceline.topologies.gossip.graphs import Mixing
from paceline.topologies.gossip.jobs import GossipJob
from tests.topologies.gossip.spectra import spectral_gap
from tests.topologies.gossip.swarm import Swarm, play

NUM_PEERS = 8
EPOCHS = 14


async def mixing_alone(graph, **rules):
    """Peers learn something in the first epoch, each something else, and then only mix."""
    job = GossipJob(epochs=EPOCHS, graph=graph, degree=3, min_peers=NUM_PEERS, evaluate_samples=0, **rules)
    swarm = Swarm(job, num_drifts=1)
    names = [f"peer-{number}" for number in range(NUM_PEERS)]
    for name in names:
        swarm.start(name, [other for other in names[:2] if other != name])
    results = await swarm.results()
    models = np.array(
        [[swarm.models[name, epoch]["float32"].numpy() for name in names] for epoch in range(1, EPOCHS + 1)]
    )
    return job, models, results


def distances(models):
    """Of the peers from their average, epoch by epoch."""
    return np.linalg.norm(models - models.mean(1, keepdims=True), axis=(1, 2))


def assert_average_stays(models, results):
    means = models.mean(1)
    assert np.allclose(means, means[0], atol=1e-5)
    assert all(np.allclose(result.parameters["float32"].numpy(), means[0], atol=1e-4) for result in results.values())
    assert {result.averaged for result in results.values()} == {tuple(sorted(results))}


@pytest.mark.parametrize("graph", ["ring", "torus", "regular"])
def test_distance_falls_as_the_spectral_gap_says(graph):
    job, models, results = play(mixing_alone(graph))
    gap = spectral_gap(Mixing.over([f"peer-{number}" for number in range(NUM_PEERS)], job.graph_spec))
    assert_average_stays(models, results)
    falls = distances(models)
    ratios = falls[1:] / falls[:-1]
    assert (ratios <= 1 - gap + 1e-3).all()  # never slower than the gap allows
    assert ratios[-1] == pytest.approx(1 - gap, abs=0.02)  # and at last as fast: the slowest part is what is left


def test_all_are_alike_after_one_exchange_with_everybody():
    _, models, results = play(mixing_alone("full"))
    assert_average_stays(models, results)
    assert distances(models)[0] < 1e-4


@pytest.mark.parametrize("rules", [{"overlaps": True}, {"compression": "int8"}])
def test_late_and_compressed_exchange_also_bring_them_together(rules):
    _, models, results = play(mixing_alone("ring", **rules))
    falls = distances(models)
    assert falls[-1] < 0.35 * falls[0]
    assert len(results) == NUM_PEERS
