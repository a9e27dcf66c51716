"""Values to bytes and back; nothing that arrives can run code. docs/wire.md describes the format."""

from paceline.axon.wire.frames import (
    ALIGNMENT_BYTES,
    DEFAULT_LIMITS,
    OUT_OF_BAND_BYTES,
    UNLIMITED,
    VERSION,
    Kind,
    Limits,
    decode,
    decode_as,
    encode,
    is_last,
)

__all__ = [
    "ALIGNMENT_BYTES",
    "DEFAULT_LIMITS",
    "OUT_OF_BAND_BYTES",
    "UNLIMITED",
    "VERSION",
    "Kind",
    "Limits",
    "decode",
    "decode_as",
    "encode",
    "is_last",
]
