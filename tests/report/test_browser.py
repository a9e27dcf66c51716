"""The page in a real browser: its script runs, picks rounds, and runs nothing else."""

import os
import re
import shutil
import subprocess

import pytest
from paceline.monitor import write_gossip_report, write_pool_report, write_report, write_split_report

from tests.report.page.reading import read_page
from tests.report.synthetic import FakeLearner, run_events

NASTY = "<script>document.title='owned'</script><img src=x onerror=document.title='owned'>"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)


@pytest.fixture
def browse(tmp_path):
    """Open a page, let its script run, and give the page as it is then and what the browser complained of."""
    if BROWSER is None:
        reason = "no chromium on this machine: the page is not tested in a browser"
        if os.environ.get("PACELINE_REQUIRE_ALL") == "1":
            pytest.fail(reason)
        pytest.skip(reason)

    def browse(path, fragment=""):
        done = subprocess.run(
            [
                *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
                *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
                *("--disable-dev-shm-usage", "--enable-logging=stderr", f"--user-data-dir={tmp_path / 'profile'}"),
                *("--virtual-time-budget=2000", "--dump-dom", f"{path.as_uri()}{fragment}"),
            ],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return read_page(done.stdout), re.findall(r"CONSOLE.*", done.stderr)

    return browse


def widths(page, name):
    """The lengths of a learner's phases, in per cent of the drawing."""
    (row,) = [row for row in page.one("table", id="bars").one("tbody").all("tr") if row.children[0].text == name]
    return [float(part.attributes["width"].rstrip("%")) for part in row.all("rect", class_="phase")], row


def test_script_runs_and_nobody_complains(browse, make_run):
    page, complaints = browse(write_report(make_run()))
    assert complaints == []
    assert page.one("html").attributes["class"] == "scripted"
    assert page.one("caption", id="bars-caption").text == "Mean of all rounds; deadline 1.00 s"
    tips = [mark.attributes["data-tip"] for mark in page.one("figure", id="accuracy").all("g", class_="tip")]
    assert len(tips) == 10
    assert "accuracy 33.7 %" in tips[0]
    assert all(drawing.attributes["aria-label"] for drawing in page.all("svg", role="img"))


def test_a_round_is_picked_by_the_address(browse, make_run):
    path = write_report(make_run())
    mean, _ = browse(path)
    page, complaints = browse(path, "#round=7")
    assert complaints == []
    assert page.one("table", id="bars").attributes["data-view"] == "7"
    assert page.one("caption", id="bars-caption").text == "Round 7; deadline 1.00 s"
    late, row = widths(page, "pi-zero")
    assert late != widths(mean, "pi-zero")[0]
    assert row.children[-1].text == "1.02 s · 101.8 %"
    gone, row = widths(page, "pi-4")
    assert (sum(gone), row.attributes["class"], row.children[-1].text) == (0, "absent", "–")
    assert {mark.attributes["data-round"] for mark in page.all(class_="picked")} == {"7"}


def test_the_script_draws_the_mean_as_the_page_was_written(browse, make_run):
    path = write_report(make_run())
    drawn, _ = browse(path, "#round=mean")
    for name in ("laptop", "pi-4", "guest"):
        assert widths(drawn, name)[0] == pytest.approx(widths(read_page(path.read_text()), name)[0], abs=0.05)


def test_an_address_that_means_nothing_changes_nothing(browse, make_run):
    page, complaints = browse(write_report(make_run()), "#round=99")
    assert complaints == []
    assert page.one("caption", id="bars-caption").text.startswith("Mean of all rounds")


def test_names_from_the_network_do_not_run(browse, make_run):
    fleet = [FakeLearner(name=NASTY, shards_per_second=9, dies_in=2), FakeLearner(name="pi", shards_per_second=9)]
    page, complaints = browse(write_report(make_run(run_events(fleet, rounds=3))), "#round=2")
    assert complaints == []
    assert page.one("head").one("title").text == "digits – Paceline run"
    assert page.all("img") == []
    assert page.one("table", id="bars").attributes["data-view"] == "2"


def test_a_page_without_rounds(browse, make_run):
    page, complaints = browse(write_report(make_run([])))
    assert complaints == []
    assert "nothing recorded" in page.one("header").text


def test_the_page_of_a_pool(browse, make_pool):
    page, complaints = browse(write_pool_report(make_pool()))
    assert complaints == []
    tips = [mark.attributes["data-tip"] for mark in page.one("figure", id="lanes").all("g", class_="tip")]
    assert "pi in mnist: 12 shards\n4.00 s to 37.6 s" in tips
    assert all(drawing.attributes["aria-label"] for drawing in page.all("svg", role="img"))


def test_the_page_of_a_gossip_run(browse, make_gossip):
    page, complaints = browse(write_gossip_report(make_gossip()))
    assert complaints == []
    tips = [mark.attributes["data-tip"] for mark in page.one("figure", id="phases").all("g", class_="tip")]
    assert "pi-4, epoch 2: train\n5.00 s, from 9.50 s" in tips
    assert all(drawing.attributes["aria-label"] for drawing in page.all("svg", role="img"))


def test_the_page_of_a_split_run(browse, make_split):
    page, complaints = browse(write_split_report(make_split()))
    assert complaints == []
    tips = [mark.attributes["data-tip"] for mark in page.one("figure", id="seconds").all("g", class_="tip")]
    assert "cam-2: compute\n4.00 s" in tips
    assert all(drawing.attributes["aria-label"] for drawing in page.all("svg", role="img"))
