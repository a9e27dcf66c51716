"""What a newcomer takes over from a peer that trains already."""

from __future__ import annotations

from paceline.errors import BadReply, PacelineError
from paceline.topologies.gossip.board import Copies
from paceline.topologies.gossip.contacts import Delivery, Gone
from paceline.topologies.gossip.exchanges import Ties
from paceline.topologies.gossip.mass import MAX_MASS
from paceline.topologies.gossip.meetings import Meetings
from paceline.topologies.gossip.messages import Shown


async def adopted(name: str, ties: Ties, meetings: Meetings) -> Shown | None:
    """What a peer shows of its model, with a share of its mass; None if it is gone or shows rubbish.

    Raises `PacelineError` if it may have given a share that did not arrive: a second one would not make up for it.
    """
    delivery, transfer = Delivery(), f"{ties.name}/{ties.membership.me.life}/adopted"
    await meetings.meet(name)  # a share is given to those that are known
    try:
        shown: Shown = await ties.contacts.call(
            name, lambda peer: delivery.attempt(peer.adopt.coro(ties.name, transfer))
        )
        if not 0 <= shown.mass <= MAX_MASS or shown.epoch > ties.job.epochs:
            raise BadReply(f"{name} showed a model of absurd mass, or of epoch {shown.epoch}")
        Copies(ties.start).take(name, shown)
    except (Gone, BadReply) as error:
        if delivery.is_uncertain and ties.job.exchange == "push-sum":
            raise PacelineError(f"{error}; join again, by another peer") from error
        return None
    return shown
