"""``paceline page``: a run, or a folder of runs, as a page that follows what happens."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer

from paceline.axon import access
from paceline.cli.options import (
    NETWORK,
    AllowHost,
    Cert,
    Insecure,
    Key,
    Tls,
    Token,
    TokenFile,
    flag,
    option,
    read_token,
)
from paceline.cli.tls import identity_of, page_url, public_url, warn_of_clear_token
from paceline.fleets.live import run_live
from paceline.report.serving.process import serving_page

DEFAULT_PORT = 7224


def page(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Folder of a run, or one with runs in it.")] = Path(
        "runs"
    ),
    as_json: Annotated[bool, flag("--json", "Print the address as JSON.")] = False,
    host: Annotated[str, option("HOST", "Address to listen on (127.0.0.1).", NETWORK)] = access.LOOPBACK,
    port: Annotated[
        int, option("PORT", f"Port to listen on ({DEFAULT_PORT}); 0: any free one.", NETWORK)
    ] = DEFAULT_PORT,
    token: Token = None,
    token_file: TokenFile = None,
    tls: Tls = False,
    cert: Cert = None,
    key: Key = None,
    insecure: Insecure = False,
    allow_host: AllowHost = None,
) -> None:
    """Show runs in a browser: live, finished, or compared.

    It only reads, and goes on until it is interrupted. Off this machine, browsers need a token.

    Example: paceline page runs
    """
    token = read_token(token, token_file)
    identity = identity_of(tls, None, cert, key)

    async def serve() -> None:
        settings = {"host": host, "port": port, "token": token, "identity": identity, "insecure": insecure}
        async with serving_page(path, hosts=tuple(allow_host or ()), **settings) as address:  # type: ignore[arg-type]
            url = page_url(public_url(str(address), identity))
            warn_of_clear_token(url, token)
            print(json.dumps({"url": url}) if as_json else f"The page is at {url}", flush=True)
            await asyncio.Event().wait()

    run_live(serve())
