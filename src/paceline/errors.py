"""Every error that Paceline raises on purpose, as one tree.

    PacelineError
    ├── ConfigError               a setting, file or argument that a user can mend
    │   └── NothingToResume       a run that is to go on is over
    ├── DivergedError             training led to NaN, infinity or an exploding loss
    ├── DiskError                 a file of a run cannot be written: no space, no permission, a broken disk
    ├── OutOfMemory               training took more memory than the device has, or gives (also a built-in MemoryError)
    ├── WireError                 a value that cannot be sent, or bytes that are not a valid frame
    ├── TransportError            the call did not get through, or its answer did not come back
    │   ├── Unreachable           nobody answers at that address; nothing was run
    │   │   └── TlsFailed         another certificate than expected, or only one side speaks TLS; trying again is no use
    │   ├── TimedOut              no answer in time (also a built-in TimeoutError)
    │   ├── ConnectionLost        the connection or the worker died while the call was under way
    │   ├── Refused               the worker answered, and said no: token, unknown rpc, too large
    │   │   └── Busy              it has no room for one more now; nothing was run, and trying again later may help
    │   └── BadReply              an answer came that is not one a worker gives
    ├── TurnedAway                a device took part, and is not let in again: it was revoked, say
    └── RemoteError               the far function itself raised

A message says what failed, where, with which value, and what to try. Errors of libraries are translated
where the library is called.
"""

from __future__ import annotations

_MAX_REASON = 300  # characters of a foreign error that are quoted
_MAX_LINE = 1000


def one_line(text: str) -> str:
    """Return text of any origin on one line, without control characters; very long text is cut."""
    shown = "".join(character if character.isprintable() else " " for character in text[: 2 * _MAX_LINE])
    line = " ".join(shown.split())
    return line if len(line) <= _MAX_LINE and len(text) <= 2 * _MAX_LINE else f"{line[:_MAX_LINE]}…"


def in_one_line(error: BaseException, *, is_named: bool = False) -> str:
    """Quote a foreign error in one line, its class first if `is_named`, cut to a few hundred characters."""
    name, text = type(error).__name__, " ".join(str(error).split())
    return (f"{name}: {text}" if is_named else text or name)[:_MAX_REASON]


class PacelineError(Exception):
    """Base of all errors below; catching it catches whatever Paceline raises on purpose."""


class ConfigError(PacelineError):
    """A setting, file or argument is wrong; the message names it, its value and what is allowed."""


class NothingToResume(ConfigError):
    """A run that is to go on is over; the message says why."""


class DivergedError(PacelineError):
    """Training diverged; the message names where, on which devices, and what to try."""


class DiskError(PacelineError):
    """A file cannot be written; the message names it, and why."""


class OutOfMemory(PacelineError, MemoryError):
    """Training took more memory than the device has, or gives; the message says what to try."""


class WireError(PacelineError):
    """A value cannot be put on the wire, or bytes from the network are not a valid frame."""


class TransportError(PacelineError):
    """A call did not get through, or its answer did not come back."""


class Unreachable(TransportError):
    """No connection could be made; the far function was not run."""


class TlsFailed(Unreachable):
    """The far certificate is not the expected one, or only one side speaks TLS; trying again does not help."""


class TimedOut(TransportError, TimeoutError):
    """The answer did not come in time; the far call is cancelled where it can be."""


class ConnectionLost(TransportError):
    """The connection, or the worker behind it, died while the call was under way."""


class Refused(TransportError):
    """The worker answered and said no.

    Attributes:
        status: the HTTP status, e.g. 401 for a wrong token, 404 for an unknown rpc, 413 for a body too large.
    """

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class Busy(Refused):
    """The worker has no room for this caller now, and ran nothing; asking again later may help.

    Attributes:
        retry_after_seconds: how long it asks to be left alone.
    """

    def __init__(self, message: str, *, status: int, retry_after_seconds: float) -> None:
        super().__init__(message, status=status)
        self.retry_after_seconds = retry_after_seconds


class BadReply(TransportError):
    """The far side answered something that no worker of this version answers."""


class TurnedAway(PacelineError):
    """A device took part, and is not let in again; the message says why."""


class RemoteError(PacelineError):
    """The far function raised.

    Attributes:
        type_name: the class of the far exception, e.g. ``"ValueError"``.
        remote_message: its text.
        device: the name of the worker that raised it.
        remote_traceback: the far traceback as text, empty if the worker hides it.
    """

    def __init__(self, type_name: str, remote_message: str, *, device: str, remote_traceback: str = "") -> None:
        super().__init__(f"{type_name} on {device}: {remote_message}")
        self.type_name = type_name
        self.remote_message = remote_message
        self.device = device
        self.remote_traceback = remote_traceback
