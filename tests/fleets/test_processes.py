"""Fleets of processes: what they print is read, whatever it is; options are told as `paceline join` has them."""

import asyncio

from paceline.fleets.processes import _lines


def test_lines_that_are_too_long_are_dropped_and_reading_goes_on():
    async def main():
        stream = asyncio.StreamReader(limit=64)
        for content in (b"first\n", b"x" * 100 + b"\n", b"y" * 50, b"y" * 50 + b"\nlast\n"):
            stream.feed_data(content)
        stream.feed_eof()
        return [line async for line in _lines(stream)]

    found = asyncio.run(main())
    assert found[0] == b"first\n"
    assert found[-1] == b"last\n"
    assert all(len(line) <= 65 for line in found)
