"""What commands that let others in have in common: certificates, and the line that others run."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path

from paceline.axon import ServerIdentity
from paceline.axon.transports import Address
from paceline.errors import ConfigError


def identity_of(tls: bool, tls_dir: Path | None, cert: Path | None, key: Path | None) -> ServerIdentity | None:
    """The certificate that the options ask for: given, self-made, or none."""
    if (cert is None) != (key is None):
        raise ConfigError("--cert and --key belong together: give both, or --tls for a self-made certificate")
    if cert is not None and key is not None:
        return ServerIdentity.from_files(cert, key)
    return ServerIdentity.self_made(tls_dir) if tls or tls_dir is not None else None


def public_url(address: Address) -> str:
    """The address by which other machines reach this one."""
    is_everywhere = address.host in ("0.0.0.0", "::")
    return str(replace(address, host=platform.node()) if is_everywhere else address)
