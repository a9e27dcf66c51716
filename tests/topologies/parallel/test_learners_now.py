"""What learners do now: after any event, their row says how they stand."""

import pytest

from paceline.topologies.parallel.events import RoundClosed, RoundOpened, UpdateRefused
from paceline.topologies.parallel.learners_now import LearnersNow, notices_on
from tests.report.synthetic import run_events


def rows_when(is_reached):
    """Rows by name, after the first event that is so."""
    now = LearnersNow()
    for event in run_events():
        now.feed(event)
        if is_reached(event):
            break
    return {row["learner"]: row for row in now.table().records()}


def at_close_of(number):
    return rows_when(lambda event: isinstance(event, RoundClosed) and event.round == number)


def test_a_round_begins_with_waiting_for_work():
    rows = rows_when(lambda event: isinstance(event, RoundOpened) and event.round == 2)
    assert {row["state"] for name, row in rows.items() if name != "guest"} == {"waiting"}
    assert all((row["doing"], row["since"], row["round"]) == ("wait", 0.0, 2) for row in rows.values())
    assert all(row["arrival"] is row["amount"] is None for row in rows.values())


def test_lanes_are_made_of_what_was_done_one_after_the_other():
    row = at_close_of(2)["jetson"]
    parts = [row[part] for part in ("wait", "benchmark", "download", "train", "upload", "working")]
    assert parts[1] == parts[5] == 0.0
    assert sum(parts) == pytest.approx(row["arrival"], abs=1e-6)
    assert (row["state"], row["doing"]) == ("done", None)
    assert row["arrival"] < row["deadline_seconds"] == 1.0


def test_who_is_late_missing_or_refused_is_in_trouble():
    assert at_close_of(7)["pi-zero"]["state"] == "missing"
    assert rows_when(lambda event: isinstance(event, UpdateRefused) and event.is_late)["pi-zero"]["state"] == "late"
    assert at_close_of(3)["guest"]["state"] == "refused"
    assert at_close_of(6)["pi-4"]["state"] == "missing"
    later = at_close_of(8)["pi-4"]
    assert (later["state"], later["round"]) == ("gone", 6)  # its lane stays that of its last round


def test_an_update_is_expected_by_the_pace_so_far():
    rows = at_close_of(5)
    for name in ("jetson", "laptop"):
        assert rows[name]["expected"] == pytest.approx(rows[name]["arrival"], rel=0.1)
    assert at_close_of(1)["jetson"]["expected"] is None


def test_who_keeps_phases_back_is_working_and_that_is_said():
    now = LearnersNow()
    for event in run_events():
        now.feed(event)
    row = next(row for row in now.table().records() if row["learner"] == "guest")
    assert row["working"] == pytest.approx(row["arrival"] - row["wait"])
    assert len(notices_on(now.table())) == 1
