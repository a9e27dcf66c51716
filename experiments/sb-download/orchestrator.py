"""Serves shards over HTTP while the experiment runs: told where, it answers with its address."""

from __future__ import annotations

import asyncio
import json
import sys

import numpy as np

from paceline import axon

# 500 samples of MNIST, as they are sent. Nothing on the way looks at them, so that others of that size will do.
SHARD = (np.zeros((500, 1, 28, 28), np.uint8), np.zeros(500, np.uint8))


async def main() -> None:
    """Serve."""
    worker = axon.Worker("orchestrator")

    @worker.rpc(executor="loop")
    def fetch(num_shards: int) -> list[tuple[np.ndarray, np.ndarray]]:
        return [SHARD] * num_shards

    async with worker.serving(port=0, **json.loads(sys.stdin.readline())) as address:
        print(json.dumps({"url": str(address)}), flush=True)
        await asyncio.to_thread(sys.stdin.read)  # ends with the experiment, however that ends


if __name__ == "__main__":
    asyncio.run(main())
