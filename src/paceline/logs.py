"""What commands print while they work: text, or lines of JSON for programs that collect logs.

Both come from the same calls of `say`, and with JSON also from Python's `logging`, so that there is one log.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeAlias, get_args

LogFormat: TypeAlias = Literal["text", "json"]
Level: TypeAlias = Literal["info", "warning", "error"]

FORMATS: tuple[LogFormat, ...] = get_args(LogFormat)

FORMAT_VARIABLE = "PACELINE_LOG_FORMAT"
"""Environment variable with the format of commands that are not given one."""

_LEVELS: dict[Level, int] = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_PASSWORD = re.compile(r"(?<=://)[^/\s@]+(?=@)")
_HIDDEN = "…"

_log = logging.getLogger("paceline")
_secrets: set[str] = set()


class _JsonHandler(logging.StreamHandler[Any]):
    """Writes records as lines of JSON to standard error, whatever that is when they come."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(_JsonFormatter())

    @property
    def stream(self) -> Any:
        return sys.stderr

    @stream.setter
    def stream(self, stream: Any) -> None:
        pass


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.datetime.fromtimestamp(record.created, datetime.timezone.utc)
        fields = dict(getattr(record, "fields", None) or {})
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        line = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", "log"),
            "logger": record.name,
            "message": record.getMessage(),
            "fields": fields,
        }
        return json.dumps(_without_secrets(line), ensure_ascii=False, default=str)


def is_json() -> bool:
    """Return whether what is said is printed as lines of JSON."""
    return any(isinstance(handler, _JsonHandler) for handler in logging.getLogger().handlers)


@contextlib.contextmanager
def logging_as(log_format: LogFormat) -> Iterator[None]:
    """Print what is said in this form while the block runs."""
    if log_format == "text":
        yield
        return
    root, handler = logging.getLogger(), _JsonHandler()
    level = _log.level
    root.addHandler(handler)
    _log.setLevel(logging.INFO)
    try:
        yield
    finally:
        _log.setLevel(level)
        root.removeHandler(handler)


def hide(secret: str | None) -> None:
    """Keep a token out of all that is printed as JSON from now on."""
    if secret:
        _secrets.add(secret)


def say(
    event: str,
    text: str,
    *,
    level: Level = "info",
    show: Callable[[str], object] = lambda text: print(text, file=sys.stderr),
    fields: Mapping[str, Any] | None = None,
) -> None:
    """Print what happened: as text by `show`, or as a line of JSON with these fields."""
    if is_json():
        _log.log(_LEVELS[level], "%s", text, extra={"event": event, "fields": fields})
    else:
        show(text)


def _without_secrets(value: Any) -> Any:
    """Return JSON without passwords in addresses, and tokens that are known."""
    if isinstance(value, str):
        for secret in _secrets:
            value = value.replace(secret, _HIDDEN)
        return _PASSWORD.sub(_HIDDEN, value)
    if isinstance(value, dict):
        return {_without_secrets(key): _without_secrets(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_secrets(inner) for inner in value]
    return value
