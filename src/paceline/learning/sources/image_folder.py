"""A folder of images, one sub-folder for each class; an image is decoded each time that it is taken."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from paceline.errors import ConfigError, in_one_line
from paceline.extras import extra
from paceline.learning.npz import smallest_type
from paceline.learning.shards import Array, Shard
from paceline.learning.sources.base import Format, Parts, ReadOptions
from paceline.learning.tables import Column, Structure, Table, row_numbers

_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")
_GREY, _COLOUR = ("1", "L"), ("P", "RGB", "RGBA", "CMYK", "YCbCr")  # modes of Pillow with 8 bits for each value


class ImageFolderFormat(Format):
    """Images in ``train/CLASS/`` and ``test/CLASS/``, or in ``CLASS/``; classes are numbered by their sorted names."""

    description: ClassVar[str] = "a folder of images with one sub-folder for each class"
    uses: ClassVar[tuple[str, ...]] = ("image_size",)

    def matches(self, path: Path) -> bool:
        return path.is_dir() and any(_is_image(file) for pattern in ("*/*", "*/*/*") for file in path.glob(pattern))

    def read(self, path: Path, options: ReadOptions, *, is_alone: bool = True) -> Parts:
        train, test = path / "train", path / "test"
        if not train.is_dir():
            return Parts(_table(path, _classes(path), options.image_size))
        classes = _classes(train)
        parts = [_table(folder, classes, options.image_size) for folder in (train, test) if folder.is_dir()]
        return Parts(*parts)


class ImageTable(Table):
    """Images in files, and their classes; raises `ConfigError` for images that are not all of one size.

    Args:
        size: height and width that images are given: they are scaled to fill it, and cut around the centre.
    """

    structure: Structure = "tuple"

    def __init__(self, files: Sequence[Path], labels: Array, size: int | None) -> None:
        self._files, self._labels, self._size = files, labels, size
        self._shape = self._decoded(files[0]).shape
        self.columns = Column("x", "uint8", self._shape), Column("y", labels.dtype.name, ())

    def __len__(self) -> int:
        return len(self._files)

    def take(self, rows: slice | Array) -> Shard:
        numbers = row_numbers(rows, len(self))
        x = np.empty((len(numbers), *self._shape), np.uint8)
        for place, number in enumerate(numbers.tolist()):
            x[place] = self._fitting(self._files[number])
        return Shard(x, self._labels[numbers])

    def labels(self) -> Array:
        return self._labels

    def _fitting(self, file: Path) -> Array:
        image = self._decoded(file)
        if image.shape[0] < self._shape[0]:
            image = np.broadcast_to(image, (self._shape[0], *image.shape[1:]))  # grey among others in colour
        if image.shape != self._shape:
            what = "convert images to one mode" if image.shape[1:] == self._shape[1:] else "set image_size in [data]"
            raise ConfigError(f"{file} has shape {image.shape}, {self._files[0]} has {self._shape}: {what}")
        return image

    def _decoded(self, file: Path) -> Array:
        """Return an image as (channels, height, width)."""
        with extra("images"):
            from PIL import Image, ImageOps
        try:
            with Image.open(file) as opened:
                image = ImageOps.exif_transpose(opened)
                if image.mode not in _GREY + _COLOUR:
                    raise ValueError(f"its mode is {image.mode}; allowed: {', '.join(_GREY + _COLOUR)}")
                image = image.convert("L" if image.mode in _GREY else "RGB")
        except Exception as error:  # damaged images make Pillow raise all sorts of errors
            raise ConfigError(f"{file}: not a readable image: {in_one_line(error)}") from error
        pixels: Any = np.asarray(image if self._size is None else ImageOps.fit(image, (self._size, self._size)))
        return pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, 2, 0)


def _classes(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def _table(folder: Path, classes: Sequence[str], size: int | None) -> ImageTable:
    unknown = sorted(set(_classes(folder)) - set(classes))
    if unknown:
        raise ConfigError(f"{folder}: class {unknown[0]!r} is not in the training data; it has {', '.join(classes)}")
    found = [(file, number) for number, name in enumerate(classes) for file in sorted((folder / name).glob("*"))]
    images = [(file, number) for file, number in found if _is_image(file)]
    if not images:
        raise ConfigError(f"{folder}: there are no images in its sub-folders; allowed: {', '.join(_SUFFIXES)}")
    labels = np.array([number for _, number in images], smallest_type(len(classes)))
    return ImageTable([file for file, _ in images], labels, size)


def _is_image(file: Path) -> bool:
    return file.suffix.lower() in _SUFFIXES and not file.name.startswith(".")
