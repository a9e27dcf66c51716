"""Real processes over real sockets: workers and clients that are killed in the middle of a call."""

import signal
import time

import pytest

from paceline import axon
from paceline.errors import ConnectionLost

WORKER = """\
import asyncio, sys
from paceline import axon

num_calls = 0

@axon.worker.rpc()
async def work(seconds: float) -> str:
    global num_calls
    num_calls += 1
    await asyncio.sleep(seconds)
    return "done"

@axon.worker.rpc()
async def steps(seconds: float):
    while True:
        yield 1
        await asyncio.sleep(seconds)

@axon.worker.rpc()
def how_many() -> int:
    return num_calls

axon.worker.init(port=0, announce=lambda address: print(address, flush=True))
"""

CLIENT = """\
import sys
from paceline import axon

handle = axon.connect(sys.argv[1], duplex=True).work.start(2.0)
print(handle.call_id, flush=True)
if sys.argv[2:] != ["exit"]:
    handle.join()
while axon.connect(sys.argv[1]).how_many() < 1:
    pass
"""


@pytest.fixture
def worker(spawn):
    process = spawn(WORKER, name="worker.py")
    process.url = process.stdout.readline().strip()
    return process


def wait_for_calls(remote, count=1):
    while remote.how_many() < count:
        time.sleep(0.01)


@pytest.mark.parametrize("duplex", [False, True])
def test_worker_killed_in_mid_call_and_mid_stream(worker, duplex):
    remote = axon.connect(worker.url, duplex=duplex, patience_seconds=1.0)
    assert remote.work(0.0) == "done"  # the connection is a kept one
    handle, stream = remote.work.start(60.0), remote.steps(30.0)
    assert next(stream) == 1
    wait_for_calls(remote, 2)
    worker.send_signal(signal.SIGKILL)
    with pytest.raises(ConnectionLost, match=r"127\.0\.0\.1.*(may have died|was lost while it ran work)"):
        handle.join(30)
    with pytest.raises(ConnectionLost):
        next(stream)


@pytest.mark.parametrize("end", ["killed", "exit"])
def test_client_that_is_gone_is_followed_by_another(worker, spawn, end):
    client = spawn(CLIENT, worker.url, end, name="client.py")
    call_id = client.stdout.readline().strip()
    remote = axon.connect(worker.url, duplex=True)
    if end == "killed":
        wait_for_calls(remote)
        client.send_signal(signal.SIGKILL)
    assert client.wait(30) == (-signal.SIGKILL if end == "killed" else 0)
    assert remote.reattach(call_id).join(30) == "done"
    assert remote.how_many() == 1


def test_second_signal_does_not_wait(worker):
    handle = axon.connect(worker.url).work.start(60.0)
    remote = axon.connect(worker.url)
    wait_for_calls(remote)
    worker.send_signal(signal.SIGINT)
    with pytest.raises(axon.Refused, match="is stopping"):
        [remote.how_many() for _ in iter(int, 1)]
    worker.send_signal(signal.SIGINT)
    worker.wait(4)  # less than the grace that calls are given
    assert "already running" not in worker.stderr.read()
    with pytest.raises(ConnectionLost):
        handle.join(10)


def test_worker_stops_on_signal_after_the_call(worker):
    handle = axon.connect(worker.url).work.start(0.5)
    remote = axon.connect(worker.url)
    wait_for_calls(remote)
    worker.send_signal(signal.SIGTERM)
    assert handle.join(10) == "done"
    assert worker.wait(10) == 0
    assert worker.stderr.read() == ""
