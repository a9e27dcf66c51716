"""The report: one page, complete in itself, that says what happened and trusts nobody's name."""

import base64
import hashlib
import re

import pytest

from paceline.errors import ConfigError
from paceline.monitor import summarise, write_report
from paceline.topologies.parallel.events import RoundClosed
from tests.monitor.page.reading import read_page, rows_of
from tests.monitor.synthetic import JOB, FakeLearner, run_events

NASTY = "<script>document.title='owned'</script>"


@pytest.fixture
def page_of(make_run):
    """The page of these events, read back."""

    def page_of(*arguments, **settings):
        return read_page(write_report(make_run(*arguments, **settings)).read_text())

    return page_of


def table_named(page, start):
    (found,) = [table for table in page.all("table") if table.one("caption").text.startswith(start)]
    return rows_of(found)


def test_written_into_the_folder_or_elsewhere(make_run, tmp_path):
    folder = make_run()
    assert write_report(folder) == folder.report
    assert write_report(folder, tmp_path / "other.html") == tmp_path / "other.html"
    assert folder.report.read_text() == (tmp_path / "other.html").read_text()
    assert not list(folder.path.glob("*.new"))
    with pytest.raises(ConfigError, match="other/x.html: the report cannot be written there: No such file"):
        write_report(folder, tmp_path / "other/x.html")


def test_headline_facts(page_of):
    events = run_events()
    page, summary = page_of(events), summarise(events)
    facts = {card.one("dt").text: card.one("dd").text for card in page.one("dl", class_="facts").all("div")}
    assert page.one("h1").text == "digits"
    assert facts["final accuracy"].startswith(f"{100 * summary.accuracy:.1f} %")
    assert facts["rounds"] == "10of 10"
    assert facts["truancy, most"] == f"+{100 * summary.truancy_max:.1f} %mean −{-100 * summary.truancy_mean:.1f} %"
    assert facts["late or missing"] == "5.8 %3 of 52 shares"
    assert facts["samples trained"] == f"{summary.num_samples:,}by 6 learners"
    num_satisfied = sum(closed.is_satisfied for closed in summary.rounds)
    assert facts["fulfilment"] == f"{100 * summary.fulfilment:.1f} %{num_satisfied} of 10 rounds in full and in time"
    assert facts["time"].endswith("on the virtual clock")
    said = page.one("header").text
    assert all(
        word in said
        for word in (
            "finished: rounds done",
            "digits-cnn on digits",
            "61,706 parameters",
            "adaptive-dab",
            "virtual clock",
        )
    )


def test_all_parts_are_there(page_of):
    page = page_of()
    assert [heading.text for heading in page.all("h2")] == [
        *("Learning", "Time against the deadline", "Allocation", "Truancy", "Learners", "Energy and bytes"),
        *("Rounds", "Who came, left and was refused", "Job and versions"),
    ]
    assert {figure.attributes["id"] for figure in page.all("figure")} == {
        *("accuracy", "loss", "time", "use", "shards", "truancy")
    }
    assert len(page.one("figure", id="truancy").all("rect", class_="bad")) == 1
    assert len(page.one("figure", id="shards").all("rect", class_="cell")) == 52
    assert len(page.one("figure", id="use").all("rect", class_="bad")) == 3


def test_tables_tell_the_run(page_of):
    page = page_of()
    rounds = table_named(page, "A row per closed round")
    assert len(rounds) == 11
    assert rounds[7][0] == "7"
    assert rounds[7][-1] == "pi-zero"
    assert dict(zip(rounds[0], rounds[1], strict=True))["fulfilment"] == "100.0 %"
    learners = {row[0]: row for row in table_named(page, "What they did")[1:]}
    assert learners["pi-4"][-1] == "left: not heard of for 1.1 s"
    assert learners["guest"][6:9] == ["–", "–", "–"]
    happenings = [row[1] for row in table_named(page, "Joins, leaves")[1:]]
    assert "old-pc joined" in happenings
    assert "round 3: update of guest refused: parameter 'fc.weight' is not finite" in happenings
    assert ["allocation.policy", "adaptive-dab"] in table_named(page, "Job")
    assert "torch" in [row[0] for row in table_named(page, "Versions")]


