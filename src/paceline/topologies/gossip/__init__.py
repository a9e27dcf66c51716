"""Training without a server: peers that train what they have, and mix what they learn with others."""

from paceline.topologies.gossip.conclusion import Concluded
from paceline.topologies.gossip.contacts import Access
from paceline.topologies.gossip.hosting import hosted
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.gossip.local import Holding
from paceline.topologies.gossip.meetings import Known
from paceline.topologies.gossip.peer import Peer, PeerOptions
from paceline.topologies.gossip.plans import GossipPlan, make_plan

__all__ = [
    "Access",
    "Concluded",
    "GossipJob",
    "GossipPlan",
    "Holding",
    "Known",
    "Peer",
    "PeerOptions",
    "hosted",
    "make_plan",
]
