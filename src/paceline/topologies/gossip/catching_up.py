"""What a newcomer fetches from a peer that trains already."""

from __future__ import annotations

from paceline.errors import BadReply, PacelineError
from paceline.topologies.gossip.calls import Delivery, Gone
from paceline.topologies.gossip.exchanges import ExchangeContext
from paceline.topologies.gossip.mass import MAX_MASS
from paceline.topologies.gossip.messages import ModelReply
from paceline.topologies.gossip.snapshots import Copies
from paceline.topologies.gossip.views import ViewExchange


async def fetch_newest(name: str, context: ExchangeContext, views: ViewExchange) -> ModelReply | None:
    """Fetch the newest model of a peer, with a share of its mass; None if it is gone or sends rubbish.

    Raises `PacelineError` if it may have given a share that did not arrive: a second one would not make up for it.
    """
    delivery, transfer = Delivery(), f"{context.name}/{context.membership.me.life}/adopted"
    await views.exchange_with(name)  # a share is given to those that are known
    try:
        reply: ModelReply = await context.calls.call(
            name, lambda peer: delivery.attempt(peer.fetch_newest.coro(context.name, transfer))
        )
        if not 0 <= reply.mass <= MAX_MASS or reply.epoch > context.job.epochs:
            raise BadReply(f"{name} sent a model of absurd mass, or of epoch {reply.epoch}")
        Copies(context.start).take(name, reply)
    except (Gone, BadReply) as error:
        if delivery.is_uncertain and context.job.exchange == "push-sum":
            raise PacelineError(f"{error}; join again, by another peer") from error
        return None
    return reply
