"""``paceline worker``: serve the functions of a Python file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from paceline.axon import modules, trust
from paceline.axon import worker as axon_worker
from paceline.axon.transports import Address
from paceline.cli import entrances
from paceline.errors import ConfigError


def worker(
    location: Annotated[str, typer.Argument(metavar="FILE", help="A Python file, or the name of a module.")],
    host: Annotated[str, typer.Option(help="Address to listen on; not loopback needs a token.")] = trust.LOOPBACK,
    port: Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.")] = axon_worker.DEFAULT_PORT,
    token: Annotated[str | None, typer.Option(envvar="PACELINE_TOKEN", help="What callers must show.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Let other machines call without a token.")] = False,
    tls: Annotated[bool, typer.Option("--tls", help="Encrypt, with a self-made certificate.")] = False,
    tls_dir: Annotated[Path | None, typer.Option(help="Keep the self-made certificate there.")] = None,
    cert: Annotated[Path | None, typer.Option(help="Encrypt, with this certificate (PEM).")] = None,
    key: Annotated[Path | None, typer.Option(help="The certificate's private key (PEM).")] = None,
    device: Annotated[str | None, typer.Option(help="This device's name, told to callers.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Tell where it listens as one line of JSON.")] = False,
) -> None:
    """Serve the functions that a Python file offers with @axon.worker.rpc(), until interrupted.

    Example: paceline worker hello.py --host 0.0.0.0 --tls --token S3cret
    """
    identity = entrances.identity_of(tls, tls_dir, cert, key)
    modules.load(location)
    served = axon_worker.default
    served.device = device or served.device
    if not list(served.registry):
        raise ConfigError(f"{location} offers nothing: decorate its functions with @axon.worker.rpc()")

    def announce(address: Address) -> None:
        url = entrances.public_url(str(address), None)
        if as_json:
            told = {"url": url, "fingerprint": identity.fingerprint if identity else None, "device": served.device}
            print(json.dumps(told), flush=True)
            return
        secrets = (" --token …" if token else "") + (f" --fingerprint {identity.fingerprint}" if identity else "")
        names = ", ".join(rpc.name for rpc in served.registry)
        print(f"{served.device} serves {names} at {url}; ask it with\n  paceline call {url}{secrets}", flush=True)

    served.run(announce=announce, host=host, port=port, token=token, identity=identity, insecure=insecure)
