"""What roles of all topologies share: sessions by name, waiting for changes, and joining again."""

import asyncio

import pytest

from paceline.axon.transports import CountedTransport
from paceline.axon.transports.memory import MemoryNetwork
from paceline.errors import BadReply, Busy, ConfigError, Refused, RemoteError, TlsFailed, Unreachable
from paceline.topologies import sessions
from paceline.topologies.base import DeviceOptions, Node
from paceline.topologies.events import HostBack, HostLost
from paceline.topologies.parallel import topology as parallel
from paceline.topologies.sessions import SILENT_SECONDS, Changes, Roster, Session, check_name, until_over
from paceline.topologies.split import topology as split

PATIENCE_SECONDS = 30.0


def join_until_over(run_virtual, failures, error=None, emit=lambda event: None):
    """Take part where joining fails in these ways first; returns the reason, joins tried and seconds, raised or not."""
    left, count = list(failures), 0

    async def join():
        nonlocal count
        count += 1
        if error or left:
            raise error or left.pop(0)

    async def take_part():
        return "enough"

    async def main():
        loop = asyncio.get_running_loop()
        start = loop.time()
        options = DeviceOptions(patience_seconds=PATIENCE_SECONDS)
        transport = CountedTransport(MemoryNetwork().host("pi"))
        node = Node(name="pi", transport=transport, options=options, emit=emit, now=lambda: loop.time() - start)
        try:
            reason = await until_over(join, take_part, node)
        except Exception as raised:
            reason = raised
        return reason, count, loop.time() - start

    return run_virtual(main())


@pytest.mark.parametrize(
    "error",
    [
        *(Refused("no", status=status) for status in (401, 403, 404, 422)),
        BadReply("gibberish"),
        TlsFailed("another certificate"),
        RemoteError("ValueError", "version mismatch", device="host"),
    ],
)
def test_errors_that_trying_again_would_not_help_are_raised_at_once(error, run_virtual):
    assert join_until_over(run_virtual, [], error) == (error, 1, 0.0)


@pytest.mark.parametrize("error", [Refused("busy", status=503), Unreachable("nobody")])
def test_joining_is_tried_for_as_long_as_patience_lasts(error, run_virtual):
    raised, count, seconds = join_until_over(run_virtual, [], error)
    assert raised is error
    assert count > 5
    assert PATIENCE_SECONDS - 5 < seconds <= PATIENCE_SECONDS
    assert join_until_over(run_virtual, [error, error]) == ("enough", 3, pytest.approx(0.05 + 0.1))


def test_a_busy_host_is_left_alone_for_as_long_as_it_asks(run_virtual):
    busy = Busy("full", status=503, retry_after_seconds=4.0)
    assert join_until_over(run_virtual, [busy, busy]) == ("enough", 3, pytest.approx(4.0 + 5.0))


def test_a_session_that_is_not_known_any_more_is_no_reason_to_give_up(run_virtual):
    unknown = RemoteError("LookupError", "this session is not known here", device="host")
    assert join_until_over(run_virtual, [unknown] * 20)[:2] == ("enough", 21)


@pytest.mark.parametrize("topology", [parallel.TOPOLOGY, split.TOPOLOGY], ids=lambda topology: topology.name)
def test_a_lost_host_is_reported_unless_it_is_back_in_a_moment(topology, run_virtual):
    events, progress = [], topology.device_progress()
    join_until_over(run_virtual, [Unreachable("nobody at http://host:1")] * 4, emit=events.append)
    assert events == []
    join_until_over(run_virtual, [Unreachable("nobody at http://host:1")] * 9, emit=events.append)
    assert [type(event) for event in events] == [HostLost, HostBack]
    assert 0 < events[0].at < 2 < events[1].at
    assert [line for event in events for line in progress.lines(event)] == [
        "pi has lost its host, and tries for 30.0 s: nobody at http://host:1",
        "pi reaches its host again",
    ]


def test_changes_wake_all_who_wait(run_virtual):
    async def main():
        changes, values, loop = Changes(), [], asyncio.get_running_loop()
        waiting = [asyncio.ensure_future(changes.until(lambda: len(values) > 1, seconds)) for seconds in (None, 2.0, 9)]
        for _ in range(2):
            await asyncio.sleep(3)
            values.append(1)
            changes.notify()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert waiting[1].done()  # its time was up
            assert waiting[0].done() == waiting[2].done() == (len(values) > 1)
        assert loop.time() == 6.0

    run_virtual(main())


