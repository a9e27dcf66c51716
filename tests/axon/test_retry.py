"""Which failures are tried again, and when."""

import asyncio

import pytest

from paceline.axon.retry import retry
from paceline.errors import BadReply, Busy, ConnectionLost, Refused, TimedOut, TlsFailed, Unreachable


@pytest.fixture
def attempt(run_virtual):
    """Fail in these ways, then succeed; returns what comes of it, the number of attempts and the seconds."""

    def attempt(*failures, give_up_seconds=30.0):
        left, count = list(failures), 0

        async def once():
            nonlocal count
            count += 1
            if left:
                raise left.pop(0)
            return "answer"

        async def main():
            loop = asyncio.get_running_loop()
            started = loop.time()
            try:
                found = await retry(once, give_up_seconds=give_up_seconds)
            except Exception as error:
                found = error
            return found, count, loop.time() - started

        return run_virtual(main())

    return attempt


@pytest.mark.parametrize("error", [Unreachable("nobody"), TimedOut("late"), ConnectionLost("cut")])
def test_what_did_not_get_through_is_tried_again(attempt, error):
    assert attempt(error, error) == ("answer", 3, pytest.approx(0.05 + 0.1))
    assert attempt(*[error] * 99)[0] is error


@pytest.mark.parametrize("error", [TlsFailed("other"), Refused("no", status=401), BadReply("gibberish")])
def test_a_no_is_final(attempt, error):
    assert attempt(error) == (error, 1, 0.0)


def test_not_now_is_tried_again_later(attempt):
    busy = Busy("full", status=503, retry_after_seconds=4.0)
    assert attempt(busy, busy) == ("answer", 3, pytest.approx(4.0 + 5.0))
    assert attempt(*[busy] * 99, give_up_seconds=3.0) == (busy, 1, 0.0)
