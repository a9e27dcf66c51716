"""Axon: call a function on another device.

A worker offers functions (`axon.worker`), a client calls them: by the six stubs of `axon.client`, or with `connect`
as if they were here. Results stream, long calls outlive connections, tensors travel without copies, and nothing that
arrives is ever executed.

A call goes from `client` over `transports` to `worker`, in the form that `wire` gives it. What few programs need is
elsewhere, and loaded when it is first used: duplex calls, child processes, stubs, handles and fan-out.
"""

from typing import TYPE_CHECKING

import lazy_loader  # type: ignore[import-untyped]

from paceline.axon import client, worker
from paceline.axon.client.caller import CallOptions, ValueStream
from paceline.axon.client.remote import Remote, connect
from paceline.axon.tls import ServerIdentity
from paceline.axon.wire import Limits
from paceline.axon.worker.worker import Worker
from paceline.errors import (
    BadReply,
    Busy,
    ConnectionLost,
    Refused,
    RemoteError,
    TimedOut,
    TlsFailed,
    TransportError,
    Unreachable,
    WireError,
)

if TYPE_CHECKING:
    from paceline.axon.fanout import Outcomes, fan_out, fan_out_coro
    from paceline.axon.stubs import Handle

__all__ = [
    "BadReply",
    "Busy",
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
    "TlsFailed",
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

_RARE = {"fanout": ["Outcomes", "fan_out", "fan_out_coro"], "stubs": ["Handle"]}
__getattr__, _, _ = lazy_loader.attach(__name__, submod_attrs=_RARE)
