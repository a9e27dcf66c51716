"""Build a release in ``dist/``: wheel, source archive, bill of materials and the digests of all three."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import paceline

RELEASE = Path(__file__).parent
PROJECT = RELEASE.parent
DIST = PROJECT / "dist"


def bill_of_materials() -> str:
    """What an install consists of, as CycloneDX: the two locks, with the version that they belong to."""
    locks = "".join((RELEASE / name).read_text() for name in ("paceline.txt", "torch.txt"))
    printed = subprocess.run(
        [
            *(sys.executable, "-m", "cyclonedx_py", "requirements", "--output-reproducible"),
            *("--pyproject", PROJECT / "pyproject.toml", "-"),
        ],
        input=locks,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout
    bill = json.loads(printed)
    bill["metadata"]["component"]["version"] = paceline.__version__
    return json.dumps(bill, indent=1) + "\n"


if __name__ == "__main__":
    shutil.rmtree(DIST, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "build", "--outdir", DIST, PROJECT], check=True)
    (DIST / f"paceline-{paceline.__version__}.cdx.json").write_text(bill_of_materials())
    digests = {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in sorted(DIST.iterdir())}
    (DIST / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in digests.items()))
    print((DIST / "SHA256SUMS").read_text(), end="")
