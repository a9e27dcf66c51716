"""The page of a real run in a real browser: served where devices join, by invitation, while processes come and go."""

import re
import signal
import subprocess
import sys

import pytest

from paceline import VirtualDevice, VirtualFleet, load_job, train
from paceline.report import write_report
from paceline.report.folder import RunFolder
from paceline.topologies.events import LearnerLeft
from paceline.topologies.parallel.events import RoundClosed
from tests.report.chromium import Window, require_browser
from tests.test_live_run import Stage, has_closed

NAMES = ("pi-a", "pi-b", "pi-c", "pi-d")
ROWS = "[...document.querySelectorAll('.figure-fleet [role=row]')]"
STATE_OF = ROWS + ".map((one) => one.textContent).find((text) => text.startsWith(arguments[0]))"


@pytest.fixture
def stage(tmp_path):
    stage = Stage(tmp_path)
    yield stage
    stage.end()


@pytest.fixture
def window():
    require_browser()
    with Window() as window:
        yield window


def paceline(*arguments):
    done = subprocess.run([sys.executable, "-m", "paceline", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def closed(stage):
    return max((event.round for event in stage.recorded() if isinstance(event, RoundClosed)), default=0)


@pytest.mark.slow
def test_a_run_is_followed_by_invitation(stage, window):
    (stage.run.parent / "job.toml").write_text((stage.run.parent / "job.toml").read_text().replace("= 8", "= 400"))
    serving, told = stage.serve("job.toml", "--folder", stage.run, "--port", 0, "--token", "S3cret")
    devices = {name: stage.join(told, name) for name in NAMES}

    window.open(told["url"])
    window.wait("document.querySelector('#token')")
    window.find("#token").send_keys("wrong")
    window.find("button").click()
    window.wait("document.querySelector('.error').textContent.includes('the token is missing or wrong')")
    invited = paceline("invite", stage.run, "--role", "viewer", "--name", "wall")
    (address,) = re.findall(r"http://\S+#token=\S+", invited)
    token = address.partition("#token=")[2]
    window.open(address)
    window.wait("document.querySelector('.figure-fleet')")
    assert token not in window.run("return location.href + document.cookie + document.documentElement.outerHTML")

    stage.until(has_closed(2))
    for name in NAMES:
        window.wait(STATE_OF, name)
    window.wait("document.body.innerText.includes('keep to themselves')")
    before = window.run(f"return {ROWS}.map((one) => one.textContent).join()")
    window.wait(f"{ROWS}.map((one) => one.textContent).join() !== arguments[0]", before)

    devices["pi-d"].kill()
    last = closed(stage)
    window.wait(f"/missing|gone/.test({STATE_OF})", "pi-d")
    missed = [e.round for e in stage.recorded() if isinstance(e, RoundClosed) and "pi-d" in e.late]
    left = [e for e in stage.recorded() if isinstance(e, LearnerLeft) and e.learner == "pi-d"]
    assert left or missed[0] <= last + 2

    serving.send_signal(signal.SIGKILL)
    window.wait("document.querySelector('.connection').textContent.includes('Connection lost')")
    stage.resume()
    window.wait("document.querySelector('.connection').hidden")
    stage.until(has_closed(closed(stage) + 1))
    number = closed(stage)
    window.wait("Number(document.body.innerText.match(/(\\d+)\\s+of 400/)[1]) >= arguments[0]", number)
    assert window.requests() <= {told["url"]}
    refused = [line for line in window.complaints() if "Failed to load resource" not in line]
    assert refused == []  # but that the server was gone for a while

    paceline("devices", stage.run, "--revoke", "wall")
    window.wait("document.querySelector('.login .error')")
    assert "the invitation for 'wall' was revoked" in window.texts(".error")
    for path in (stage.run / "audit.jsonl", stage.run / "devices.json", stage.run / "events.jsonl"):
        assert token not in path.read_text()


def test_runs_are_listed_and_three_of_them_compared_while_one_goes_on(stage, window, tmp_path):
    job, fleet = (
        load_job(tmp_path / "job.toml"),
        VirtualFleet([VirtualDevice(name="pi", count=2, samples_per_second=300)]),
    )
    for name in ("x", "y", "z"):
        train(job, fleet, folder=tmp_path / "runs" / name, progress=False)
    with RunFolder.open(tmp_path / "runs" / "x") as going_on:
        going_on.claim()
        process = stage.start("page", tmp_path / "runs", "--port", 0)
        url = process.stdout.readline().split()[-1]
        window.open(url)
        window.wait("document.querySelectorAll('table.runs tbody tr').length === 3")
        for check in window.driver.find_elements("css selector", "table.runs input[type=checkbox]"):
            check.click()
        window.find("button.main").click()
        window.wait("document.querySelectorAll('figure').length > 2")
        text = window.run("return document.body.textContent")
        assert all(f"runs/{name}" not in text for name in "xyz")
        assert "Accuracy" in window.texts("figure h3, figure h2, figure figcaption")[0] + text
    assert window.complaints() == []
    assert window.requests() == {url}
    window.open(write_report(RunFolder.open(tmp_path / "runs" / "z")).as_uri())
    window.wait("document.documentElement.classList.contains('drawn')")
    assert window.requests() == {"file://"}
    assert window.complaints() == []
