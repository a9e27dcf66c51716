"""Who may call: tokens, and where a worker may listen without one."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping

from paceline.axon.messages import Reply
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


def check_bind(host: str, token: str | None, *, insecure: bool) -> None:
    """Refuse to listen for other machines without a token, unless that was asked for."""
    check_token(token)
    if not is_loopback(host) and not token and not insecure:
        raise ConfigError(
            f"listening on {host} lets other machines call: give a token, or allow everyone with insecure=True "
            "(--insecure)"
        )


def bearer(token: str | None) -> dict[str, str]:
    """Return the header that carries a token."""
    return {"authorization": f"Bearer {token}"} if token else {}


def refuse_stranger(headers: Mapping[str, str], token: str | None) -> Reply | None:
    """Refuse a request without the right token, or one that a web page made a browser send."""
    if "origin" in headers:
        return Reply.refusal(403, "requests from web pages are not served")
    if token is None:
        return None
    given = headers.get("authorization", "")
    if hmac.compare_digest(given.encode("latin-1"), f"Bearer {token}".encode("ascii")):
        return None
    return Reply.refusal(401, "the token is missing or wrong; send it as 'Authorization: Bearer TOKEN'")
