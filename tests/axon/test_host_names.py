"""Web pages that point their own host name at a worker, and callers with good names."""

import http.client
import platform

import pytest

from paceline.axon.host_names import HostNames


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.0.0.1:7223", "10.0.0.2:7223", "[::1]:7223", "[fe80::1]", "localhost:7223", "LocalHost"),
        *(platform.node(), f"{platform.node()}.local:80", "hub.example.org:7223", "hub.example.org.", "pi.lan"),
    ],
)
def test_addresses_and_own_names_are_let_in(host):
    assert HostNames("hub.example.org", ["pi.lan"]).refuse({"host": host}) is None


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:7223", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example.", ""),
        *("127.0.0.1@evil.example", "localhost:7223:x", "[::1", "[evil]", "::1", "2130706433", "0x7f000001", "x\x00"),
    ],
)
def test_other_names_are_refused(host):
    reply = HostNames("0.0.0.0").refuse({"host": host})
    assert reply.status == 403
    assert b"--allow-host" in bytes(reply.content)


def test_no_host_is_no_browser():
    assert HostNames("127.0.0.1").refuse({}) is None


@pytest.fixture
def ask(worker):
    """Send a request with these headers to a worker, and return the status."""
    worker.rpc(name="hello")(lambda: "hello")

    def ask(headers, num_body_bytes=0, **settings):
        with worker.serve(port=0, **settings) as address:
            connection = http.client.HTTPConnection(address.host, address.port, timeout=20)
            try:
                connection.putrequest("POST", "/rpc/hello", skip_host=True)
                for name, value in {**headers, "Content-Length": str(num_body_bytes)}.items():
                    connection.putheader(name, value)
                connection.endheaders(b"[]" if num_body_bytes else None)
                return connection.getresponse().status
            finally:
                connection.close()

    return ask


def test_a_name_is_checked_where_no_token_is_asked_for(ask):
    page, json = {"Host": "evil.example:7223"}, {"Content-Type": "application/json"}
    assert ask({**page, **json}, 2) == 403
    assert ask({"Host": "localhost:7223", **json}, 2) == 200
    assert ask({"Host": "pi.lan", **json}, 2, hosts=["pi.lan"]) == 200
    assert ask({**page, **json, "Authorization": "Bearer secret"}, 2, token="secret") == 200
    assert ask({**page, **json}, 2, token="secret") == 401


def test_strangers_do_not_hear_what_size_is_too_large(ask):
    huge = 1 << 60
    assert ask({"Host": "localhost"}, huge, token="secret") == 401
    assert ask({"Host": "evil.example"}, huge) == 403
    assert ask({"Host": "localhost", "Authorization": "Bearer secret"}, huge, token="secret") == 413
