"""Secure aggregation (Bonawitz et al., 2017): masks that cancel in the sum of updates, also if some never come.

Each learner agrees with every other on a mask, which one adds and the other subtracts, and adds one of its own. What
the masks are made of is shared among all before anything is masked. When it is known whose updates came, the learners
reveal shares of their own masks, and of the keys of those who left: never both of the same learner. So nobody can
unmask a single update unless `num_needed` learners help with that.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256, Hash
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from paceline.errors import PacelineError
from paceline.learning.averaging import as_type
from paceline.learning.privacy import shamir, streams
from paceline.learning.shards import Array
from paceline.learning.vectors import Vectors

KEYS_BYTES = 64
"""Size of what a learner shows to all: the public keys of its masks and of its messages."""
SEALED_BYTES = 2 * shamir.SHARE_BYTES + 16
"""Size of what it seals for each other learner: a share of its masks' key, and one of its own mask's seed."""
COMMITMENT_BYTES = 32
"""Size of what it is held to when its own mask's seed is put together."""
_UNIT = 2.0**28  # steps of a value: the sum of weights times values is to stay below 2 ** 35
_MOST = 2.0**62
_ONE_USE = bytes(12)  # a nonce for keys that seal one message


class MaskError(PacelineError):
    """Masks cannot be agreed on, or not be taken off."""


def num_needed(num_members: int) -> int:
    """Return how many of so many learners have to be there at the end: more than half."""
    return num_members // 2 + 1


class Masker:
    """One learner's part in one round.

    Args:
        name: its name.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._mask_key, self._seal_key = X25519PrivateKey.generate(), X25519PrivateKey.generate()
        self._seed = secrets.token_bytes(streams.SEED_BYTES)
        self._keys: dict[str, bytes] = {}
        self._held: dict[str, tuple[bytes, bytes]] = {}  # shares, of masks' keys and of seeds, by whose they are
        self._has_revealed = False

    @property
    def keys(self) -> bytes:
        """Its public keys, to be shown to all."""
        return b"".join(key.public_key().public_bytes_raw() for key in (self._mask_key, self._seal_key))

    @property
    def commitment(self) -> bytes:
        """What it is held to when its own mask's seed is put together."""
        return _digest(self._seed)

    @property
    def num_needed(self) -> int:
        """How many of those that it agreed with have to be there at the end."""
        return num_needed(len(self._keys))

    def seal(self, keys: Mapping[str, bytes], least: int) -> dict[str, bytes]:
        """Return shares of its secrets, sealed for each of the others.

        Raises `MaskError` if those are fewer than `least`, or its own keys are not among them.

        Args:
            keys: public keys of all that take part.
        """
        if keys.get(self._name) != self.keys or len(keys) < least:
            raise MaskError(f"{len(keys)} learners are too few to hide an update among, or {self._name} is not in it")
        self._keys = dict(sorted(keys.items()))
        mine = shamir.split(self._mask_key.private_bytes_raw(), self.num_needed, len(keys))
        seeds = shamir.split(self._seed, self.num_needed, len(keys))
        sealed: dict[str, bytes] = {}
        for name, *shares in zip(self._keys, mine, seeds, strict=True):
            if name == self._name:
                self._held[name] = (shares[0], shares[1])
            else:
                key = self._key_with(name, f"seal {self._name}/{name}")
                sealed[name] = ChaCha20Poly1305(key).encrypt(_ONE_USE, b"".join(shares), None)
        return sealed

    def open(self, sealed: Mapping[str, bytes]) -> None:
        """Take what others have sealed for it; who is not among them has left. Raises `MaskError`."""
        for name, message in sealed.items():
            if name not in self._keys or name == self._name:
                raise MaskError(f"a share of {name} came, who is not in this round")
            key = self._key_with(name, f"seal {name}/{self._name}")
            try:
                opened = ChaCha20Poly1305(key).decrypt(_ONE_USE, message, None)
            except InvalidTag:
                raise MaskError(f"what {name} has sealed was changed on its way") from None
            self._held[name] = (opened[: shamir.SHARE_BYTES], opened[shamir.SHARE_BYTES :])
        if len(self._held) < self.num_needed:
            raise MaskError(f"only {len(self._held)} of {len(self._keys)} learners share their secrets")

    def mask(self, change: Vectors, weight: int) -> torch.Tensor:
        """Return a change times its weight under masks; raises `MaskError` for values that are too large for it."""
        masked = _fixed(change, weight, len(self._held))
        _add_stream(masked, self._seed, 1)
        for name in self._held:
            if name != self._name:
                sign = 1 if self._name < name else -1
                _add_stream(masked, _mask_seed(self._mask_key, self._keys[name]), sign)
        return torch.from_numpy(masked.view(np.int64))

    def reveal(self, survivors: Collection[str]) -> dict[str, bytes]:
        """Return shares of what is needed to unmask the sum of these; raises `MaskError` for what it must not reveal.

        It does so once: with two answers, one could tell apart what is under the masks.
        """
        needed = self.num_needed
        if self._has_revealed or self._name not in survivors or len(survivors) < needed:
            raise MaskError(
                f"{len(survivors)} updates are to be unmasked, once, and {self._name}'s among {needed} or more"
            )
        if not self._held.keys() >= set(survivors):
            raise MaskError("updates are to be unmasked of learners that are not in this round")
        self._has_revealed = True
        return {name: shares[name in survivors] for name, shares in self._held.items()}

    def _key_with(self, name: str, purpose: str) -> bytes:
        return _derived(self._seal_key, self._keys[name][32:], purpose)


