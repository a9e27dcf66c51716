"""Certificates of commands that listen or call, public addresses, and tokens that are sent in clear."""

from __future__ import annotations

import functools
import platform
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from paceline.axon import ServerIdentity
from paceline.axon.access import is_loopback
from paceline.axon.client.remote import parse_address
from paceline.errors import ConfigError


def identity_of(
    tls: bool, tls_dir: Path | None, cert: Path | None, key: Path | None, client_ca: Path | None = None
) -> ServerIdentity | None:
    """Return the certificate that the options ask for: a given one, a self-signed one, or none."""
    _check_pair(cert, key, ", or --tls for a self-signed certificate")
    identity = None
    if cert is not None and key is not None:
        identity = ServerIdentity.from_files(cert, key)
    elif tls or tls_dir is not None:
        identity = ServerIdentity.self_made(tls_dir)
    if client_ca is not None:
        if identity is None:
            raise ConfigError(
                "--client-ca asks callers for certificates, which takes TLS: add --tls, or --cert and --key"
            )
        identity.demand_certificates(client_ca)
    return identity


def own_certificate(cert: Path | None, key: Path | None) -> dict[str, Any]:
    """Return the settings of `axon.connect` for a host that demands certificates; none where none was given."""
    _check_pair(cert, key)
    return {} if cert is None else {"cert_file": str(cert), "key_file": str(key)}


def _check_pair(cert: Path | None, key: Path | None, otherwise: str = "") -> None:
    if (cert is None) != (key is None):
        raise ConfigError(f"--cert and --key belong together: give both{otherwise}")


def warn_of_clear_token(url: str, token: str | None) -> None:
    """Print a line if a token goes to or from another machine without TLS, once in a process."""
    parsed = parse_address(url)
    if token and parsed.trust is None and not is_loopback(parsed.host):
        _warn_once(url)


@functools.cache
def _warn_once(url: str) -> None:
    print(f"warning: without TLS, everyone on the way to {url} can read the token; serve with --tls", file=sys.stderr)


def page_url(url: str, token: str | None = None) -> str:
    """Return the address of a host for browsers: they verify certificates by themselves, and keep a token."""
    return url.partition("#")[0] + (f"/#token={token}" if token else "")


def public_url(address: str, identity: ServerIdentity | None) -> str:
    """Return the address by which other machines reach this one, with the fingerprint of its certificate."""
    fingerprint = None if identity is None else identity.fingerprint
    parsed = parse_address(address, fingerprint)
    is_everywhere = parsed.host in ("0.0.0.0", "::")
    shown = str(replace(parsed, host=platform.node()) if is_everywhere else parsed)
    return shown if fingerprint is None else f"{shown}#{fingerprint}"
