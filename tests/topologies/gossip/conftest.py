"""A real Redis server, which can be killed and started anew."""

import os

import pytest

from reproduction.redis_server import is_installed, started_redis


@pytest.fixture
def redis_server():
    if not is_installed():
        reason = "no redis-server on this machine: the store in Redis is not tested"
        if os.environ.get("PACELINE_REQUIRE_ALL") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    with started_redis() as server:
        yield server
