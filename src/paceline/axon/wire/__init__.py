"""Values to bytes and back; nothing that arrives can run code. docs/wire.md describes the format."""

from paceline.axon.wire.frames import ALIGNMENT_BYTES as ALIGNMENT_BYTES
from paceline.axon.wire.frames import DEFAULT_LIMITS as DEFAULT_LIMITS
from paceline.axon.wire.frames import OUT_OF_BAND_BYTES as OUT_OF_BAND_BYTES
from paceline.axon.wire.frames import UNLIMITED as UNLIMITED
from paceline.axon.wire.frames import VERSION as VERSION
from paceline.axon.wire.frames import Kind as Kind
from paceline.axon.wire.frames import Limits as Limits
from paceline.axon.wire.frames import decode as decode
from paceline.axon.wire.frames import decode_as as decode_as
from paceline.axon.wire.frames import encode as encode
from paceline.axon.wire.frames import is_last as is_last
