"""The thesis's listings 4, 5, 8 and 9 run as they stand but for the import line, each in its own process."""

import contextlib
import time

import pytest

from paceline import axon
from paceline.errors import Unreachable

LISTING_4 = """\
from paceline import axon

@axon.worker.rpc()
def simple_hello(name):
    greeting = f"Hello {name}!!"
    print(greeting)
    return greeting

axon.worker.init()
"""

LISTING_5 = """\
from paceline import axon

stub = axon.client.SyncSimplexStub(worker_ip="127.0.0.1", rpc_name="simple_hello")

greeting = stub("John")
"""

LISTING_8 = """\
from paceline import axon
import asyncio

stub = axon.client.CoroSimplexStub(worker_ip="127.0.0.1", rpc_name="simple_hello")

async def main():
    await stub("John")

asyncio.run(main())
"""

LISTING_9 = """\
from paceline import axon

stub = axon.client.AsyncSimplexStub(worker_ip="127.0.0.1", rpc_name="simple_hello")

handle = stub("John")

result = handle.join()
"""


def wait_until_served():
    for _ in range(600):
        with contextlib.suppress(Unreachable):
            return axon.connect("http://127.0.0.1").describe_worker()
        time.sleep(0.05)
    pytest.fail("nobody listens")


@pytest.mark.parametrize(
    ("listing", "printing", "printed"),
    [
        (LISTING_5, "print(greeting)", "Hello John!!\n"),
        (LISTING_8, "", ""),
        (LISTING_9, "print(result)", "Hello John!!\n"),
    ],
    ids=["5", "8", "9"],
)
def test_listing(spawn, listing, printing, printed):
    worker = spawn(LISTING_4, name="worker.py")
    wait_until_served()
    client = spawn(f"{listing}\n{printing}\n", name="client.py")
    output, errors = client.communicate(timeout=30)
    assert (client.returncode, output, errors) == (0, printed, "")
    worker.terminate()
    output, errors = worker.communicate(timeout=30)
    assert (worker.returncode, output, errors) == (0, "Hello John!!\n", "")
