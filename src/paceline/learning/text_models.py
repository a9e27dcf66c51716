"""Models of text, for samples that are rows of tokens."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from paceline.errors import ConfigError

_WIDTH = 64
_BUCKETS = 1 << 14  # rows of an embedding where the vocabulary is not known; larger tokens share rows


class TokenLstm(nn.Module):
    """Predicts the next token of each place, from those up to it."""

    def __init__(self, num_tokens: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_tokens, _WIDTH)
        self.lstm = nn.LSTM(_WIDTH, 2 * _WIDTH, batch_first=True)
        self.head = nn.Linear(2 * _WIDTH, num_tokens)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Compute logits (batch, places, tokens)."""
        states, _ = self.lstm(self.embedding(tokens.long()))
        logits: torch.Tensor = self.head(states)
        return logits


class BagOfTokens(nn.Module):
    """Classifies a text by the mean of its tokens' embeddings, whatever their order; token 0 is padding."""

    def __init__(self, num_outputs: int) -> None:
        super().__init__()
        self.embedding = nn.EmbeddingBag(_BUCKETS, _WIDTH, mode="mean", padding_idx=0)
        self.hidden = nn.Linear(_WIDTH, _WIDTH)
        self.head = nn.Linear(_WIDTH, num_outputs)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Compute logits (batch, outputs)."""
        tokens = tokens.long()
        bags = self.embedding(torch.where(tokens < _BUCKETS, tokens, 1 + tokens % (_BUCKETS - 1)))
        logits: torch.Tensor = self.head(torch.relu(self.hidden(bags)))
        return logits


def lstm(input_shape: Sequence[int], num_outputs: int) -> nn.Module:
    """Make a language model of one recurrent layer."""
    _check_tokens("lstm", input_shape)
    return TokenLstm(num_outputs)


def bag_of_tokens(input_shape: Sequence[int], num_outputs: int) -> nn.Module:
    """Make a classifier of short texts."""
    _check_tokens("bag-of-tokens", input_shape)
    return BagOfTokens(num_outputs)


def _check_tokens(name: str, input_shape: Sequence[int]) -> None:
    if len(input_shape) != 1:
        raise ConfigError(f"model {name!r} takes rows of tokens, not samples of shape {tuple(input_shape)}")
