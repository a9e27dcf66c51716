"""What `tests.axon.flood` sends: each kind either lacks the token or is malformed, and asks for `trespass`."""

from __future__ import annotations

import random
import ssl
from dataclasses import dataclass
from typing import Literal

from paceline.axon.messages import AXON_TYPE, JSON_TYPE

Manner = Literal["once", "hold", "trickle", "handshake", "pipeline"]
Where = Literal["plain", "tls", "open"]

_GOOD_HOST = "Host: 127.0.0.1"


@dataclass(frozen=True)
class Kind:
    """A kind of attack.

    Attributes:
        share: its part of all requests, out of 1000.
        where: which worker it goes to; "open" is one that asks for no token.
        manner: "once" sends it over a connection of its own and takes what comes; "hold" never ends it, "trickle"
            sends it byte by byte; "handshake" does so after a whole TLS handshake; "pipeline" sends many at once.
        allowed: statuses that it may get; 429 and no answer at all are always right.
    """

    name: str
    share: int
    manner: Manner
    allowed: tuple[int, ...]
    samples: tuple[bytes, ...]
    where: Where = "plain"


def request(*lines: str, method: str = "POST", target: str = "/rpc/trespass", body: bytes = b"", length: object = None):
    """Return the bytes of a request, with the length of its body or another one."""
    given = [_GOOD_HOST] if not any(line.lower().startswith("host:") for line in lines) else []
    head = [f"{method} {target} HTTP/1.1", *given, *lines, f"Content-Length: {len(body) if length is None else length}"]
    return "\r\n".join([*head, "", ""]).encode("latin-1") + body


def make_kinds(token: str, seed: int) -> list[Kind]:
    """Return all kinds; the same seed gives the same bytes."""
    rng = random.Random(seed)
    json, frame, known = f"Content-Type: {JSON_TYPE}", f"Content-Type: {AXON_TYPE}", f"Authorization: Bearer {token}"
    wrong = [f"Authorization: Bearer {guess}" for guess in ("x", token[:-1], token + "x", token.upper(), "é" * 2000)]
    garbage = tuple(rng.randbytes(rng.randint(1, 2000)).replace(b"\x16", b"\x17") + b"\r\n\r\n" for _ in range(200))
    huge = tuple(request("X-Long: " + "a" * size) for size in (16_384, 20_000, 100_000))
    foreign = ("evil.example", "evil.example:7223", "127.0.0.1.evil.example", "localhost.evil.example", "x@localhost")
    client_hello = _client_hello()
    malformed = (
        request(known, frame, body=b"AX\x02"),
        request(known, frame, body=b"AX\xff\xff" + rng.randbytes(60)),
        request(known, frame, body=b"\x80\x04\x95" + rng.randbytes(40)),
        request(known, json, body=b'["one too many"]'),
        request(known, json, body=b'{"unknown": 1}'),
        request(known, json, body=b"[" * 1000),
        request(known, json, body=b"\xff\xfe"),
        request(known, json, target="/rpc/no.such.function", body=b"[]"),
        request(known, json, target="/rpc/__class__", body=b"[]"),
        request(known, method="PUT"),
        request(known, target="/calls/none", method="GET"),
    )
    return [
        Kind("malformed, with the token", 560, "pipeline", (400, 404, 405, 422), malformed),
        Kind("no token", 130, "once", (401,), (request(json, body=b"[]"), request(method="GET", target="/"))),
        Kind("wrong token", 130, "once", (401,), tuple(request(one, json, body=b"[]") for one in wrong)),
        Kind("body announced, not sent", 20, "once", (401,), (request(length=1000), request(length=1 << 50))),
        Kind("too large, with the token", 10, "once", (413,), (request(known, length=1 << 50),)),
        Kind(
            "chunked",
            10,
            "once",
            (401,),
            (request("Transfer-Encoding: chunked").replace(b"Content-Length: 0", b"X: y"),),
        ),
        Kind("from a web page", 20, "once", (403,), (request("Origin: http://evil.example", known),)),
        Kind("foreign Host", 50, "once", (403,), tuple(request(f"Host: {one}") for one in foreign), "open"),
        Kind("garbage", 20, "once", (400,), garbage),
        Kind("huge head", 10, "once", (401, 431), huge),
        Kind("TLS to plain HTTP", 5, "once", (400,), (client_hello,)),
        Kind("plain HTTP to TLS", 5, "once", (), (request(),), "tls"),
        Kind("silent", 5, "hold", (), (b"",)),
        Kind("half a head", 10, "hold", (), (request()[:30], request()[:-2], b"P")),
        Kind("slow trickle", 5, "trickle", (401,), (request(),)),
        Kind("handshake not finished", 8, "hold", (), (client_hello, client_hello[:20], b"\x16\x03\x01"), "tls"),
        Kind("handshake, wrong token", 2, "handshake", (401,), (request(wrong[0]),), "tls"),
    ]


def _client_hello() -> bytes:
    sent = ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.wrap_bio(ssl.MemoryBIO(), sent).do_handshake()
    except ssl.SSLWantReadError:
        return sent.read()
    raise AssertionError("a handshake without a far side has ended")
