"""Runs on disks that fail: full for a while or for good, broken, and cut off between any two writes."""

import asyncio
import errno
import gc
import random
import re

import pytest

from paceline import files, run
from paceline.errors import ConfigError, DiskError
from paceline.events import to_line
from paceline.fleets import virtual_loop
from paceline.fleets.virtual import VirtualFleet
from paceline.report import RunFolder
from paceline.testing.disks import Crash, FaultyDisk
from paceline.topologies.events import LearnerLeft
from paceline.topologies.parallel.events import RunEnded, SavingFailed
from tests.topologies.parallel.runs import closed, device, of, small_job

JOB = small_job(rounds=4, aggregation="fedavgm")


def fleet():
    return VirtualFleet([device("a", max_shards=2)])


def play(folder, disk, **options):
    """Run the job on a disk; returns the run and its events as they were seen."""
    events = []
    with files.written_to(disk):
        return run.train(JOB, fleet(), folder=folder, callbacks=[events.append], progress=False, **options), events


@pytest.fixture(autouse=True)
def no_garbage():
    """What is left of a crash is looked at here, not in the middle of another test."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run when nothing happens, its record, and how often it writes."""
    disk, folder = FaultyDisk(), tmp_path_factory.mktemp("whole") / "run"
    ended, _ = play(folder, disk)
    return ended, disk.changes


def rows(folder):
    return (folder / "metrics.csv").read_text()


def assert_same(ended, whole):
    assert all(ended.state[name].equal(tensor) for name, tensor in whole.state.items())
    assert ended.metrics == whole.metrics


def full_from(first, last):
    """A disk without space for so many changes."""
    return FaultyDisk(lambda change: errno.ENOSPC if first <= change.number <= last else None, random.Random(first))


@pytest.mark.parametrize("first", [16, 30, 37, 41, 42, 44, 60])
def test_a_disk_that_is_full_for_a_while_loses_nothing(first, whole, tmp_path):
    ended, events = play(tmp_path / "run", full_from(first, first + 12))
    assert_same(ended, whole[0])
    recorded = list(RunFolder.open(ended.folder).events())
    assert list(map(to_line, recorded)) == list(map(to_line, events))
    assert [event.round for event in closed(recorded)] == [1, 2, 3, 4]
    if not of(SavingFailed, events):
        assert rows(ended.folder) == rows(whole[0].folder)


@pytest.mark.parametrize(
    ("kind", "number"), [("append", errno.ENOSPC), ("fill", errno.EMFILE), ("sync", errno.EIO), ("rename", errno.EROFS)]
)
def test_a_disk_that_fails_for_good_ends_the_run_and_says_so(kind, number, whole, tmp_path):
    seen = []
    is_broken = []

    def fault(change):
        return number if is_broken and change.kind == kind else None

    def watch(event):
        seen.append(event)
        if of(type(event), closed([event])) and event.round == 2:
            is_broken.append(True)

    with files.written_to(FaultyDisk(fault)), pytest.raises(DiskError, match=r"run/.* cannot be written: \w"):
        run.train(JOB, fleet(), folder=tmp_path / "run", callbacks=[watch], progress=False)
    assert [event.reason for event in of(RunEnded, seen)] == ["not saved"]
    (failed,) = of(SavingFailed, seen)
    assert (failed.round, failed.patience_seconds) == (3, 60.0)
    assert of(RunEnded, seen)[0].at - failed.at >= 60.0
    assert not of(LearnerLeft, seen)  # it was told, and ended by itself
    ended = run.resume(tmp_path / "run", fleet(), progress=False)
    assert_same(ended, whole[0])
    assert [event.round for event in closed(RunFolder.open(ended.folder).events())] == [1, 2, 3, 4]


