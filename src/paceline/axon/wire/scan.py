"""Looks a frame's meta over before anything is made of it: nesting, number of items, kinds of keys.

A few bytes of msgpack can ask for gigabytes of lists, or for a dict whose keys all collide. Reading the structure first
costs a fraction of a microsecond an item, and memory only for the containers that are open.
"""

from __future__ import annotations

from collections.abc import Container

from paceline.errors import WireError

MAX_TUPLE_KEYS = 4096
"""Tuples hash alike in every process, so that many of them in one dict could be chosen to collide."""

# Bytes of an item by its first byte: positive for all of it, where that is fixed.
_FIXED = [0] * 256
for _byte in range(256):
    if _byte < 0x80 or _byte >= 0xE0:  # small integers
        _FIXED[_byte] = 1
    elif 0xA0 <= _byte < 0xC0:  # short strings
        _FIXED[_byte] = 1 + _byte - 0xA0
for _byte, _size in {0xC0: 1, 0xC2: 1, 0xC3: 1, 0xCA: 5, 0xCB: 9}.items():  # nil, booleans, floats
    _FIXED[_byte] = _size
for _byte, _size in zip(range(0xCC, 0xD4), (2, 3, 5, 9, 2, 3, 5, 9), strict=True):  # integers
    _FIXED[_byte] = _size
_LENGTH_BYTES = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}  # byte strings and strings
_FIXED_EXTENSIONS = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
_EXTENSIONS = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_ARRAYS, _MAPS = {0xDC: 2, 0xDD: 4}, {0xDE: 2, 0xDF: 4}


_NOT_EXTENSION = bytes(b for b in range(256) if b not in {**_FIXED_EXTENSIONS, **_EXTENSIONS})
_NOT_CONTAINER = bytes(b for b in range(256) if not 0x80 <= b < 0xA0 and b not in {**_ARRAYS, **_MAPS})


class Scanner:
    """One look over a meta; `nested_codes` are the extension types whose content is msgpack again."""

    def __init__(self, meta: bytes, *, nested_codes: Container[int], max_depth: int, max_items: int) -> None:
        self._meta = meta
        self._nested_codes = nested_codes
        self._max_depth = max_depth
        self._max_items = max_items
        self._num_items = 0
        self._num_tuple_keys = 0
        self._position = 0

    def check(self) -> None:
        """Raise `WireError` for what must not be decoded."""
        if self._is_surely_harmless():
            return
        try:
            self._items(1, depth=-1)
        except IndexError:
            raise WireError("the frame is damaged: its structure is cut short") from None

    def _is_surely_harmless(self) -> bool:
        """Whether there are too few bytes that could begin a container to reach a limit: true of most small calls."""
        if len(self._meta) > self._max_items or self._meta.translate(None, _NOT_EXTENSION):
            return False
        return len(self._meta.translate(None, _NOT_CONTAINER)) <= min(self._max_depth, MAX_TUPLE_KEYS)

    def _items(self, count: int, depth: int, *, are_pairs: bool = False, are_keys: bool = False) -> None:
        """Pass `count` items (for a map: keys and values in turn) of a container at this depth."""
        self._num_items += count
        if self._num_items > self._max_items:
            raise WireError(f"more than {self._max_items} items; send long lists of numbers as arrays")
        if depth > self._max_depth:
            raise WireError(f"the value is nested deeper than {self._max_depth}")
        meta, fixed = self._meta, _FIXED
        while count:
            size = fixed[meta[self._position]]
            if size:
                self._position += size
            else:
                self._other(meta[self._position], depth, is_key=are_keys or (are_pairs and count % 2 == 0))
            count -= 1

    def _other(self, first: int, depth: int, *, is_key: bool) -> None:
        """Pass an item whose length is in its next bytes."""
        self._position += 1
        if first in _LENGTH_BYTES:
            length = self._number(_LENGTH_BYTES[first])
            self._position += length
        elif self._container(first, depth, is_key=is_key):
            return
        elif is_key:
            raise WireError("an extension cannot be a key")
        else:
            self._extension(first, depth)

    def _container(self, first: int, depth: int, *, is_key: bool) -> bool:
        """Pass an array or a map, whose first byte has been read; False if it is neither."""
        if 0x90 <= first < 0xA0 or first in _ARRAYS:
            count = self._number(_ARRAYS[first]) if first in _ARRAYS else first - 0x90
            self._num_tuple_keys += is_key
            if self._num_tuple_keys > MAX_TUPLE_KEYS:
                raise WireError(f"more than {MAX_TUPLE_KEYS} tuples as keys or members of sets")
            self._items(count, depth + 1, are_keys=is_key)
        elif 0x80 <= first < 0x90 or first in _MAPS:
            if is_key:
                raise WireError("a map cannot be a key")
            count = self._number(_MAPS[first]) if first in _MAPS else first - 0x80
            self._items(2 * count, depth + 1, are_pairs=True)
        else:
            return False
        return True

    def _extension(self, first: int, depth: int) -> None:
        if first in _FIXED_EXTENSIONS:
            length = _FIXED_EXTENSIONS[first]
        elif first in _EXTENSIONS:
            length = self._number(_EXTENSIONS[first])
        else:
            raise WireError(f"the frame is damaged: no item begins with byte {first:#x}")
        code = self._number(1)
        end = self._position + length
        if code in self._nested_codes:
            is_container = self._container(self._number(1), depth, is_key=False)
            if not is_container or self._position != end:
                raise WireError("the frame is damaged: a tuple or set is not made of one array or map")
        self._position = end

    def _number(self, num_bytes: int) -> int:
        start, self._position = self._position, self._position + num_bytes
        if self._position > len(self._meta):
            raise IndexError
        return int.from_bytes(self._meta[start : self._position], "big")
