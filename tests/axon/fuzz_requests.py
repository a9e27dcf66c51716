"""Requests for `tests.axon.fuzz`: valid ones, and every way we know to spoil them, drawn from one seed."""

import json
import random
import struct
from collections.abc import Sequence
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

    The marker is a file that must never come to exist; nobody listens at the dead ports, the only ones that may be
    named as places to deliver to.
    """

    def __init__(self, seed: int, token: str, marker: str, dead_ports: Sequence[int]):
        self.rng = random.Random(seed)
        self._token = token
        self._dead_ports = dead_ports
        self._bombs = corpus.pickle_bombs(marker)
        self._frames = [(name, b"".join(wire.encode(Kind.CALL, [args, kwargs]))) for name, args, kwargs in corpus.CALLS]
        self._jsons = [(name, json.dumps(arguments).encode()) for name, arguments in corpus.JSON_CALLS]
        self._duplex_ids: list[str] = []

    def __iter__(self):
        makers, weights = zip(*self._MAKERS, strict=True)
        while True:
            yield self.rng.choices(makers, weights)[0](self)

    # Valid parts.

    def _head(self, target: str, length: str, *headers: str, method: str = "POST", token: str | None = None):
        lines = [f"{method} {target} HTTP/1.1", "Host: fuzz", f"Authorization: Bearer {token or self._token}"]
        lines += [*headers, f"Content-Length: {length}"]
        return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")

    def _post(self, name: str, body: bytes, *headers: str, content_type: str = AXON_TYPE, **head: str):
        return self._head(f"/rpc/{name}", str(len(body)), f"Content-Type: {content_type}", *headers, **head) + body

    def _valid(self, *headers: str):
        if self.rng.random() < 0.7:
            return self._post(*self.rng.choice(self._frames), *headers)
        return self._post(*self.rng.choice(self._jsons), *headers, content_type=JSON_TYPE)

    def _noise(self, most: int):
        return self.rng.randbytes(self.rng.randint(0, most))

    # Ways to spoil bytes.

    def _spoil(self, data: bytes, start: int, stop: int, alphabet: bytes):
        """Change some bytes of a region: flip, set, insert, delete, repeat."""
        spoiled = bytearray(data)
        for _ in range(self.rng.choice((1, 1, 1, 2, 3, 8))):
            at = self.rng.randint(start, max(start, min(stop, len(spoiled)) - 1))
            action = self.rng.randrange(5)
            if action == 0 and at < len(spoiled):
                spoiled[at] ^= 1 << self.rng.randrange(8)
            elif action == 1 and at < len(spoiled):
                spoiled[at] = self.rng.choice(alphabet)
            elif action == 2:
                spoiled[at:at] = self._noise(6) if self.rng.random() < 0.5 else bytes([self.rng.choice(alphabet)])
            elif action == 3:
                del spoiled[at : at + self.rng.choice((1, 1, 2, 9))]
            elif action == 4:
                spoiled[at:at] = spoiled[at : at + self.rng.choice((1, 4, 16))]
        return bytes(spoiled)

    def _spoiled_frame(self, frame: bytes):
        num_meta_bytes = struct.unpack_from("<I", frame, 4)[0]
        how = self.rng.random()
        if how < 0.12:
            return self._spoil(frame, 0, 8, corpus.MSGPACK_BYTES)
        if how < 0.62:
            return self._spoil(frame, 8, 8 + num_meta_bytes, corpus.MSGPACK_BYTES)
        if how < 0.70:
            return self._spoil(frame, 8 + num_meta_bytes, len(frame), corpus.MSGPACK_BYTES)
        if how < 0.78:
            return frame[: self.rng.randrange(len(frame))]
        if how < 0.84:
            lengths = (0, 1, num_meta_bytes - 1, num_meta_bytes + 1, 8 << 20, (8 << 20) + 1, 0x7FFFFFFF, 0xFFFFFFFF)
            return frame[:4] + struct.pack("<I", max(0, self.rng.choice(lengths))) + frame[8:]
        if how < 0.90:
            other = self.rng.choice(self._frames)[1]
            cut = self.rng.randrange(8, max(9, min(len(frame), len(other))))
            return frame[:cut] + other[cut:]
        return self._frame_of(self._random_meta(0)) + self._noise(80)

    @staticmethod
    def _frame_of(meta: bytes):
        return struct.pack("<2sBBI", b"AX", wire.VERSION, Kind.CALL, len(meta)) + meta

    def _random_meta(self, depth: int):
        """Msgpack that is well formed for the most part, and means things that no sender means."""
        choice = self.rng.randrange(11) if depth < 5 else self.rng.randrange(5)
        if choice == 0:
            return bytes([self.rng.choice(corpus.MSGPACK_BYTES)])
        if choice <= 3:
            return msgspec.msgpack.encode(
                self.rng.choice((None, True, -7, 1 << 63, corpus.NAN, "", "naïve", b"\x80\x04N."))
            )
        if choice == 4:
            return self.rng.choice(corpus.TOO_DEEP)
        if choice <= 7:
            items = [self._random_meta(depth + 1) for _ in range(self.rng.randrange(4))]
            return self._argument_list(items) if depth == 0 else bytes([0x90 + len(items)]) + b"".join(items)
        if choice == 8:
            pairs = [self._random_meta(depth + 1) + self._random_meta(depth + 1) for _ in range(self.rng.randrange(3))]
            return bytes([0x80 + len(pairs)]) + b"".join(pairs)
        if choice == 9:
            shape = [self.rng.choice((0, 1, 3, -1, 1 << 31, 1 << 62)) for _ in range(self.rng.randrange(4))]
            content = msgspec.msgpack.encode((self.rng.choice(corpus.DTYPES), shape))
        else:
            content = self._random_meta(depth + 1) if self.rng.random() < 0.7 else self._noise(20)
        return msgspec.msgpack.encode(Ext(self.rng.choice(corpus.EXT_CODES), content))

    @staticmethod
    def _argument_list(items: list[bytes]):
        return b"\x92" + bytes([0x90 + len(items)]) + b"".join(items) + b"\x80"

    # Kinds of shots.

    def _good(self):
        return Shot("valid", self._valid())

    def _bad_frame(self):
        name, frame = self.rng.choice(self._frames)
        if self.rng.random() < 0.1:  # arguments of another rpc
            return Shot("frame", self._post(name, self.rng.choice(self._frames)[1]))
        return Shot("frame", self._post(name, self._spoiled_frame(frame)))

    def _bad_json(self):
        name, body = self.rng.choice(self._jsons)
        how = self.rng.random()
        if how < 0.5:
            body = self._spoil(body, 0, len(body), b'[]{}",:\\0-9eEtfn\x00\x80\xff')
        elif how < 0.9:
            atoms = [self.rng.choice(corpus.JSON_ATOMS) for _ in range(self.rng.choice((1, 1, 2)))]
            body = b"[" + b",".join(atoms) + b"]"
        else:
            body = self.rng.choice(corpus.JSON_ATOMS) + self._noise(4)
        return Shot("json", self._post(name, body, content_type=JSON_TYPE))

    def _random_bytes(self):
        data = self._noise(3000)
        return Shot("random bytes", data + b"\r\n\r\n" if self.rng.random() < 0.5 else data, None)

    def _bad_head(self):
        request = self._valid(self.rng.choice(("Expect: 100-continue", "Accept: */*", "Connection: keep-alive")))
        end = request.index(b"\r\n\r\n") + 4
        if self.rng.random() < 0.3:  # a line end is lost
            lines = request[:end].split(b"\r\n")
            cut = self.rng.randrange(len(lines) - 2)
            ending = self.rng.choice((b"", b"\n", b"\r", b"\r\n ", b"\r\n\r\n"))
            head = b"\r\n".join(lines[: cut + 1]) + ending + b"\r\n".join(lines[cut + 1 :])
            return Shot("head", head + request[end:], None)
        return Shot("head", self._spoil(request, 0, end, b"\r\n\t :/%?&=;,\x00\x7f\x80\xff0a"), None)

    def _bad_framing(self):
        name, frame = self.rng.choice(self._frames)
        kind = f"Content-Type: {AXON_TYPE}"
        how = self.rng.randrange(6)
        if how == 0:
            data = self._head(f"/rpc/{name}", self.rng.choice(corpus.LENGTHS), kind) + b"[3]"
        elif how == 1:
            second = self.rng.choice((f"Content-Length: {len(frame)}", "Content-Length: 1", "content-length: 0"))
            data = self._head(f"/rpc/{name}", str(len(frame)), kind, second) + frame
        elif how == 2:
            coding = self.rng.choice(("chunked", "gzip, chunked", "identity", "chunked, chunked", "xchunked", ""))
            head = self._head(f"/rpc/{name}", "0", kind, f"Transfer-Encoding: {coding}")
            head = head if self.rng.random() < 0.3 else head.replace(b"Content-Length: 0\r\n", b"")
            data = head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(frame), frame)
        elif how == 3:
            size = self.rng.choice((15_000, 16_000, 16_384, 17_000, 40_000))
            data = self._head(f"/rpc/{name}", str(len(frame)), kind, f"X-Long: {'x' * size}") + frame
        elif how == 4:
            method = self.rng.choice(corpus.METHODS)
            data = self._head(self.rng.choice(("/", f"/rpc/{name}", "*", "")), str(len(frame)), method=method) + frame
        else:
            upgrade = self.rng.choice(("Upgrade: websocket\r\nConnection: upgrade", "Connection: close", "Expect: x"))
            data = self._head(f"/rpc/{name}", str(len(frame)), kind, upgrade) + frame
        return Shot("framing", data, None)

    def _pipelined(self):
        count = self.rng.choice((2, 3, 5, 60))
        return Shot("pipelined", b"".join(self._valid() for _ in range(count)), count)

    def _stranger(self):
        name, frame = self.rng.choice(self._frames)
        tokens = (" ", "x", self._token[:-1], self._token + "x", self._token.upper(), "\udcff\udcfe", "x" * 9000)
        if self.rng.random() < 0.6:
            return Shot("wrong token", self._post(name, frame, token=self.rng.choice(tokens)))
        origin = self.rng.choice(("http://evil.example", "null", "", "http://127.0.0.1"))
        return Shot("origin", self._post(name, frame, f"Origin: {origin}"))

    def _partial(self):
        request = self._valid()
        return Shot("partial", request[: self.rng.randrange(1, len(request))], 0)

    def _duplex(self):
        """Deliveries are only ever asked for at the dead ports: headers with a port in them are not spoiled."""
        unique = f"{self.rng.getrandbits(64):x}"
        call_id = self.rng.choice((unique, unique, unique, f"{self.rng.getrandbits(6)}", "../x"))
        self._duplex_ids.append(call_id)
        port = self.rng.choice(self._dead_ports)
        good = ("poll", "poll", f"{port} token", f"{port} t\udcff", f"{port} token sha256:{'ab' * 32}")
        bad = [
            *(f"{port} token sha256:zz", f"{port} token x", f"{port} a b c", f"{port}", f"{port}0000 t"),
            *("0 t", "-1 t", "65536 t", "x y", "", "nan t", "9" * 5000),
        ]
        headers = [f"axon-call: {call_id}", f"axon-reply-to: {self.rng.choice(self.rng.choice((good, bad)))}"]
        return Shot("duplex", self._valid(*headers[self.rng.random() < 0.05 :]))

    def _repeated(self):
        unique = f"{self.rng.getrandbits(64)}{'y' * self.rng.choice((1, 100, 9000))}"
        call_id = self.rng.choice(("same", f"{self.rng.getrandbits(10)}", unique))
        return Shot("call id", self._valid(f"axon-call: {call_id}"))

    def _query(self, *, may_wait: bool):
        after = self.rng.choice(("0", "0", "1", "1", "-1", "9" * 30, "9" * 5000, "x", "1.0", "nan", "%ff"))
        waits = ["0", "0.01", "-1", "-inf", "nan", "nan", "x", "", "%00", "1_0e-4"]
        wait = self.rng.choice([*waits, "inf", "1e99"] if may_wait else waits)
        return f"after={after}&wait={wait}{self.rng.choice(('', '', '&pushed=1', '&&=', '&after'))}"

    def _fetch(self):
        """Ask for the results of a duplex call, or have it forgotten, which keeps the number of open calls down."""
        at = self.rng.randrange(len(self._duplex_ids)) if self._duplex_ids else 0
        target = f"/calls/{quote_from_bytes(self._duplex_ids[at].encode())}" if self._duplex_ids else "/calls/"
        if self.rng.random() < 0.4:
            del self._duplex_ids[at : at + 1]
            return Shot("fetch", self._head(target, "0", method="DELETE"))
        return Shot("fetch", self._head(f"{target}?{self._query(may_wait=False)}", "0", method="GET"))

    def _nonsense_path(self):
        unknown = quote_from_bytes(self._noise(20), safe="/%?#")
        place = self.rng.choice(("/calls/", "/results/", "/rpc/", "/rpc/box.", "/", "//", "/calls"))
        names = ("_write_marker", "write_marker", "__class__", "put.__globals__", "echo/../fail", unknown, unknown)
        method = self.rng.choice(("GET", "POST", "DELETE"))
        target = f"{place}{self.rng.choice(names)}?{self._query(may_wait=True)}"
        return Shot("path", self._head(target, "0", method=method))

    def _pickle(self):
        bomb = self.rng.choice(self._bombs)
        name = self.rng.choice(("echo", "receive", "norm", "total", "paint", "box.put"))
        kind = self.rng.choice((AXON_TYPE, JSON_TYPE, "application/octet-stream", "application/x-pickle"))
        extension = msgspec.msgpack.encode(Ext(self.rng.choice(corpus.EXT_CODES), bomb))
        how = self.rng.randrange(5)
        if how == 0:
            return Shot("pickle", self._post(name, bomb, content_type=kind))
        if how < 4:
            as_bytes = b"".join(wire.encode(Kind.CALL, [[bomb], {}]))
            frames = (self._frame_of(bomb), as_bytes, self._frame_of(self._argument_list([extension])))
            return Shot("pickle", self._post(name, frames[how - 1]))
        content = msgspec.msgpack.encode((self.rng.choice(("object", "O", "uint8")), [len(bomb)]))
        frame = self._frame_of(
            self._argument_list([msgspec.msgpack.encode(Ext(self.rng.choice((16, 17, 19)), content))])
        )
        return Shot("pickle", self._post(name, frame + bytes(-len(frame) % wire.ALIGNMENT_BYTES) + bomb))

    _MAKERS = (
        *((_good, 3), (_bad_frame, 51), (_bad_json, 11), (_random_bytes, 2), (_bad_head, 8), (_bad_framing, 5)),
        *((_pipelined, 1), (_stranger, 3), (_partial, 3), (_duplex, 4), (_repeated, 2)),
        *((_nonsense_path, 3), (_fetch, 4), (_pickle, 3)),
    )
