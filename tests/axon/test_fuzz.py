"""The fuzzer at a small size; `make fuzz` runs it at full size."""

from __future__ import annotations

import pickle

import pytest

from tests.axon import fuzz
from tests.axon.fuzz_corpus import pickle_bombs
from tests.axon.fuzz_requests import RequestMaker


@pytest.mark.parametrize(("worker_loop", "num_requests"), [("fastest", 3000), ("asyncio", 1000)])
def test_the_worker_takes_no_harm(worker_loop, num_requests):
    result = fuzz.run(num_requests, seed=7, seconds_limit=60, worker_loop=worker_loop)
    print(result.summary())
    assert result.problems == []
    assert result.sent.total() == num_requests
    assert len(result.sent) == len(RequestMaker._MAKERS) + 1  # wrong tokens and origins come from one of them
    assert {200, 202, 204, 400, 401, 403, 404, 422, 500} <= set(result.statuses)
    assert result.exit_status == 0


def make_shots(seed, count):
    shots = iter(RequestMaker(seed, "token", "/nowhere/marker", [1]))
    return [next(shots) for _ in range(count)]


def test_the_same_seed_makes_the_same_requests():
    assert make_shots(1, 300) == make_shots(1, 300)
    assert make_shots(1, 300) != make_shots(2, 300)


def test_bombs_go_off_when_they_are_unpickled(tmp_path):
    """Else the fuzzer's check that nothing was executed would check nothing."""
    marker = tmp_path / "marker"
    bombs = [bomb for bomb in pickle_bombs(str(marker)) if not bomb.startswith((b"PK", b"\x93NUMPY"))]
    assert len(bombs) >= 3 * pickle.HIGHEST_PROTOCOL
    for bomb in bombs:
        made = pickle.loads(bomb)
        if hasattr(made, "close"):
            made.close()
        assert marker.exists()
        marker.unlink()