def test_a_crowd_that_is_woken_leaves_the_loop_time_for_others(run_virtual):
    async def main():
        changes, loop, num_woken = Changes(), asyncio.get_running_loop(), 0

        async def wait():
            nonlocal num_woken
            await changes.next()
            num_woken += 1
            loop.jump(0.001)

        waiting = [asyncio.ensure_future(wait()) for _ in range(200)]
        await asyncio.sleep(0)
        changes.notify()
        changes.notify()  # nobody has to wait for it who was to be woken already
        while num_woken < 200:
            before = loop.time()
            await asyncio.sleep(0)
            assert loop.time() - before < 0.02
        await asyncio.gather(*waiting)

    run_virtual(main())


def test_a_name_belongs_to_whoever_joined_last():
    roster = Roster(Session)
    keys = [roster.join("a")[0].key for _ in range(100)]
    assert roster.find(keys[-1]).name == "a"
    with pytest.raises(RuntimeError, match="another device has joined as 'a'"):
        roster.find(keys[-2])
    with pytest.raises(LookupError, match="join again"):
        roster.find(keys[-3])
    roster.remove(roster.find(keys[-1]))
    with pytest.raises(LookupError, match="join again"):
        roster.find(keys[-2])
    assert (len(roster), roster.named("a")) == (0, None)


def test_names_run_out_but_for_those_that_are_back(monkeypatch):
    monkeypatch.setattr(sessions, "MAX_DEVICES", 2)
    roster = Roster(Session)
    roster.join("a")
    roster.remove(roster.join("b")[0])
    with pytest.raises(ValueError, match="2 devices have joined"):
        roster.join("c")
    assert roster.join("b")[1]


def test_who_is_excluded_cannot_come_back():
    roster = Roster(Session)
    roster.join("cheat")
    roster.exclude("cheat", "it cheated")
    assert not list(roster)
    with pytest.raises(ValueError, match="'cheat' is excluded from this run: it cheated"):
        roster.join("cheat")


def test_who_misses_too_many_rounds_is_forgotten():
    roster = Roster(Session)
    silent, measuring = (roster.join(name)[0] for name in ("silent", "measuring"))
    roster.set_ready(silent, True)
    assert (roster.num_ready, roster.ready) == (1, [silent])
    roster.set_ready(silent, False)
    assert [roster.count_missed() for _ in range(2)] == [[], []]
    assert roster.has_drained  # nobody is left who may still ask
    roster.find(silent.key)  # a sign of life
    assert not roster.has_drained
    assert [roster.count_missed() for _ in range(3)] == [[], [], [silent]]
    assert list(roster) == [measuring]  # it has never been ready, and takes its time


@pytest.mark.parametrize("name", ["", "a" * 65, "tab\there", "<script>", " leading", "new\nline"])
def test_names_that_no_device_can_have(name):
    with pytest.raises(ConfigError, match="allowed: 1 to 64 letters"):
        check_name(name)
    with pytest.raises(ValueError, match="allowed: 1 to 64 letters"):
        Roster(Session).join(name)


def test_who_joined_and_was_never_heard_of_again_loses_its_place():
    now = [0.0]
    roster = Roster(Session, now=lambda: now[0])
    silent, busy, ready = (roster.join(name)[0] for name in ("silent", "busy", "ready"))
    roster.set_ready(ready, True)
    now[0] = SILENT_SECONDS - 1
    roster.find(busy.key)
    assert roster.drop_silent() == []
    now[0] = SILENT_SECONDS + 1
    assert roster.drop_silent() == [silent]
    assert [session.name for session in roster] == ["busy", "ready"]
    with pytest.raises(LookupError, match="join again"):
        roster.find(silent.key)
    for number in range(1000):  # callers with the token who join under ever new names
        now[0] += SILENT_SECONDS / 100
        roster.drop_silent()
        roster.join(f"x{number}")
    assert len(roster) <= 103
    assert len(roster._by_key) <= 103
