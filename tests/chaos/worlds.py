"""A world: one schedule played on virtual time, with a disk, crashes and resumes, and everything that is seen of it."""

import asyncio
import contextlib
import dataclasses
import errno
import math
import random
from collections import Counter
from pathlib import Path
from unittest import mock

from paceline import files, run
from paceline.axon.transports.links import Fault as Fate
from paceline.errors import ConfigError, PacelineError
from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.virtual import VirtualFleet
from paceline.report import RunFolder
from paceline.testing.disks import Crash, FaultyDisk
from tests.chaos.attacks import Attacker
from tests.chaos.jobs import make_job
from tests.chaos.small import write_points
from tests.chaos.watchers import make_watcher

AGES = 1e9  # seconds: later than any run
CRASHES = ("crash", "lose power")

_FATES = {"lose": (Fate.LOSE_REQUEST, Fate.LOSE_REPLY), "repeat": (Fate.REPEAT,), "delay": (Fate.DELAY,)}
_LEAST_SECONDS = 400.0  # that a run may take, besides what its rounds and faults do
_NO_VERSIONS = mock.patch("paceline.report.folder.read_versions", return_value={})  # asking git takes long


class Stalled(Exception):
    """The run takes longer than it can."""


class World:
    """One schedule, played.

    Attributes:
        failures: what should not have been, each as a line.
        counts: number of faults of each kind that took place.
        stalls: when the host stood still, and for how long; by its disk, or as if it was suspended.
    """

    def __init__(self, schedule, folder):
        self.schedule = schedule
        self.job = make_job(schedule, write_points(Path(folder) / "points.npz"))
        self.folder = Path(folder) / "run"
        self.failures = []
        self.counts = Counter()
        self.stalls = []
        self.watcher = make_watcher(self)
        self.attacker = Attacker(self)
        self.was_done = False  # when it was to go on after a crash
        self.has_stalled = False
        self.error = None
        self.num_crashes = 0
        self._started_at = 0.0
        self._pending = list(schedule.faults)
        self._gone = set()
        self._skews = {}
        self._fates = {}
        self._disk = None
        self._fleet = None
        self._tasks = set()

    def now(self):
        """Seconds of the run; those at which it started where no loop runs."""
        try:
            return self._started_at + asyncio.get_running_loop().time()
        except RuntimeError:
            return self._started_at

    def fail(self, what):
        """Note something that should not have been."""
        self.failures.append(f"at {self.now():.3f} s: {what}")

    def stalled_within(self, start, end):
        """Return for how long the host may have stood still in between."""
        return sum(seconds for at, seconds in self.stalls if start - seconds - 1e-9 <= at <= end + 1e-9)

    # Playing.

    def play(self):
        """Play the schedule to its end; returns itself."""
        with _NO_VERSIONS, self._on_disk():
            prepared = run.prepare(self.job, self.folder)
            self.can_resume = prepared.plan.topology.can_resume(self.job)
            self._leave_out_crashes()
            while prepared is not None:
                prepared = self._live(prepared)
        self._check()
        return self

    def _leave_out_crashes(self):
        if not self.can_resume:
            self._pending = [fault for fault in self._pending if fault.kind not in CRASHES]

    def _live(self, prepared):
        """Start a run, or go on with it; returns what it is to go on from after a crash, None if it is over."""
        self._started_at = prepared.started_at
        self._tasks.clear()
        self.watcher.watch(prepared)
        self._skew_clocks(prepared.plan)
        try:
            self.ended = prepared.start(VirtualFleet(list(self._devices()), script=self._script))
        except Crash:
            return self._after_crash()
        except Stalled as error:
            self.has_stalled = True
            self.fail(str(error))
        except PacelineError as error:
            self.error = error
        return None

    def _after_crash(self):
        self.num_crashes += 1
        if self._disk.loses_power:
            self._disk.lose_power()
        self._disk = _WorldDisk(self)
        files._disk = self._disk
        try:
            return run.reopen(self.folder)
        except ConfigError as error:
            # If the power is lost as a run begins, it begins anew: nothing was done that could be lost.
            is_new = "interrupted before it began" in str(error) and not self.watcher.num_closed
            self.was_done = "nothing to resume" in str(error) or is_new
            if not self.was_done:
                self.fail(f"the run cannot be resumed: {error}")
            return None

    @contextlib.contextmanager
    def _on_disk(self):
        self._disk = _WorldDisk(self)
        with files.written_to(self._disk):
            yield

    def _devices(self):
        for fields in self.schedule.devices:
            joins_at = max(0.0, fields.get("joins_at_seconds", 0.0) - self._started_at)
            joins_at = AGES if fields["name"] in self._gone else joins_at
            yield VirtualDevice(**{**fields, "joins_at_seconds": joins_at})

    def _skew_clocks(self, plan):
        """Have the clocks of devices go wrong: they tell the time of events by them, and peers number their lives."""
        make = plan.member

        def member(node, host):
            def now():
                return node.now() + self._skews.get(node.name, 0.0)

            life = node.life + round(1e6 * self._skews.get(node.name, 0.0))
            return make(dataclasses.replace(node, life=max(1, life), now=now), host)

        plan.member = member

    # Faults.

    async def _script(self, fleet):
        self._fleet = fleet
        self._fates.clear()
        self._skews.clear()
        for fault in list(self._pending):
            await asyncio.sleep(max(0.0, fault.at - self.now()))
            self._pending.remove(fault)
            self._begin(fault)
        await asyncio.sleep(max(0.0, self._latest() - self.now()))
        raise Stalled(f"the run is not over after {self.now():.0f} s")

    def _latest(self):
        faults = sum(fault.seconds for fault in self.schedule.faults if fault.seconds < math.inf)
        return _LEAST_SECONDS + 3 * faults + self.watcher.longest_seconds() * (1 + self.num_crashes)

    def _begin(self, fault):
        self.counts[fault.kind] += 1
        work = getattr(self, "_" + fault.kind.replace(" ", "_"))(fault)
        if work is not None:
            task = asyncio.ensure_future(work)
            self._tasks.add(task)

    def _kill(self, fault):
        if (
            self._fleet.kill(fault.on, None if fault.seconds == math.inf else fault.seconds)
            and fault.seconds == math.inf
        ):
            self._gone.add(fault.on)

    async def _cut(self, fault):
        link = self._fleet.link(fault.on)
        if link is not None:
            link.cut()
            await asyncio.sleep(fault.seconds)
            link.mend()

    async def _slow_link(self, fault):
        link = self._fleet.link(fault.on)
        if link is not None:
            link.bandwidth *= fault.amount
            await asyncio.sleep(fault.seconds)
            link.bandwidth /= fault.amount

    async def _with_fates(self, fault):
        """Have some of the requests over a link meet with something for a while."""
        link, rng = self._fleet.link(fault.on), random.Random(fault.seed)
        if link is None:
            return
        before = link.fate

        def fate(request):
            # The session that a newer one replaces is void, so one who joins does so once.
            may_be = fault.kind != "repeat" or not request.path.endswith("/join")
            if may_be and self.now() < fault.at + fault.seconds and rng.random() < fault.amount:
                return rng.choice(_FATES[fault.kind])
            return before(request)

        link.fate = fate

    _lose = _repeat = _delay = _with_fates

    def _jump(self, fault):
        self.stalls.append((self.now(), fault.seconds))
        asyncio.get_running_loop().jump(fault.seconds)

    async def _skew(self, fault):
        self._skews[fault.on] = fault.amount
        await asyncio.sleep(fault.seconds)
        self._skews.pop(fault.on, None)

    def _slow_disk(self, fault):
        self._disk.slow_until, self._disk.seconds_per_change = fault.at + fault.seconds, fault.amount

    def _full_disk(self, fault):
        self.stalls.append((self.now(), fault.seconds + 6.0))  # it is tried again every five seconds
        self._disk.full_until = fault.at + fault.seconds

    def _crash(self, fault):
        self._disk.crash_in = int(fault.amount)
        self._disk.loses_power = fault.kind == "lose power"

    _lose_power = _crash

    def _attack(self, fault):
        return self.attacker.attack(fault, self._fleet)

    # After the run.

    def record(self):
        """Read the events that are in the run folder."""
        return RunFolder.open(self.folder).events()

    def record_of_jobs(self):
        """Return the run folders of the jobs of a pool, by name."""
        return RunFolder.open(self.folder).jobs()

    def _check(self):
        if self.error is not None:
            self.watcher.check_error(self.error)
        for task in self._tasks:
            error = task.exception() if task.done() and not task.cancelled() else None
            if error is not None and not isinstance(error, Crash):
                raise error
        self.watcher.check(list(self.record()))


class _WorldDisk(FaultyDisk):
    """The disk of a world, which is slow or full for a while, or on which the process ends."""

    def __init__(self, world):
        super().__init__(self._decide, random.Random(world.schedule.seed))
        self._world = world
        self.full_until = self.slow_until = 0.0
        self.seconds_per_change = 0.0
        self.crash_in = None
        self.loses_power = False

    def _decide(self, change):
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # before and after the run
            return None
        world, now = self._world, self._world.now()
        if now < self.slow_until:
            world.stalls.append((now, self.seconds_per_change))
            loop.jump(self.seconds_per_change)
        if self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in <= 0:
                return Crash
        return errno.ENOSPC if now < self.full_until else None