def test_a_record_that_cannot_be_written_for_long_ends_runs_without_checkpoints_of_rounds(tmp_path):
    folder = RunFolder.create(tmp_path, "run", JOB.described())
    event = LearnerLeft(at=0.0, learner="a", reason="it said goodbye")

    async def fail():
        for at in (0.0, 1e6, 30.0):  # one of them is of a clock that is wrong
            folder.record(LearnerLeft(at=at, learner="a", reason="it said goodbye"))
            assert not folder.has_failed
            await asyncio.sleep(30.0)
        await asyncio.sleep(0.1)  # 90.1 s after the first
        folder.record(event)
        assert folder.has_failed

    with files.written_to(FaultyDisk({"append": errno.ENOSPC})):
        virtual_loop.run(fail())
    folder.record(event)
    with pytest.raises(DiskError, match=r"the record is not complete: .*events.jsonl cannot be written: No space left"):
        folder.close()
    assert len(list(folder.events())) == 4  # what waited is written, what came later is not after a gap


def test_events_are_written_anew_after_a_sync_that_failed(tmp_path):
    """A system drops what it could not write, and the next sync succeeds without it."""
    with RunFolder.create(tmp_path, "run", JOB.described()) as folder:
        folder.record(LearnerLeft(at=0.0, learner="a", reason="it said goodbye"))
        with files.written_to(FaultyDisk({"sync": errno.EIO})), pytest.raises(DiskError, match="Input/output error"):
            folder.sync()
        disk = FaultyDisk()
        with files.written_to(disk):
            folder.sync()
            folder.record(LearnerLeft(at=1.0, learner="a", reason="it said goodbye"))
        kinds = [(change.kind, change.path.name) for change in disk.changes]
        assert ("rename", "events.jsonl") in kinds
        assert kinds[-1] == ("append", "events.jsonl")
    assert [event.at for event in folder.events()] == [0.0, 1.0]


def test_what_waits_for_a_disk_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("paceline.report.recording.MAX_WAITING_BYTES", 1000)
    folder = RunFolder.create(tmp_path, "run", JOB.described())
    with files.written_to(FaultyDisk({"append": errno.ENOSPC})):
        for _ in range(20):
            folder.record(LearnerLeft(at=0.0, learner="a", reason="it said goodbye"))
    assert folder.has_failed
    assert sum(file.num_waiting_bytes for file in folder._recorder._files) < 1200
    with pytest.raises(DiskError):
        folder.close()


def crash_at(number, folder, whole, *, loses_power):
    """End the process at a change, and go on; returns the round after which it does, None if nothing had begun."""
    disk = FaultyDisk(lambda change: Crash if change.number == number else None, random.Random(number))
    with pytest.raises(Crash):
        play(folder, disk)
    assert len(disk.changes) == number
    if loses_power:
        disk.lose_power()
    refusals = []
    try:
        prepared = run.reopen(folder)
    except ConfigError as error:
        refusals.append(str(error))
    if refusals:
        (found,) = re.findall("rounds are done|is not a run folder|no such folder", refusals[0])
        return JOB.rounds if "done" in found else None
    ended = prepared.start(fleet())
    assert_same(ended, whole)
    recorded = closed(RunFolder.open(folder).events())
    assert [event.round for event in recorded] == [1, 2, 3, 4]
    assert [event.at for event in recorded] == sorted(event.at for event in recorded)
    assert not prepared.lost
    assert len(rows(folder).splitlines()) == 5
    return prepared.plan.first_round - 1


def crash_everywhere(numbers, tmp_path, whole):
    after = {}
    for number in numbers:
        for loses_power in (False, True):
            name = f"{number}-{loses_power}"
            after[number] = crash_at(number, tmp_path / name, whole[0], loses_power=loses_power)
            closings = [change.number for change in whole[1] if change.path.name == "metrics.csv"][2:]
            num_recorded = sum(closing < number for closing in closings)
            # What was recorded as closed is never lost; of what was not, at most the round that was open.
            assert after[number] is None or num_recorded <= after[number] <= num_recorded + 1
    return after


def test_a_process_that_ends_between_two_writes_goes_on(whole, tmp_path):
    after = crash_everywhere(range(9, len(whole[1]) + 1, 16), tmp_path, whole)
    assert set(after.values()) == {None, 0, 1, 2, 3, 4}


@pytest.mark.long
def test_a_process_that_ends_between_any_two_writes_goes_on(whole, tmp_path):
    crash_everywhere(range(1, len(whole[1]) + 1), tmp_path, whole)
