"""Tables: headings that belong to their columns, and sense made of whatever a device told."""

from paceline.monitor import summarise
from paceline.monitor.figures import Happening
from paceline.monitor.page.tables import MAX_HAPPENINGS, Column, happenings_table, profiles_table, settings_table, table
from paceline.topologies.events import LearnerJoined, LearnerLeft
from tests.monitor.page.reading import read_page, rows_of
from tests.monitor.synthetic import run_events


def test_cells_have_headings():
    page = read_page(table("Caption", [Column("name", is_number=False), Column("value")], [["a<b", "1"], ["c", None]]))
    assert page.one("caption").text == "Caption"
    assert rows_of(page.one("table")) == [["name", "value"], ["a<b", "1"], ["c", ""]]
    assert [head.attributes["scope"] for head in page.all("th")] == ["col", "col", "row", "row"]
    assert page.one("div").attributes["tabindex"] == "0"


def test_settings_are_dotted():
    page = read_page(settings_table("Job", {"job": {"rounds": 3, "deep": {"x": None}}, "names": ["a"], "empty": {}}))
    assert rows_of(page.one("table"))[1:] == [
        *(["job.rounds", "3"], ["job.deep.x", "null"], ["names", '["a"]'], ["empty", "{}"])
    ]


def test_a_profile_may_hold_anything():
    (learner, *_) = summarise(run_events()).learners
    strange = [{"train": None, "down": 3, "up": {"per_second": "fast"}}, {"latency_seconds": "?"}]
    for profile in strange:
        page = read_page(profiles_table([type(learner)(**{**_fields(learner), "profile": profile})], "Profiles"))
        assert rows_of(page.one("table"))[1][2:] == ["–", "–", "–", "–"]


def _fields(struct):
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


def test_a_profile_in_units():
    page = read_page(
        profiles_table([one for one in summarise(run_events()).learners if one.name == "laptop"], "Profiles")
    )
    (row,) = rows_of(page.one("table"))[1:]
    assert row[2].startswith("2,048 samples/s ± ")
    assert row[3:] == ["16.00 MB/s ± 4 %", "7.68 MB/s ± 5 %", "4.0 ms"]


def test_of_very_many_happenings_joins_are_left_out_first():
    joins = [LearnerJoined(at=float(index), learner=f"d{index}") for index in range(1000)]
    left = LearnerLeft(at=2000.0, learner="d5", reason="goodbye")
    page = read_page(happenings_table([Happening(event=event) for event in (*joins, left)], "What happened"))
    rows = rows_of(page.one("table"))[1:]
    assert len(rows) == MAX_HAPPENINGS
    assert rows[-1][1] == "d5 left: goodbye"
    assert "701 more lines in events.jsonl" in page.one("caption").text
