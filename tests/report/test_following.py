"""A run whose record is read while it grows: what is shown is what a report of the same events shows."""

import fcntl
import os

import msgspec
import pytest

from paceline.errors import ConfigError
from paceline.report.changes import changes
from paceline.report.content import make_content
from paceline.report.folder import RunFolder
from paceline.report.following import FollowedRun
from paceline.topologies.parallel.tables import MAX_SHOWN
from tests.report.synthetic import JOB, FakeLearner, run_events
from tests.report.synthetic_pool import record_pool


@pytest.fixture
def recorder(tmp_path):
    with RunFolder.create(tmp_path, "digits", JOB) as folder:
        yield folder


def test_what_is_read_piece_by_piece_is_what_is_read_at_once(recorder):
    run, events = FollowedRun(recorder.path), run_events()
    for number, event in enumerate(events):
        recorder.record(event)
        if number % 7 == 0:
            assert run.read()
            run.content()
    run.read()
    assert not run.read()
    whole = FollowedRun(recorder.path)
    whole.read()
    assert run.content() == whole.content()
    assert run.content().ended == "rounds done"


def test_a_line_is_read_once_it_is_whole(recorder):
    event, *_ = run_events()
    recorder.record(event)
    line = recorder.events_file.read_bytes()
    recorder.events_file.write_bytes(line[:20])
    run = FollowedRun(recorder.path)
    assert not run.read()
    recorder.events_file.write_bytes(line)
    assert run.read()


def test_a_run_that_begins_anew_is_read_anew(recorder):
    events = run_events()
    for event in events:
        recorder.record(event)
    run = FollowedRun(recorder.path)
    run.read()
    recorder.reopen(events[:40])
    assert run.read()
    again = FollowedRun(recorder.path)
    again.read()
    assert run.content() == again.content()
    assert run.content().ended is None


def test_the_state_is_that_of_the_process_that_records(recorder):
    for event in run_events()[:40]:
        recorder.record(event)
    run = FollowedRun(recorder.path)
    run.read()
    assert run.content().state == "running"
    recorder.close()
    assert run.content().state == "interrupted"
    with recorder.events_file.with_name("job.json").open("rb") as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)  # another page asks at this moment
        os.close(os.dup(asking.fileno()))
        assert run.content().state == "interrupted"


def test_the_clock_of_a_live_run_goes_on_after_its_last_event(recorder):
    started, *others = run_events()[:40]
    for event in (msgspec.structs.replace(started, clock="live"), *others):
        recorder.record(event)
    run = FollowedRun(recorder.path)
    run.read()
    stat = recorder.events_file.stat()
    os.utime(recorder.events_file, (stat.st_atime, stat.st_mtime - 60))
    content, last_at = run.content(), others[-1].at
    assert content.clock == "real"
    assert last_at + 60 <= content.at < last_at + 120


def test_a_damaged_line_is_named_as_long_as_it_is_there(recorder):
    recorder.record(run_events()[0])
    whole = recorder.events_file.read_bytes()
    with recorder.events_file.open("ab") as file:
        file.write(b"{}\n")
    run = FollowedRun(recorder.path)
    for _ in range(3):
        with pytest.raises(ConfigError, match=r"events.jsonl, line 2 is not an event"):
            run.read()
    recorder.events_file.write_bytes(whole)
    assert run.read()
    assert not run.read()


def test_the_fleet_alone_is_quick_and_the_same(recorder):
    run = FollowedRun(recorder.path)
    for event in run_events()[:60]:
        recorder.record(event)
    run.read()
    before = run.content()
    for event in run_events()[60:70]:
        recorder.record(event)
    run.read()
    moved, whole = run.moved(before), run.content()
    assert moved.tables["now"] == whole.tables["now"] != before.tables["now"]
    assert moved.tables["rounds"] == before.tables["rounds"]
    assert changes(before, moved)["tables"].keys() == {"now"}


def test_what_is_forgotten_of_a_large_fleet_is_not_missed(recorder):
    fleet = [FakeLearner(name=f"d{number}", shards_per_second=5 + number % 40) for number in range(MAX_SHOWN + 20)]
    for event in run_events(fleet, rounds=12):
        recorder.record(event)
    run = FollowedRun(recorder.path)
    run.read()
    page, reporting = run.content(), recorder.reporting
    whole = make_content(page.name, reporting, recorder.summary(), {}, "ended")
    assert {name: page.tables[name] for name in whole.tables} == whole.tables
    num_kept = sum(row["learner"] == "d59" for row in run.summary().tables["work"].records())
    assert num_kept < sum(row["learner"] == "d59" for row in recorder.summary().tables["work"].records()) == 12


def test_jobs_of_a_pool_are_read_with_it(tmp_path):
    folder = record_pool(tmp_path)
    run = FollowedRun(folder.path)
    run.read()
    content = run.content()
    assert len(content.tables["jobs"].rows) == 3
    assert content.state == "ended"


def test_devices_that_keep_their_phases_are_named(recorder):
    assert any(event.__struct_config__.tag == "phase_started" for event in run_events())
    for event in run_events([FakeLearner(name="d1", shards_per_second=9)], rounds=3):
        if event.__struct_config__.tag not in ("phase_started", "round_spent", "run_ended"):
            recorder.record(event)
    run = FollowedRun(recorder.path)
    run.read()
    (notice,) = run.content().notices
    assert notice.startswith("Devices keep to themselves when they download")
