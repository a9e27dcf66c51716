"""What predicts a peer's speed, and where it shares figures with others, as the owner of its device wants."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from paceline.devices.contention import ContentionMonitor, ContentionPredictor, Predictor, RecentPredictor, load_profile
from paceline.topologies.base import DeviceOptions
from paceline.topologies.gossip.stores import Store


class Resources:
    """What a peer uses on its device, and lets go of at the end; `ConfigError` for options that cannot be.

    Args:
        run: name of the run, alike for all its peers.

    Attributes:
        store: where figures are shared; None to share them by gossip alone.
    """

    def __init__(self, options: DeviceOptions, run: str) -> None:
        self.store: Store | None = None
        self.predictor: Predictor = RecentPredictor()
        self._monitor: ContentionMonitor | None = None
        if options.store_url is not None:
            from paceline.topologies.gossip.redis_store import RedisStore  # a package that few need

            self.store = RedisStore(options.store_url, run)
        if options.contention is not None:
            profile, self._monitor = load_profile(options.contention), ContentionMonitor()
            self.predictor = ContentionPredictor(profile.seconds_per_sample, profile.slowdown, self._monitor.usage)

    @contextlib.asynccontextmanager
    async def in_use(self) -> AsyncIterator[None]:
        """Watch the device while the block runs, and let go of the store after it."""
        try:
            with self._monitor or contextlib.nullcontext():
                yield
        finally:
            if self.store is not None:
                await self.store.aclose()
