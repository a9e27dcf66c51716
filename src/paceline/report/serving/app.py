"""The page of a run, or of a folder of runs, as a function from request to reply."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from paceline.axon.messages import Reply, Request, Stream
from paceline.errors import ConfigError
from paceline.report.comparison import MAX_RUNS
from paceline.report.document import make_document
from paceline.report.folder import is_run
from paceline.report.serving.channel import Channel, Source
from paceline.report.serving.sources import ComparedSource, FolderSource, RunSource

EVENTS = "/page/events"
HTML = {"content-type": "text/html; charset=utf-8"}

_MAX_CHANNELS = 32  # each keeps the content of its runs, and takes time as long as it is looked at


def run_document(path: Path) -> bytes:
    """Return the document that follows a run."""
    return make_document(path.resolve().name, {"stream": EVENTS[1:]}).encode()


def _folder_document(path: Path) -> bytes:
    return make_document(path.resolve().name, {"stream": EVENTS[1:], "runs": EVENTS[1:]}).encode()


class PageApp:
    """Serves a document, and the stream of events that fills it.

    Args:
        path: folder of a run, or one with runs in it.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise ConfigError(f"{path}: no such folder; give the folder of a run, or one with runs in it")
        self._path = path
        self._folder = None if is_run(path) else FolderSource(path)
        self._document = run_document(path) if self._folder is None else _folder_document(path)
        self._channels: OrderedDict[tuple[str, ...], Channel] = OrderedDict()

    async def handle(self, request: Request) -> Reply:
        """Answer somebody who was let in; see `Door`."""
        if request.path == "/":
            return Reply(200, HTML, [self._document])
        if request.path != EVENTS:
            return Reply.refusal(404, f"no {request.path[:80]} here; there is / and {EVENTS}")
        names = tuple(filter(None, request.query.get("runs", "").split(",")))
        try:
            channel = self._channel(names)
        except ConfigError as error:
            return Reply.refusal(404, str(error))
        if channel is None:
            return Reply.refusal(503, f"{_MAX_CHANNELS} choices of runs are looked at already; try again later", 5)
        headers = {"content-type": "text/event-stream"}
        return Reply(200, headers, stream=Stream(channel.events(request.headers.get("last-event-id", ""))))

    async def close(self) -> None:
        """Follow no more runs."""
        for channel in self._channels.values():
            await channel.close()

    def _channel(self, names: tuple[str, ...]) -> Channel | None:
        """Return the channel of these runs, which stays for those who come back; None if there are too many others."""
        names = () if self._folder is None else tuple(dict.fromkeys(names))
        channel = self._channels.get(names)
        if channel is None:
            source = self._source(names)
            if len(self._channels) >= _MAX_CHANNELS:
                idle = next((names for names, one in self._channels.items() if not one.num_viewers), None)
                if idle is None:
                    return None
                del self._channels[idle]
            channel = self._channels[names] = Channel(source)
        self._channels.move_to_end(names)
        return channel

    def _source(self, names: tuple[str, ...]) -> Source:
        if self._folder is None:
            return RunSource(self._path)
        if not names:
            return self._folder
        if len(names) > MAX_RUNS:
            raise ConfigError(f"{len(names)} runs cannot be compared at once; at most {MAX_RUNS} can")
        paths = [self._folder.find(name) for name in names]
        return RunSource(paths[0]) if len(paths) == 1 else ComparedSource(paths)
