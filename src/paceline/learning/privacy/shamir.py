"""Secrets in shares (Shamir, 1979): any so many of them give the secret, and fewer say nothing about it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

_PRIME = (1 << 521) - 1
SHARE_BYTES = 66
"""Size of a share."""


def split(secret: bytes, num_needed: int, num_shares: int) -> list[bytes]:
    """Return the shares of a secret of at most 64 bytes; the first is number 1."""
    coefficients = [int.from_bytes(secret, "big"), *(secrets.randbelow(_PRIME) for _ in range(num_needed - 1))]
    return [_value_at(number, coefficients).to_bytes(SHARE_BYTES, "big") for number in range(1, num_shares + 1)]


def joined(shares: Mapping[int, bytes], num_bytes: int) -> bytes:
    """Return the secret of so many bytes that these shares are of, by number; `ValueError` if it is none."""
    numbers = list(shares)
    weights = weights_at_zero(numbers)
    secret = sum(
        weight * int.from_bytes(shares[number], "big") for weight, number in zip(weights, numbers, strict=True)
    )
    try:
        return (secret % _PRIME).to_bytes(num_bytes, "big")
    except OverflowError:
        raise ValueError("the shares are not of one secret") from None


def weights_at_zero(numbers: Sequence[int]) -> list[int]:
    """Return what each share counts in the secret."""
    weights = []
    for number in numbers:
        above, below = 1, 1
        for other in numbers:
            if other != number:
                above = above * other % _PRIME
                below = below * (other - number) % _PRIME
        weights.append(above * pow(below, -1, _PRIME) % _PRIME)
    return weights


def _value_at(number: int, coefficients: Sequence[int]) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * number + coefficient) % _PRIME
    return value
