"""Pages in a real browser as a server feeds them: live, listed, compared and behind a login."""

import re
import time

import pytest
from selenium.webdriver.common.keys import Keys

from paceline.report.document import make_document
from tests.report import pages
from tests.report.page_server import TOKEN, PageServer

LIVE = {"stream": "page/events"}
FOLDER = {"stream": "page/events", "runs": "page/runs"}
HOSTILE = "<img src=x onerror=alert(1)>\x1b[31mred\u202eevil"
LANES = "[...document.querySelectorAll('.lanes .lane:not([hidden])')]"
IN_ORDER = f"{LANES}.sort((a, b) => a.ariaRowIndex - b.ariaRowIndex)"
NAMES = f"{IN_ORDER}.map((one) => one.querySelector('.name').textContent)"


@pytest.fixture
def serve(window):
    """Serve a document and what its streams begin with; in the end the console is clean and no other origin asked."""
    with PageServer() as server:

        def serve(boot, *greeting, path="", **how):
            server.document = make_document("Paceline", boot)
            server.greeting = list(greeting)
            window.open(server.url + path, **how)
            window.server = server
            return server

        yield serve
        assert window.requests() == {server.url.rstrip("/")}
        assert [
            one for one in window.complaints() if not re.search("ERR_|page/events|page/session", one)
        ] == []  # refused as meant
        window.driver.get("about:blank")


def change(**fields):
    return {"at": 101.0, "state": "running", "ended": None, "tables": {}, **fields}


def test_a_thousand_devices_are_a_small_part_of_the_browsers_time(serve, window):
    content = pages.live_page(1000)
    server = serve(LIVE, ("page", content))
    window.wait(f"{LANES}.length > 10")
    assert window.run(f"return {LANES}.length") < 50  # rows out of sight are no elements
    assert "1,000 devices" in window.texts(".chips")[0]
    window.command("Performance.enable", timeDomain="timeTicks")

    def busy_seconds():
        found = {one["name"]: one["value"] for one in window.command("Performance.getMetrics")["metrics"]}
        return found["Timestamp"], found["TaskDuration"]

    (start, busy), rows = busy_seconds(), [*content.tables["now"].rows]
    for number in range(1, 11):  # ten updates of every row within six seconds: ten times the rate that is asked for
        changed = [(index, (*row[:9], row[9] + number, *row[10:])) for index, row in enumerate(rows)]
        server.send("change", change(at=100.0 + number, tables={"now": {"drop": 0, "length": 1000, "rows": changed}}))
        amount = f"{IN_ORDER}[0].querySelectorAll('.count')[1].textContent"
        first = window.run(f"return {IN_ORDER}[0].querySelector('.name').textContent")
        expected = next(row[9] for row in rows if row[0] == first) + number
        window.wait(f"{amount} === '{expected}'")
        time.sleep(0.5)
    end, busy_after = busy_seconds()
    assert (busy_after - busy) / (end - start) < 0.5


def test_the_fleet_is_sorted_filtered_and_walked_by_keyboard(serve, window):
    server = serve(LIVE, ("page", pages.live_page(200)))
    window.wait(f"{LANES}.length > 10")
    states = window.run(f"return {IN_ORDER}.map((one) => one.querySelector('.word').textContent)")
    num_bad = sum(state in ("gone", "missing", "late") for state in states)
    assert 0 < num_bad < len(states)
    assert all(state in ("gone", "missing", "late") for state in states[:num_bad])
    window.find(".figure-fleet input[type=checkbox]").click()
    window.run(
        "const one = document.querySelector('.figure-fleet select'); one.value = 'name';"
        "one.dispatchEvent(new Event('change'))"
    )
    assert window.run(f"return {NAMES}.slice(0, 3)") == ["device-0000", "device-0001", "device-0002"]
    window.find(".figure-fleet input[type=search]").send_keys("0019")
    assert window.run(f"return {NAMES}") == ["device-0019"]
    window.find(".figure-fleet input[type=search]").send_keys(Keys.CONTROL, "a")
    window.find(".figure-fleet input[type=search]").send_keys(Keys.BACKSPACE)
    fleet = window.find(".fleet")
    fleet.send_keys(Keys.END)
    assert "device-0199" in window.texts(".selected-device")[0]
    top = window.run("return document.querySelector('.fleet').scrollTop")
    # An update leaves the sort, the selection, the scroll and the focus as they are.
    rows = [(3, (*pages.fleet_table(200).rows[3][:8], "gone", *pages.fleet_table(200).rows[3][9:]))]
    server.send("change", change(tables={"now": {"drop": 0, "length": 200, "rows": rows}}))
    window.wait(
        f"document.querySelector('.chip[data-state=gone]').textContent.startsWith('{states.count('gone') + 1}')"
    )
    assert window.run("return document.querySelector('.fleet').scrollTop") == top > 0
    assert "device-0199" in window.texts(".lane.selected .name")[0]
    assert window.run("return document.activeElement.className") == "fleet"


