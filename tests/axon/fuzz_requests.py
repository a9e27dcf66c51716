"""Requests for `tests.axon.fuzz`: valid ones, and every way we know to spoil them, drawn from one seed."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote_from_bytes

import msgspec
from msgspec.msgpack import Ext

from paceline.axon import wire
from paceline.axon.messages import AXON_TYPE, JSON_TYPE
from paceline.axon.wire import Kind
from tests.axon import fuzz_corpus as corpus


@dataclass(frozen=True)
class Shot:
    """Bytes to send, and how many answers must come; with None the far side may as well wait for more."""

    kind: str
    data: bytes
    num_replies: int | None = 1


class RequestMaker:
    """An endless supply of shots; the same seed gives the same ones.

    Args:
        token: what the worker wants to be shown.
        marker: the file that must never come to exist.
        dead_ports: ports of this machine at which nobody listens, the only ones that may be named as places to
            deliver to.
    """

    def __init__(self, seed: int, token: str, marker: str, dead_ports: Sequence[int]) -> None:
        self._random = random.Random(seed)
        self._token = token
        self._dead_ports = dead_ports
        self._bombs = corpus.pickle_bombs(marker)
        self._frames = [(name, b"".join(wire.encode(Kind.CALL, [args, kwargs]))) for name, args, kwargs in corpus.CALLS]
        self._jsons = [(name, json.dumps(arguments).encode()) for name, arguments in corpus.JSON_CALLS]
        self._duplex_ids: list[str] = []

    def __iter__(self) -> Iterator[Shot]:
        makers, weights = zip(*self._MAKERS, strict=True)
        while True:
            yield self._random.choices(makers, weights)[0](self)

    # Valid parts.

    def _head(self, target: str, length: str, *headers: str, method: str = "POST", token: str | None = None) -> bytes:
        lines = [f"{method} {target} HTTP/1.1", "Host: fuzz", f"Authorization: Bearer {token or self._token}"]
        lines += [*headers, f"Content-Length: {length}"]
        return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")

    def _post(self, name: str, body: bytes, *headers: str, content_type: str = AXON_TYPE, **head: str) -> bytes:
        return self._head(f"/rpc/{name}", str(len(body)), f"Content-Type: {content_type}", *headers, **head) + body

    def _valid(self, *headers: str) -> bytes:
        if self._random.random() < 0.7:
            return self._post(*self._random.choice(self._frames), *headers)
        return self._post(*self._random.choice(self._jsons), *headers, content_type=JSON_TYPE)

    def _noise(self, most: int) -> bytes:
        return self._random.randbytes(self._random.randint(0, most))

    # Ways to spoil bytes.

    def _spoil(self, data: bytes, start: int, stop: int, alphabet: bytes) -> bytes:
        """Change some bytes of a region: flip, set, insert, delete, repeat."""
        spoiled = bytearray(data)
        for _ in range(self._random.choice((1, 1, 1, 2, 3, 8))):
            at = self._random.randint(start, max(start, min(stop, len(spoiled)) - 1))
            action = self._random.randrange(5)
            if action == 0 and at < len(spoiled):
                spoiled[at] ^= 1 << self._random.randrange(8)
            elif action == 1 and at < len(spoiled):
                spoiled[at] = self._random.choice(alphabet)
            elif action == 2:
                spoiled[at:at] = (
                    self._noise(6) if self._random.random() < 0.5 else bytes([self._random.choice(alphabet)])
                )
            elif action == 3:
                del spoiled[at : at + self._random.choice((1, 1, 2, 9))]
            elif action == 4:
                spoiled[at:at] = spoiled[at : at + self._random.choice((1, 4, 16))]
        return bytes(spoiled)

    def _spoiled_frame(self, frame: bytes) -> bytes:
        num_meta_bytes = struct.unpack_from("<I", frame, 4)[0]
        how = self._random.random()
        if how < 0.12:
            return self._spoil(frame, 0, 8, corpus.MSGPACK_BYTES)
        if how < 0.62:
            return self._spoil(frame, 8, 8 + num_meta_bytes, corpus.MSGPACK_BYTES)
        if how < 0.70:
            return self._spoil(frame, 8 + num_meta_bytes, len(frame), corpus.MSGPACK_BYTES)
        if how < 0.78:
            return frame[: self._random.randrange(len(frame))]
        if how < 0.84:
            lengths = (0, 1, num_meta_bytes - 1, num_meta_bytes + 1, 8 << 20, (8 << 20) + 1, 0x7FFFFFFF, 0xFFFFFFFF)
            return frame[:4] + struct.pack("<I", max(0, self._random.choice(lengths))) + frame[8:]
        if how < 0.90:
            other = self._random.choice(self._frames)[1]
            cut = self._random.randrange(8, max(9, min(len(frame), len(other))))
            return frame[:cut] + other[cut:]
        return self._frame_of(self._random_meta(0)) + self._noise(80)

    @staticmethod
    def _frame_of(meta: bytes) -> bytes:
        return struct.pack("<2sBBI", b"AX", wire.VERSION, Kind.CALL, len(meta)) + meta

    def _random_meta(self, depth: int) -> bytes:
        """Msgpack that is well formed for the most part, and means things that no sender means."""
        choice = self._random.randrange(11) if depth < 5 else self._random.randrange(5)
        if choice == 0:
            return bytes([self._random.choice(corpus.MSGPACK_BYTES)])
        if choice <= 3:
            return msgspec.msgpack.encode(
                self._random.choice((None, True, -7, 1 << 63, corpus.NAN, "", "naïve", b"\x80\x04N."))
            )
        if choice == 4:
            return self._random.choice(corpus.TOO_DEEP)
        if choice <= 7:
            items = [self._random_meta(depth + 1) for _ in range(self._random.randrange(4))]
            return self._argument_list(items) if depth == 0 else bytes([0x90 + len(items)]) + b"".join(items)
        if choice == 8:
            pairs = [
                self._random_meta(depth + 1) + self._random_meta(depth + 1) for _ in range(self._random.randrange(3))
            ]
            return bytes([0x80 + len(pairs)]) + b"".join(pairs)
        if choice == 9:
            shape = [self._random.choice((0, 1, 3, -1, 1 << 31, 1 << 62)) for _ in range(self._random.randrange(4))]
            content = msgspec.msgpack.encode((self._random.choice(corpus.DTYPES), shape))
        else:
            content = self._random_meta(depth + 1) if self._random.random() < 0.7 else self._noise(20)
        return msgspec.msgpack.encode(Ext(self._random.choice(corpus.EXT_CODES), content))

    @staticmethod
    def _argument_list(items: list[bytes]) -> bytes:
        return b"\x92" + bytes([0x90 + len(items)]) + b"".join(items) + b"\x80"

    # Kinds of shots.

    def _good(self) -> Shot:
        return Shot("valid", self._valid())

    def _bad_frame(self) -> Shot:
        name, frame = self._random.choice(self._frames)
        if self._random.random() < 0.1:  # arguments of another rpc
            return Shot("frame", self._post(name, self._random.choice(self._frames)[1]))
        return Shot("frame", self._post(name, self._spoiled_frame(frame)))

    def _bad_json(self) -> Shot:
        name, body = self._random.choice(self._jsons)
        how = self._random.random()
        if how < 0.5:
            body = self._spoil(body, 0, len(body), b'[]{}",:\\0-9eEtfn\x00\x80\xff')
        elif how < 0.9:
            atoms = [self._random.choice(corpus.JSON_ATOMS) for _ in range(self._random.choice((1, 1, 2)))]
            body = b"[" + b",".join(atoms) + b"]"
        else:
            body = self._random.choice(corpus.JSON_ATOMS) + self._noise(4)
        return Shot("json", self._post(name, body, content_type=JSON_TYPE))

    def _random_bytes(self) -> Shot:
        data = self._noise(3000)
        return Shot("random bytes", data + b"\r\n\r\n" if self._random.random() < 0.5 else data, None)

    def _bad_head(self) -> Shot:
        request = self._valid(self._random.choice(("Expect: 100-continue", "Accept: */*", "Connection: keep-alive")))
        end = request.index(b"\r\n\r\n") + 4
        if self._random.random() < 0.3:  # a line end is lost
            lines = request[:end].split(b"\r\n")
            cut = self._random.randrange(len(lines) - 2)
            ending = self._random.choice((b"", b"\n", b"\r", b"\r\n ", b"\r\n\r\n"))
            head = b"\r\n".join(lines[: cut + 1]) + ending + b"\r\n".join(lines[cut + 1 :])
            return Shot("head", head + request[end:], None)
        return Shot("head", self._spoil(request, 0, end, b"\r\n\t :/%?&=;,\x00\x7f\x80\xff0a"), None)

    def _bad_framing(self) -> Shot:
        name, frame = self._random.choice(self._frames)
        kind = f"Content-Type: {AXON_TYPE}"
        how = self._random.randrange(6)
        if how == 0:
            data = self._head(f"/rpc/{name}", self._random.choice(corpus.LENGTHS), kind) + b"[3]"
        elif how == 1:
            second = self._random.choice((f"Content-Length: {len(frame)}", "Content-Length: 1", "content-length: 0"))
            data = self._head(f"/rpc/{name}", str(len(frame)), kind, second) + frame
        elif how == 2:
            coding = self._random.choice(("chunked", "gzip, chunked", "identity", "chunked, chunked", "xchunked", ""))
            head = self._head(f"/rpc/{name}", "0", kind, f"Transfer-Encoding: {coding}")
            head = head if self._random.random() < 0.3 else head.replace(b"Content-Length: 0\r\n", b"")
            data = head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(frame), frame)
        elif how == 3:
            size = self._random.choice((15_000, 16_000, 16_384, 17_000, 40_000))
            data = self._head(f"/rpc/{name}", str(len(frame)), kind, f"X-Long: {'x' * size}") + frame
        elif how == 4:
            method = self._random.choice(corpus.METHODS)
            data = (
                self._head(self._random.choice(("/", f"/rpc/{name}", "*", "")), str(len(frame)), method=method) + frame
            )
        else:
            upgrade = self._random.choice(
                ("Upgrade: websocket\r\nConnection: upgrade", "Connection: close", "Expect: x")
            )
            data = self._head(f"/rpc/{name}", str(len(frame)), kind, upgrade) + frame
        return Shot("framing", data, None)

    def _pipelined(self) -> Shot:
        count = self._random.choice((2, 3, 5, 60))
        return Shot("pipelined", b"".join(self._valid() for _ in range(count)), count)

    def _stranger(self) -> Shot:
        name, frame = self._random.choice(self._frames)
        tokens = (" ", "x", self._token[:-1], self._token + "x", self._token.upper(), "\udcff\udcfe", "x" * 9000)
        if self._random.random() < 0.6:
            return Shot("wrong token", self._post(name, frame, token=self._random.choice(tokens)))
        origin = self._random.choice(("http://evil.example", "null", "", "http://127.0.0.1"))
        return Shot("origin", self._post(name, frame, f"Origin: {origin}"))

    def _partial(self) -> Shot:
        request = self._valid()
        return Shot("partial", request[: self._random.randrange(1, len(request))], 0)

    def _duplex(self) -> Shot:
        """Deliveries are only ever asked for at the dead ports: headers with a port in them are not spoiled."""
        unique = f"{self._random.getrandbits(64):x}"
        call_id = self._random.choice((unique, unique, unique, f"{self._random.getrandbits(6)}", "../x"))
        self._duplex_ids.append(call_id)
        port = self._random.choice(self._dead_ports)
        good = ("poll", "poll", f"{port} token", f"{port} t\udcff", f"{port} token sha256:{'ab' * 32}")
        bad = [
            *(f"{port} token sha256:zz", f"{port} token x", f"{port} a b c", f"{port}", f"{port}0000 t"),
            *("0 t", "-1 t", "65536 t", "x y", "", "nan t", "9" * 5000),
        ]
        headers = [f"axon-call: {call_id}", f"axon-reply-to: {self._random.choice(self._random.choice((good, bad)))}"]
        return Shot("duplex", self._valid(*headers[self._random.random() < 0.05 :]))

    def _repeated(self) -> Shot:
        unique = f"{self._random.getrandbits(64)}{'y' * self._random.choice((1, 100, 9000))}"
        call_id = self._random.choice(("same", f"{self._random.getrandbits(10)}", unique))
        return Shot("call id", self._valid(f"axon-call: {call_id}"))

    def _query(self, *, may_wait: bool) -> str:
        after = self._random.choice(("0", "0", "1", "1", "-1", "9" * 30, "9" * 5000, "x", "1.0", "nan", "%ff"))
        waits = ["0", "0.01", "-1", "-inf", "nan", "nan", "x", "", "%00", "1_0e-4"]
        wait = self._random.choice([*waits, "inf", "1e99"] if may_wait else waits)
        return f"after={after}&wait={wait}{self._random.choice(('', '', '&pushed=1', '&&=', '&after'))}"

    def _fetch(self) -> Shot:
        """Ask for the results of a duplex call, or have it forgotten, which keeps the number of open calls down."""
        at = self._random.randrange(len(self._duplex_ids)) if self._duplex_ids else 0
        target = f"/calls/{quote_from_bytes(self._duplex_ids[at].encode())}" if self._duplex_ids else "/calls/"
        if self._random.random() < 0.4:
            del self._duplex_ids[at : at + 1]
            return Shot("fetch", self._head(target, "0", method="DELETE"))
        return Shot("fetch", self._head(f"{target}?{self._query(may_wait=False)}", "0", method="GET"))

    def _nonsense_path(self) -> Shot:
        unknown = quote_from_bytes(self._noise(20), safe="/%?#")
        place = self._random.choice(("/calls/", "/results/", "/rpc/", "/rpc/box.", "/", "//", "/calls"))
        names = ("_write_marker", "write_marker", "__class__", "put.__globals__", "echo/../fail", unknown, unknown)
        method = self._random.choice(("GET", "POST", "DELETE"))
        target = f"{place}{self._random.choice(names)}?{self._query(may_wait=True)}"
        return Shot("path", self._head(target, "0", method=method))

    def _pickle(self) -> Shot:
        bomb = self._random.choice(self._bombs)
        name = self._random.choice(("echo", "receive", "norm", "total", "paint", "box.put"))
        how = self._random.randrange(5)
        kind = self._random.choice((AXON_TYPE, JSON_TYPE, "application/octet-stream", "application/x-pickle"))
        if how == 0:
            return Shot("pickle", self._post(name, bomb, content_type=kind))
        if how == 1:
            return Shot("pickle", self._post(name, self._frame_of(bomb)))
        if how == 2:
            return Shot("pickle", self._post(name, b"".join(wire.encode(Kind.CALL, [[bomb], {}]))))
        if how == 3:
            extension = msgspec.msgpack.encode(Ext(self._random.choice(corpus.EXT_CODES), bomb))
            return Shot("pickle", self._post(name, self._frame_of(self._argument_list([extension]))))
        content = msgspec.msgpack.encode((self._random.choice(("object", "O", "uint8")), [len(bomb)]))
        frame = self._frame_of(
            self._argument_list([msgspec.msgpack.encode(Ext(self._random.choice((16, 17, 19)), content))])
        )
        return Shot("pickle", self._post(name, frame + bytes(-len(frame) % wire.ALIGNMENT_BYTES) + bomb))

    _MAKERS: Sequence[tuple[Callable[[RequestMaker], Shot], int]] = (
        *((_good, 3), (_bad_frame, 51), (_bad_json, 11), (_random_bytes, 2), (_bad_head, 8), (_bad_framing, 5)),
        *(
            (_pipelined, 1),
            (_stranger, 3),
            (_partial, 3),
            (_duplex, 4),
            (_repeated, 2),
            (_nonsense_path, 3),
            (_fetch, 4),
            (_pickle, 3),
        ),
    )
