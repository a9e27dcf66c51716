"""How runs of all topologies go on that were interrupted: from the newest state of which all is whole.

A state says by itself what the run goes on from. So the record may be damaged, or end sooner, and what was decided by
what is lost of it still is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from paceline.errors import ConfigError
from paceline.topologies.base import Load

T = TypeVar("T")
N = TypeVar("N", bound="Notes")

_KEY = "notes"  # of the text in the header of a checkpoint
_MAX_NAMED = 3  # states that are damaged, in a message


class Notes(msgspec.Struct, frozen=True, kw_only=True):
    """Base of what is kept with the parameters of a state: what else a run goes on from, and its record relies on."""

    def as_texts(self) -> dict[str, str]:
        """Return what goes into the header of a checkpoint."""
        return {_KEY: msgspec.json.encode(self).decode()}

    @classmethod
    def read(cls: type[N], load: Load, number: int) -> N:
        """Read what was kept with the parameters of a state; raises `ConfigError` if the checkpoint is not whole."""
        texts = load.read_whole(number).header
        try:
            return msgspec.json.decode(texts[_KEY], type=cls)
        except (KeyError, msgspec.DecodeError) as error:
            raise ConfigError(f"checkpoint {number} does not say how to go on from it") from error


@dataclass(frozen=True)
class Found(Generic[T]):
    """The newest state that is whole.

    Attributes:
        content: what was read of it.
        noun: what states are after, such as a round.
        damage: what is wrong with newer ones, by their number, the newest first.
    """

    number: int
    content: T
    noun: str
    damage: Mapping[int, str]

    @property
    def lost(self) -> list[str]:
        """Newer states that are lost, each in a sentence."""
        after = f"going on after {self.noun} {self.number}"
        return [f"{self.noun} {number} is lost: {wrong}; {after}" for number, wrong in self.damage.items()]


def newest_whole(numbers: Iterable[int], read: Callable[[int], T], noun: str) -> Found[T] | None:
    """Find the newest of these states of which all can be read; None if there are none at all.

    Raises `ConfigError` if none is whole.

    Args:
        read: reads all that belongs to a state; raises `ConfigError` if that is damaged or missing.
        noun: what a state is after, such as a round.
    """
    damage: dict[int, str] = {}
    for number in sorted(set(numbers), reverse=True):
        try:
            return Found(number, read(number), noun, damage)
        except ConfigError as error:
            damage[number] = str(error)
    if damage:
        named = "; ".join(f"{noun} {number} is lost: {wrong}" for number, wrong in list(damage.items())[:_MAX_NAMED])
        raise ConfigError(f"no {noun} is whole, so there is nothing to go on from: {named}")
    return None
