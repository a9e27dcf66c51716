"""What a format of stored data offers: which paths it is for, and the tables that it makes of one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from paceline.learning.tables import Table

ImageSize = Annotated[int, Meta(ge=1, le=1 << 13)]
"""Height and width of an image."""
TestShare = Annotated[float, Meta(gt=0, lt=1)]
"""Part of the samples that is for tests."""


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How stored data is read; all devices of a job read theirs alike.

    Attributes:
        target: names of the columns with the labels, where columns have names.
        image_size: height and width that images are given; None to take them as they are, all of one size.
        test_share: share of the samples that is kept for tests, where there is no test part.
    """

    target: tuple[str, ...] = ()
    image_size: ImageSize | None = None
    test_share: TestShare = 0.2


@dataclass(frozen=True)
class Parts:
    """Training and test data; None where there is no test part."""

    train: Table
    test: Table | None = None


class Format(ABC):
    """One way to store data.

    Attributes:
        description: what a path to it leads to, for messages and docs.
        uses: the options that mean something for it.
    """

    description: ClassVar[str]
    uses: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def matches(self, path: Path) -> bool:
        """Return whether a file or folder that exists is of this format, by its name or what it contains."""

    @abstractmethod
    def read(self, path: Path, options: ReadOptions, *, is_alone: bool = True) -> Parts:
        """Open the data; raises `ConfigError` that begins with the path if it is not what it should be.

        Args:
            is_alone: whether it is all the data of a job; else other devices have data of their own.
        """


def find_part(path: Path, name: str, suffix: str) -> Path | None:
    """Return the file of a part in a folder, such as ``train.csv``; None if there is none."""
    file = path / f"{name}{suffix}"
    return file if file.is_file() else None
