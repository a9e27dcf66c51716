"""The page of a pool: its jobs by their metrics, where learners were, what they were paid."""

import re

import pytest

from paceline.errors import ConfigError
from paceline.monitor import write_pool_report
from paceline.monitor.page import pool_plots
from paceline.monitor.page.pool_tables import MAX_ROWS
from paceline.topologies.events import LearnerJoined
from paceline.topologies.parallel.events import LearnerPaid
from tests.monitor.page.reading import read_page, rows_of
from tests.monitor.synthetic_pool import POOL, placed, pool_events, submitted

NASTY = "<script>document.title='owned'<_script>"  # a job's name is that of a folder: it has no slash


@pytest.fixture
def page_of(make_pool):
    """The page of these events, read back."""

    def page_of(*arguments, **settings):
        return read_page(write_pool_report(make_pool(*arguments, **settings)).read_text())

    return page_of


def table_named(page, start):
    (found,) = [table for table in page.all("table") if table.one("caption").text.startswith(start)]
    return rows_of(found)


def test_written_into_the_folder_or_elsewhere(make_pool, tmp_path):
    folder = make_pool()
    assert write_pool_report(folder) == folder.report
    assert write_pool_report(folder, tmp_path / "other.html") == tmp_path / "other.html"
    assert folder.report.read_text() == (tmp_path / "other.html").read_text()
    with pytest.raises(ConfigError, match="other/x.html: the report cannot be written there: No such file"):
        write_pool_report(folder, tmp_path / "other/x.html")


def test_headline_facts(page_of):
    page = page_of()
    facts = {card.one("dt").text: card.one("dd").text for card in page.one("dl", class_="facts").all("div")}
    assert page.one("h1").text == "shelf"
    assert facts == {
        "jobs": "33 over",
        "spent": "63.40of 120.00",
        "satisfaction": "50.0 %mean of 3 jobs",
        "fulfilment": "80.0 %20.0 % dropped",
        "a round took": "15.0 smean of 3 jobs",
        "occupancy": "75.0 %of the learners' time in rounds",
        "learners": "42 moves between jobs, 1 audit",
        "sent": "–not told",
        "energy": "–not told",
        "time": "60.8 son the virtual clock",
    }
    said = page.one("header").text
    assert all(word in said for word in ("finished: all jobs are over", "3 jobs", "placed by med", "virtual clock"))


def test_all_parts_are_there(page_of):
    page = page_of()
    assert [heading.text for heading in page.all("h2")] == [
        *("Jobs", "Where learners were", "Allocations", "Ledger", "Energy and bytes", "What happened"),
        "Pool and versions",
    ]
    assert [figure.attributes["id"] for figure in page.all("figure")] == [
        *("accuracy-1", "accuracy-2", "accuracy-3", "lanes")
    ]
    assert page.one("figure", id="accuracy-2").one("figcaption").text.startswith("Accuracy of fashion")


def test_tables_tell_the_pool(page_of):
    page = page_of()
    jobs = table_named(page, "The metrics of each job")
    assert jobs[1] == [
        *("1 mnist", "rounds done", "2 of 2", "20.0 s", "15.0 s", "50.0 %", "80.0 %", "20.0 %", "75.0 %"),
        *("90.0 %", "0.1000", "18.40"),
    ]
    assert jobs[3][:3] == ["3 digits", "budget spent", "1 of 3"]
    assert jobs[4][:9] == ["mean", "", "", "", "15.0 s", "50.0 %", "80.0 %", "20.0 %", "75.0 %"]
    allocations = table_named(page, "A row per allocation")
    assert allocations[2] == [
        *("48.0 s", "digits: pi 20, laptop 4", "30.0 s", "20.0 %", "15.00", "jetson", "–", "min_shards")
    ]
    ledger = {row[0]: row[1:] for row in table_named(page, "A row per learner")[1:]}
    assert ledger["pi"] == ["mnist, digits", "3", "0", "44", "44.0", "4,400", "22.00", "there"]
    assert ledger["guest"][-1] == "left: excluded: it cheated"
    happened = [row[1] for row in table_named(page, "Jobs and learners that came")[1:]]
    assert "digits submitted: 3 rounds of 20.0 s, 20 shards" in happened
    assert any(line.startswith("mnist, round 2: update of guest is a cheat") for line in happened)
    assert ["allocation.policy", "med"] in table_named(page, "Pool")


def test_lanes_show_stays_and_work(page_of):
    lanes = page_of().one("figure", id="lanes")
    assert [mark.one("title").text for mark in lanes.all("g", class_="y")] == ["pi", "guest", "jetson", "laptop"]
    assert len(lanes.all("rect", class_="stay")) == 6
    assert (len(lanes.all("rect", class_="work")), len(lanes.all("rect", class_="bad"))) == (7, 3)
    tips = [mark.one("title").text for mark in lanes.all("g", class_="tip")]
    assert "pi in mnist: 12 shards\n4.00 s to 37.6 s" in tips
    assert "guest, mnist, round 2: 8 shards, 800 samples\nupdate after 14.0 s, refused" in tips
    assert "jetson, fashion, round 1: 8 shards, 0 samples\nno update came" in tips
    assert [item.text for item in lanes.one("ul", class_="legend").all("li")] == ["1 mnist", "2 fashion", "3 digits"]


