"""Stores keep the contract; one that falls back reports when its first is lost and when it is back."""

import asyncio

import msgspec
import pytest

from paceline.errors import PacelineError, Unreachable
from paceline.topologies.gossip.figures import Figures
from paceline.topologies.gossip.stores import FallbackStore
from tests.topologies.gossip.answers import DictStore
from tests.topologies.gossip.store_contract import StoreContract, make_figures


class TestFallbackStore(StoreContract):
    @pytest.fixture(params=[False, True], ids=["with its first", "without its first"])
    def make_store(self, request):
        shared = {}

        def make(learner):
            primary = DictStore()
            primary.is_away = request.param
            return FallbackStore(primary, DictStore(shared=shared), lambda reason: None, pytest.fail)

        return make


class Pair:
    """A store that falls back, its two members, and what it reported."""

    def __init__(self, **options):
        self.primary, self.backup, self.reported = DictStore("first"), DictStore("second"), []
        self.store = FallbackStore(
            self.primary, self.backup, self.reported.append, lambda: self.reported.append("back"), **options
        )


def test_lost_and_back_are_reported_once(run_virtual):
    async def main():
        pair = Pair(retry_seconds=10)
        pair.primary.fails_with = Unreachable("the plug is out")
        for epoch in (1, 2):
            await pair.store.publish(make_figures("pi1", epoch=epoch))
            assert await pair.store.read() == {"pi1": make_figures("pi1", epoch=epoch)}
        assert (pair.reported, pair.primary.num_tries) == (["the plug is out"], 1)
        await asyncio.sleep(10)
        await pair.store.read()
        assert (pair.reported, pair.primary.num_tries) == (["the plug is out"], 2)
        pair.primary.fails_with = None
        await asyncio.sleep(9)
        await pair.store.publish(make_figures("pi1", epoch=3))
        assert pair.reported == ["the plug is out"]
        await asyncio.sleep(1)
        await pair.store.publish(make_figures("pi1", epoch=4))
        assert pair.reported == ["the plug is out", "back"]
        assert pair.primary.kept["pi1"].epoch == 4
        pair.primary.fails_with = Unreachable("again")
        await pair.store.read()
        assert pair.reported == ["the plug is out", "back", "again"]

    run_virtual(main())


def test_an_empty_first_is_filled_up_from_the_second(run_virtual):
    pair = Pair()
    pair.primary.kept = {"pi1": make_figures("pi1", epoch=9)}
    pair.backup.kept = {name: make_figures(name, epoch=8) for name in ("pi1", "pi2")}
    read = run_virtual(pair.store.read())
    assert {name: figures.epoch for name, figures in read.items()} == {"pi1": 9, "pi2": 8}


def test_what_is_no_loss_is_not_hidden_and_both_are_closed_even_so(run_virtual):
    pair = Pair()
    pair.primary.fails_with = PacelineError("a mistake")
    for use in (pair.store.read, pair.store.aclose):
        with pytest.raises(PacelineError, match="a mistake"):
            run_virtual(use())
    assert (pair.reported, pair.primary.num_closed, pair.backup.num_closed) == ([], 1, 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"learner": ""},
        {"learner": "a\nb"},
        {"samples_per_second": -1.0},
        {"samples_per_second": float("nan")},
        {"num_samples": -1},
        {"epoch": -1},
    ],
)
def test_figures_that_cannot_be(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        msgspec.convert({**msgspec.structs.asdict(make_figures()), **changes}, Figures)
