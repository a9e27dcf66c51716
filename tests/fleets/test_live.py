"""Running in real time: interrupts end a run once, and in order."""

import asyncio
import os
import signal

import pytest

from paceline.fleets.live import run_live


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_impatient_user_does_not_keep_a_run_from_cleaning_up(number):
    done = []

    async def main():
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            os.kill(os.getpid(), number)
            await asyncio.sleep(0.01)  # time for the second signal to arrive
            done.append("cleaned up")

    with pytest.raises(KeyboardInterrupt):
        run_live(main())
    assert done == ["cleaned up"]


def test_results_and_errors_come_out():
    async def main(error):
        if error is not None:
            raise error
        return 3

    assert run_live(main(None)) == 3
    with pytest.raises(ZeroDivisionError):
        run_live(main(ZeroDivisionError()))
