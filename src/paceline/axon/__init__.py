"""Axon: call a function on another device.

A worker offers functions (`axon.worker`), a client calls them: by the six stubs of `axon.client`, or with `connect`
as if they were here. Results stream, long calls outlive connections, tensors travel without copies, and nothing that
arrives is ever executed.
"""

from paceline.axon import client, worker
from paceline.axon.client.caller import CallOptions, ValueStream
from paceline.axon.client.fanout import Outcomes, fan_out, fan_out_coro
from paceline.axon.client.handle import Handle
from paceline.axon.client.remote import Remote, connect
from paceline.axon.tls import ServerIdentity
from paceline.axon.wire import Limits
from paceline.axon.worker.worker import Worker
from paceline.errors import (
    BadReply,
    ConnectionLost,
    Refused,
    RemoteError,
    TimedOut,
    TransportError,
    Unreachable,
    WireError,
)

__all__ = [
    "BadReply",
    "CallOptions",
    "ConnectionLost",
    "Handle",
    "Limits",
    "Outcomes",
    "Refused",
    "Remote",
    "RemoteError",
    "ServerIdentity",
    "TimedOut",
    "TransportError",
    "Unreachable",
    "ValueStream",
    "WireError",
    "Worker",
    "client",
    "connect",
    "fan_out",
    "fan_out_coro",
    "worker",
]
