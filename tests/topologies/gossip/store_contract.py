"""The contract of stores: what peers of a gossip run rely on, wherever figures are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from paceline.topologies.gossip.figures import Figures
from paceline.topologies.gossip.stores import Store

PATIENCE_SECONDS = 10.0
"""For figures to get from one peer to another, by the loop's clock."""


def make_figures(learner: str = "pi1", **changes: Any) -> Figures:
    """Figures of a learner, unless changed."""
    figures = Figures(learner=learner, samples_per_second=120.5, num_samples=600, epoch=3)
    return msgspec.structs.replace(figures, **changes)


async def read_until(store: Store, is_wanted: Callable[[dict[str, Figures]], bool]) -> dict[str, Figures]:
    """What a store tells as soon as that is as wanted; what it tells in the end, if it never is."""
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE_SECONDS
    while True:
        told = await store.read()
        if is_wanted(told) or loop.time() > until:
            return told
        await asyncio.sleep(0.01)


class StoreContract:
    """Figures as `Store` promises them.

    Provide the fixture `make_store`, which takes a learner's name and gives the store of that peer; those of one test
    are of one run. If they need another event loop, provide `run` as well, which runs a coroutine to its end. Stores
    are made, used and closed on the loop.
    """

    @pytest.fixture
    def run(self) -> Callable[[Awaitable[Any]], Any]:
        """Run on an ordinary event loop."""
        return asyncio.run  # type: ignore[return-value]

    def _with_stores(
        self, run: Any, make_store: Callable[[str], Store], num_stores: int, test: Callable[..., Awaitable[None]]
    ) -> None:
        async def main() -> None:
            stores = [make_store(f"pi{number}") for number in range(1, num_stores + 1)]
            try:
                await test(*stores)
            finally:
                for store in stores:
                    await store.aclose()

        run(main())

    def test_has_a_name_for_messages(self, run: Any, make_store: Any) -> None:
        async def test(store: Store) -> None:
            assert store.name
            assert "\n" not in store.name

        self._with_stores(run, make_store, 1, test)

    def test_nothing_was_told(self, run: Any, make_store: Any) -> None:
        async def test(store: Store) -> None:
            assert await store.read() == {}

        self._with_stores(run, make_store, 1, test)

    def test_own_figures_are_read_at_once(self, run: Any, make_store: Any) -> None:
        async def test(store: Store) -> None:
            await store.publish(make_figures("pi1"))
            assert await store.read() == {"pi1": make_figures("pi1")}

        self._with_stores(run, make_store, 1, test)

    def test_newer_figures_take_the_place_of_older_ones(self, run: Any, make_store: Any) -> None:
        async def test(store: Store) -> None:
            for epoch in (1, 2):
                await store.publish(make_figures("pi1", epoch=epoch, samples_per_second=100.0 / epoch))
            assert await store.read() == {"pi1": make_figures("pi1", epoch=2, samples_per_second=50.0)}

        self._with_stores(run, make_store, 1, test)

    def test_peers_read_what_the_others_told(self, run: Any, make_store: Any) -> None:
        async def test(*stores: Store) -> None:
            told = {f"pi{number}": make_figures(f"pi{number}", epoch=number) for number in (1, 2, 3)}
            for store, figures in zip(stores, told.values(), strict=True):
                await store.publish(figures)
            for store in stores:
                assert await read_until(store, lambda read: len(read) == 3) == told

        self._with_stores(run, make_store, 3, test)

    def test_the_dictionary_is_the_readers(self, run: Any, make_store: Any) -> None:
        async def test(store: Store) -> None:
            await store.publish(make_figures("pi1"))
            (await store.read()).clear()
            assert list(await store.read()) == ["pi1"]

        self._with_stores(run, make_store, 1, test)

    def test_figures_at_the_limits(self, run: Any, make_store: Any) -> None:
        async def test(store: Store) -> None:
            figures = make_figures("pi1", samples_per_second=0.0, num_samples=0, epoch=0)
            await store.publish(figures)
            assert await store.read() == {"pi1": figures}

        self._with_stores(run, make_store, 1, test)

    def test_used_by_several_tasks_at_once(self, run: Any, make_store: Any) -> None:
        async def test(store: Store) -> None:
            await store.publish(make_figures("pi1"))
            read = await asyncio.gather(store.publish(make_figures("pi1", epoch=4)), store.read(), store.read())
            assert all(told in ({"pi1": make_figures()}, {"pi1": make_figures(epoch=4)}) for told in read[1:])

        self._with_stores(run, make_store, 1, test)

    def test_closing_twice(self, run: Any, make_store: Any) -> None:
        async def test(store: Store) -> None:
            await store.publish(make_figures("pi1"))
            await store.aclose()

        self._with_stores(run, make_store, 1, test)
