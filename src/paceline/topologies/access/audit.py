"""The audit log: who joined, was refused, submitted or changed who may do what, one line of JSON each."""

from __future__ import annotations

import datetime
import logging
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from paceline.axon.access import TokenAccess
from paceline.axon.messages import Reply, Request

FILE = "audit.jsonl"

What: TypeAlias = Literal["join", "takeover", "refusal", "submission", "invitation", "revocation", "release"]

_WINDOW_SECONDS = 60.0
_MOST = {"refusal": 64}  # lines in a window: strangers can cause refusals, and nothing else
_MOST_NAMED = 8  # of these, by address, for devices that were refused
_MOST_OF_OTHERS = 4096
_ALWAYS = ("invitation", "revocation", "release")  # what only admins do
_MAX_TEXT = 300

_log = logging.getLogger(__name__)


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the log.

    Attributes:
        at: UTC.
        name: the device, the job or the invitation that it is about.
        key: beginning of the device's key.
        by: token or invitation that was shown.
        address: where the call came from.
        detail: why something was refused, and the like.
        count: how often the same happened since the line before about it, where that was counted.
    """

    at: str
    what: What
    name: str = ""
    key: str = ""
    by: str = ""
    address: str = ""
    detail: str = ""
    count: int = 1


class AuditedAccess(TokenAccess):
    """Whoever has the one token may call everything; who is refused is recorded."""

    def __init__(self, token: str | None, audit: AuditLog) -> None:
        super().__init__(token)
        self._audit = audit

    def refuse(self, head: Request) -> Reply | None:
        refusal = super().refuse(head)
        if refusal is not None:
            self._audit.record_refused(head, refusal)
        return refusal


class AuditLog:
    """Appends to a file that only its owner may read.

    What comes again within a minute (refusals of one device or address, joins under one name) is counted, and written
    when the minute is over, in one line; so a flood makes few lines. Recording never raises: a run does not depend on
    it.

    Args:
        folder: where the file is; None to keep nothing.
    """

    def __init__(self, folder: Path | None = None, now: Callable[[], float] = time.time) -> None:
        self._path = None if folder is None else folder / FILE
        self._now = now
        self._file: int | None = None
        self._until = 0.0
        self._repeated: dict[tuple[What, str], Entry | None] = {}  # since the minute began; None for no more than once
        self._num_lines: Counter[What] = Counter()
        self._num_named: Counter[str] = Counter()  # refused devices, by address

    def record(
        self, what: What, *, address: str, name: str = "", key: str = "", by: str = "", detail: str = ""
    ) -> None:
        """Record what happens now."""
        if self._path is None:
            return
        now = self._now()
        if now >= self._until:
            self.flush()
            self._until = now + _WINDOW_SECONDS
        at = datetime.datetime.fromtimestamp(now, datetime.timezone.utc).isoformat(timespec="milliseconds")
        name, detail = name[:_MAX_TEXT], detail[:_MAX_TEXT]
        entry = Entry(at=at, what=what, name=name, key=key, by=by, address=address, detail=detail)
        self._count(entry, self._refused_subject(entry) if what == "refusal" else name)

    def record_refused(self, head: Request, refusal: Reply) -> None:
        """Record that a request was refused, by its head."""
        self.record("refusal", address=head.peer, detail=f"{refusal.status} for {head.path[:80]}")

    def _refused_subject(self, entry: Entry) -> str:
        """Return what refusals are counted by: the address, and the device, if not too many come from there."""
        if not entry.name and not entry.key:
            return entry.address
        subject = f"{entry.address} {entry.key} {entry.name}"
        if ("refusal", subject) not in self._repeated:
            if self._num_named[entry.address] >= _MOST_NAMED:
                return entry.address
            self._num_named[entry.address] += 1
        return subject

    def _count(self, entry: Entry, subject: str) -> None:
        what = entry.what
        if what in _ALWAYS:
            self._write(entry)
            return
        if (what, subject) not in self._repeated and self._num_lines[what] >= _MOST.get(what, _MOST_OF_OTHERS):
            subject = ""
            entry = msgspec.structs.replace(entry, name="", key="", address="others", detail="")
        place = (what, subject)
        if place in self._repeated:
            before = self._repeated[place]
            count = 1 if before is None else before.count + 1
            self._repeated[place] = msgspec.structs.replace(entry, count=count)
            return
        self._repeated[place] = None
        self._num_lines[what] += 1
        self._write(entry)

    def flush(self) -> None:
        """Write what was counted."""
        repeated = [entry for entry in self._repeated.values() if entry is not None]
        self._repeated.clear()
        self._num_lines.clear()
        self._num_named.clear()
        for entry in repeated:
            self._write(entry)

    def close(self) -> None:
        """Write what was counted, and let go of the file."""
        self.flush()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write(self, entry: Entry) -> None:
        assert self._path is not None
        try:
            if self._file is None:
                self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.write(self._file, msgspec.json.encode(entry) + b"\n")
        except OSError as error:
            _log.error("%s cannot be written: %s", self._path, error.strerror)
