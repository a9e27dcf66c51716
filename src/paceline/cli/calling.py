"""How commands call a host: the options by which they show who they are, and whom they trust."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from paceline import axon
from paceline.cli.options import CaFile, Key, OwnCert, Token, TokenFile, read_token, takes
from paceline.cli.tls import own_certificate, warn_of_clear_token


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Whoever calls a host, as the options of a command describe them.

    Attributes:
        certificate: their own, as settings of `axon.connect`; empty if they have none.
    """

    token: str | None
    ca_file: str | None
    certificate: Mapping[str, Any]

    @property
    def trust(self) -> dict[str, Any]:
        """Settings of `axon.connect` that say who calls, and whom they trust."""
        return {"token": self.token, "ca_file": self.ca_file, **self.certificate}

    def connect(self, address: str, fingerprint: str | None = None, **settings: Any) -> axon.Remote:
        """Connect to a host; settings are those of `axon.connect`."""
        warn_of_clear_token(address, self.token)
        return axon.connect(address, fingerprint=fingerprint, **self.trust, **settings)


def make_caller(
    token: Token = None, token_file: TokenFile = None, ca_file: CaFile = None, cert: OwnCert = None, key: Key = None
) -> Caller:
    """Make a caller of the options of a command; raises `ConfigError` for values that are not allowed."""
    return Caller(token=read_token(token, token_file), ca_file=ca_file, certificate=own_certificate(cert, key))


def takes_caller(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter `caller` of a command by the options of a caller."""
    return takes("caller", make_caller, command)
