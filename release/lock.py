"""Write what an install takes from the package index, every file by its hash.

``paceline.txt`` is all but PyTorch; ``torch.txt`` is PyTorch as the index has it, for devices that take it from there.
Versions are those of ``constraints.txt``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

RELEASE = Path(__file__).parent
PROJECT = RELEASE.parent


def write_lock(name: str, requirements: list[str]) -> None:
    """Write ``name`` with all that ``requirements`` bring, for every platform and Python that Paceline supports."""
    locked = subprocess.run(
        [
            *(sys.executable, "-m", "uv", "pip", "compile", "-", "--constraints", PROJECT / "constraints.txt"),
            *("--universal", "--python-version", "3.10", "--no-python-downloads"),
            *("--generate-hashes", "--no-header", "--no-annotate"),
        ],
        input="\n".join(requirements),
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout
    (RELEASE / name).write_text("# Written by make lock.\n" + locked)


if __name__ == "__main__":
    dependencies = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["dependencies"]
    torch = [each for each in dependencies if each.startswith("torch")]
    write_lock("torch.txt", torch)
    write_lock("paceline.txt", [each for each in dependencies if each not in torch])
