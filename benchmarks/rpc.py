"""Compares Paceline's RPC with its peers on loopback: `python benchmarks/rpc.py` (about five minutes)."""

from __future__ import annotations

import sys
from pathlib import Path

import commandline
from peers import SYSTEMS
from targets import TARGETS

PACKAGES = ("paceline", "numpy", "torch", "msgspec", "uvloop", "httptools", "cryptography")
PEER_PACKAGES = ("grpcio", "axon-ECRG", "Flask", "urllib3", "Pyro5", "msgpack")


def main(argv: list[str] | None = None) -> int:
    """Run it; exit code 1 if a system could not be measured. Missed targets are told, not failed."""
    return commandline.run(
        __doc__ or "",
        SYSTEMS,
        output=Path(__file__).parent / "results" / "rpc.json",
        packages=(*PACKAGES, *PEER_PACKAGES),
        targets=TARGETS,
        argv=argv,
    )


if __name__ == "__main__":
    sys.exit(main())
