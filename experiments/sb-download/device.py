"""What a device does: downloads a few shards to measure its link, then many, and tells how long that took."""

from __future__ import annotations

from asyncio import get_running_loop
from typing import Any

from paceline import axon
from paceline.axon.transports import FaultyTransport, HttpTransport, Link
from paceline.devices.subset_benchmark import Transfer, fit_direction, time_transfers
from paceline.fleets.live import run_live
from reproduction.companions import answer_all


class Downloads:
    """Downloads over a new connection."""

    def __init__(self, *, url: str, token: str, latency_ms: float) -> None:
        link = Link(latency_seconds=latency_ms / 1000)
        self._remote = axon.connect(url, token=token, transport=FaultyTransport(HttpTransport(), link))

    async def fetch(self, num_shards: int) -> int:
        """Download so many; returns their bytes."""
        return sum(x.nbytes + y.nbytes for x, y in await self._remote.fetch.coro(num_shards))

    async def timed(self, num_shards: int) -> Transfer:
        """Download so many by the clock."""
        start = get_running_loop().time()
        return Transfer(await self.fetch(num_shards), get_running_loop().time() - start)


async def answer(*, num_benchmark: int, num_shards: int, **link: Any) -> dict[str, float]:
    """Predict how long many shards take, by the thesis' way and by ours, and download them."""
    await Downloads(**link).fetch(1)  # what Python loads for its first call is not of the link
    plain = await Downloads(**link).timed(num_benchmark)
    kept = Downloads(**link)
    fitted = fit_direction(await time_transfers(lambda is_large: kept.fetch(num_benchmark if is_large else 1)))
    actual = await kept.timed(num_shards)
    return {
        "plain": num_shards / num_benchmark * plain.seconds,
        "fitted": fitted.latency_seconds + actual.num_bytes / fitted.rate.per_second,
        "seconds": actual.seconds,
    }


if __name__ == "__main__":
    run_live(answer_all(answer))
