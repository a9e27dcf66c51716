"""The page as a file: all of its content is plain data, and it lets nothing in."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import msgspec
import pytest

from paceline.errors import ConfigError
from paceline.report import write_report
from paceline.report.content import MAX_NAMES, MAX_ROWS, PageContent
from paceline.report.following import FollowedRun
from paceline.topologies.reporting.formatting import format_value
from paceline.topologies.reporting.sections import Bars, Grid, TableSection
from tests.report.synthetic import FakeLearner, run_events


def content_of(page):
    (embedded,) = re.findall(r'<script type="application/json" id="content">(.*?)</script>', page, re.DOTALL)
    return msgspec.json.decode(embedded, type=dict[str, PageContent])["content"]


class PlainTables(HTMLParser):
    """The cells of the tables that a browser without scripts shows."""

    def __init__(self, page):
        super().__init__()
        self.captions, self.cells, self._tag = [], [], ""
        self.feed(re.search(r"<noscript>(.*?)</noscript>", page, re.DOTALL)[1])

    def handle_starttag(self, tag, attrs):
        self._tag = tag

    def handle_data(self, data):
        if self._tag == "caption":
            self.captions.append(data)
        elif self._tag in ("td", "th"):
            self.cells.append(data)


@pytest.fixture(params=["job", "pool", "gossip", "split"])
def folder(request, make_any):
    """A run of each kind."""
    return make_any(request.param)


def test_content_is_embedded_and_sections_show_columns_that_are_there(folder):
    content = content_of(write_report(folder).read_text())
    summary = folder.summary()
    assert (content.name, content.kind) == (folder.path.name, folder.reporting.kind)
    assert (content.ended, content.about) == (summary.ended, summary.about)
    assert len({section.title for section in content.sections}) == len(content.sections)
    for section in content.sections:
        table = content.tables[section.table]
        assert section.used_columns() <= {column.name for column in table.columns}
        assert table.rows
        if isinstance(section, TableSection) and section.total:
            shown = section.columns or [column.name for column in table.columns]
            assert len(section.total) == len(shown)
        assert section.caption.endswith(".") or section.title in ("Summary", "Settings", "Versions")
    assert {section.title for section in content.sections[-2:]} == {"Settings", "Versions"}


def test_no_network_and_no_scripts_but_its_own(folder):
    page = write_report(folder).read_text()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    allowed = set(re.findall(r"'sha256-([^']*)'", policy))
    found = re.findall(r"<style>(.*?)</style>|<script>(.*?)</script>", page, re.DOTALL)
    hashes = {base64.b64encode(hashlib.sha256((style or script).encode()).digest()).decode() for style, script in found}
    assert allowed == hashes
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "-src 'self'" not in policy
    assert not re.search(r"""\b(src|href)=|@import|url\((?!#)|https?://(?!github.com/leeoniya|www.w3.org)""", page)


def test_without_scripts_there_are_plain_tables(folder):
    page = write_report(folder).read_text()
    plain, content = PlainTables(page), content_of(page)
    assert [caption.split(". ")[0] for caption in plain.captions] == [section.title for section in content.sections]
    for section in content.sections:
        table = content.tables[section.table]
        if isinstance(section, TableSection):
            cells = {
                format_value(value, column)
                for row in table.rows
                for value, column in zip(row, table.columns, strict=True)
            }
            assert cells - {""} <= set(plain.cells)


def test_names_from_the_network_stay_text(make_run):
    name = "</script><b>&\u202e"
    page = write_report(make_run(run_events([FakeLearner(name=name, shards_per_second=9)], rounds=2))).read_text()
    assert "<b>" not in page
    assert "\u202e" not in page
    assert content_of(page).tables["learners"].values("learner") == ["</script><b>&\\u202e"]


def test_very_large_runs_are_cut_and_the_page_says_so(make_run):
    fleet = [FakeLearner(name=f"d{index}", shards_per_second=9) for index in range(60)]
    folder = make_run(run_events(fleet, rounds=250))
    run = FollowedRun(folder.path)
    run.read()
    content = run.content()
    sections = {section.title: section for section in content.sections}
    assert sections["Rounds"].note == f"the first {MAX_ROWS} of 250; all are in metrics.csv"
    assert len(set(content.tables["work"].values("learner"))) == MAX_NAMES
    for section in content.sections:
        if isinstance(section, Bars | Grid) and section.table == "work":
            assert f"the first {MAX_NAMES} of 60" in section.note
    assert len(msgspec.json.encode(content)) < 3_000_000


def test_carbon_is_reckoned_by_the_intensity_given(make_run, tmp_path):
    path = write_report(make_run(), tmp_path / "page.html", grams_per_kwh=1000)
    content = content_of(path.read_text())
    (summary,) = content.tables["summary"].records()
    assert summary["grams"] == pytest.approx(summary["joules"] / 3600, rel=1e-5)
    with pytest.raises(ConfigError, match="the report cannot be written there: No such file"):
        write_report(make_run(name="other"), tmp_path / "no" / "page.html")
