"""Profiles are kept as JSON, whole or not at all, and read strictly."""

import json

import pytest

from paceline.devices.contention import ContentionProfile, SlowdownModel, load_profile, save_profile
from paceline.devices.contention.profiles import MAX_FILE_BYTES
from paceline.errors import ConfigError

PROFILE = ContentionProfile(
    version=1,
    model="two-nn",
    seconds_per_sample=0.001,
    slowdown=SlowdownModel(cpu=(0.5, *[0.0] * 7), disk=0.1),
    error_ratio=0.04,
    num_observations=60,
)


def test_what_is_saved_is_loaded(tmp_path):
    path = tmp_path / "device.json"
    for _ in range(2):
        save_profile(PROFILE, path)
    assert load_profile(path) == PROFILE
    assert json.loads(path.read_text())["version"] == 1
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": 2}, "Invalid enum value 2"),
        ({"seconds_per_sample": 0}, "Expected `float` > 0.0"),
        ({"seconds_per_sample": "fast"}, "Expected `float`"),
        ({"slowdown": {"cpu": [1.0]}}, "cpu has 1 coefficients"),
        ({"slowdown": {"gpu": 1.0}}, "unknown field `gpu`"),
        ({"more": 1}, "unknown field `more`"),
    ],
)
def test_files_that_are_no_profile(tmp_path, changes, reason):
    path = tmp_path / "device.json"
    save_profile(PROFILE, path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(ConfigError, match=rf"device.json: no contention profile of version 1: .*{reason}") as raised:
        load_profile(path)
    assert "\n" not in str(raised.value)


def test_files_that_cannot_be_read_or_written(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_profile(tmp_path / "none.json")
    with pytest.raises(ConfigError, match="cannot be written: No such file"):
        save_profile(PROFILE, tmp_path / "none" / "device.json")
    large = tmp_path / "large.json"
    large.write_bytes(b" " * (MAX_FILE_BYTES + 1))
    with pytest.raises(ConfigError, match="is larger than 65536 bytes"):
        load_profile(large)
    rubbish = tmp_path / "rubbish.json"
    rubbish.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="no contention profile"):
        load_profile(rubbish)
