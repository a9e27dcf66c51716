"""Keys of devices: made once, kept by their owner, and shown by signatures; Ed25519."""

from __future__ import annotations

import base64
import binascii
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.errors import ConfigError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_PREFIX = "ed25519:"
_NUM_BYTES = 32  # of a public key
_SHOWN = 12  # characters of a key that people are shown


@dataclass(frozen=True, eq=False)
class DeviceKey:
    """A private key, and the public one by which others know the device.

    Attributes:
        public: ``ed25519:`` and 43 characters, to be shown and stored.
    """

    public: str
    _private: Ed25519PrivateKey

    @classmethod
    def generate(cls) -> DeviceKey:
        """Make a new key, kept nowhere."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls._of(Ed25519PrivateKey.generate())

    @classmethod
    def load_or_make(cls, path: Path) -> DeviceKey:
        """Read the key in a file (PEM), or make one there that only its owner may read."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        try:
            if not path.exists():
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                made = Ed25519PrivateKey.generate()
                pem = made.private_bytes(
                    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
                )
                _write_whole(path, pem)
            private = serialization.load_pem_private_key(path.read_bytes(), password=None)
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(f"{path} cannot be used as the key of this device: {error}") from error
        if not isinstance(private, Ed25519PrivateKey):
            raise ConfigError(f"{path} holds a {type(private).__name__}; the key of a device is of Ed25519")
        return cls._of(private)

    @classmethod
    def _of(cls, private: Ed25519PrivateKey) -> DeviceKey:
        encoded = base64.urlsafe_b64encode(private.public_key().public_bytes_raw()).decode().rstrip("=")
        return cls(_PREFIX + encoded, private)

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message, 64 bytes."""
        return self._private.sign(message)


def short(public: str) -> str:
    """Return the beginning of a public key, enough to tell keys apart; empty for none."""
    return public[: len(_PREFIX) + _SHOWN]


def is_public_key(text: str) -> bool:
    """Return whether this can be a device's public key."""
    return _public_bytes(text) is not None


def is_signed(public: str, message: bytes, signature: bytes) -> bool:
    """Return whether a message was signed with the private key of a public one; False for what is no key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    raw = _public_bytes(public)
    if raw is None:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(raw).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _public_bytes(text: str) -> bytes | None:
    encoded = text.removeprefix(_PREFIX)
    if encoded == text or len(encoded) != 43 or not encoded.isascii():
        return None
    try:
        raw = base64.b64decode(encoded + "=", altchars=b"-_", validate=True)
    except binascii.Error:
        return None
    return raw if len(raw) == _NUM_BYTES else None


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read; of two processes that do it at once, the first one wins."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    try:
        os.link(partial, path)
    except FileExistsError:
        pass
    finally:
        partial.unlink()