def test_the_page_is_complete_in_itself(page_of):
    page = page_of()
    refers = {"src", "href", "data", "action", "poster", "srcset", "xlink:href"}
    assert [node for node in page.all() if refers & set(node.attributes)] == []
    style = page.one("style").text
    assert "@import" not in style
    assert set(re.findall(r"url\((.+?)\)", style)) <= {"#hatch-bad", "#hatch-upload", "#hatch-working"}
    assert "prefers-color-scheme: dark" in style
    assert "@media print" in style


def test_only_the_page_s_own_script_may_run(page_of):
    page = page_of()
    policy = page.one("meta", http_equiv="Content-Security-Policy").attributes["content"]
    data, script = page.all("script")
    assert data.attributes["type"] == "application/json"
    digest = base64.b64encode(hashlib.sha256(script.text.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_names_from_the_network_are_text(page_of):
    fleet = [
        FakeLearner(name=NASTY, shards_per_second=8, dies_in=3),
        FakeLearner(name='" onmouseover="alert(1)', shards_per_second=8, refused_in=(2,)),
        FakeLearner(name="turn\u202earound\x1b[2J", shards_per_second=8),
    ]
    job = {**JOB, "model": {"name": NASTY}, NASTY: {NASTY: NASTY}}
    page = page_of(run_events(fleet, rounds=4, job=job), job=job)
    assert len(page.all("script")) == 2
    assert not [node for node in page.all() if any(key.startswith("on") for key in node.attributes)]
    names = [head.text for head in page.one("table", id="bars").all("th", scope="row")]
    assert sorted(names) == sorted([NASTY, '" onmouseover="alert(1)', "turn\\u202earound\\x1b[2J"])
    assert f"{NASTY} left: not heard of for 1.1 s" in [row[1] for row in table_named(page, "Joins, leaves")]
    assert [f"{NASTY}.{NASTY}", NASTY] in table_named(page, "Job")


def test_every_drawing_has_words(page_of):
    page = page_of()
    for drawing in page.all("svg", role="img"):
        labelled = drawing.attributes.get("aria-labelledby")
        if labelled:
            assert all(page.one(id=name).text for name in labelled.split())
        else:
            assert drawing.attributes["aria-label"]
    for figure in page.all("figure"):
        assert figure.one("figcaption").text
        assert "aria-labelledby" in figure.all("svg", role="img")[0].attributes or figure.attributes["id"] == "time"


def test_ids_are_unique(page_of):
    ids = [node.attributes["id"] for node in page_of().all() if "id" in node.attributes]
    assert len(ids) == len(set(ids))


def test_an_unfinished_run_says_so(page_of):
    page = page_of(run_events(is_ended=False))
    assert "not finished: no end was recorded" in page.one("header").text
    assert "accuracy so far" in page.one("dl").text


def test_a_run_without_a_closed_round(page_of):
    events = run_events()
    first = next(index for index, event in enumerate(events) if isinstance(event, RoundClosed))
    page = page_of(events[:first])
    assert "No round has closed yet" in page.one("main").text
    assert page.all("figure") == []
    assert "laptop" in page.one("main").text


def test_nothing_recorded(page_of):
    page = page_of([])
    assert "nothing recorded" in page.one("header").text
    assert [heading.text for heading in page.all("h2")] == ["Job and versions"]


def test_a_run_that_was_not_evaluated(page_of):
    events = [
        type(event)(
            **{name: getattr(event, name) for name in event.__struct_fields__ if name not in ("loss", "accuracy")}
        )
        for event in run_events()
    ]
    page = page_of(events)
    assert "The model was not evaluated." in page.one("main").text
    assert {figure.attributes["id"] for figure in page.all("figure")} == {"time", "use", "shards", "truancy"}


def test_a_job_of_another_shape(page_of):
    job = {"model": "just a name", "job": None}
    assert "–" in page_of(run_events(job=job), job=job).one("header").text


def test_a_large_fleet_is_shown_in_part_and_as_a_whole(page_of):
    fleet = [FakeLearner(name=f"d{index}", shards_per_second=4 + index % 60) for index in range(100)]
    page = page_of(run_events(fleet, rounds=3))
    names = [head.text for head in page.one("table", id="bars").all("th", scope="row")]
    assert len(names) == 41
    assert names[0] == "all 100"
    assert "the first 40 of 100 learners" in page.one("figure", id="use").text
    assert len(table_named(page, "What they did, the first 40 of 100 learners")) == 41
    counts = [mark.one("title").text for mark in page.one("figure", id="fleet").all("g", class_="tip")]
    assert sum(int(re.search(r": (\d+) learner", count)[1]) for count in counts) == 100
