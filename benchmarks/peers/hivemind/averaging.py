"""Averages a model among peers with hivemind, round after round; needs hivemind, and prints seconds as JSON.

As in hivemind's own benchmark_averaging.py, this process starts all peers, each with a DHT node and an averager that
have processes of their own. The group is all peers, and complete as soon as all are in it. Between rounds, outside of
the measured time, peer number k adds k (from 1) to every parameter.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time

import hivemind
import torch

LOOPBACK = ["/ip4/127.0.0.1/tcp/0"]


def main() -> None:
    """Run it."""
    setup = json.loads(sys.argv[1])
    num_peers, num_rounds = setup["num_peers"], setup["num_rounds"]
    first = hivemind.DHT(start=True, use_ipfs=False, host_maddrs=LOOPBACK)
    known = [str(address) for address in first.get_visible_maddrs()]
    nodes = [first] + [
        hivemind.DHT(start=True, use_ipfs=False, host_maddrs=LOOPBACK, initial_peers=known)
        for _ in range(num_peers - 1)
    ]
    averagers = [
        hivemind.averaging.DecentralizedAverager(
            [torch.zeros(setup["num_parameters"])],
            dht=node,
            prefix="benchmark",
            target_group_size=num_peers,
            min_group_size=num_peers,
            start=True,
        )
        for node in nodes
    ]
    round_seconds = []
    for _ in range(num_rounds):
        for number, averager in enumerate(averagers, 1):
            with averager.get_tensors() as tensors:
                tensors[0].add_(number)
        start = time.perf_counter()
        for step in [averager.step(wait=False) for averager in averagers]:
            step.result()
        round_seconds.append(time.perf_counter() - start)
    expected, is_average_right = num_rounds * (num_peers + 1) / 2, True
    for averager in averagers:
        with averager.get_tensors() as tensors:
            ends = tensors[0].aminmax()
            is_average_right &= all(math.isclose(float(end), expected, rel_tol=1e-3) for end in ends)
    print(json.dumps({"round_seconds": round_seconds, "is_average_right": is_average_right}), flush=True)
    os._exit(0)  # shutting all down takes half a minute; whoever started this ends what is left


if __name__ == "__main__":
    main()
