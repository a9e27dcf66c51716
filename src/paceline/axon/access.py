"""Who may call: tokens, and where a worker may listen without one."""

from __future__ import annotations

import contextvars
import hmac
import ipaddress
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

from paceline.axon.messages import Reply, Request
from paceline.errors import ConfigError

LOOPBACK = "127.0.0.1"


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach that host name or address."""
    return host == "localhost" or (is_ip_address(host) and ipaddress.ip_address(host).is_loopback)


def is_ip_address(host: str) -> bool:
    """Return whether this is an address, and not a name that must be looked up."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def check_token(token: str | None) -> None:
    """Refuse a token that no header could carry unchanged."""
    if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token != ""):
        raise ConfigError("a token is made of printable ASCII characters, without spaces around them")


def check_bind(host: str, *, is_open: bool, insecure: bool) -> None:
    """Refuse to listen for other machines without a token, unless that was asked for."""
    if not is_loopback(host) and is_open and not insecure:
        raise ConfigError(
            f"listening on {host} lets other machines call: give a token, or allow everyone with insecure=True "
            "(--insecure)"
        )


def bearer(token: str | None) -> dict[str, str]:
    """Return the header that carries a token."""
    return {"authorization": f"Bearer {token}"} if token else {}


_SCHEME = "Bearer "


class Caller(NamedTuple):
    """Who made a call: the address that it came from, and the token that it showed; empty if it did not."""

    address: str
    token: str

    @classmethod
    def of(cls, request: Request) -> Caller:
        """Return the caller of a request."""
        return cls(request.peer, request.headers.get("authorization", "").removeprefix(_SCHEME))


caller: contextvars.ContextVar[Caller] = contextvars.ContextVar("caller", default=Caller("", ""))  # noqa: B039
"""Whose call the running function answers."""


class Access(ABC):
    """Decides who may call which function of a worker.

    Attributes:
        is_open: whether callers need no token.
    """

    is_open: bool

    @abstractmethod
    def refuse(self, head: Request) -> Reply | None:
        """Look at the head of a request; a reply returned here refuses it."""


class TokenAccess(Access):
    """Whoever has the one token may call everything; without a token, whoever can reach the worker."""

    def __init__(self, token: str | None) -> None:
        check_token(token)
        self.is_open = not token
        self._token = token

    def refuse(self, head: Request) -> Reply | None:
        return refuse_stranger(head.headers, self._token)


def refuse_web_page(headers: Mapping[str, str]) -> Reply | None:
    """Refuse a request that a web page made a browser send."""
    return Reply.refusal(403, "requests from web pages are not served") if "origin" in headers else None


def refuse_stranger(headers: Mapping[str, str], token: str | None) -> Reply | None:
    """Refuse a request without the right token, or one that a web page made a browser send."""
    refusal = refuse_web_page(headers)
    if refusal is not None or token is None:
        return refusal
    given = headers.get("authorization", "")
    if hmac.compare_digest(given.encode("latin-1"), f"{_SCHEME}{token}".encode("ascii")):
        return None
    return wrong_token()


def wrong_token() -> Reply:
    """Refuse a request whose token is unknown."""
    return Reply.refusal(401, "the token is missing or wrong; send it as 'Authorization: Bearer TOKEN'")