def test_a_running_lane_grows_by_the_browsers_clock_until_the_run_ends(serve, window):
    server = serve(LIVE, ("page", pages.live_page(1, names=["pi"])))
    width = "parseFloat(document.querySelector('.lanes .part.train')?.getAttribute('width'))"
    first = window.wait(width)
    assert window.wait(f"{width} > {first} + 0.5 && {width}") > first
    server.send("change", change(state="ended", ended="rounds done"))
    window.wait("document.querySelector('.state').textContent === 'finished: rounds done'")
    still = window.run(f"return {width}")
    window.run("return new Promise((done) => setTimeout(done, 500))")
    assert window.run(f"return {width}") == still


def test_only_what_changed_is_drawn_again(serve, window):
    server = serve(LIVE, ("page", pages.live_page(3)))
    window.wait("document.querySelector('.log li')")
    window.run(
        "document.querySelector('canvas').dataset.mark = 'kept'; document.querySelector('.log').scrollTop = 100;"
        "document.querySelector('.table thead button').click()"
    )
    lines = [(39, (500.0, "the last line"))]
    server.send("change", change(notices=["Look."], tables={"log": {"drop": 1, "length": 40, "rows": [*lines]}}))
    server.send(
        "change", change(at=102.0, tables={"log": {"drop": 0, "length": 40, "rows": [(39, (501.0, "really"))]}})
    )
    window.wait("document.querySelector('.log li').textContent.includes('really')")
    assert window.texts(".notices li") == ["Look."]
    assert window.run("return document.querySelector('canvas').dataset.mark") == "kept"
    assert window.run("return document.querySelector('.log').scrollTop") >= 100
    assert window.texts(".table [aria-sort=ascending]") == ["time"]
    window.run("document.querySelector('.table').scrollIntoView()")
    window.wait("document.querySelector('.table tbody th').textContent === '2.50 s'")  # the first row was dropped


def test_charts_switch_their_axis_hide_curves_and_are_read_by_keyboard(serve, window):
    curve, rounds = pages.curves_page_parts(("one", "two"))
    serve(LIVE, ("page", pages.page([curve], [rounds], state="ended")))
    window.wait("document.querySelector('canvas')")
    holder = "document.querySelector('.curves').getAttribute('aria-label')"
    assert "at round 1 to" in window.run(f"return {holder}")
    window.find(".over-axis select").send_keys("samples")
    window.wait(f"{holder}.includes('at samples')")
    before = window.run("return document.querySelector('canvas').toDataURL()")
    window.find(".legend button").click()
    assert window.run("return document.querySelector('.legend button').ariaPressed") == "false"
    assert window.run("return document.querySelector('canvas').toDataURL()") != before
    window.find(".legend button").click()
    window.find(".curves").send_keys(Keys.HOME, Keys.ARROW_RIGHT)
    (tip,) = window.texts(".tip-box")
    assert tip == "samples: 7,200\nrun: two\naccuracy: 43.4 %\none: 74.3 %"
    window.find("summary").click()
    window.wait("document.querySelector('.figure-line th')")
    assert window.texts(".figure-line th[scope=col]") == ["round", "time", "samples", "run", "accuracy"]


