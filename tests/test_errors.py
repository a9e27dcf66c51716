"""Errors, and text from anywhere, on one line."""

import pytest

from paceline.errors import one_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("all is well", "all is well"),
        ("über – 3 µs", "über – 3 µs"),
        ("two\n  lines\r\n", "two lines"),
        ("\x1b[31mred\x07", "[31mred"),
        ("", ""),
        ("x" * 1001, "x" * 1000 + "…"),
        ("x\n" * 5000, "x " * 500 + "…"),
        ("\x00" * 10_000_000 + "x", "…"),
    ],
    ids=lambda text: repr(text[:9]),
)
def test_text_comes_on_one_line_and_long_text_is_cut(text, line):
    assert one_line(text) == line
