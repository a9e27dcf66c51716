"""Shared by Axon's tests: a worker, and a way to serve it until the test ends."""

import contextlib

import pytest

from paceline import axon


@pytest.fixture
def worker():
    return axon.Worker("pi1")


@pytest.fixture
def serve(worker):
    """Serve the worker until the test ends, and connect to it."""
    with contextlib.ExitStack() as stack:
        yield lambda: axon.connect(str(stack.enter_context(worker.serve(port=0))))