def test_graphs_are_drawn_as_a_ring_and_as_levels(serve, window):
    ring, split = pages.ring_page_parts(), pages.levels_page_parts()
    serve(LIVE, ("page", pages.page([ring[0], split[0]], [*ring[1:], *split[1:]])))
    window.wait("document.querySelectorAll('.graph svg').length === 2")
    found = window.run(
        "return [...document.querySelectorAll('.graph')].map((one) => [one.querySelectorAll('.node').length,"
        "one.querySelectorAll('.arrow').length, one.querySelectorAll('.node.bad').length])"
    )
    assert found == [[12, 24, 1], [6, 5, 1]]
    assert "1.25 MB" in window.texts(".weight")
    window.find(".graph").send_keys(Keys.ARROW_RIGHT)
    assert window.texts(".tip-box") == ["from: peer-0\nto: peer-1\nmessages: 1"]


def test_a_lost_connection_is_said_and_taken_up_again(serve, window):
    server = serve(LIVE, ("page", pages.live_page(3)))
    window.wait("document.querySelector('.connection').hidden")
    server.greeting, server.is_refusing = [], True
    server.drop()
    window.wait("document.querySelector('.connection').textContent.includes('Connection lost, trying again')")
    server.is_refusing = False
    server.wait_for_stream()
    window.wait("document.querySelector('.connection').hidden")
    server.send("change", change(about="it goes on"))
    window.wait("document.querySelector('header').textContent.includes('it goes on')")
    server.drop()  # a stream that ends without an error: the browser asks for what came after the last event
    server.wait_for_stream()
    assert server.last_ids[-1] == "2"
    server.send("change", change(about="and on"))
    window.wait("document.querySelector('header').textContent.includes('and on')")
    server.send("trouble", {"message": "no such run"})
    window.wait("document.querySelector('.trouble').textContent === 'no such run'")


