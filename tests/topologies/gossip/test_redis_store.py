"""The store in a real Redis: the contract, what expires, and what is rubbish."""

import asyncio
import socket

import msgspec
import pytest
import redis

from paceline.errors import BadReply, ConfigError, Refused, TimedOut, Unreachable
from paceline.topologies.gossip.redis_store import MAX_FIGURES_BYTES, RedisStore
from tests.topologies.gossip.store_contract import StoreContract, make_figures, read_until

INDEX = "paceline:figures:1:run"


class TestRedisStore(StoreContract):
    @pytest.fixture
    def make_store(self, redis_server):
        return lambda learner: RedisStore(redis_server.url, "run")


@pytest.fixture
def client(redis_server):
    """Writes rubbish into the server, and looks what is there."""
    with redis.Redis(port=redis_server.port) as client:
        yield client


def use(store, test):
    """Run a test of a store, and close it."""

    async def main():
        try:
            return await test(store)
        finally:
            await store.aclose()

    return asyncio.run(main())


def test_figures_expire(redis_server, client):
    async def test(store):
        await store.publish(make_figures("pi1"))
        assert await read_until(store, lambda read: not read) == {}

    use(RedisStore(redis_server.url, "run", ttl_seconds=0.1), test)
    assert client.keys() == []


def test_runs_do_not_meet(redis_server):
    async def main():
        stores = [RedisStore(redis_server.url, run) for run in ("a", "a:b", "a*", "ä/1")]
        for number, store in enumerate(stores):
            await store.publish(make_figures("pi1", epoch=number))
        for number, store in enumerate(stores):
            assert await store.read() == {"pi1": make_figures("pi1", epoch=number)}
            await store.aclose()

    asyncio.run(main())


def test_rubbish_is_skipped(redis_server, client):
    good = msgspec.json.encode(make_figures("pi1"))
    rubbish = {
        "not-json": b"\xff{",
        "list": b"[]",
        "of-another": good,
        "unknown-key": good.replace(b"{", b'{"more":1,', 1),
        "bad-value": good.replace(b"pi1", b"bad-value").replace(b"120.5", b"-1"),
        "bad-type": good.replace(b"pi1", b"bad-type").replace(b"120.5", b'"fast"'),
        "too-long": good.replace(b"pi1", b"too-long") + b" " * MAX_FIGURES_BYTES,
        "empty": b"",
    }
    for learner, value in rubbish.items():
        client.sadd(INDEX, learner)
        client.set(f"{INDEX}:{learner}", value)
    client.sadd(INDEX, "a-list", "never-told", b"\xff", "", "x" * 1000)
    client.rpush(f"{INDEX}:a-list", "1")

    async def test(store):
        await store.publish(make_figures("pi1"))
        assert await store.read() == {"pi1": make_figures("pi1")}

    use(RedisStore(redis_server.url, "run"), test)


def test_an_index_that_is_rubbish_is_an_error_of_ours(redis_server, client):
    client.set(INDEX, "rubbish")

    async def test(store):
        with pytest.raises(BadReply, match="Redis at 127.0.0.1"):
            await store.read()
        with pytest.raises(BadReply):
            await store.publish(make_figures())

    use(RedisStore(redis_server.url, "run"), test)


@pytest.mark.parametrize(
    ("is_silent", "error", "reason"), [(False, Unreachable, "cannot be reached"), (True, TimedOut, "within 0.05 s")]
)
def test_nobody_there_and_one_that_never_answers(is_silent, error, reason):
    with socket.socket() as there:
        there.bind(("127.0.0.1", 0))
        port = there.getsockname()[1]
        if is_silent:
            there.listen()
        with pytest.raises(error, match=f"^Redis at 127.0.0.1:{port}: .*{reason}"):
            use(RedisStore(f"redis://127.0.0.1:{port}", "run", timeout_seconds=0.05), lambda store: store.read())


def test_password(redis_server):
    redis_server.kill()
    redis_server.start("--requirepass", "s3cr@t")

    async def publish(store):
        await store.publish(make_figures())
        return await store.read()

    for wrong in ("", ":wrong@"):
        with pytest.raises(Refused, match="refused the user or password") as raised:
            use(RedisStore(redis_server.url.replace("//", f"//{wrong}"), "run"), publish)
        assert raised.value.status == 401
        assert "wrong@" not in str(raised.value)
    assert use(RedisStore(redis_server.url.replace("//", "//:s3cr%40t@"), "run"), publish) == {"pi1": make_figures()}


def test_a_user_without_permission(redis_server, client):
    client.execute_command("ACL", "SETUSER", "reader", "on", ">pw", "~*", "+@read", "+@connection")

    async def test(store):
        assert await store.read() == {}
        with pytest.raises(Refused, match="may not do this") as raised:
            await store.publish(make_figures())
        assert raised.value.status == 403

    use(RedisStore(redis_server.url.replace("//", "//reader:pw@"), "run"), test)


BAD_URLS = "http://:hidden@localhost redis:// redis://host:port redis://host/one redis://host/-1 redis://host?a=9"


@pytest.mark.parametrize("url", [*BAD_URLS.split(), "redis://[::1", "localhost:6379", ""])
def test_addresses_that_cannot_be_and_passwords_that_are_not_shown(url):
    with pytest.raises(ConfigError, match="address of the Redis server.*it must be like redis://") as raised:
        RedisStore(url, "run")
    assert "hidden" not in str(raised.value)
    assert RedisStore("redis://me:hidden@localhost", "run").name == "Redis at localhost:6379"
