"""Commands that call a host show their certificate to one that demands it."""

import json

import pytest

from paceline.axon import ServerIdentity
from paceline.cli.calling import takes_caller
from tests.axon.certificates import Authority


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path, "fleet-ca")


def test_each_command_shows_its_certificate(authority, served, printed, refused, tmp_path):
    (tmp_path / "third.toml").write_text((tmp_path / "small.toml").read_text())
    identity = ServerIdentity.from_files(*authority.issue("hub")).demand_certificates(authority.file)
    url, run = served("pool.toml", identity=identity, admin_token="b0ss")
    trust = ("--ca-file", authority.file, "--token", "b0ss")
    cert, key = authority.issue("laptop")
    shown = ("--cert", cert, "--key", key, *trust)
    for command in (
        ("status", url),
        ("devices", url),
        ("invite", url, "--name", "pi4"),
        ("submit", "third.toml", "--to", url),
        ("cancel", "small", "--to", url),
    ):
        error = refused(*command, *trust, code=4)
        assert "demands a certificate of its callers: give yours, with --cert and --key" in error
        assert "--cert and --key belong together: give both" in refused(*command, *trust, "--cert", cert)
    assert "status" in printed("status", url, *shown)
    assert "name" in printed("devices", url, *shown)
    assert "pi4 may join" in printed("invite", url, "--name", "pi4", *shown)
    assert "third is in the pool" in printed("submit", "third.toml", "--to", url, *shown)
    for job in ("small", "large", "third"):
        assert "is cancelled" in printed("cancel", job, "--to", url, *shown)
    run()


def test_a_folder_on_this_machine_needs_a_certificate_too(authority, refused, tmp_path):
    """Of a host that demands them, the folder of the run has an admin's token, but no certificate of a caller."""
    (tmp_path / "run").mkdir()
    kept = {"client_ca": authority.file, "cert": authority.issue("hub")[0], "key": authority.issue("hub")[1], "port": 1}
    (tmp_path / "run" / "listen.json").write_text(json.dumps(kept))
    assert "--cert and --key belong together" in refused("devices", "run", "--key", "a.pem")
    assert "nobody listens there" in refused("devices", "run", code=1)


def test_options_of_a_caller_take_the_place_of_its_parameter():
    calls = []

    @takes_caller
    def command(url: str, caller, wait: bool = False):
        calls.append((url, caller.token, caller.trust, wait))

    command(url="x", wait=True, token="S3cret", token_file=None, ca_file=None, cert=None, key=None)
    assert calls == [("x", "S3cret", {"token": "S3cret", "ca_file": None}, True)]
