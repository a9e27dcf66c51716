"""Who may see a page: a browser shows a token in a cookie once its owner has given it; other sites cannot ask."""

from __future__ import annotations

import functools
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from urllib.parse import quote, unquote

from paceline.axon.access import Caller, bearer
from paceline.axon.host_names import HostNames
from paceline.axon.messages import Body, Reply, Request, Stream
from paceline.axon.transports.base import App
from paceline.report.document import make_document
from paceline.report.serving.app import HTML

SESSION = "/page/session"
_COOKIE = "paceline"
_COOKIE_SECONDS = 30 * 86400
_CHARSET = "latin-1"  # of headers: whatever a cookie holds can be compared with a token
_HEADERS = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "cache-control": "no-store"}


class Door(App):
    """Lets in who may see a page, and asks all others for a token.

    A token is sent once, to `SESSION`, as callers of functions send it; from then on it is in a cookie that scripts
    cannot read, and that no other site's page can have sent.

    Args:
        answer: answers those who are let in.
        refuse: looks at the head of a request whose token is where callers send it; a reply refuses it.
        is_open: whether no token is needed; then only a name of this machine may be asked for.
        is_encrypted: whether it is reached by TLS.
    """

    def __init__(
        self,
        answer: Callable[[Request], Awaitable[Reply]],
        refuse: Callable[[Request], Reply | None],
        names: HostNames,
        *,
        is_open: bool,
        is_encrypted: bool,
    ) -> None:
        self._answer, self._refuse, self._names = answer, refuse, names
        self._is_open, self._is_encrypted = is_open, is_encrypted

    def admit(self, head: Request, num_body_bytes: int) -> Reply | None:
        refusal = self._names.refuse(head.headers) if self._is_open else None
        refusal = refusal or self._refuse_other_site(head)
        if refusal is not None:
            return refusal
        known = _with_token(head)
        refusal = self._refuse(known)
        if refusal is not None and head.path == "/":
            why = json.loads(bytes(refusal.content))["error"] if Caller.of(known).token else True
            return Reply(refusal.status, {**HTML, **_HEADERS}, [_login(why)])
        if refusal is not None:
            return refusal
        allowed = ("POST",) if head.path == SESSION else ("GET", "HEAD")
        if head.method not in allowed:
            return Reply.refusal(405, f"{head.method} is not done here; allowed: {', '.join(allowed)}")
        return Reply.refusal(413, "nothing here takes a body") if num_body_bytes else None

    async def handle(self, request: Request) -> Reply:
        if request.path == SESSION:
            return Reply(204, {**_HEADERS, "set-cookie": self._cookie(Caller.of(_with_token(request)).token)})
        known = _with_token(request)
        reply = await self._answer(request)
        reply.headers = {**reply.headers, **_HEADERS}
        if reply.stream is not None:
            reply.stream = Stream(self._while_let_in(reply.stream, known), reply.stream.aclose)
        return reply

    async def _while_let_in(self, stream: Stream, head: Request) -> AsyncGenerator[Body, None]:
        """Pass a stream on, until its reader may see it no more."""
        async for body in stream:
            if self._refuse(head) is not None:
                return
            yield body

    def _refuse_other_site(self, head: Request) -> Reply | None:
        origin = head.headers.get("origin")
        own = f"{'https' if self._is_encrypted else 'http'}://{head.headers.get('host', '')}"
        return None if origin in (None, own) else Reply.refusal(403, "pages of other sites may not ask for this one")

    def _cookie(self, token: str) -> str:
        secure = "; Secure" if self._is_encrypted else ""
        kept = quote(token, safe="", encoding=_CHARSET)
        return f"{_COOKIE}={kept}; Path=/; Max-Age={_COOKIE_SECONDS}; HttpOnly; SameSite=Strict{secure}"


@functools.lru_cache(maxsize=16)
def _login(why: str | bool) -> bytes:
    """Return the page that asks for a token, and says why the one that it has is not enough."""
    return make_document("Paceline", {"login": why}).encode()


def _with_token(head: Request) -> Request:
    """Return a request with the token of its cookie where callers send it, and without what only browsers send."""
    headers = {name: value for name, value in head.headers.items() if name not in ("origin", "cookie")}
    if "authorization" not in headers:
        headers |= bearer(_kept_token(head.headers.get("cookie", "")))
    return replace(head, headers=headers)


def _kept_token(cookies: str) -> str | None:
    """Return the token in a header of cookies, in time that grows as its length does: `http.cookies` takes its square
    in many releases of Python, before it is known who asks."""
    for cookie in cookies.split(";"):
        name, _, value = cookie.partition("=")
        if name.strip() == _COOKIE:
            return unquote(value.strip(), encoding=_CHARSET)
    return None
