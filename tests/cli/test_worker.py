"""``paceline axon worker`` and ``paceline axon call``: output, one-line errors, exit codes."""

import http.client
import json
import signal
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from paceline.errors import RemoteError
from tests.axon.certificates import Authority

FUNCTIONS = """\
from paceline import axon

@axon.worker.rpc()
def add(a: int, b: int = 1) -> int:
    "Add two numbers."
    return a + b

@axon.worker.rpc()
def count(n: int):
    yield from range(n)

@axon.worker.rpc()
def fail():
    raise ValueError("on purpose")

@axon.worker.rpc(executor="process")
def square(n: int) -> int:
    return n * n

axon.worker.init()
"""


@pytest.fixture
def functions(tmp_path):
    path = tmp_path / "functions.py"
    path.write_text(FUNCTIONS)
    return path


def worker_command(*arguments):
    return [sys.executable, "-m", "paceline", "axon", "worker", *map(str, arguments)]


@pytest.fixture
def serve(functions):
    """Start `paceline axon worker` with these options; returns what it prints."""
    processes = []

    def serve(*options):
        command = worker_command(functions, "--port", "0", "--json", *options)
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return json.loads(processes[-1].stdout.readline())

    yield serve
    for process in processes:
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        process.stdout.close()


def test_list_and_call(serve, printed):
    url = serve("--device", "pi1")["url"]
    listing = printed("axon", "call", url)
    assert "pi1" in listing
    assert "add(a: int, b: int = 1) -> int\n      Add two numbers." in listing
    rpcs = json.loads(printed("axon", "call", url, "--json"))["rpcs"]
    assert [rpc["name"] for rpc in rpcs] == ["add", "count", "fail", "square"]
    assert printed("axon", "call", url, "add", 2, 3) == "5\n"
    assert printed("axon", "call", url, "--duplex", "add", 2) == "3\n"
    assert printed("axon", "call", url, "count", 3) == "0\n1\n2\n"
    assert printed("axon", "call", url, "square", 3) == "9\n"


def test_tls_and_token(serve, printed, refused, monkeypatch):
    where = serve("--host", "0.0.0.0", "--tls", "--token", "S3cret")
    url = f"https://127.0.0.1:{where['url'].rpartition(':')[2]}"
    call = ("axon", "call", url, "add", 1, "--fingerprint", where["fingerprint"])
    assert "a token is needed" in refused(*call, code=4)
    monkeypatch.setenv("PACELINE_TOKEN", "S3cret")
    assert printed(*call) == "2\n"


def test_certificates_and_names_of_callers(serve, printed, refused, tmp_path):
    authority = Authority(tmp_path, "fleet-ca")
    where = serve("--tls", "--client-ca", authority.file)
    call = ("axon", "call", where["url"], "add", 1, "--fingerprint", where["fingerprint"])
    assert "demands a certificate of its callers: give yours, with --cert and --key" in refused(*call, code=4)
    cert, key = authority.issue("laptop")
    assert printed(*call, "--cert", cert, "--key", key) == "2\n"

    address = urlsplit(serve("--allow-host", "pi.lan")["url"])
    for host, status in (("pi.lan:80", 200), ("evil.example", 403)):
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=20)
        connection.request("GET", "/", headers={"Host": host})
        assert connection.getresponse().status == status
        connection.close()


def test_errors_of_calls_are_one_line(serve, refused, paceline_in):
    url = serve()["url"]
    for arguments, code, message in [
        (["fail"], 1, "ValueError on "),
        (["ad", 1], 2, "did you mean 'add'?"),
        (["add"], 2, "add(a: int, b: int = 1) -> int: missing a required argument: 'a'"),
        (["add", "x"], 4, "argument 'a': Expected `int`, got `str`"),
        (["add", 1, "--timeout", "-1"], 2, "timeout_seconds is -1"),
    ]:
        assert message in refused("axon", "call", url, *arguments, code=code)
    with pytest.raises(RemoteError):
        paceline_in("axon", "call", url, "fail", "--debug")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["call"], 2, "Missing argument 'URL'"),
        (["call", "127.0.0.1"], 2, "is not a worker's address; it looks like http://"),
        (["call", "http://127.0.0.1:1"], 1, "nobody listens there (connection refused)"),
        (["worker", "functions.py", "--cert", "a.pem"], 2, "--cert and --key belong together"),
        (["worker", "functions.py", "--port", "http"], 2, "--port"),
        (["worker", "functions.py", "--client-ca", "a.pem"], 2, "which takes TLS: add --tls, or --cert and --key"),
    ],
)
def test_bad_input_is_reported_in_one_line(refused, arguments, code, message):
    assert message in refused("axon", *arguments, code=code)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such.py"], "no-such.py: no such file"),
        (["no.such.module"], "there is no module 'no.such.module'"),
        (["json"], "json offers nothing: decorate its functions with @axon.worker.rpc()"),
        (["functions.py", "--host", "0.0.0.0"], "give a token, or allow everyone"),
    ],
)
def test_what_cannot_be_served_is_reported_in_one_line(functions, arguments, message):
    result = subprocess.run(
        worker_command(*arguments), capture_output=True, text=True, timeout=120, cwd=functions.parent
    )
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert message in result.stderr
