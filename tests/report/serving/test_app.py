"""The page as an app: how many contents it makes at once, whatever browsers ask for."""

import asyncio
import contextlib

import pytest

from paceline.axon.messages import Request
from paceline.report.serving import app
from paceline.report.serving.app import EVENTS, PageApp
from tests.report.synthetic import JOB, record, run_events


def follow(path, choices):
    """Look at all of these at once; returns the statuses of the replies, and the number of channels behind them."""

    async def main():
        page, statuses = PageApp(path), []
        async with contextlib.AsyncExitStack() as stack:
            for runs in choices:
                reply = await page.handle(Request("GET", EVENTS, {"runs": runs}))
                statuses.append(reply.status)
                if reply.stream is not None:
                    await stack.enter_async_context(contextlib.aclosing(reply.stream))
                    await anext(reply.stream)
            num_channels = len(page._channels)
        await page.close()
        return statuses, num_channels

    return asyncio.run(asyncio.wait_for(main(), 60))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name in ("a", "b"):
        record(folder, name, JOB, run_events()[:20])
    return folder


def test_all_who_look_at_one_run_share_a_content(runs):
    assert follow(runs / "a", ["", "x", "y,z"]) == ([200] * 3, 1)


def test_a_choice_of_runs_is_the_same_however_often_each_is_named(runs):
    assert follow(runs, ["a,b", "a,b,a", "a,b,b,b,b,b,b,b,b,b"]) == ([200] * 3, 1)


def test_no_more_choices_are_looked_at_than_there_is_room_for(runs, monkeypatch):
    monkeypatch.setattr(app, "_MAX_CHANNELS", 3)
    assert follow(runs, ["a", "b", "a,b", "b,a", "", "a"]) == ([200, 200, 200, 503, 503, 200], 3)
