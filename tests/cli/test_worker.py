"""``paceline axon worker`` and ``paceline axon call``: output, one-line errors, exit codes."""

import json
import os
import signal
import subprocess
import sys

import pytest

import paceline

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


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "paceline", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )


@pytest.fixture
def functions(tmp_path):
    path = tmp_path / "functions.py"
    path.write_text(FUNCTIONS)
    return path


@pytest.fixture
def serve(functions):
    """Start `paceline axon worker` with these options; returns what it prints."""
    processes = []

    def serve(*options):
        process = subprocess.Popen(
            [sys.executable, "-m", "paceline", "axon", "worker", str(functions), "--port", "0", "--json", *options],
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return json.loads(process.stdout.readline())

    yield serve
    for process in processes:
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        process.stdout.close()


def test_version():
    assert run("--version").stdout == f"paceline {paceline.__version__}\n"


def test_list_and_call(serve):
    url = serve("--device", "pi1")["url"]
    listing = run("axon", "call", url).stdout
    assert "pi1" in listing
    assert "add(a: int, b: int = 1) -> int\n      Add two numbers." in listing
    assert [rpc["name"] for rpc in json.loads(run("axon", "call", url, "--json").stdout)["rpcs"]] == [
        *("add", "count", "fail", "square")
    ]
    assert run("axon", "call", url, "add", 2, 3).stdout == "5\n"
    assert run("axon", "call", url, "--duplex", "add", 2).stdout == "3\n"
    assert run("axon", "call", url, "count", 3).stdout == "0\n1\n2\n"
    assert run("axon", "call", url, "square", 3).stdout == "9\n"


def test_tls_and_token(serve):
    where = serve("--host", "0.0.0.0", "--tls", "--token", "S3cret")
    url = f"https://127.0.0.1:{where['url'].rpartition(':')[2]}"
    result = run("axon", "call", url, "add", 1, "--fingerprint", where["fingerprint"], PACELINE_TOKEN="S3cret")
    assert (result.stdout, result.returncode) == ("2\n", 0)
    result = run("axon", "call", url, "add", 1, "--fingerprint", where["fingerprint"])
    assert "token is missing or wrong" in result.stderr
    assert result.returncode == 1


def test_errors_of_calls_are_one_line(serve):
    url = serve()["url"]
    for arguments, code, message in [
        (["fail"], 1, "ValueError on "),
        (["ad", 1], 2, "did you mean 'add'?"),
        (["add"], 2, "add(a: int, b: int = 1) -> int: missing a required argument: 'a'"),
        (["add", "x"], 1, "argument 'a': Expected `int`, got `str`"),
        (["add", 1, "--timeout", "-1"], 2, "timeout_seconds is -1"),
    ]:
        result = run("axon", "call", url, *arguments)
        assert (result.returncode, result.stdout) == (code, "")
        assert message in result.stderr
        assert result.stderr.startswith("paceline: ")
        assert result.stderr.count("\n") == 1
    assert "Traceback" in run("axon", "call", url, "fail", "--debug").stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["frobnicate"], 2, "No such command 'frobnicate'"),
        (["axon", "call"], 2, "Missing argument 'URL'"),
        (["axon", "call", "127.0.0.1"], 2, "is not a worker's address; it looks like http://"),
        (["axon", "call", "http://127.0.0.1:1"], 1, "nobody listens there (connection refused)"),
        (["axon", "worker", "no-such.py"], 2, "no-such.py: no such file"),
        (["axon", "worker", "no.such.module"], 2, "there is no module 'no.such.module'"),
        (["axon", "worker", "json"], 2, "json offers nothing: decorate its functions with @axon.worker.rpc()"),
        (["axon", "worker", "FUNCTIONS", "--host", "0.0.0.0"], 2, "give a token, or allow everyone"),
        (["axon", "worker", "FUNCTIONS", "--cert", "a.pem"], 2, "--cert and --key belong together"),
        (["axon", "worker", "FUNCTIONS", "--port", "http"], 2, "--port"),
    ],
)
def test_bad_input_is_reported_in_one_line(arguments, code, message, functions):
    result = run(*(functions if argument == "FUNCTIONS" else argument for argument in arguments))
    assert (result.returncode, result.stdout) == (code, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
