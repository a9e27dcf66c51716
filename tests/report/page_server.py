"""A small server that speaks to a page as the real one does: a document, a stream of events, and a login."""

from __future__ import annotations

import queue
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import msgspec

TOKEN = "correct-horse"


class PageServer:
    """Serves a document at ``/``, and events to every stream that is open; a context manager.

    Attributes:
        document: HTML of the page; `greeting` is sent to each stream that opens.
        queries: query of each stream that was opened.
        last_ids: Last-Event-ID of each, None where there was none.
    """

    def __init__(self, document: str = "") -> None:
        self.document = document
        self.login_document: str | None = None
        self.greeting: list[tuple[str, object]] = []
        self.queries: list[str] = []
        self.last_ids: list[str | None] = []
        self.is_refusing = False
        self._streams: list[queue.Queue[bytes | None]] = []
        self._is_open = threading.Event()
        self._number = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = False
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def url(self) -> str:
        """Address of the document."""
        return f"http://127.0.0.1:{self._server.server_port}/"

    def send(self, event: str, data: object) -> None:
        """Send an event to all streams."""
        for stream in self._streams:
            stream.put(self._encode(event, data))

    def drop(self) -> None:
        """End all streams."""
        self._is_open.clear()
        while self._streams:
            self._streams.pop().put(None)

    def wait_for_stream(self) -> None:
        """Wait until a stream is open again after `drop`."""
        assert self._is_open.wait(20)

    def __enter__(self) -> PageServer:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.is_refusing = True
        self.drop()
        self._server.shutdown()
        self.drop()
        self._server.server_close()
        self._thread.join()

    def _encode(self, event: str, data: object) -> bytes:
        self._number += 1
        return b"id: %d\nevent: %s\ndata: %s\n\n" % (self._number, event.encode(), msgspec.json.encode(data))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"  # a connection ends with its answer
            timeout = 0.5  # for requests: browsers open connections in advance and may never use them

            def do_GET(self) -> None:
                path, query = urlsplit(self.path).path, urlsplit(self.path).query
                if path == "/page/events" and not server.is_refusing:
                    self._stream(query)
                elif path == "/":
                    has_session = server.login_document is None or "session=" in self.headers.get("Cookie", "")
                    document = server.document if has_session else server.login_document
                    self._answer(200, "text/html; charset=utf-8", document.encode())
                elif path == "/favicon.ico":
                    self._answer(204, "image/x-icon", b"")
                else:
                    self._answer(404, "text/plain", b"")

            do_HEAD = do_GET

            def do_POST(self) -> None:
                if self.headers["Authorization"] == f"Bearer {TOKEN}":
                    self._answer(
                        204, "text/plain", b"", [("Set-Cookie", "session=1; Path=/; HttpOnly; SameSite=Strict")]
                    )
                else:
                    self._answer(401, "application/json", b'{"error": "this token opens nothing here"}')

            def _stream(self, query: str) -> None:
                stream: queue.Queue[bytes | None] = queue.Queue()
                server.queries.append(query)
                server.last_ids.append(self.headers.get("Last-Event-ID"))
                self._answer(200, "text/event-stream", b"retry: 100\n\n")
                for event, data in server.greeting:
                    stream.put(server._encode(event, data))
                server._streams.append(stream)
                server._is_open.set()
                while (message := stream.get()) is not None:
                    try:
                        self.wfile.write(message)
                    except OSError:  # the browser left
                        return

            def _answer(self, status: int, kind: str, body: bytes, more: list[tuple[str, str]] | None = None) -> None:
                self.send_response(status)
                for name, value in [("Content-Type", kind), ("Cache-Control", "no-store"), *(more or [])]:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)
                self.wfile.flush()

            def log_message(self, *args: object) -> None:
                """Print nothing."""

        return Handler
