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
    ],
)
def test_one_line(text, line):
    assert one_line(text) == line


@pytest.mark.parametrize("text", ["x" * 1001, "\x00" * 10_000_000 + "x", "x\n" * 5000])
def test_long_text_is_cut(text):
    assert len(one_line(text)) <= 1001
    assert one_line(text).endswith("…")
