"""The letters of Python's own reference, as rows of tokens."""

from pydoc_data.topics import topics

import torch

_LENGTH = 49  # letters in a row: each but the first is predicted from those before it
_NUM_ROWS = 1200


def rows():
    """Cut the text into rows of int64 tokens, and keep every fifth for tests."""
    text = " ".join("\n".join(topics[name] for name in sorted(topics)).split()).lower()
    letters = torch.tensor(list(text[: _LENGTH * _NUM_ROWS].encode("ascii", "replace")))
    cut = letters.view(_NUM_ROWS, _LENGTH)
    is_test = torch.arange(_NUM_ROWS) % 5 == 0
    return cut[~is_test], cut[is_test]
