"""Paceline's live side of gossip.py: peers in processes of their own that do not train, over HTTP on loopback.

Run as a module, by `lifeline`, it starts them and prints what they took.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

import forks
import processes
from commands import told_by
from epochs import figures
from repeats import MeasurementFailed

_LIMIT_SECONDS = 180.0
_NUM_SAMPLES = 2


def measure_epochs(*, widths: Sequence[int], graph: str, num_peers: int, num_epochs: int) -> dict[str, float]:
    """An epoch of mixing, the first left out.

    Peer number k adds k (from 1) to every parameter. Mixing keeps the mean, so the average of all in the end is known.
    """
    setup = {"widths": list(widths), "graph": graph, "num_peers": num_peers, "num_epochs": num_epochs}
    # Many processes on few cores: one thread each, as a local fleet has it.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    told = told_by(
        "lifeline",
        *(sys.executable, "-m", "own_gossip", json.dumps(setup)),
        limit_seconds=_LIMIT_SECONDS,
        environment=environment,
    )
    if not told.pop("is_average_right"):
        raise MeasurementFailed("the average is not that of the peers")
    return figures(num_peers=num_peers, **told)


def main() -> None:
    """Start the peers, wait for them, and tell."""
    setup = json.loads(sys.argv[1])
    ports = [processes.free_port() for _ in range(setup["num_peers"])]
    peers = forks.gather(take_part, range(len(ports)), [ports] * len(ports), [setup] * len(ports))
    counts = ("num_models", "exchange_bytes", "meeting_bytes")
    told = {
        "seconds": sum(peer["seconds"] for peer in peers) / len(peers),
        "model_bytes": peers[0]["model_bytes"],
        **{name: sum(peer[name] for peer in peers) / (setup["num_epochs"] - 1) for name in counts},
        "is_average_right": all(peer["is_average_right"] for peer in peers),
    }
    print(json.dumps(told))


def take_part(number: int, ports: Sequence[int], setup: dict) -> dict[str, float]:
    """One peer; what it saw from the end of its first epoch to the end of its last."""
    from paceline.axon import loops

    loop = loops.new_event_loop()
    try:
        return loop.run_until_complete(_take_part(number, ports, setup))
    finally:
        loops.shut_down(loop)


async def _take_part(number: int, ports: Sequence[int], setup: dict) -> dict[str, float]:
    import asyncio

    from adding import AddingMachine, AddingTrainer, initial_state, is_everywhere
    from paceline.axon.transports import CountedTransport
    from paceline.events import Event
    from paceline.learning.local_model import LocalModel
    from paceline.learning.vectors import Layout
    from paceline.topologies.base import Contact, Node, serving
    from paceline.topologies.gossip.events import EpochEnded, PeerEnded
    from paceline.topologies.gossip.jobs import GossipJob
    from paceline.topologies.gossip.peer import Peer
    from paceline.topologies.gossip.peer_data import Holding
    from paceline.topologies.gossip.prepared import PreparedJob
    from paceline.topologies.gossip.topology import GossipPlan
    from random_data import random_dataset, task_of
    from traffic import CountedHttp, Counter

    class OnlyParameters(PreparedJob):
        """A job whose model is nothing but its parameters."""

        model_bytes = property(lambda self: model_bytes)

    num_peers, num_epochs, widths = len(ports), setup["num_epochs"], setup["widths"]
    job = GossipJob(epochs=num_epochs, graph=setup["graph"], min_peers=num_peers, patience_seconds=60.0)
    trainer = AddingTrainer(number + 1, widths, is_in_place=False)  # others fetch what it was given
    model_bytes = sum(vector.nbytes for vector in trainer.initial_parameters().values())
    counter, seen, averaged = Counter(model_bytes), [], []

    def emit(event: Event) -> None:
        if isinstance(event, EpochEnded):
            seen.append((asyncio.get_running_loop().time(), counter.traffic))
        elif isinstance(event, PeerEnded):
            averaged.extend(event.averaged)

    dataset = random_dataset(_NUM_SAMPLES, side=8, num_test_samples=1)
    task = task_of(job, dataset)
    model = LocalModel(task)
    model.layout = Layout(initial_state(widths))  # all that is used of it
    prepared = OnlyParameters(job, task, dataset, model, initial_state(widths))
    node = Node(
        name=f"peer-{number}",
        contacts=[Contact(f"http://127.0.0.1:{ports[0]}")] if number else [],
        transport=CountedTransport(CountedHttp(counter)),
        machine=AddingMachine(trainer),
        emit=emit,
    )
    peer = Peer(prepared, node, Holding(dataset.train.take(slice(None))))
    async with serving(peer, GossipPlan(prepared), node.name, host="127.0.0.1", port=ports[number]) as address:
        finished = await peer.run(address)
        await asyncio.to_thread(forks.wait_for_all)  # so that all can say goodbye
    (start, before), *_, (end, after) = seen
    expected = num_epochs * (num_peers + 1) / 2
    return {
        "seconds": (end - start) / (num_epochs - 1),
        **after.since(before)._asdict(),
        "model_bytes": model_bytes,
        "is_average_right": len(averaged) == num_peers and is_everywhere(expected, list(finished.state.values())),
    }


if __name__ == "__main__":
    import adding  # noqa: F401  (before processes are forked)
    import paceline.topologies.gossip.topology  # noqa: F401

    main()
