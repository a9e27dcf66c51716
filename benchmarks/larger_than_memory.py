"""Memory of a process that serves data larger than it: `python benchmarks/larger_than_memory.py` (some minutes).

A folder of .npy files with 4 GB of images is made in the temporary folder, and dropped from the page cache. Then one
process opens it and does nothing, one takes every shard of it once, and one trains a job on two devices of this
machine, to which it serves shards. Beside the peak of its resident memory stands how much data it took.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import commandline
from commands import told_by
from repeats import Case, Measurements
from report import Page, page_of_medians

PACKAGES = ("paceline", "numpy", "torch")
SYSTEMS = ("open", "take", "train")
NUM_CLASSES = 10

_LIMIT_SECONDS = 1800.0
_CHUNK_SAMPLES = 2000


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much data there is, and what is done with it."""

    num_bytes: int = 4_000_000_000
    side: int = 64
    shard_size: int = 500
    num_test_samples: int = 1000
    rounds: int = 5
    deadline_seconds: float = 10.0
    num_repeats: int = 1


QUICK = Settings(num_bytes=8_000_000, num_test_samples=100, shard_size=50, rounds=1, deadline_seconds=5.0)


def write_images(folder: Path, settings: Settings) -> None:
    """Write training data of that size, and test data: noise, and a bright stripe where the class is."""
    shape = (3, settings.side, settings.side)
    sizes = {"train": settings.num_bytes // int(np.prod(shape)), "test": settings.num_test_samples}
    chance = np.random.default_rng(0)
    for part, size in sizes.items():
        labels = chance.integers(0, NUM_CLASSES, size, dtype=np.uint8)
        np.save(folder / f"y_{part}.npy", labels)
        path = folder / f"x_{part}.npy"
        with path.open("wb") as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": (size, *shape)}
            np.lib.format.write_array_header_1_0(file, header)
            for start in range(0, size, _CHUNK_SAMPLES):
                file.write(_images(labels[start : start + _CHUNK_SAMPLES], shape, chance).tobytes())
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _images(labels: np.ndarray, shape: tuple[int, ...], chance: np.random.Generator) -> np.ndarray:
    images = chance.integers(0, 200, (len(labels), *shape), dtype=np.uint8)
    height = shape[1] // NUM_CLASSES
    for label in range(NUM_CLASSES):
        images[labels == label, :, label * height : (label + 1) * height] += 55
    return images


def cases_of(folder: Path, systems: Sequence[str], settings: Settings) -> dict[str, Case]:
    """Measure each in a process of its own."""
    arguments = str(folder), json.dumps(dataclasses.asdict(settings))

    def case(kind: str, repeat: int) -> dict[str, float]:
        return told_by("data_holder", kind, *arguments, limit_seconds=_LIMIT_SECONDS)

    return {kind: functools.partial(case, kind) for kind in systems}


def page_of(measurements: Measurements) -> Page:
    """The table."""
    settings = measurements.settings
    return page_of_medians(
        measurements,
        setting=f"{settings.num_bytes / 1e9:g} GB in a folder of .npy files, shards of {settings.shard_size} images",
        system="The process",
        columns={
            "peak_mb": "most resident memory, MB",
            "taken_mb": "data taken, MB",
            "seconds": "seconds",
            "accuracy": "accuracy",
        },
    )


def measure(systems: Sequence[str], settings: Settings, on_progress: commandline.Progress) -> Measurements:
    """Make the data, measure, and delete it again."""
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < 1.5 * settings.num_bytes:
        raise SystemExit(
            f"{tempfile.gettempdir()} has {free / 1e9:.1f} GB free; this needs {1.5 * settings.num_bytes / 1e9:.1f}: "
            "set TMPDIR to another folder"
        )
    with tempfile.TemporaryDirectory() as folder:
        on_progress("making the data")
        write_images(Path(folder), settings)
        return commandline.interleaved(functools.partial(cases_of, Path(folder)))(systems, settings, on_progress)


if __name__ == "__main__":
    command = commandline.Command("larger_than_memory", __doc__, SYSTEMS, PACKAGES)
    command.run((Settings(), QUICK), measure, page_of)
