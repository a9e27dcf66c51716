"""Measures what decision 0001 rests on, HTTP servers and clients: `python benchmarks/http_candidates.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import rpc_benchmark
from candidates import CANDIDATES

PACKAGES = ("paceline", "numpy", "uvloop", "httptools", "uvicorn", "aiohttp")


def main(argv: list[str] | None = None) -> int:
    """Run it; exit code 1 if a candidate could not be measured."""
    return rpc_benchmark.run(
        __doc__ or "",
        CANDIDATES,
        output=Path(__file__).parent / "results" / "http_candidates.json",
        packages=PACKAGES,
        argv=argv,
    )


if __name__ == "__main__":
    sys.exit(main())
