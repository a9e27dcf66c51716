"""Datasets by name, and the user's own: training and test data as tables.

Those by name are uint8 images (N, channels, height, width) with class numbers as labels.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta
from numpy.typing import NDArray

from paceline import plugins
from paceline.checks import Spec, check_fields
from paceline.errors import ConfigError
from paceline.learning import idx, sources
from paceline.learning.npz import MAX_CLASSES, in_normal_form, read_npz
from paceline.learning.sources import ImageSize, ReadOptions, TestShare
from paceline.learning.tables import ArrayTable, Source, Table
from paceline.spelling import check_known

_KEYS = ("x_train", "y_train", "x_test", "y_test")


class DataSpec(Spec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The data that a job trains on: the ``[data]`` table of a job.

    One of `name`, `path` and `import_path` is given; with none, the name is ``digits``. `ValueError` for anything else.

    Attributes:
        name: name in `DATASETS`.
        path: file or folder in one of the formats of `paceline.learning.sources`.
        import_path: ``package.module:Source`` or ``path/to/file.py:Source``, encoded as ``import``: called without
            arguments, it returns a source, or a pair of them for training and tests. A source has ``__len__`` and
            ``__getitem__``, as a torch ``Dataset`` has.
        target: column with the labels, or several, where columns have names.
        test_share: share of the samples that is kept for tests, where there is no test part.
        image_size: height and width that images in files are given; None to take them as they are.
        transform: import path of a function from batch to batch, which devices apply in training.
        shard_size: samples in a shard.
        placement: ``served`` by the orchestrator, or ``local`` to the devices.
    """

    name: str | None = None
    path: str | None = None
    import_path: str | None = msgspec.field(default=None, name="import")
    target: str | tuple[str, ...] = ()
    test_share: TestShare = 0.2
    image_size: ImageSize | None = None
    transform: str | None = None
    shard_size: Annotated[int, Meta(ge=1, le=1 << 24)] = 100
    placement: Literal["served", "local"] = "served"

    def __post_init__(self) -> None:
        check_fields(self)
        given = {"name": self.name, "path": self.path, "import": self.import_path}
        named = [f"{key} {value!r}" for key, value in given.items() if value is not None]
        if not named:
            msgspec.structs.force_setattr(self, "name", "digits")
        if len(named) > 1:
            raise ValueError(f"data has either a name, a path or an import, not {' and '.join(named)}")
        if self.name is not None:
            check_known("dataset", self.name, DATASETS)
        if self.name is not None and (self.target or self.image_size is not None):
            raise ValueError(f"target and image_size do nothing for the dataset {self.name!r}: leave them out")
        for path in filter(None, (self.import_path, self.transform)):
            plugins.split_path(path)

    @classmethod
    def of(cls, train: Source | Callable[[], Any], test: Source | None = None, **fields: Any) -> DataSpec:
        """Refer to sources for training and tests that are objects of this process, or to a function that makes them.

        Only this process finds objects: it can serve them, and use them on virtual time. Devices that load data
        themselves need a function or class, at the top level of a module or of the running script.
        """
        is_made = inspect.isclass(train) or inspect.isroutine(train)
        if is_made and test is None:
            return cls(import_path=plugins.path_of(train), **fields)
        for name, source in {"train": train, "test": test}.items():
            if source is not None and not sources.is_source(source):
                raise ValueError(f"{name} is a {type(source).__name__}; it needs __len__ and __getitem__")
        return cls(import_path=sources.keep_objects(cast(Source, train), test), **fields)

    @classmethod
    def at(cls, where: str, reading: ReadOptions) -> DataSpec:
        """Refer to data at a path, or by import path."""
        key = "import" if sources.is_import(where) else "path"
        return msgspec.convert({key: where, **msgspec.to_builtins(reading)}, cls)

    @property
    def reading(self) -> ReadOptions:
        """How stored data is read."""
        target = (self.target,) if isinstance(self.target, str) else self.target
        return ReadOptions(target=target, image_size=self.image_size, test_share=self.test_share)

    @property
    def stored_at(self) -> str | None:
        """Path, or import path; None for data by name."""
        return self.path if self.import_path is None else self.import_path


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test data."""

    name: str
    train: Table
    test: Table


def load(spec: DataSpec, directories: Sequence[Path] | None = None) -> Dataset:
    """Load the dataset of a job; raises `ConfigError` for missing or invalid data.

    Args:
        directories: where to look for datasets by name; `default_directories` if None.
    """
    if spec.name is not None:
        return DATASETS[spec.name](default_directories() if directories is None else directories)
    assert spec.stored_at is not None
    sources.check_options(spec.stored_at, spec.reading)
    return load_stored(spec.stored_at, spec.reading)


def load_stored(where: str, reading: ReadOptions) -> Dataset:
    """Load training and test data at a path, or by import path; raises `ConfigError`."""
    return Dataset(Path(where).stem, *sources.load_source(where, reading))


def importable(spec: DataSpec) -> str | None:
    """Return where other processes of this machine find the data; None for data by name.

    Raises `ConfigError` for data that only this process has.
    """
    if sources.are_objects(spec.import_path):
        raise ConfigError(
            "the data is objects of this process, and devices that are other processes load it themselves: make it by "
            "a function in a file, and give that as data, or train on a VirtualFleet"
        )
    if spec.import_path is not None:
        plugins.check_importable(spec.import_path)
    return spec.stored_at


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
    train, test = (
        ArrayTable(in_normal_form(path, {"x": arrays[f"x_{part}"], "y": arrays[f"y_{part}"]}, part, max_classes))
        for part in ("train", "test")
    )
    return Dataset(name, *sources.check_alike(str(path), train, test))
