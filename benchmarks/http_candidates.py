"""Measures what decision 0001 rests on, HTTP servers and clients: `python benchmarks/http_candidates.py`."""

from __future__ import annotations

import rpc_benchmark
from candidates import CANDIDATES

PACKAGES = ("paceline", "numpy", "uvloop", "httptools", "uvicorn", "aiohttp")


if __name__ == "__main__":
    rpc_benchmark.run(__doc__, CANDIDATES, name="http_candidates", packages=PACKAGES)
