"""Tables and sections as plain data, and how values are written."""

import msgspec
import pytest

from paceline.topologies.reporting.base import Summary
from paceline.topologies.reporting.energy_and_bytes import Usage, usage_table
from paceline.topologies.reporting.formatting import format_count, format_names, format_value, printable
from paceline.topologies.reporting.sections import AnySection, Gantt, Line, TableSection, Tile, Tiles
from paceline.topologies.reporting.shared import Happenings, summary_table
from paceline.topologies.reporting.tables import Column, Table, columns

COLUMNS = columns("learner text", "rate number trains [samples/s]", "num_late count late", "is_there bool")


def test_columns_are_made_of_words():
    assert COLUMNS[1] == Column("rate", "trains", "number", "samples/s")
    assert COLUMNS[3] == Column("is_there", "is there", "bool")
    with pytest.raises(msgspec.ValidationError, match="Invalid enum value 'lunch'"):
        columns("at lunch")


def test_a_table_as_csv_and_json():
    table = Table("devices", COLUMNS, [("pi, the first", 1.5, 0, True), ("", None, -2, False)])
    assert table.to_csv() == 'learner,rate,num_late,is_there\n"pi, the first",1.5,0,True\n,,-2,False\n'
    assert msgspec.json.decode(msgspec.json.encode(table), type=Table) == table
    assert table.values("num_late") == [0, -2]
    assert table.records()[0] == {"learner": "pi, the first", "rate": 1.5, "num_late": 0, "is_there": True}


def test_sections_survive_json_and_know_their_columns():
    line = Line(title="t", table="rounds", x="round", y=("loss", "accuracy"), details=("late",))
    gantt = Gantt(title="t", table="lanes", row="learner", start="a", end="b", looks={"there": "back"})
    tiles = Tiles(title="t", table="summary", tiles=(Tile("loss", "low"),))
    for section in (line, gantt, tiles, TableSection(title="t", table="rounds")):
        assert msgspec.json.decode(msgspec.json.encode(section), type=AnySection) == section
    assert line.used_columns() == {"round", "loss", "accuracy", "late"}
    assert gantt.used_columns() == {"learner", "a", "b"}
    assert tiles.used_columns() == {"loss"}


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        *(("seconds", 0.0421, "0.042 s"), ("seconds", 1.25, "1.25 s"), ("seconds", 83.14, "83.1 s")),
        *(("seconds", 725, "12 min 5 s"), ("seconds", 12_000, "3 h 20 min")),
        *(("ratio", 0.875, "87.5 %"), ("ratio", -0.0001, "0.0 %"), ("ratio", -0.021, "−2.1 %")),
        *(("lateness", -0.03, "3.0 % early"), ("lateness", 0.0004, "on time"), ("lateness", 0.021, "2.1 % late")),
        *(("bytes", 812, "812 B"), ("bytes", 1_250_000, "1.25 MB"), ("bytes", 999.7, "1 kB")),
        *(("joules", 3600, "1 Wh"), ("grams", 0.00812, "8.12 mg"), ("money", 1234.5, "1,234.50")),
        *(("count", 12340, "12,340"), ("number", 0.51083, "0.5108"), ("number", 12345.6, "12,346")),
        *(("bool", True, "yes"), ("text", "a\x1bb", "a\\x1bb"), ("seconds", None, "–")),
    ],
)
def test_values_are_written_by_their_kind(kind, value, text):
    assert format_value(value, Column("one", "one", kind)) == text


def test_units_counts_and_names():
    assert format_value(12_300_000, Column("down", "down", "bytes", "/s")) == "12.3 MB/s"
    assert format_value(120.0, COLUMNS[1]) == "120 samples/s"
    assert (format_count(1, "learner"), format_count(12_340, "sample")) == ("1 learner", "12,340 samples")
    assert format_names("abcdefg") == "a, b, c, d, e and 2 more"
    assert printable("tab\there \u202e") == "tab\\there \\u202e"


def test_usage_is_summed_as_far_as_it_is_known():
    parts = [Usage(bytes_sent=5, joules=3_600_000.0), Usage(bytes_sent=7), Usage()]
    assert Usage.total(parts) == Usage(bytes_sent=12, joules=3_600_000.0)
    powers = {"a": {"source": "model", "busy_watts": 0.9, "idle_watts": 0.0}, "b": {"source": "codecarbon"}, "c": {}}
    table = usage_table(dict(zip("abc", parts, strict=True)), powers, grams_per_kwh=100)
    assert table.rows[0] == ("a", 5, None, None, 3_600_000.0, 100.0, "0.9 W per busy core")
    assert [row[-1] for row in table.rows] == ["0.9 W per busy core", "CodeCarbon", None]


def test_a_summary_has_figures_as_attributes_and_by_name():
    usage = Usage(joules=1.0).figures(243.0)
    summary = Summary(
        [summary_table({"about text": "x"}, {"accuracy": 0.5, "mae": 3.0}, usage), Table("rounds", COLUMNS)]
    )
    assert (summary.accuracy, summary["accuracy"], summary.joules) == (0.5, 0.5, 1.0)
    assert summary.metrics == {"accuracy": 0.5, "mae": 3.0}
    assert [column.kind for column in summary.tables["summary"].metrics] == ["ratio", "number"]
    assert "loss" not in summary
    assert list(summary.tables) == ["summary", "rounds"]
    with pytest.raises(AttributeError, match="a summary has no 'lunch'; it has about, accuracy, mae, bytes_sent"):
        _ = summary.lunch


def test_very_many_joins_are_counted_and_the_same_line_is_not_repeated():
    happenings = Happenings()
    for number in range(150):
        happenings.add(number, f"d{number} joined")
    for at, line in ((200, "waiting"), (201, "waiting"), (202, None), (203, "d1 left")):
        happenings.add(at, line)
    rows = happenings.table().rows
    assert len(rows) == 100 + 2 + 1
    assert rows[-3:] == [(200, "waiting"), (203, "d1 left"), (203, "50 more joined meanwhile")]