def test_nothing_is_drawn_while_the_page_is_hidden(serve, window):
    server = serve(LIVE, ("page", pages.live_page(3)))
    window.wait("document.querySelector('.log li')")
    window.run(
        "return new Promise((done) => setTimeout(() => requestAnimationFrame(done), 100))"
    )  # what is due is drawn
    window.run(
        "Object.defineProperty(document, 'hidden', {value: true, configurable: true}); window.frames_asked = 0;"
        "const ask = window.requestAnimationFrame;"
        "window.requestAnimationFrame = (draw) => { window.frames_asked++; return ask(draw); };"
        "window.source_seen = 0; const parse = JSON.parse;"
        "JSON.parse = (text) => { window.source_seen++; return parse(text); }"
    )
    for number in range(5):
        server.send("change", change(about=f"number {number}"))
    window.wait("window.source_seen === 5")
    assert window.run("return window.frames_asked") == 0
    assert "number" not in window.texts("header")[0]
    window.run("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    window.wait("document.querySelector('header').textContent.includes('number 4')")


def test_runs_are_found_sorted_and_compared(serve, window):
    failed = pages.listed_run(10, error="events.jsonl: line 12 is not JSON", share_done=None)
    runs = [failed, pages.listed_run(9, state="running", ended=None, share_done=0.35)]
    runs += [pages.listed_run(number) for number in range(8, 0, -1)]
    server = serve(FOLDER, ("runs", {"runs": runs}))
    window.wait("document.querySelectorAll('.runs tbody tr').length === 10")
    assert window.texts(".runs .error:not([hidden])") == ["events.jsonl: line 12 is not JSON"]
    assert window.run("return document.querySelectorAll('progress')[1].value") == 0.35
    window.find("[data-column=loss] button").click()
    assert window.texts(".runs a")[:2] == ["run-10", "run-9"]
    window.find("[data-column=name] button").click()
    assert window.texts(".runs a")[:2] == ["run-1", "run-2"]
    window.find("input[type=search]").send_keys("JSON")
    assert window.texts(".runs a") == ["run-10"]
    window.find("input[type=search]").send_keys(Keys.BACKSPACE * 4)
    assert window.find("button.main").get_attribute("disabled")
    boxes = "document.querySelectorAll('.runs input')"
    for index in range(8):
        window.run(f"{boxes}[{index}].click()")
    server.send("runs", {"runs": [pages.listed_run(11), *runs]})
    window.wait("document.querySelectorAll('.runs tbody tr').length === 11")
    assert window.run(f"return [...{boxes}].map((one) => [one.checked, one.disabled])") == (
        [[True, False]] * 8 + [[False, True]] * 3
    )
    for index in range(2, 8):
        window.run(f"{boxes}[{index}].click()")
    curve, rounds = pages.curves_page_parts(("run-1", "run-2"))
    server.greeting = [("page", pages.page([curve], [rounds], kind="comparison", state="ended"))]
    window.find("button.main").click()
    window.wait("document.querySelectorAll('.legend button').length === 2")
    assert server.queries[-1] == "runs=run-1,run-2"
    assert window.texts("nav a") == ["‹ All runs"]
    assert window.find("nav a").get_attribute("href") == server.url


def test_a_token_opens_the_page_typed_or_in_the_address(serve, window):
    server = serve(LIVE, ("page", pages.live_page(3)))
    server.login_document = make_document("Paceline", {"login": True})
    window.driver.delete_all_cookies()
    window.open(server.url)
    window.wait("document.querySelector('#token')").send_keys("wrong", Keys.ENTER)
    window.wait("document.querySelector('p.error').textContent === 'this token opens nothing here'")
    window.find("#token").clear()
    window.find("#token").send_keys(TOKEN, Keys.ENTER)
    window.wait("document.querySelector('.fleet')")
    window.driver.delete_all_cookies()
    window.open(f"{server.url}#token={TOKEN}")
    window.wait("document.querySelector('.fleet')")
    assert window.run("return location.href") == server.url
    window.driver.delete_all_cookies()
    window.open(server.url)
    window.wait("document.querySelector('#token')")


@pytest.mark.parametrize("look", [{}, {"width": 360}, {"is_dark": True}])
def test_hostile_names_stay_text_and_nothing_is_wider_than_a_phone(look, serve, window):
    curve, rounds = pages.curves_page_parts((HOSTILE, "b"))
    ring = pages.ring_page_parts()
    ring[2].rows[0] = (HOSTILE, HOSTILE, 1)
    content = pages.live_page(5, names=[HOSTILE, *"bcde"], name=HOSTILE, notices=[HOSTILE])
    tables = [*content.tables.values(), *ring[1:]]
    sections = [one for one in content.sections if one.table != "rounds"]
    tables = [one for one in tables if one.name != "rounds"] + [rounds]
    serve(LIVE, ("page", pages.page([*sections, ring[0], curve], tables, name=HOSTILE, notices=[HOSTILE])), **look)
    window.wait("document.querySelector('.graph svg')")
    shown = "<img src=x onerror=alert(1)>\\x1b[31mred\\u202eevil"
    assert window.texts("h1, .notices li") == [shown, shown]
    assert shown in window.run(f"return {NAMES}")
    assert shown in window.texts(".legend bdi")
    assert window.run("return document.images.length") == 0
    wide = "[...document.querySelectorAll('main *')].filter((one) => !one.closest('.scroll, svg, .lane')"
    assert (
        window.run(f"return {wide} && one.getBoundingClientRect().right > innerWidth).map((one) => one.outerHTML)")
        == []
    )
    unnamed = (
        "[...document.querySelectorAll('[role=img], [role=grid], select, input, button, [tabindex]')].filter((one) =>"
    )
    assert window.run(f"return {unnamed} !one.ariaLabel && !one.textContent && !one.labels?.length).length") == 0


def test_a_report_in_a_file_asks_no_one_for_anything(window, make_run):
    from paceline.report import write_report

    window.open(write_report(make_run()).as_uri())
    window.wait("document.querySelector('canvas')")
    assert window.requests() == {"file://"}
    assert window.complaints() == []
    assert "connect-src" not in window.run("return document.querySelector('meta[http-equiv]').content")
    refused = "fetch('http://127.0.0.1:1/').then(() => 'answered', () => 'refused')"
    assert window.run(f"return {refused}") == "refused"
    window.complaints()
