"""What every fleet of peers does: have them train a gossip job together, and tell what came of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from paceline.events import Emit
from paceline.topologies.gossip import Concluded, GossipPlan


@dataclass(frozen=True, kw_only=True)
class GossipLaunch:
    """A run without a server, about to start.

    Attributes:
        emit: is told of all that happens at the peers.
        models: a folder where peers that are processes of their own leave their final models.
    """

    plan: GossipPlan
    emit: Emit
    models: Path | None = None


class PeerFleet(ABC):
    """Devices that train without a server, and where they run.

    Attributes:
        clock: that its peers go by.
        is_trained: whether models really learn; else only time passes.
    """

    clock: ClassVar[Literal["live", "virtual"]]
    is_trained: bool = True

    @abstractmethod
    def run(self, launch: GossipLaunch) -> Concluded:
        """Train all epochs; blocks until all peers are done, and returns the average of those that live.

        Leaves no process, thread or port behind, however it ends.
        """
