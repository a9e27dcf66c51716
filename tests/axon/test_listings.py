"""The thesis's listings 4, 5, 8 and 9 run as they stand but for the import line, each in its own process."""

import pytest

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

WAIT_UNTIL_SERVED = """\
from paceline import axon
from paceline.errors import Unreachable
import time

while True:
    try:
        axon.connect("http://127.0.0.1").describe_worker()
        break
    except Unreachable:
        time.sleep(0.05)
"""


@pytest.mark.parametrize(
    ("listing", "printing", "printed"),
    [
        (LISTING_5, "print(greeting)", "Hello John!!\n"),
        (LISTING_8, "", ""),
        (
            LISTING_8.replace("    await stub", "    print(await stub").replace('("John")', '("John"))'),
            "",
            "Hello John!!\n",
        ),
        (LISTING_9, "print(result)", "Hello John!!\n"),
    ],
    ids=["5", "8", "8-printing", "9"],
)
def test_listing(spawn, listing, printing, printed):
    worker = spawn(LISTING_4, name="worker.py")
    waiter = spawn(WAIT_UNTIL_SERVED, name="wait.py")
    assert waiter.wait(30) == 0
    client = spawn(f"{listing}\n{printing}\n", name="client.py")
    output, errors = client.communicate(timeout=30)
    assert (client.returncode, output, errors) == (0, printed, "")
    worker.terminate()
    output, errors = worker.communicate(timeout=30)
    assert (worker.returncode, output, errors) == (0, "Hello John!!\n", "")
