"""``paceline axon worker``: serve the functions of a Python file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from paceline.axon import access, modules
from paceline.axon import worker as axon_worker
from paceline.axon.transports import Address
from paceline.axon.transports.base import DEFAULT_PORT
from paceline.cli.options import (
    NETWORK,
    AllowHost,
    Cert,
    ClientCa,
    Insecure,
    Key,
    Tls,
    Token,
    TokenFile,
    flag,
    option,
    read_token,
)
from paceline.cli.tls import identity_of, public_url, warn_of_clear_token
from paceline.errors import ConfigError


def worker(
    location: Annotated[str, typer.Argument(metavar="FILE", help="Python file, or name of a module.")],
    device: Annotated[str | None, option("NAME", "Name of this device, shown to callers.")] = None,
    as_json: Annotated[bool, flag("--json", "Print the address as JSON.")] = False,
    host: Annotated[str, option("HOST", "Address to listen on (127.0.0.1).", NETWORK)] = access.LOOPBACK,
    port: Annotated[
        int, option("PORT", f"Port to listen on ({DEFAULT_PORT}); 0: any free one.", NETWORK)
    ] = DEFAULT_PORT,
    token: Token = None,
    token_file: TokenFile = None,
    tls: Tls = False,
    tls_dir: Annotated[Path | None, option("DIR", "Keep the self-signed certificate here.", NETWORK)] = None,
    cert: Cert = None,
    key: Key = None,
    client_ca: ClientCa = None,
    insecure: Insecure = False,
    allow_host: AllowHost = None,
) -> None:
    """Serve functions of a Python file marked @axon.worker.rpc().

    Example: paceline axon worker hello.py --host 0.0.0.0 --tls --token S3cret
    """
    token = read_token(token, token_file)
    identity = identity_of(tls, tls_dir, cert, key, client_ca)
    modules.load(location)
    served = axon_worker.default
    served.device = device or served.device
    if not list(served.registry):
        raise ConfigError(f"{location} offers nothing: decorate its functions with @axon.worker.rpc()")

    def announce(address: Address) -> None:
        url = public_url(str(address), None)
        warn_of_clear_token(url, token)
        if as_json:
            where = {"url": url, "fingerprint": identity.fingerprint if identity else None, "device": served.device}
            print(json.dumps(where), flush=True)
            return
        secrets = (" --token …" if token else "") + (f" --fingerprint {identity.fingerprint}" if identity else "")
        names = ", ".join(rpc.name for rpc in served.registry)
        print(f"{served.device} serves {names} at {url}; ask it with\n  paceline axon call {url}{secrets}", flush=True)

    served.run(
        announce=announce,
        host=host,
        port=port,
        token=token,
        identity=identity,
        insecure=insecure,
        hosts=allow_host or (),
    )