def test_too_many_rounds_leave_the_stays(page_of, monkeypatch):
    monkeypatch.setattr(pool_plots, "MAX_BLOCKS", 8)
    lanes = page_of().one("figure", id="lanes")
    assert (len(lanes.all("rect", class_="stay")), lanes.all("rect", class_="work")) == (6, [])
    assert "too many rounds to show them" in lanes.one("figcaption").text


def test_too_many_stays_are_joined_where_only_the_shards_differ(page_of, monkeypatch):
    monkeypatch.setattr(pool_plots, "MAX_BLOCKS", 3)
    jobs = ["a", "a", "b", "b", "a"]
    events = [submitted(0, "a"), submitted(0, "b")]
    events += [placed(at, {"pi": (job, at)}) for at, job in enumerate(jobs, 1)]
    lanes = page_of([*events, submitted(9, "c")]).one("figure", id="lanes")
    tips = [mark.one("title").text for mark in lanes.all("g", class_="tip") if mark.all("rect")]
    assert tips == [
        *("pi in a: 2 shards\n1.00 s to 3.00 s", "pi in b: 4 shards\n3.00 s to 5.00 s"),
        "pi in a: 5 shards\n5.00 s to 9.00 s",
    ]


def test_the_page_is_complete_in_itself(page_of):
    page = page_of()
    refers = {"src", "href", "data", "action", "poster", "srcset", "xlink:href"}
    assert [node for node in page.all() if refers & set(node.attributes)] == []
    assert "default-src 'none'" in page.one("meta", http_equiv="Content-Security-Policy").attributes["content"]
    assert len(page.all("script")) == 1
    ids = [node.attributes["id"] for node in page.all() if "id" in node.attributes]
    assert len(ids) == len(set(ids))
    for drawing in page.all("svg", role="img"):
        assert all(page.one(id=name).text for name in drawing.attributes["aria-labelledby"].split())


def test_names_from_the_network_are_text(page_of):
    learner = '" onmouseover="alert(1)\x1b'
    paid = LearnerPaid(
        at=9, job=NASTY, round=1, learner=learner, num_shards=1, num_samples=0, shards=0.0, price=1.0, amount=0.0
    )
    _, jobs = pool_events()
    events = [
        submitted(0, NASTY),
        LearnerJoined(at=1, learner=learner),
        placed(2, {"pi": (NASTY, 4)}, idle=(NASTY,), waiting=(NASTY,), waived=(NASTY,)),
        paid,
    ]
    page = page_of(events, {NASTY: jobs["mnist"]}, pool={**POOL, NASTY: {NASTY: NASTY}})
    assert len(page.all("script")) == 1
    assert not [node for node in page.all() if any(key.startswith("on") for key in node.attributes)]
    assert table_named(page, "The metrics of each job")[1][0] == f"1 {NASTY}"
    assert table_named(page, "A row per learner")[1][0] == '" onmouseover="alert(1)\\x1b'
    assert page.one("figure", id="accuracy-1").one("figcaption").text.startswith(f"Accuracy of {NASTY}")


def test_an_unfinished_pool_and_an_empty_one(page_of):
    events = [submitted(0, "a"), submitted(0, "b")]
    page = page_of(events, name="early")
    assert "not finished: no end was recorded" in page.one("header").text
    assert "no limit" in page.one("dl").text
    assert "mean of 0 jobs, 2 had no round" in page.one("dl").text
    assert table_named(page, "The metrics of each job")[1][1:5] == ["under way", "0 of 2", "20.0 s", "–"]
    assert page.all("figure") == []
    empty = page_of([], name="empty")
    assert "nothing recorded" in empty.one("header").text
    assert [heading.text for heading in empty.all("h2")] == ["Pool and versions"]


def test_a_large_pool_is_shown_in_part(page_of):
    names = [f"d{index}" for index in range(300)]
    events = [
        submitted(0, "a"),
        *(LearnerJoined(at=0.5, learner=name) for name in names),
        *(placed(at, {}) for at in range(1, 300)),
    ]
    share = placed(1, {"pi": ("a", 1)}).placements["pi"]
    events.append(type(events[-1])(at=400, placements=dict.fromkeys(names, share), expected_seconds=1, bound=1, cost=1))
    events.append(submitted(500, "b"))
    page = page_of(events)
    assert len(page.one("figure", id="lanes").all("g", class_="y")) == 40
    assert "the first 40 of 300 learners" in page.one("figure", id="lanes").one("figcaption").text
    assert len(table_named(page, "A row per learner (100 more in ledger.csv)")) == MAX_ROWS + 1
    assert len(table_named(page, "A row per allocation (100 more in events.jsonl)")) == MAX_ROWS + 1
    assert re.search(r"\(\d+ more lines? in events.jsonl\)", page.one("main").text)
