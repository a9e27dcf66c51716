"""How requests travel: over HTTP, within this process, counted, or badly on purpose."""

from paceline.axon.transports.base import Address, App, Listener, Site, Transport, TransportWrapper
from paceline.axon.transports.counted import CountedTransport
from paceline.axon.transports.faulty import FaultyTransport
from paceline.axon.transports.http import HttpTransport
from paceline.axon.transports.links import Fault, Link
from paceline.axon.transports.memory import MemoryNetwork, MemoryTransport

__all__ = [
    "Address",
    "App",
    "CountedTransport",
    "Fault",
    "FaultyTransport",
    "HttpTransport",
    "Link",
    "Listener",
    "MemoryNetwork",
    "MemoryTransport",
    "Site",
    "Transport",
    "TransportWrapper",
]
