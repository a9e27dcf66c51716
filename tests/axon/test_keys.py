"""Keys of devices: what is signed with one is known by its public part, and by no other."""

import pytest

from paceline.axon.keys import DeviceKey, is_public_key, is_signed
from paceline.errors import ConfigError


def test_is_made_once_and_only_its_owner_may_read_it(tmp_path):
    path = tmp_path / "keys" / "pi.pem"
    key = DeviceKey.load_or_make(path)
    assert DeviceKey.load_or_make(path).public == key.public
    assert path.stat().st_mode & 0o777 == 0o600 and [path] == list(path.parent.iterdir())
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_signatures_are_of_one_key_and_one_message():
    key, other = DeviceKey.generate(), DeviceKey.generate()
    signature = key.sign(b"join as pi")
    assert len(signature) == 64 and is_public_key(key.public)
    assert is_signed(key.public, b"join as pi", signature)
    assert not is_signed(key.public, b"join as pj", signature)
    assert not is_signed(other.public, b"join as pi", signature)
    assert not is_signed(key.public, b"join as pi", signature[:-1])


@pytest.mark.parametrize(
    "text", ["", "ed25519:", "ed25519:" + 43 * "!", "ed25519:" + 42 * "A", "rsa:" + 43 * "A", "ed25519:" + 43 * "é"]
)
def test_other_text_is_no_key(text):
    assert not is_public_key(text)
    assert not is_signed(text, b"", bytes(64))


def test_another_file_is_refused_in_one_line(tmp_path):
    path = tmp_path / "key.pem"
    path.write_text("no key")
    with pytest.raises(ConfigError, match=r"key\.pem cannot be used as the key of this device"):
        DeviceKey.load_or_make(path)
