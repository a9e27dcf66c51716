"""Background load: other work of a device, in states that change from round to round."""

from __future__ import annotations

import contextlib
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from paceline.devices.states import DeviceState, check_states, draw_state
from paceline.devices.stressors import STRESSORS, Fetch
from paceline.errors import ConfigError
from paceline.events import Phase
from paceline.spelling import check_known


class BackgroundLoad(ABC):
    """Other work of a device, in states that change from round to round.

    Its learner calls it on its event loop: `begin_round` as each round begins, `enter_phase` with each phase, and
    `aclose` at the end, whatever happens.

    Attributes:
        states: names of the states, at least one.
        probabilities: probabilities of the states, in their order; None if unknown.
        state: current state; the first, until a round begins.
    """

    states: tuple[str, ...]
    probabilities: tuple[float, ...] | None
    state: str

    @abstractmethod
    def begin_round(self) -> None:
        """Draw the state of the next round."""

    @abstractmethod
    def held_in(self, state: str) -> contextlib.AbstractContextManager[None]:
        """Hold the device in a state while it is measured; no round may begin meanwhile."""

    def enter_phase(self, phase: Phase) -> None:
        """Follow the learner to a phase; while that is "idle", so is the device. Returns at once."""

    async def aclose(self) -> None:
        """End all other work."""


class NoBackgroundLoad(BackgroundLoad):
    """No other work."""

    states = ("idle",)
    probabilities = (1.0,)
    state = "idle"

    def begin_round(self) -> None:
        return

    @contextlib.contextmanager
    def held_in(self, state: str) -> Iterator[None]:
        assert state in self.states
        yield


class StressorLoad(BackgroundLoad):
    """Keeps a real device busy with the stressor of its state, in the phases that this one disturbs.

    Raises `ConfigError` for unknown states, or probabilities that do not add up.

    Args:
        states: states named as in `STRESSORS`; their speed and bandwidth are for modelled devices.
        fetch: downloads a matrix; see `Fetch`.
        chance: generator that states are drawn with.
        are_known: whether to disclose the probabilities.
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

    def enter_phase(self, phase: Phase) -> None:
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
        self.enter_phase("idle")  # stops all of them, also if the wait for the first is cancelled
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
    if not states:
        raise ConfigError(f"a device has at least one state; allowed: {', '.join(STRESSORS)}")
    try:
        for state in states:
            check_known("state", state.name, STRESSORS)
        check_states(states)
    except ValueError as error:
        raise ConfigError(str(error)) from error
