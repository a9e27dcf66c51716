"""Who may see a page: over real HTTP, with and without a token, from other sites, and after a revocation."""

import asyncio
import contextlib
import sys
from urllib.parse import unquote

import pytest

from paceline.axon.access import TokenAccess
from paceline.axon.host_names import HostNames
from paceline.axon.messages import Request
from paceline.axon.transports.http import HttpTransport
from paceline.report.serving.door import Door
from paceline.report.serving.process import serving_page
from tests.report.synthetic import JOB, record, run_events

TOKEN = "S3cret token"
AUTHORIZED = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def visit(tmp_path):
    """Serve the page of a folder of runs, and make requests, one after the other; returns status, headers, body."""
    record(tmp_path / "runs", "a", JOB, run_events())

    def visit(*requests, path="runs", **settings):
        async def main():
            replies = []
            transport = HttpTransport()
            async with serving_page(tmp_path / path, **settings) as address:
                for method, target, headers in requests:
                    where, _, query = target.partition("?")
                    asked = Request(method, where, dict([query.split("=")]) if query else {}, headers)
                    reply = await transport.request(address, asked, timeout=10)
                    body = bytes(reply.content)
                    if reply.stream is not None:
                        async with contextlib.aclosing(reply.stream):
                            body = bytes((await anext(reply.stream))[0])
                    replies.append((reply.status, reply.headers, body.decode()))
            return replies

        return asyncio.run(asyncio.wait_for(main(), 30))

    return visit


def get(target, **headers):
    return ("GET", target, headers)


def test_on_this_machine_nobody_needs_a_token(visit):
    page, runs, one = visit(get("/"), get("/page/events"), get("/page/events?runs=a"))
    assert page[0] == 200
    assert page[1]["content-type"].startswith("text/html")
    assert "event: runs" in runs[2]
    assert "event: page" in one[2]
    assert all(headers["cache-control"] == "no-store" for _, headers, _ in (page, runs, one))


@pytest.mark.parametrize(
    ("method", "target", "headers", "status", "said"),
    [
        ("GET", "/", {"host": "evil.example"}, 403, "no name of this worker"),
        ("GET", "/page/events", {"origin": "http://evil.example"}, 403, "pages of other sites"),
        ("GET", "/page/events?runs=../a", {}, 404, "no run here is called"),
        ("GET", "/page/events?runs=a,b", {}, 404, "no run here is called 'b'"),
        ("GET", "/etc/passwd", {}, 404, "there is / and /page/events"),
        ("POST", "/", {}, 405, "POST is not done here; allowed: GET, HEAD"),
        ("GET", "/page/session", {}, 405, "allowed: POST"),
    ],
)
def test_what_is_refused(visit, method, target, headers, status, said):
    ((found, _, body),) = visit((method, target, headers))
    assert found == status
    assert said in body


def test_a_token_is_given_once_and_then_in_a_cookie(visit):
    login, events, wrong, session = visit(
        get("/"),
        get("/page/events"),
        ("POST", "/page/session", {"authorization": "Bearer wrong"}),
        ("POST", "/page/session", AUTHORIZED),
        token=TOKEN,
    )
    assert (login[0], '{"login":true}' in login[2]) == (401, True)
    assert (events[0], wrong[0], session[0]) == (401, 401, 204)
    assert "set-cookie" not in wrong[1]
    cookie = session[1]["set-cookie"]
    assert cookie.endswith("HttpOnly; SameSite=Strict")
    known = {"cookie": f"other=1; {cookie.partition(';')[0]}"}
    page, stream = visit(("GET", "/", known), ("GET", "/page/events", known), token=TOKEN)
    assert (page[0], stream[0], "login" in page[2].partition('id="content"')[2][:30]) == (200, 200, False)
    (other,) = visit(("GET", "/", known), token="another")
    assert other[0] == 401


@pytest.mark.parametrize("token", ["a;b", 'quo"te', "100%25", "back\\slash", "a=b,c d"])
def test_a_cookie_holds_whatever_a_token_may_be_made_of(visit, token):
    ((_, headers, _),) = visit(("POST", "/page/session", {"authorization": f"Bearer {token}"}), token=token)
    known = {"cookie": headers["set-cookie"].partition("; ")[0]}
    ((status, _, _),) = visit(("GET", "/page/events", known), token=token)
    assert status == 200


def test_a_token_is_given_without_a_body():
    door = Door(None, TokenAccess(TOKEN).refuse, HostNames("localhost"), is_open=False, is_encrypted=False)
    session = Request("POST", "/page/session", {}, AUTHORIZED)
    assert door.admit(session, 0) is None
    assert door.admit(session, 1 << 32).status == 413


@pytest.mark.parametrize(
    "value", ['"' + 3000 * '\\"' + '"', '"' + 6000 * "\\" + '"', "%ff%0d%0a%e2%82%ac", "\xff", '"', ""]
)
def test_a_hostile_cookie_takes_little_time_and_opens_nothing(value):
    door = Door(None, TokenAccess(TOKEN).refuse, HostNames("localhost"), is_open=False, is_encrypted=False)
    num_calls = 0

    def count(*_):
        nonlocal num_calls
        num_calls += 1

    request = Request("GET", "/page/events", {}, {"cookie": f"other=1; paceline={value}"})
    unquote("%41")  # it makes a table with its first use
    sys.setprofile(count)
    try:
        refusal = door.admit(request, 0)
    finally:
        sys.setprofile(None)
    assert refusal.status == 401
    assert num_calls < 1000  # two searches through the rest of the value for each sign would be 12,000


def test_no_page_may_be_open_to_other_machines(visit):
    with pytest.raises(Exception, match="give a token, or allow everyone"):
        visit(host="0.0.0.0")


def test_a_page_of_nothing(visit):
    with pytest.raises(Exception, match="none: no such folder; give the folder of a run, or one with runs in it"):
        visit(path="none")
