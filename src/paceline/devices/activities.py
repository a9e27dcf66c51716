"""Activities: what a device does besides, in states that change from round to round."""

from __future__ import annotations

import contextlib
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from paceline.devices.states import DeviceState, check_states, draw_state
from paceline.devices.stressors import STRESSORS, Fetch
from paceline.errors import ConfigError
from paceline.events import Phase
from paceline.spelling import suggest


class Activity(ABC):
    """What a device does besides, in states that change from round to round.

    Its learner calls it, on its event loop: `begin_round` as each round begins for it, `turn_to` with each phase, and
    `aclose` however it ends.

    Attributes:
        states: their names, at least one.
        probabilities: of the states, in their order; None if nobody knows them.
        state: the one it is in; the first, until a round begins.
    """

    states: tuple[str, ...]
    probabilities: tuple[float, ...] | None
    state: str

    @abstractmethod
    def begin_round(self) -> None:
        """Draw the state of the next round."""

    @abstractmethod
    def held_in(self, state: str) -> contextlib.AbstractContextManager[None]:
        """Stay in one of the states meanwhile, to be measured in it; afterwards it is as before.

        No round may begin meanwhile.
        """

    def turn_to(self, phase: Phase) -> None:
        """The learner turned to this phase; while it is "idle", nothing happens besides. Returns at once."""

    async def aclose(self) -> None:
        """End whatever runs beside."""


class Undisturbed(Activity):
    """Does nothing besides."""

    states = ("idle",)
    probabilities = (1.0,)
    state = "idle"

    def begin_round(self) -> None:
        return

    @contextlib.contextmanager
    def held_in(self, state: str) -> Iterator[None]:
        assert state in self.states
        yield


class StressedActivity(Activity):
    """Keeps a real device busy, with the stressor of its state, beside the phases that this one disturbs.

    Args:
        states: named as in `STRESSORS`; what they say of speed and bandwidth is for devices that are modelled.
        fetch: downloads a matrix; see `Fetch`.
        chance: that states are drawn with.
        are_known: whether to tell the probabilities.

    Raises `ConfigError` for states that are not known, or whose probabilities do not add up.
    """

    def __init__(
        self, states: Sequence[DeviceState], fetch: Fetch, chance: random.Random, *, are_known: bool = True
    ) -> None:
        _check(states)
        self.states = tuple(state.name for state in states)
        self.probabilities = tuple(state.probability for state in states) if are_known else None
        self.state = self.states[0]
        self._distribution = tuple(states)
        self._chance = chance
        self._phase: Phase = "idle"
        self._stressors = {name: STRESSORS[name](fetch) for name in self.states}

    def begin_round(self) -> None:
        self._be_in(draw_state(self._distribution, self._chance).name)

    def turn_to(self, phase: Phase) -> None:
        self._phase = phase
        self._be_in(self.state)

    @contextlib.contextmanager
    def held_in(self, state: str) -> Iterator[None]:
        assert state in self.states
        before = self.state
        self._be_in(state)
        try:
            yield
        finally:
            self._be_in(before)

    async def aclose(self) -> None:
        self.turn_to("idle")  # stops all of them, also if the wait for the first is cancelled
        for stressor in self._stressors.values():
            await stressor.aclose()

    def _be_in(self, state: str) -> None:
        self.state = state
        for name, stressor in self._stressors.items():
            if name == state and self._phase in stressor.phases:
                stressor.start()
            else:
                stressor.stop()


def _check(states: Sequence[DeviceState]) -> None:
    for state in states:
        if state.name not in STRESSORS:
            raise ConfigError(f"state {state.name!r} is unknown; {suggest(state.name, STRESSORS)}")
    if not states:
        raise ConfigError(f"a device has at least one state; allowed: {', '.join(STRESSORS)}")
    try:
        check_states(states)
    except ValueError as error:
        raise ConfigError(str(error)) from error
