"""Certificates and public addresses of commands that listen."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path

from paceline.axon import ServerIdentity
from paceline.axon.client.remote import parse_address
from paceline.errors import ConfigError


def identity_of(tls: bool, tls_dir: Path | None, cert: Path | None, key: Path | None) -> ServerIdentity | None:
    """Return the certificate that the options ask for: a given one, a self-signed one, or none."""
    if (cert is None) != (key is None):
        raise ConfigError("--cert and --key belong together: give both, or --tls for a self-signed certificate")
    if cert is not None and key is not None:
        return ServerIdentity.from_files(cert, key)
    return ServerIdentity.self_made(tls_dir) if tls or tls_dir is not None else None


def public_url(address: str, identity: ServerIdentity | None) -> str:
    """Return the address by which other machines reach this one, with the fingerprint of its certificate."""
    fingerprint = None if identity is None else identity.fingerprint
    parsed = parse_address(address, fingerprint)
    is_everywhere = parsed.host in ("0.0.0.0", "::")
    shown = str(replace(parsed, host=platform.node()) if is_everywhere else parsed)
    return shown if fingerprint is None else f"{shown}#{fingerprint}"
