"""The page in a real browser: everything is drawn, rounds can be picked, and nothing else runs."""

import re

import pytest

from paceline.report import write_report
from tests.report.synthetic import FakeLearner, run_events

NASTY = "<script>document.title='owned'</script><img src=x onerror=document.title='owned'>"
# What the scripts below begin with.
NAMES = """
  const page = document, view = window;
  const all = (query) => [...page.querySelectorAll(query)], text = (query) => all(query).map((one) => one.textContent);
"""
LOOK = """
  const pixels = (one) => one.getContext("2d").getImageData(0, 0, one.width, one.height).data;
  const isDrawn = (canvas) => pixels(canvas).some(Boolean);
  const isClipped = (one) => one.getBoundingClientRect().right > view.innerWidth;
  const clipped = all("main *").filter((one) => !one.closest(".scroll, svg") && isClipped(one));
  return {
    title: page.title, isDrawn: page.documentElement.className === "drawn", header: text("header")[0],
    kinds: all("figure").map((one) => one.className.match(/figure-(\\w+)/)[1]), canvases: all("canvas").map(isDrawn),
    unnamed: all("[role=img]").filter((one) => !one.getAttribute("aria-label")).length, bars: all(".part").length,
    cells: all(".cell").length, spans: all(".span").length, images: all("img").length,
    tiles: text(".tiles dt"), tables: all(".table tbody tr").length, clipped: clipped.map((one) => one.className),
  };
"""


@pytest.fixture
def browse(window):
    """Open a page, run a script in it, and give what that returns; the console has no complaints."""

    def browse(path, script=LOOK, fragment="", width=1200):
        window.open(f"{path.as_uri()}{fragment}", width=width)
        window.wait("document.querySelector('.drawn')")
        found = window.run(f"{NAMES} {script}")
        assert window.complaints() == []
        return found

    return browse


@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("kind", ["job", "pool", "gossip", "split"])
def test_every_section_is_drawn(kind, width, browse, make_any):
    folder = make_any(kind)
    summary = folder.summary()
    sections = folder.reporting.shown(summary.tables)
    found = browse(write_report(folder), width=width)
    assert found["isDrawn"]
    assert found["title"] == f"{folder.path.name} – Paceline {folder.reporting.kind}"
    assert f"finished: {summary.ended}" in found["header"]
    types = [type(section).__name__.lower() for section in sections]
    assert found["kinds"] == [one for one in types if one not in ("tiles", "tablesection")]
    assert len(found["canvases"]) == types.count("line")
    assert all(found["canvases"])
    assert (found["cells"] > 0, found["bars"] > 0, found["spans"] > 0) == tuple(
        one in types for one in ("grid", "bars", "gantt")
    )
    assert len(found["tiles"]) == len(sections[0].tiles)
    tables = [summary.tables[section.table] for section in sections if type(section).__name__ == "TableSection"]
    assert found["tables"] >= sum(len(table.rows) for table in tables)
    assert (found["unnamed"], found["images"], found["clipped"]) == (0, 0, [])


BARS = """
  const row = (name) => all(".bars tbody tr").find((one) => one.children[0].textContent === name);
  const parts = (name) => row(name).querySelectorAll(".part").length;
  const shown = (name) => [row(name).className, row(name).children[2].textContent, parts(name)];
  %s
  const bars = page.querySelector(".bars tbody");
  return [bars.dataset.view, text(".shown")[0], shown("pi-zero"), shown("pi-4"), view.location.hash];
"""


def test_a_round_is_picked_by_the_address_by_a_cell_or_from_the_list(browse, make_run):
    path = write_report(make_run())
    mean = browse(path, BARS % "", "#round=99")  # an address that means nothing
    assert mean[:2] == ["mean", "Mean of all rounds; deadline 1.00 s"]
    found = browse(path, BARS % "", "#round=7")
    assert found[:2] == ["7", "round 7; deadline 1.00 s"]
    assert found[2][1] == "1.02 s · 101.8 %" != mean[2][1]
    assert found[3] == ["absent", "–", 0]  # it died in round 6
    by_click = "all('.cell').find((one) => one.nextSibling.textContent.endsWith('!')).dispatchEvent(%s);"
    assert browse(path, BARS % (by_click % "new MouseEvent('click', {bubbles: true})"))[4].startswith("#round=")
    choose = "const list = page.querySelector('.figure-bars select'); list.value = '7'; %s"
    choose %= "list.dispatchEvent(new Event('change'));"
    assert browse(path, BARS % choose)[:4] == found[:4]


def test_a_figure_shows_its_numbers_and_what_is_under_the_pointer(browse, make_run):
    script = """
      const figure = all("figure")[0], numbers = figure.querySelector("details");
      numbers.open = true; numbers.dispatchEvent(new Event("toggle"));
      const cell = page.querySelector(".cell");
      cell.dispatchEvent(new PointerEvent("pointermove", {bubbles: true, clientX: 300, clientY: 300}));
      return [numbers.querySelectorAll("tbody tr").length, text(".tip-box")[0], page.querySelector(".tip-box").hidden];
    """
    num_rows, tip, is_hidden = browse(write_report(make_run()), script)
    assert (num_rows, is_hidden) == (10, False)
    assert re.match(r"learner: \S+\nround: 1\nupdate after: .* s\nof the deadline: .* %\noutcome: accepted", tip)


def test_names_from_the_network_do_not_run(browse, make_run):
    fleet = [FakeLearner(name=NASTY, shards_per_second=9, dies_in=2), FakeLearner(name="pi", shards_per_second=9)]
    found = browse(write_report(make_run(run_events(fleet, rounds=3))), fragment="#round=2")
    assert (found["title"], found["images"]) == ("digits – Paceline run", 0)


def test_a_page_without_rounds(browse, make_run):
    found = browse(write_report(make_run([])))
    assert (found["isDrawn"], found["kinds"]) == (True, [])
    assert "nothing recorded" in found["header"]
