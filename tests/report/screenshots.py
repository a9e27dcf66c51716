"""Pictures of every kind of page, light, dark and on a phone: ``python -m tests.report.screenshots FOLDER``."""

from __future__ import annotations

import base64
import sys
import tempfile
import time
from pathlib import Path

from paceline.report import write_report
from paceline.report.document import make_document
from paceline.report.page import PageContent
from tests.report import pages
from tests.report.chromium import Window
from tests.report.page_server import PageServer
from tests.report.synthetic import JOB, record, run_events
from tests.report.synthetic_gossip import record_gossip
from tests.report.synthetic_pool import record_pool
from tests.report.synthetic_split import record_split

LOOKS = {"light": {}, "dark": {"is_dark": True}, "phone": {"width": 360, "height": 740}}
MAX_HEIGHT = 6000


def contents() -> dict[str, PageContent]:
    """Make a page of each of the kinds of sections that no recorded run has yet."""
    ring, split = pages.ring_page_parts(), pages.levels_page_parts()
    curve, rounds = pages.curves_page_parts(("patient-dab", "adaptive-dab", "sync", "eta"))
    return {
        "fleet": pages.live_page(1000, notices=["Three devices have not been heard of for a minute."]),
        "live": pages.live_page(24),
        "graphs": pages.page([ring[0], split[0]], [*ring[1:], *split[1:]], kind="gossip run", state="ended"),
        "compared": pages.page([curve], [rounds], kind="comparison", name="4 runs", state="ended"),
    }


def listed() -> list[dict[str, object]]:
    """Make the list of the runs in a folder."""
    running = {"state": "running", "ended": None, "share_done": 0.35}
    return [
        pages.listed_run(7, **running),
        pages.listed_run(6, state="interrupted", ended=None, share_done=0.6),
        pages.listed_run(5, error="events.jsonl: line 12 is not JSON", share_done=None, metrics={}, loss=None),
        *map(pages.listed_run, range(4, 0, -1)),
    ]


def main(folder: Path) -> None:
    """Write the pictures into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as root, Window() as window, PageServer() as server:

        def shoot(name: str, address: str, ready: str = ".drawn") -> None:
            for look, how in LOOKS.items():
                window.open(address, **how)
                window.wait("document.querySelector(arguments[0])", ready)
                height = window.run("return document.documentElement.scrollHeight")
                window.open(address, **{**how, "height": min(height, MAX_HEIGHT)})
                window.wait("document.querySelector(arguments[0])", ready)
                time.sleep(0.3)
                picture = window.command("Page.captureScreenshot", format="png")["data"]
                (folder / f"{name}-{look}.png").write_bytes(base64.b64decode(picture))

        makers = {"pool": record_pool, "gossip": record_gossip, "split": record_split}
        runs = {"job": record(Path(root) / "job", "digits", JOB, run_events())}
        runs |= {kind: make(Path(root) / kind) for kind, make in makers.items()}
        for kind, run in runs.items():
            shoot(f"report-{kind}", write_report(run).resolve().as_uri())
        server.document = make_document("Paceline", {"stream": "page/events"})
        for name, content in contents().items():
            server.greeting = [("page", content)]
            shoot(name, server.url)
        server.greeting = [("runs", {"runs": listed()})]
        server.document = make_document("Paceline", {"stream": "page/events", "runs": "page/runs"})
        shoot("runs", server.url)
        server.document = make_document("Paceline", {"login": True})
        shoot("login", server.url, ".login")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
