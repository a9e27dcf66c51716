"""Certificates of both sides, by authorities of the user's own."""

import asyncio

import pytest

from paceline import axon
from paceline.axon import loops
from paceline.errors import ConfigError, ConnectionLost, TlsFailed
from tests.axon.certificates import Authority


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path, "fleet-ca")


def as_trust(files):
    return dict(zip(("cert_file", "key_file"), files, strict=True))


@pytest.fixture(params=[loops.new_event_loop, asyncio.new_event_loop], ids=["fastest", "asyncio"])
def call(request, worker, authority):
    """Serve a function for callers with a certificate of the authority, and call it once, on either kind of loop."""

    @worker.rpc()
    async def double(value):
        return 2 * value

    async def run(value, options):
        identity = axon.ServerIdentity.from_files(*authority.issue("server")).demand_certificates(authority.file)
        async with worker.serving(port=0, identity=identity, token="secret") as address:
            url = f"https://127.0.0.1:{address.port}"
            return await axon.connect(url, token="secret", ca_file=authority.file, **options).double.coro(value)

    def call(value, **options):
        loop = request.param()
        try:
            return loop.run_until_complete(run(value, options))
        finally:
            loops.shut_down(loop)

    return call


@pytest.mark.parametrize("duplex", [False, True])
def test_certified_callers_are_served(call, authority, duplex):
    assert call(21, **as_trust(authority.issue("pi1")), duplex=duplex) == 42


@pytest.mark.parametrize("value", [21, [0] * 200_000], ids=["small", "large"])
def test_callers_without_a_certificate_are_told_so_at_once(call, value):
    with pytest.raises(TlsFailed, match="demands a certificate of its callers: give yours, with --cert and --key"):
        call(value)


def test_callers_with_a_wrong_certificate_are_not_served(call, authority, tmp_path):
    for files in (Authority(tmp_path, "other-ca").issue("stranger"), authority.issue("old", days=-1)):
        with pytest.raises(ConnectionLost, match=f"perhaps because it does not accept the certificate {files[0]}"):
            call(21, **as_trust(files))


def test_a_pinned_worker_may_demand_certificates(worker, authority):
    worker.rpc(name="hello")(lambda: "hello")
    identity = axon.ServerIdentity.self_made().demand_certificates(authority.file)
    with worker.serve(port=0, identity=identity) as address:
        url, pinned = f"https://127.0.0.1:{address.port}", {"fingerprint": identity.fingerprint}
        assert axon.connect(url, **pinned, **as_trust(authority.issue("pi1"))).hello() == "hello"
        with pytest.raises(TlsFailed, match="demands a certificate"):
            axon.connect(url, **pinned).hello()


def test_files_that_cannot_be_used(authority, tmp_path):
    certificate, key = authority.issue("pi1")
    identity = axon.ServerIdentity.self_made()
    for file in (key, str(tmp_path / "no-such-file")):
        with pytest.raises(ConfigError, match=f"cannot read the authorities of clients from {file}"):
            identity.demand_certificates(file)
    with pytest.raises(ConfigError, match="give both cert_file and key_file"):
        axon.connect("https://127.0.0.1", cert_file=certificate)
    with pytest.raises(ConfigError, match="use https"):
        axon.connect("http://127.0.0.1", cert_file=certificate, key_file=key)
    for files, problem in (
        ((certificate, authority.issue("other")[1]), "KEY_VALUES_MISMATCH|key values mismatch"),
        ((str(tmp_path / "none"), key), "No such file"),
        (authority.issue("locked", passphrase="x"), "the key is encrypted; give one without a passphrase"),
    ):
        with pytest.raises(ConfigError, match=f"cannot use certificate {files[0]} with (key )?{files[1]}: .*{problem}"):
            axon.ServerIdentity.from_files(*files)
        with pytest.raises(ConfigError, match=problem):
            axon.connect("https://127.0.0.1:1", **as_trust(files)).hello()
