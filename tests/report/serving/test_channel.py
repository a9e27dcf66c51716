"""A channel: each browser gets what it has not got, at its own pace, and no content is made for nobody."""

import asyncio

import msgspec
import pytest

from paceline.errors import ConfigError
from paceline.report.serving import channel
from paceline.report.serving.channel import Channel, Source
from tests.report.test_changes import content


class Numbers(Source):
    """A content whose only table grows by a row each time that all of it is made."""

    def __init__(self):
        self.num_looks = 0
        self.rows = []
        self.trouble = ""
        self.failure = None

    def look(self, *, is_quick):
        self.num_looks += 1
        if self.trouble:
            raise ConfigError(self.trouble)
        if self.failure is not None:
            raise self.failure
        if is_quick:
            return None
        self.rows.append((len(self.rows), "x"))
        return content(list(self.rows))


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    monkeypatch.setattr(channel, "_QUICK_SECONDS", 0.002)
    monkeypatch.setattr(channel, "_WHOLE_SECONDS", 0.004)


def parsed(body):
    fields = dict(line.split(": ", 1) for line in bytes(body[0]).decode().splitlines() if line)
    return fields.get("id"), fields["event"], msgspec.json.decode(fields["data"])


async def take(events, number):
    return [parsed(await anext(events)) for _ in range(number)]


def run(main):
    asyncio.run(asyncio.wait_for(main, 30))


def test_a_browser_gets_the_page_and_then_what_changes():
    async def main():
        one = Channel(Numbers())
        events = one.events("")
        first, *others = await take(events, 4)
        assert first[1] == "page"
        assert [event for _, event, _ in others] == ["change"] * 3
        num_rows = len(first[2]["tables"]["t"]["rows"])
        assert [data["tables"]["t"]["length"] for *_, data in others] == [num_rows + more for more in (1, 2, 3)]
        assert [len(data["tables"]["t"]["rows"]) for *_, data in others] == [1, 1, 1]
        await events.aclose()
        await one.close()

    run(main())


def test_who_comes_back_soon_goes_on_and_who_missed_much_begins_anew():
    async def main():
        one = Channel(Numbers())
        watching = one.events("")
        identity, _, data = (await take(watching, 1))[0]
        await take(watching, 3)
        again = one.events(identity)
        ((_, event, change),) = await take(again, 1)
        assert (event, change["tables"]["t"]["length"]) == ("change", len(data["tables"]["t"]["rows"]) + 1)
        await take(watching, 20)
        slow = await take(again, 1)
        assert slow[0][1] == "page"  # it was too far behind for changes
        for other in ("", "nonsense", "-5", f"0000-{identity.partition('-')[2]}", identity + "9" * 30):
            stranger = one.events(other)
            assert (await take(stranger, 1))[0][1] == "page"
            await stranger.aclose()
        await again.aclose()
        await watching.aclose()
        await one.close()

    run(main())


def test_nothing_is_made_while_nobody_looks():
    async def main():
        source = Numbers()
        one = Channel(source)
        events = one.events("")
        await take(events, 2)
        await events.aclose()
        await asyncio.sleep(0.05)
        num_looks = source.num_looks
        await asyncio.sleep(0.05)
        assert source.num_looks == num_looks
        again = one.events("")
        await take(again, 2)
        await again.aclose()
        await one.close()

    run(main())


def test_who_does_not_read_holds_nobody_up():
    async def main():
        source = Numbers()
        one = Channel(source)
        stuck, reading = one.events(""), one.events("")
        await take(stuck, 1)
        await take(reading, 30)
        assert len(one._changes) <= channel._KEPT_CHANGES
        await stuck.aclose()
        await reading.aclose()
        await one.close()

    run(main())


def test_trouble_is_told_and_passes():
    async def main():
        source = Numbers()
        source.trouble = "events.jsonl, line 2 is not an event"
        one = Channel(source)
        events = one.events("")
        ((_, event, data),) = await take(events, 1)
        assert (event, data) == ("trouble", {"message": "events.jsonl, line 2 is not an event"})
        source.trouble = ""
        (_, event, data), (_, page, _) = await take(events, 2)
        assert (event, data, page) == ("trouble", {"message": ""}, "page")
        await events.aclose()
        await one.close()

    run(main())


@pytest.mark.parametrize("failure", [FileNotFoundError("events.jsonl"), KeyError("d9"), ZeroDivisionError()])
def test_what_fails_unexpectedly_is_logged_once_and_passes(failure, caplog):
    async def main():
        source = Numbers()
        source.failure = failure
        one = Channel(source)
        events = one.events("")
        ((_, event, data),) = await take(events, 1)
        assert (event, "the log" in data["message"]) == ("trouble", True)
        while source.num_looks < 5:
            await asyncio.sleep(0.01)
        source.failure = None
        (_, event, data), (_, page, _) = await take(events, 2)
        assert (event, data, page) == ("trouble", {"message": ""}, "page")
        await events.aclose()
        await one.close()

    run(main())
    assert len(caplog.records) == 1