class Unmasking:
    """The orchestrator's part in one round: adds up what is masked, and takes the masks off the sum.

    Args:
        keys: public keys of all that take part.
        commitments: of those that shared their secrets.
        size: number of values.
    """

    def __init__(self, keys: Mapping[str, bytes], commitments: Mapping[str, bytes], size: int) -> None:
        self._numbers = {name: number for number, name in enumerate(sorted(keys), 1)}
        self._keys = keys
        self._commitments = commitments
        self._sum: Array = np.zeros(size, np.uint64)
        self._survivors: list[str] = []
        self.num_needed = num_needed(len(keys))

    def why_unlike(self, masked: torch.Tensor) -> str | None:
        """Return how what came differs from a masked update; None if it does not."""
        if masked.dtype != torch.int64 or masked.shape != self._sum.shape:
            return f"a masked update is {masked.dtype} of shape {tuple(masked.shape)}, not int64 of {self._sum.shape}"
        return None

    def add(self, name: str, masked: torch.Tensor) -> None:
        """Add a masked update."""
        self._sum += masked.numpy().view(np.uint64)
        self._survivors.append(name)

    def finish(self, revealed: Mapping[str, Mapping[str, bytes]], like: Vectors, weight: float) -> Vectors:
        """Return the sum divided by the weight; raises `MaskError` if it cannot be unmasked.

        Args:
            revealed: shares by whose secrets they are of, by who revealed them.
        """
        if len(revealed) < self.num_needed:
            raise MaskError(f"{len(revealed)} learners helped to unmask the sum, and {self.num_needed} are needed")
        helpers = sorted(revealed)[: self.num_needed]
        seeds = {name: self._joined(name, helpers, revealed) for name in sorted(self._commitments)}
        for name, secret in seeds.items():
            if name in self._survivors:
                if _digest(secret) != self._commitments[name]:
                    raise MaskError(f"shares of {name}'s mask were revealed that are not of one secret")
                _add_stream(self._sum, secret, -1)
        left = [name for name in seeds if name not in self._survivors]
        for name in left:
            key = X25519PrivateKey.from_private_bytes(seeds[name])
            if key.public_key().public_bytes_raw() != self._keys[name][:32]:
                raise MaskError(f"shares of {name}'s key were revealed that are not of one secret")
            for other in self._survivors:
                _add_stream(self._sum, _mask_seed(key, self._keys[other]), -1 if other < name else 1)
        return _floating(self._sum, like, weight)

    def _joined(self, name: str, helpers: Sequence[str], revealed: Mapping[str, Mapping[str, bytes]]) -> bytes:
        try:
            return shamir.joined({self._numbers[helper]: revealed[helper][name] for helper in helpers}, 32)
        except ValueError:
            raise MaskError(f"shares of {name}'s secret were revealed that are not of one secret") from None


def masked_size(like: Vectors) -> int:
    """Return the number of values of a masked update."""
    return sum(len(vector) for vector in like.values())


def _fixed(change: Vectors, weight: int, num_members: int) -> Array:
    """Return values times weight as whole steps, in a ring that sums stay in."""
    values = np.concatenate([change[kind].double().numpy() for kind in sorted(change)])
    values *= weight * _UNIT
    largest = float(np.abs(values).max(initial=0.0))
    if not largest * num_members < _MOST:
        raise MaskError(f"values of {largest / weight / _UNIT:.3g} are too large to be masked")
    fixed: Array = np.rint(values, out=values).astype(np.int64).view(np.uint64)
    return fixed


def _floating(total: Array, like: Vectors, weight: float) -> Vectors:
    values = torch.from_numpy(total.view(np.int64).astype(np.float64) / (weight * _UNIT))
    kinds = sorted(like)
    parts = torch.split(values, [len(like[kind]) for kind in kinds])
    return {
        kind: as_type(like[kind].double() + part, like[kind].dtype) for kind, part in zip(kinds, parts, strict=True)
    }


def _add_stream(total: Array, seed: bytes, sign: int) -> None:
    for place, part in streams.numbers(seed, len(total)):
        if sign > 0:
            total[place] += part
        else:
            total[place] -= part


def _mask_seed(key: X25519PrivateKey, keys: bytes) -> bytes:
    return _derived(key, keys[:32], "mask")


def _derived(key: X25519PrivateKey, public: bytes, purpose: str) -> bytes:
    try:
        agreed = key.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise MaskError("a public key is none that can be agreed with") from None
    return HKDF(SHA256(), 32, None, f"paceline {purpose}".encode()).derive(agreed)


def _digest(secret: bytes) -> bytes:
    digest = Hash(SHA256())
    digest.update(b"paceline mask " + secret)
    return digest.finalize()
