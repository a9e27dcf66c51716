"""Datasets by name or from a file, all in one normal form.

Samples are uint8 images (N, channels, height, width), or float32 images or features (N, features). Labels are class
numbers. See `paceline.learning.npz`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from paceline.checks import Count, check_fields
from paceline.errors import ConfigError
from paceline.learning import idx
from paceline.learning.npz import MAX_CLASSES, labelled, read_npz
from paceline.learning.tables import ArrayTable, Table
from paceline.spelling import check_known

_KEYS = ("x_train", "y_train", "x_test", "y_test")


class DataSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The data that a job trains on: the ``[data]`` table of a job.

    Either `name` or `path` is given; with neither, the name is ``digits``. `ValueError` for anything else.

    Attributes:
        name: name in `DATASETS`.
        path: .npz file with the arrays x_train, y_train, x_test and y_test.
        shard_size: samples in a shard.
        placement: ``served`` by the orchestrator, or ``local`` to the devices.
    """

    name: str | None = None
    path: str | None = None
    shard_size: Count = 100
    transform: str | None = None
    placement: Literal["served", "local"] = "served"

    def __post_init__(self) -> None:
        check_fields(self)
        if self.name is None and self.path is None:
            msgspec.structs.force_setattr(self, "name", "digits")
        if self.name is not None and self.path is not None:
            raise ValueError(f"data has either a name or a path, not name {self.name!r} and path {self.path!r}")
        if self.name is not None:
            check_known("dataset", self.name, DATASETS)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test data in normal form."""

    name: str
    train: Table
    test: Table


def load(spec: DataSpec, directories: Sequence[Path] | None = None) -> Dataset:
    """Load the dataset of a job; raises `ConfigError` for a missing or invalid file.

    Args:
        directories: where to look for datasets by name; `default_directories` if None.
    """
    if spec.path is not None:
        path = Path(spec.path)
        return _dataset(path.stem, path, read_npz(path, _KEYS))
    assert spec.name is not None
    return DATASETS[spec.name](default_directories() if directories is None else directories)


def load_unlabelled(path: str | Path) -> Dataset:
    """Load samples from an .npz file with the arrays x_train and x_test, with 0 for labels; raises `ConfigError`."""
    path = Path(path)
    arrays = read_npz(path, ("x_train", "x_test"))
    labels = {f"y_{part}": np.zeros(arrays[f"x_{part}"].shape[:1], np.uint8) for part in ("train", "test")}
    return _dataset(path.stem, path, {**arrays, **labels})


def load_local(path: str | Path) -> Table:
    """Load a device's own samples and labels from an .npz file with x_train and y_train; raises `ConfigError`."""
    path = Path(path)
    x, y = labelled(path, read_npz(path, _KEYS[:2]), "train")
    return ArrayTable({"x": x, "y": y}, where=str(path))


def default_directories() -> list[Path]:
    """List the folders that may hold datasets: those in ``$PACELINE_DATA``, then the user's cache."""
    given = [folder for folder in os.environ.get("PACELINE_DATA", "").split(os.pathsep) if folder]
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return [*map(Path, given), Path(cache) / "paceline"]


def _digits(directories: Sequence[Path]) -> Dataset:
    """Load the 1797 handwritten digits of 8×8 pixels that come with Paceline, their 17 greys stretched over 0 to 255.

    They are the test part of Alpaydin and Kaynak's set (UCI, CC BY 4.0), as in scikit-learn. A fifth of each class,
    drawn once and for all, is the test part here.
    """
    path = Path(__file__).with_name("digits.npz")
    return _dataset("digits", path, read_npz(path, _KEYS))


