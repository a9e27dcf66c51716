"""Strict conversion of settings: typed objects, or one line that names the file, the key, the value and the rule."""

from typing import Annotated, Literal

import msgspec
import pytest

from paceline import config
from paceline.errors import ConfigError


class Wheel(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    inches: Annotated[float, msgspec.Meta(gt=0)] = 28.0


class Bike(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    name: str
    gears: Annotated[int, msgspec.Meta(ge=1, le=30)] = 1
    kind: Literal["road", "track"] = "road"
    front: Wheel = msgspec.field(default_factory=Wheel)
    spare: tuple[Wheel, ...] = ()


def refusal(call, *arguments):
    with pytest.raises(ConfigError) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
    return str(caught.value)


def test_tables_become_typed_objects():
    plain = {"name": "a", "gears": 3, "kind": "track", "front": {"inches": 26}, "spare": [{}, {"inches": 20}]}
    bike = Bike(name="a", gears=3, kind="track", front=Wheel(inches=26), spare=(Wheel(), Wheel(inches=20)))
    assert config.convert(plain, Bike, "file") == bike


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, "f: 3 must be a table"),
        ({"name": "a", "geers": 3}, "f: unknown key 'geers'; did you mean 'gears'? Allowed: name, gears, kind,"),
        ({"name": "a", "zzz": 3}, "f: unknown key 'zzz'; allowed: name, gears"),
        ({}, "f: name is missing"),
        ({"name": 3}, "f: name is 3; it must be text"),
        ({"name": "a", "gears": True}, "f: gears is True; it must be a whole number"),
        ({"name": "a", "gears": 0}, "f: gears is 0; allowed: 1 to 30"),
        ({"name": "a", "gears": 10**400}, "f: gears is 1000"),
        ({"name": "a", "kind": "rode"}, "f: kind is 'rode'; did you mean 'road'? Allowed: road, track"),
        ({"name": "a", "front": 3}, "f: front is 3; it must be a table, or a Wheel"),
        ({"name": "a", "front": {"inches": 0}}, "f: front: inches is 0; it must be above 0"),
        ({"name": "a", "front": {"inch": 1}}, "f: front: unknown key 'inch'; did you mean 'inches'?"),
        ({"name": "a", "spare": [{}, {"inches": "big"}]}, "f: spare 2: inches is 'big'; it must be a number"),
        ({"name": "x" * 100_000, "gears": ["1"] * 100_000}, "f: gears is ['1', '1', '1'"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(value, message):
    assert refusal(config.convert, value, Bike, "f").startswith(message)


def test_tables_and_keys_are_checked_by_name():
    assert config.table_named({"a": {"b": 1}}, "a", "f") == {"b": 1}
    assert config.table_named({}, "a", "f") == {}
    assert refusal(config.table_named, {"a": [1]}, "a", "f") == "f: a is [1]; it must be a table, [a]"
    config.check_keys({"a": 1}, ["a", "b"], "f")
    assert refusal(config.check_keys, {"c": 1}, ["a"], "f", "table") == "f: unknown table 'c'; allowed: a"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"deadline = ", "Invalid value (at end of document)"),
        (b"[job\n", "Expected ']' at the end of a table declaration"),
        (b"[job]\n[job]\n", "Cannot declare ('job',) twice"),
        (b"\xff\xfe\x00", "'utf-8' codec can't decode byte 0xff in position 0"),
        (b"\x7fELF\x02\x01\x00", "Invalid statement"),
        (b"a = " + b"[" * 100_000, ""),
        (b"a = " + b"{b = " * 100_000, ""),
        (b"a = " + b"9" * 10_000, "Exceeds the limit"),
    ],
)
def test_what_is_not_toml_is_refused_in_one_line(tmp_path, content, message):
    path = tmp_path / "job.toml"
    path.write_bytes(content)
    assert refusal(config.read_tables, path).startswith(f"{path}: not TOML: {message}")


@pytest.mark.parametrize("text", ["", "[1, 2]", '{"gossip": ', "[" * 5000], ids=["nothing", "list", "half", "deep"])
def test_what_is_not_json_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "job.json"
    path.write_text('{"job": {"rounds": 3}}')
    assert config.read_tables(path) == {"job": {"rounds": 3}}
    path.write_text(text)
    assert refusal(config.read_tables, path).startswith(f"{path}: not JSON: ")


def test_files_that_cannot_be_read_are_refused_in_one_line(tmp_path):
    large = tmp_path / "large.toml"
    large.write_text("#" * (config.MAX_FILE_BYTES + 1))
    for path, message in (
        (tmp_path, "cannot be read: Is a directory"),
        (tmp_path / "absent.toml", "cannot be read: No such file or directory"),
        (large / "inside.toml", "cannot be read: Not a directory"),
        (large, "larger than 1048576 bytes; is it the right file?"),
    ):
        assert refusal(config.read_tables, path) == f"{path}: {message}"
