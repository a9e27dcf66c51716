"""Tokens, addresses and certificates."""

import asyncio
import socket

import pytest

from paceline import axon
from paceline.axon.tls import ClientTrust
from paceline.axon.transports import Address
from paceline.axon.transports.http.client import ClientConnection
from paceline.errors import ConfigError, Refused, TlsFailed


@pytest.fixture
def worker(worker):
    worker.rpc(name="hello")(lambda: "hello")
    return worker


def test_other_addresses_need_a_token_or_insecure(worker):
    for host in ("0.0.0.0", "10.1.2.3", "::", "example.org"):
        with pytest.raises(ConfigError, match="give a token, or allow everyone"), worker.serve(host=host, port=0):
            pass
    with worker.serve(host="0.0.0.0", port=0, token="secret") as address:
        assert axon.connect(f"http://127.0.0.1:{address.port}", token="secret").hello() == "hello"
    with worker.serve(host="0.0.0.0", port=0, insecure=True) as address:
        assert axon.connect(f"http://127.0.0.1:{address.port}").hello() == "hello"


def test_wrong_tokens_are_refused(worker):
    with worker.serve(port=0, token="secret") as address:
        for token in (None, "wrong", "secre", "secret2", "??????"):
            problem = "the token is wrong" if token else "a token is needed"
            with pytest.raises(Refused, match=f"{problem}; pass the one that it was started with") as caught:
                axon.connect(str(address), token=token).hello()
            assert caught.value.status == 401


@pytest.mark.parametrize("duplex", [False, True])
def test_self_made_certificate_is_pinned(worker, tmp_path, duplex):
    identity = axon.ServerIdentity.self_made(tmp_path)
    assert axon.ServerIdentity.self_made(tmp_path).fingerprint == identity.fingerprint
    assert (tmp_path / "axon-key.pem").stat().st_mode & 0o077 == 0
    other = axon.ServerIdentity.self_made()
    with worker.serve(port=0, identity=identity, token="secret") as address:
        url = f"https://127.0.0.1:{address.port}"
        remote = axon.connect(url, token="secret", fingerprint=identity.fingerprint, duplex=duplex)
        assert remote.hello() == "hello"
        with pytest.raises(TlsFailed, match="another certificate than the pinned"):
            axon.connect(url, token="secret", fingerprint=other.fingerprint).hello()
        with pytest.raises(TlsFailed, match=f"self-signed certificate: add its fingerprint to the address, {url}#sha"):
            axon.connect(url, token="secret").hello()
        with pytest.raises(TlsFailed, match=f"^http://127.0.0.1:{address.port} wants TLS: use the https:// address"):
            axon.connect(f"http://127.0.0.1:{address.port}", token="secret").hello()


@pytest.mark.parametrize("fingerprint", [None, "sha256:" + "0" * 64])
def test_a_worker_without_tls_says_so_at_once(worker, fingerprint):
    with worker.serve(port=0) as address:
        url = f"https://127.0.0.1:{address.port}"
        with pytest.raises(TlsFailed, match=f"^{url} does not speak TLS: use {address}$"):
            axon.connect(url, fingerprint=fingerprint).hello()


def test_a_wrong_certificate_is_final_also_if_the_far_side_hung_up_meanwhile():
    """Else it would look like a connection that was lost, and be tried again."""

    class Handshaken(asyncio.Transport):
        def __init__(self):
            super().__init__({"ssl_object": self, "socket": socket.socket()})
            self.is_aborted = False

        def getpeercert(self, binary_form):
            return b"another"

        def set_write_buffer_limits(self, high=None, low=None):
            pass

        def abort(self):
            self.is_aborted = True

        def close(self):
            self.get_extra_info("socket").close()

    async def main():
        connection = ClientConnection(None, Address("127.0.0.1", 1, ClientTrust("0" * 64)), 0)
        transport = Handshaken()
        connection.connection_made(transport)
        assert transport.is_aborted
        connection.close()
        connection._transport = None
        with pytest.raises(TlsFailed, match="another certificate than the pinned"):
            connection.check_certificate()

    asyncio.run(main())


def test_own_certificate_is_checked_by_authority(worker, tmp_path):
    axon.ServerIdentity.self_made(tmp_path)
    certificate, key = tmp_path / "axon-certificate.pem", tmp_path / "axon-key.pem"
    identity = axon.ServerIdentity.from_files(certificate, key)
    with worker.serve(port=0, identity=identity) as address:
        assert axon.connect(f"https://127.0.0.1:{address.port}", ca_file=str(certificate)).hello() == "hello"
    with pytest.raises(ConfigError, match="cannot use certificate"):
        axon.ServerIdentity.from_files(key, certificate)
    with pytest.raises(ConfigError, match="no-such-file"):
        axon.ServerIdentity.from_files(tmp_path / "no-such-file", key)


def test_bad_urls_and_fingerprints():
    for url in ("127.0.0.1:80", "ftp://host", "http://", "http://host/path", "http://host:port"):
        with pytest.raises(ConfigError, match="host|worker's address"):
            axon.connect(url)
    with pytest.raises(ConfigError, match="64 hex digits"):
        axon.connect("https://host", fingerprint="sha256:12")
    with pytest.raises(ConfigError, match="use https"):
        axon.connect("http://host", fingerprint="sha256:" + "0" * 64)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        *(({"token": token}, "printable ASCII") for token in ("ключ", "", " x", "a\nb")),
        *(({"port": port}, "not between 0 and 65535") for port in (-1, 65536, 70000)),
    ],
)
def test_impossible_tokens_and_ports_are_refused(worker, wrong, message):
    with pytest.raises(ConfigError, match=message), worker.serve(**{"port": 0, **wrong}):
        pass
    with pytest.raises(ConfigError, match=message):
        axon.client.SyncSimplexStub("127.0.0.1", "hello", **wrong)
