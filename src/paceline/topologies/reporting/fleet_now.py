"""What each device does at this moment, in the round or epoch that it is in: the table behind a page's fleet."""

from __future__ import annotations

from collections.abc import Collection

from paceline.topologies.reporting.sections import Fleet
from paceline.topologies.reporting.tables import Column, Table, Value, columns

NOW = "now"
"""Name of the table."""

LATE, MISSING, GONE, REFUSED = "late", "missing", "gone", "refused"
"""States that are trouble."""

DONE, HALTED, NEW, BACK, IDLE, WAITING = "done", "halted in time", "new", "back", "idle", "waiting"
THERE = "there"
"""State of a device that others see, and that reports nothing of itself."""
_WAIT = "wait"
_DOING = {"download": "downloading", "train": "training", "upload": "uploading", "benchmark": "measuring itself"}
_REMEMBERED = 0.5  # of a device's pace so far, when a round shows another

_COLUMNS = columns(
    *("learner text device", "job text", "round count", "opened seconds opened at", "doing text", "since seconds"),
    *("deadline_seconds seconds deadline", "expected seconds expected after", "arrival seconds arrived after"),
    *("state text", "amount count", "num_samples count samples"),
)


class _Device:
    """One device; seconds count from the opening of its round."""

    def __init__(self, name: str) -> None:
        self.learner = name
        self.state = NEW
        self.pace: float | None = None  # seconds per unit of work, from when it was taken to the update
        self.reports_phases = False
        self.begin(0, 0.0, None, "")
        self.doing: str | None = None

    def begin(self, number: int, opened: float, deadline: float | None, job: str) -> None:
        """Have it wait for the work of a round."""
        self.round, self.opened, self.deadline_seconds, self.job = number, opened, deadline, job
        self.doing, self.since = _WAIT, 0.0
        self.spent: dict[str, float] = {}
        self.amount: int | None = None
        self.num_samples: int | None = None
        self.taken_after = 0.0
        self.expected: float | None = None
        self.arrival: float | None = None

    def stop(self, seconds: float) -> None:
        """End what it does, so long after its round opened."""
        if self.doing is not None:
            self.spent[self.doing] = self.spent.get(self.doing, 0.0) + max(seconds - self.since, 0.0)
        self.doing, self.since = None, max(seconds, 0.0)

    @property
    def is_there(self) -> bool:
        """Whether it can be expected to take work."""
        return self.state not in (MISSING, GONE)


class FleetNow:
    """Follows the devices of a run by what its events say.

    Args:
        parts: what devices do one after the other, in the order in which it is drawn.
        titles: of columns, where runs of this topology call it otherwise.
    """

    def __init__(self, parts: tuple[str, ...], **titles: str) -> None:
        self._parts = (_WAIT, *parts)
        self._columns = tuple(Column(one.name, titles.get(one.name, one.title), one.kind) for one in _COLUMNS)
        self._devices: dict[str, _Device] = {}

    def join(self, name: str, state: str = NEW) -> None:
        """Take note of a device that came, or came back; the state is that of one that is new here."""
        is_known, device = name in self._devices, self._device(name)
        if not is_known:
            device.state = state
        elif not device.is_there:
            device.state = BACK

    def leave(self, name: str, at: float) -> None:
        """Take note of a device that is not there any more."""
        device = self._device(name)
        device.stop(at - device.opened)
        device.state = GONE

    def open(
        self, number: int, at: float, deadline: float, job: str = "", names: Collection[str] | None = None
    ) -> None:
        """Have devices wait for the work of a round: those named, or all that are there."""
        for device in self._devices.values():
            if device.is_there and (names is None or device.learner in names):
                device.begin(number, at, deadline, job)
                device.state = WAITING

    def take(self, name: str, number: int, at: float, seconds: float, amount: int, job: str = "") -> None:
        """Have a device take so much work, so many seconds after its round opened."""
        device = self._device(name)
        if (device.round, device.job) != (number, job):
            device.begin(number, at - seconds, device.deadline_seconds, job)
        device.amount, device.taken_after = amount, seconds
        device.expected = None if device.pace is None else seconds + device.pace * amount
        if not device.reports_phases:
            self._turn(device, "working", seconds)

    def add(self, name: str, number: int, amount: int) -> None:
        """Have a device take more work in its round."""
        device = self._device(name)
        if device.round == number:
            device.amount = (device.amount or 0) + amount
            device.expected = None if device.pace is None else device.taken_after + device.pace * device.amount

    def turn(self, name: str, phase: str, number: int, at: float) -> None:
        """Have a device do something else; in a round that nobody has opened, its own begins now."""
        device = self._device(name)
        device.reports_phases = True
        if number > device.round:
            device.begin(number, at, None, "")
        self._turn(device, phase, at - device.opened)

    def arrive(self, name: str, number: int, seconds: float, num_samples: int | None, state: str = DONE) -> None:
        """Take note of what a device has done, so many seconds after its round opened."""
        device = self._device(name)
        if device.round != number:
            return
        device.stop(seconds)
        device.arrival, device.num_samples, device.state = seconds, num_samples, state
        if device.amount:
            pace = max(seconds - device.taken_after, 0.0) / device.amount
            device.pace = pace if device.pace is None else _REMEMBERED * device.pace + (1 - _REMEMBERED) * pace

    def mark(self, name: str, number: int, state: str) -> None:
        """Say how a device stands in a round."""
        device = self._device(name)
        if device.round == number:
            device.state = state

    def close(self, number: int, at: float, missing: Collection[str] = (), job: str = "") -> None:
        """End a round, to which the work of some did not come."""
        for device in self._devices.values():
            if (device.round, device.job) != (number, job):
                continue
            device.stop(at - device.opened)
            if device.learner in missing and device.arrival is None and device.is_there:
                device.state = MISSING
            elif device.state == WAITING:
                device.state = IDLE

    def table(self) -> Table:
        """Make the table, a row per device in the order in which they came."""
        parts = columns(*(f"{part} seconds" for part in self._parts))
        rows: list[tuple[Value, ...]] = [
            (
                *(getattr(device, column.name) for column in self._columns),
                *(device.spent.get(part, 0.0) for part in self._parts),
            )
            for device in self._devices.values()
        ]
        return Table(NOW, (*self._columns, *parts), rows)

    def _device(self, name: str) -> _Device:
        if name not in self._devices:
            self._devices[name] = _Device(name)
        return self._devices[name]

    def _turn(self, device: _Device, phase: str, seconds: float) -> None:
        device.stop(seconds)
        if device.arrival is not None:
            return
        device.doing = phase if phase in self._parts else _WAIT
        if device.is_there and device.state not in (LATE, REFUSED):
            device.state = _DOING.get(phase, phase if phase in self._parts else WAITING)


def fleet_section(now: Table, *, has_deadline: bool = False, has_jobs: bool = False) -> Fleet:
    """Show the devices, first of all on a page."""
    caption = "Good lanes are as long as each other, and mostly training; trouble comes first."
    if has_deadline:
        caption = "A good lane ends just before the deadline, where its mark had it; trouble comes first."
    return Fleet(
        title="The fleet now",
        table=now.name,
        caption=caption,
        row="learner",
        opened="opened",
        parts=tuple(column.name for column in now.columns[len(_COLUMNS) :]),
        doing="doing",
        since="since",
        state="state",
        deadline="deadline_seconds" if has_deadline else None,
        expected="expected" if has_deadline else None,
        arrival="arrival",
        bad=(LATE, MISSING, GONE, REFUSED),
        counts=(*(("job",) if has_jobs else ()), "round", *(("amount",) if has_deadline else ()), "num_samples"),
    )
