"""Changes of contents: applied to the old one, as browsers do, they make the new one."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.report.changes import changes
from paceline.report.content import PageContent
from paceline.topologies.reporting.tables import Column, Table


def content(rows, **fields):
    columns = (Column("a", "a", "count"), Column("b", "b"))
    given = {"kind": "run", "name": "x", "ended": None, "about": "", "sections": [], **fields}
    tables = {} if rows is None else {"t": Table("t", columns, rows)}
    return PageContent(tables=tables, **given)


def applied(old, change):
    """What a browser does with a change."""
    change = msgspec.json.decode(msgspec.json.encode(change))
    tables = {name: list(table.rows) for name, table in old.tables.items()}
    for name, one in change["tables"].items():
        if one is None:
            del tables[name]
            continue
        rows = [] if one.get("columns") else tables.get(name, [])[one.get("drop", 0) :]
        for place, row in one.get("rows", []):
            rows[place : place + 1] = [tuple(row)]
        tables[name] = rows[: one["length"]]
    return tables


ROWS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["x", "y", None])), max_size=12)


@given(ROWS, ROWS)
def test_any_rows_become_any_others(before, after):
    old, new = content(before), content(after)
    change = changes(old, new)
    assert (change is None) == (before == after)
    if change is not None:
        assert applied(old, change)["t"] == after


def test_rows_that_go_at_the_front_are_not_sent_again():
    before = [(number, "x") for number in range(100)]
    change = changes(content(before), content([*before[3:], (100, "y")]))["tables"]["t"]
    assert (change.drop, change.rows, change.length) == (3, [(97, (100, "y"))], 98)


def test_tables_come_and_go():
    assert applied(content([(1, "x")]), changes(content([(1, "x")]), content(None))) == {}
    assert applied(content(None), changes(content(None), content([(1, "x")]))) == {"t": [(1, "x")]}


def test_time_alone_is_no_change():
    assert changes(content([]), content([], at=5.0)) is None


@pytest.mark.parametrize("field", ["ended", "about", "state", "notices"])
def test_other_fields_are_sent(field):
    value = {"state": "running", "notices": ["careful"]}.get(field, "new")
    change = changes(content([]), content([], at=5.0, **{field: value}))
    assert (change[field], change["at"], change["tables"]) == (value, 5.0, {})
