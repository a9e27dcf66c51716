"""What a peer needs to go on after it was interrupted, as tensors: its model, its mass, and how far it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import torch

from paceline.errors import ConfigError
from paceline.learning.averaging import State
from paceline.learning.early_stopping import StopReason
from paceline.learning.update_validation import UpdateValidator
from paceline.learning.vectors import Vectors
from paceline.topologies.gossip.mass import MassState

_ABOUT = "about"  # name of the tensor that holds the rest, as JSON
_MODEL = "model/"
_TRAINER = "trainer/"


class About(msgspec.Struct, frozen=True, kw_only=True):
    """All that is no tensor.

    Attributes:
        job: fingerprint of the job.
        epoch: the last that it trained.
        num_drawn: samples that it has drawn.
        figures: loss and metrics of its model after each epoch, where it tried that.
        why_enough: why it is for ending the run.
        others: the living that it knew.
        contacts: addresses of these, and fingerprints of their certificates.
        mass: mass of its model; None where all weigh the same.
    """

    job: str
    name: str
    epoch: int
    num_drawn: int = 0
    figures: tuple[tuple[float, dict[str, float]], ...] = ()
    why_enough: StopReason | None = None
    others: tuple[str, ...] = ()
    contacts: tuple[tuple[str, str | None], ...] = ()
    mass: MassState | None = None


class PeerState(msgspec.Struct, frozen=True, kw_only=True):
    """A peer as it was after an epoch, with its mass as it is now.

    Attributes:
        trainer: what its trainer goes on from.
    """

    about: About
    parameters: dict[str, torch.Tensor]
    trainer: dict[str, torch.Tensor]

    def packed(self) -> State:
        """Return it as tensors by name."""
        text = bytearray(msgspec.json.encode(self.about))
        return {
            _ABOUT: torch.frombuffer(text, dtype=torch.uint8),
            **{f"{_MODEL}{kind}": vector for kind, vector in self.parameters.items()},
            **{f"{_TRAINER}{name}": tensor for name, tensor in self.trainer.items()},
        }

    @classmethod
    def unpack(cls, state: State, *, job: str, name: str, like: Vectors) -> PeerState:
        """Read it from tensors; raises `ConfigError` for what is not of this peer and job."""
        try:
            about = msgspec.json.decode(state[_ABOUT].numpy().tobytes(), type=About)
        except (KeyError, TypeError, msgspec.MsgspecError) as error:
            raise ConfigError(f"what {name} kept cannot be read: {error}") from error
        if about.job != job:
            raise ConfigError(f"what {name} kept is of another job: give it another file, or the same job")
        if about.name != name:
            raise ConfigError(f"what was kept is of {about.name}, not of {name}: give it that name, or another file")
        found = cls(about=about, parameters=_below(state, _MODEL), trainer=_below(state, _TRAINER))
        reason = UpdateValidator(like).why_unusable(found.parameters)
        if reason is not None:
            raise ConfigError(f"the model that {name} kept does not fit: {reason}")
        return found

    def with_mass(self, mass: MassState | None) -> PeerState:
        """Return the same with another mass."""
        return msgspec.structs.replace(self, about=msgspec.structs.replace(self.about, mass=mass))


def at_one_moment(states: Sequence[PeerState]) -> list[PeerState]:
    """Return the states of peers, all of the same moment, with what was on its way back where it came from.

    All go on from that moment, so a push that none of them had received by then never arrives.
    """
    accounts = [state.about.mass for state in states]
    arrived = {transfer for mass in accounts if mass is not None for transfer in mass.arrived}

    def settled(mass: MassState) -> MassState:
        back = sum(push.mass for push in mass.under_way if push.transfer not in arrived)
        return MassState(mass.held + back, (), mass.arrived)

    return [
        state if mass is None else state.with_mass(settled(mass)) for state, mass in zip(states, accounts, strict=True)
    ]


def packed_all(states: Sequence[PeerState]) -> State:
    """Return the states of several peers as tensors by name."""
    return {f"{state.about.name}/{name}": tensor for state in states for name, tensor in state.packed().items()}


def of_peer(name: str, packed: State) -> State | None:
    """Return the tensors of one of several peers; None if it was none of them."""
    return _below(packed, f"{name}/") or None


def _below(state: State, prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
