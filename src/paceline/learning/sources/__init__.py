"""Sources of data: one file per format, and the user's own code."""

from paceline.learning.sources.base import Format, ImageSize, Parts, ReadOptions, TestShare
from paceline.learning.sources.imported import are_objects, is_source, keep_objects
from paceline.learning.sources.loading import FORMATS, check_alike, check_options, is_import, load_own, load_source

__all__ = [
    "FORMATS",
    "Format",
    "ImageSize",
    "Parts",
    "ReadOptions",
    "TestShare",
    "are_objects",
    "check_alike",
    "check_options",
    "is_import",
    "is_source",
    "keep_objects",
    "load_own",
    "load_source",
]
