"""Sentences of Python's own documentation, as tokens, and the module that each is about."""

import importlib
import inspect
import random
import re
import zlib

import torch

MODULES = ("asyncio", "decimal", "logging", "sqlite3", "statistics", "unittest")
NUM_TOKENS = 4096
_LENGTH = 16  # tokens of a sentence; 0 stands for none


def sentences_of(module):
    """Find the sentences in the docstrings of a module's classes and functions."""
    members = [member for _, member in inspect.getmembers(importlib.import_module(module), callable)]
    methods = [vars(member).values() for member in members if inspect.isclass(member)]
    docs = {
        inspect.getdoc(one) or "" for one in (*members, *(one for some in methods for one in some if callable(one)))
    }
    return sorted({part for doc in docs for part in re.split(r"[.:]\s|\n\n", doc) if len(part.split()) > 4})


def tokens_of(sentence):
    """Number the words of a sentence by their checksums."""
    words = re.findall(r"[a-z_]+", sentence.lower())[:_LENGTH]
    tokens = [1 + zlib.crc32(word.encode()) % (NUM_TOKENS - 1) for word in words]
    return torch.tensor(tokens + [0] * (_LENGTH - len(tokens)))  # int64


def sentences():
    """Make all samples: tokens, and the number of the module. A fifth of them is kept for tests."""
    samples = [(tokens_of(text), label) for label, module in enumerate(MODULES) for text in sentences_of(module)]
    random.Random(0).shuffle(samples)
    return samples
