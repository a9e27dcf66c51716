"""Running in real time: interrupts end a run once, and in order."""

import asyncio
import os
import signal

import pytest

from paceline.fleets import live
from paceline.fleets.live import Terminated, Termination, run_live
from paceline.topologies.base import Role


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


class Finishing(Role):
    """A role that is told to finish, and may take long over it."""

    def __init__(self, *, is_quick=True):
        self.is_quick, self.was_asked = is_quick, False

    async def run(self, address):
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()

    async def suspend(self):
        self.was_asked = True
        if not self.is_quick:
            await asyncio.Event().wait()


def terminating(role, **options):
    termination = Termination(**options)
    termination.roles.append(role)
    return run_live(role.run(""), termination)


def test_what_is_open_is_finished_before_a_process_is_terminated():
    role = Finishing()
    with pytest.raises(Terminated):
        terminating(role)
    assert role.was_asked
    assert role.is_ending


def test_a_process_of_a_fleet_finishes_on_a_signal_of_its_own_and_ends_at_once_on_sigterm():
    class Member(Finishing):
        async def run(self, address):
            os.kill(os.getpid(), self.number)
            await asyncio.Event().wait()

    for number, was_asked in ((signal.SIGUSR2, True), (signal.SIGTERM, False)):
        role = Member()
        role.number = number
        with pytest.raises(KeyboardInterrupt) as raised:
            terminating(role, signal=signal.SIGUSR2)
        assert (role.was_asked, raised.type is Terminated) == (was_asked, was_asked)


def test_it_is_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr(live, "TERMINATION_SECONDS", 0.01)
    with pytest.raises(Terminated):
        terminating(Finishing(is_quick=False))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_it_at_once(number):
    class Impatient(Finishing):
        async def suspend(self):
            os.kill(os.getpid(), number)
            await super().suspend()

    with pytest.raises(Terminated):
        terminating(Impatient(is_quick=False))


def test_what_cannot_go_on_later_ends_early_with_its_result():
    class Stopping(Finishing):
        async def run(self, address):
            os.kill(os.getpid(), signal.SIGTERM)
            while not termination.is_stopping():
                await asyncio.sleep(0.001)
            return "what was learned"

    role, termination = Stopping(), Termination(can_go_on=False)
    assert run_live(role.run(""), termination) == "what was learned"
    assert termination.is_requested
