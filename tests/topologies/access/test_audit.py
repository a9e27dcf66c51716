"""The audit log: a line for what matters, few lines for a flood, and no trouble for a run."""

import json

import pytest

from paceline.topologies.access.audit import AuditLog


class Clock:
    now = 1.8e9

    def __call__(self):
        return self.now


@pytest.fixture
def log(tmp_path):
    clock = Clock()
    log = AuditLog(tmp_path, clock)
    log.clock = clock
    log.lines = lambda: [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    yield log
    log.close()


def test_lines_have_what_is_known(log, tmp_path):
    log.record("join", address="10.0.0.7", name="pi\n", key="ed25519:abc", by="the token")
    assert log.lines() == [
        {
            "at": "2027-01-15T08:00:00.000+00:00",
            "what": "join",
            "name": "pi\n",
            "key": "ed25519:abc",
            "by": "the token",
            "address": "10.0.0.7",
        }
    ]
    assert (tmp_path / "audit.jsonl").stat().st_mode & 0o777 == 0o600


def test_refusals_of_an_address_are_counted(log):
    for number in range(10_000):
        log.record("refusal", address="10.0.0.66", detail=f"401 for /rpc/{number}")
    assert len(log.lines()) == 1
    log.clock.now += 60
    log.record("refusal", address="10.0.0.66", detail="again")
    first, rest, again = log.lines()
    assert (first.get("count"), rest["count"], again.get("count")) == (None, 9999, None)
    assert rest["detail"] == "401 for /rpc/9999"


def test_each_device_that_is_refused_is_named_behind_one_address(log):
    log.record("refusal", address="10.0.0.1", detail="401 for /")
    for name in ("pi4", "pi5", "pi4"):
        log.record("refusal", address="10.0.0.1", name=name, key=f"ed25519:{name}", detail="expired")
    log.close()
    named = [(line["name"], line["key"], line.get("count", 1)) for line in log.lines() if "name" in line]
    assert named == [("pi4", "ed25519:pi4", 1), ("pi5", "ed25519:pi5", 1), ("pi4", "ed25519:pi4", 1)]


def test_many_names_from_one_address_make_few_lines(log):
    for number in range(5000):
        log.record("refusal", address="10.0.0.66", name=f"pi{number}", key="ed25519:abc")
    log.record("refusal", address="10.0.0.1", name="honest")
    log.close()
    lines = log.lines()
    assert len(lines) < 16
    assert sum(line.get("count", 1) for line in lines) == 5001
    assert "honest" in [line["name"] for line in lines]


def test_many_addresses_make_few_lines(log):
    for number in range(5000):
        log.record("refusal", address=f"2001:db8::{number:x}")
    log.close()
    lines = log.lines()
    assert len(lines) == 66
    assert sum(line.get("count", 1) for line in lines) == 5000
    assert lines[-1]["address"] == "others"


def test_what_admins_do_is_always_written(log):
    for _ in range(3):
        log.record("revocation", address="10.0.0.1", name="pi")
    assert len(log.lines()) == 3


def test_the_count_is_written_at_the_end(log):
    for _ in range(3):
        log.record("join", address="10.0.0.7", name="pi")
    log.close()
    assert [line.get("count", 1) for line in log.lines()] == [1, 2]


def test_a_disk_that_fails_is_no_trouble(tmp_path, caplog):
    log = AuditLog(tmp_path / "nowhere")
    log.record("join", address="", name="pi")
    log.close()
    assert "audit.jsonl cannot be written: No such file or directory" in caplog.text
