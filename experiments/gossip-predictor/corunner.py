"""A job that runs beside the training, over and over: counts the words of a file, or sorts its lines.

It is asked once, ``{"kind": "wordcount", "num_bytes": 16000000}``, and works from its answer on until its input ends.
Both jobs read a file of so many bytes from the disk. Counting keeps a number per word; sorting writes sorted runs,
merges them and writes the result, each flushed to the disk, as MapReduce does.
"""

from __future__ import annotations

import collections
import contextlib
import heapq
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import IO

CHUNK_BYTES = 4_000_000
PAUSE_SECONDS = 0.5  # between two jobs


def make_input(num_bytes: int, file: IO[bytes]) -> None:
    """Lines of words that are drawn at random, some far more often than others."""
    chance = random.Random(num_bytes)
    words = [f"word{number:05d}".encode() for number in range(20_000)]
    lines = [b" ".join(words[int(len(words) * chance.random() ** 3)] for _ in range(8)) + b"\n" for _ in range(5_000)]
    size = 0
    while size < num_bytes:
        chance.shuffle(lines)
        size += file.write(b"".join(lines))
    file.truncate(num_bytes)


def chunks(file: IO[bytes]) -> Iterator[list[bytes]]:
    """The lines of a file, some at a time, read from the disk and not from memory."""
    file.flush()
    os.fsync(file.fileno())
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    file.seek(0)
    while lines := file.readlines(CHUNK_BYTES):
        yield lines


def lines_of(file: IO[bytes]) -> Iterator[bytes]:
    """The same, line by line."""
    for lines in chunks(file):
        yield from lines


def count_words(file: IO[bytes]) -> int:
    """The number of different words."""
    counts: collections.Counter[bytes] = collections.Counter()
    for lines in chunks(file):
        counts.update(b"".join(lines).split())
    return len(counts)


def sort_lines(file: IO[bytes]) -> int:
    """The number of bytes that were written, sorted, to another file."""
    with contextlib.ExitStack() as stack:
        runs = []
        for lines in chunks(file):
            runs.append(stack.enter_context(tempfile.TemporaryFile()))
            write(sorted(lines), runs[-1])
        merged = stack.enter_context(tempfile.TemporaryFile())
        write(heapq.merge(*map(lines_of, runs)), merged)
        return merged.tell()


def write(lines: Iterator[bytes] | list[bytes], file: IO[bytes]) -> None:
    """Write lines, through to the disk."""
    file.writelines(lines)
    file.flush()
    os.fsync(file.fileno())


JOBS = {"wordcount": count_words, "sort": sort_lines}


def end_with_input() -> None:
    """End this process as soon as nobody holds its input."""
    while sys.stdin.readline():
        pass
    os._exit(0)


def main(kind: str, num_bytes: int) -> None:
    """Run the job over and over."""
    with tempfile.TemporaryFile() as file:
        make_input(num_bytes, file)
        print(json.dumps({"has_begun": True}), flush=True)
        threading.Thread(target=end_with_input, daemon=True).start()
        while True:
            JOBS[kind](file)
            time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main(**json.loads(sys.stdin.readline()))