@dataclass(frozen=True, kw_only=True)
class _Stored:
    """A dataset in files: ``NAME.npz``, ``NAME-something.npz``, or the four idx files it was published as.

    Attributes:
        idx_names: prefixes of the idx files of the training and the test part; none if there are no such files.
        idx_folders: their folders within a directory.
        is_transposed: whether the idx files hold transposed images.
    """

    name: str
    num_classes: int
    idx_names: tuple[str, ...] = ()
    idx_folders: tuple[str, ...] = ()
    is_transposed: bool = False

    def __call__(self, directories: Sequence[Path]) -> Dataset:
        for directory in directories:
            path = self._find_npz(directory)
            if path is not None:
                return _dataset(self.name, path, read_npz(path, _KEYS), self.num_classes)
            for folder in (directory / folder for folder in self.idx_folders):
                files = self._find_idx(folder)
                if files:
                    return _dataset(self.name, folder, self._read_idx(files), self.num_classes)
        wanted = f"{self.name}.npz with the arrays {', '.join(_KEYS)}"
        if self.idx_folders:
            wanted += f", or {', '.join(self._idx_files())} (or .gz) in a folder {self.name}"
        looked = ", ".join(map(str, directories)) or "no folder"
        raise ConfigError(
            f"dataset {self.name!r} was not found in {looked}; put {wanted} there, or set PACELINE_DATA to its folder"
        )

    def _find_npz(self, directory: Path) -> Path | None:
        exact = directory / f"{self.name}.npz"
        if os.path.isfile(exact):
            return exact
        found = sorted(directory.glob(f"{self.name}-*.npz"))
        if len(found) > 1:
            names = " and ".join(path.name for path in found)
            raise ConfigError(f"dataset {self.name!r}: {directory} has {names}; give the path of the one to use")
        return found[0] if found else None

    def _idx_files(self) -> list[str]:
        return [f"{part}-{kind}" for part in self.idx_names for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")]

    def _find_idx(self, folder: Path) -> list[Path]:
        """Return the four files, or none; raises `ConfigError` if there are only some."""
        candidates = [(folder / name, folder / f"{name}.gz") for name in self._idx_files()]
        found = [next((path for path in pair if os.path.isfile(path)), None) for pair in candidates]
        missing = [pair[0].name for pair, path in zip(candidates, found, strict=True) if path is None]
        if missing and len(missing) < len(found):
            raise ConfigError(f"dataset {self.name!r}: {folder} lacks {', '.join(missing)}")
        return [path for path in found if path is not None]

    def _read_idx(self, files: Sequence[Path]) -> dict[str, NDArray[Any]]:
        arrays = {key: idx.read(path, 3 if key.startswith("x") else 1) for key, path in zip(_KEYS, files, strict=True)}
        if self.is_transposed:
            arrays |= {key: arrays[key].transpose(0, 2, 1) for key in ("x_train", "x_test")}
        return arrays


_MNIST_IDX = ("train", "t10k")
DATASETS: dict[str, Callable[[Sequence[Path]], Dataset]] = {
    "digits": _digits,
    "mnist": _Stored(name="mnist", num_classes=10, idx_names=_MNIST_IDX, idx_folders=("mnist", ".")),
    "fashion-mnist": _Stored(
        name="fashion-mnist", num_classes=10, idx_names=_MNIST_IDX, idx_folders=("fashion-mnist",)
    ),
    "emnist": _Stored(
        name="emnist",
        num_classes=62,
        idx_names=("emnist-byclass-train", "emnist-byclass-test"),
        idx_folders=("emnist",),
        is_transposed=True,
    ),
    "cifar10": _Stored(name="cifar10", num_classes=10),
}
"""Loaders of datasets, by name: each takes the directories to search."""


def _dataset(name: str, path: Path, arrays: Mapping[str, NDArray[Any]], max_classes: int = MAX_CLASSES) -> Dataset:
    x_train, y_train = labelled(path, arrays, "train", max_classes)
    x_test, y_test = labelled(path, arrays, "test", max_classes)
    if x_train.shape[1:] != x_test.shape[1:] or x_train.dtype != x_test.dtype:
        kinds = " and ".join(f"{x.dtype} of shape {x.shape[1:]}" for x in (x_train, x_test))
        raise ConfigError(f"{path}: the samples of x_train and x_test differ: {kinds}")
    dtype = np.promote_types(y_train.dtype, y_test.dtype)
    y_train, y_test = y_train.astype(dtype, copy=False), y_test.astype(dtype, copy=False)
    return Dataset(name, ArrayTable({"x": x_train, "y": y_train}), ArrayTable({"x": x_test, "y": y_test}))
