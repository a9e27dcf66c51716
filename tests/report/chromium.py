"""Chromium under the control of a test: a window whose complaints and requests are recorded."""

from __future__ import annotations

import json
import os
import shutil
from urllib.parse import urlsplit

import pytest
from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
DRIVER = shutil.which("chromedriver")
_FLAGS = """
  --headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-sync
  --disable-component-update --disable-dev-shm-usage --allow-file-access-from-files --hide-scrollbars
"""


class Window:
    """A window of Chromium; a context manager."""

    def __init__(self, width: int = 1200, height: int = 900) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = BROWSER or ""
        for flag in [*_FLAGS.split(), f"--window-size={width},{height}"]:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options, Service(DRIVER))

    def __enter__(self) -> Window:
        return self

    def __exit__(self, *exception: object) -> None:
        self.driver.quit()

    def open(self, address: str, *, is_dark: bool = False, width: int = 1200, height: int = 900) -> None:
        """Open a page, in a window of some size and with light or dark colours, and forget what was recorded."""
        self.driver.get("about:blank")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.command("Emulation.setEmulatedMedia", features=[scheme])
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(address)

    def command(self, name: str, **parameters: object) -> dict:
        """Send a command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(name, parameters)

    def run(self, script: str, *arguments: object) -> object:
        """Run a script in the page and return what it returns."""
        return self.driver.execute_script(script, *arguments)

    def texts(self, query: str) -> list[str]:
        """Return the text of every element that a query finds."""
        return self.run("return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)", query)

    def find(self, query: str):
        """Return the first element that a query finds."""
        return self.driver.find_element(By.CSS_SELECTOR, query)

    def wait(self, condition: str, *arguments: object) -> object:
        """Wait until an expression is true in the page, and return its value."""
        waiting = WebDriverWait(self.driver, 60, 0.05)
        try:
            return waiting.until(lambda _: self.run(f"return {condition}", *arguments))
        except TimeoutException:
            raise AssertionError(f"never true: {condition}\n{self.run('return document.body.innerText')}") from None

    def complaints(self) -> list[str]:
        """Return what the console says that is worse than a piece of information, since the page was opened."""
        return [one["message"] for one in self.driver.get_log("browser") if one["level"] in ("WARNING", "SEVERE")]

    def requests(self) -> set[str]:
        """Return the origins that were asked for something since the page was opened."""
        messages = [json.loads(one["message"])["message"] for one in self.driver.get_log("performance")]
        urls = [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]
        return {f"{urlsplit(url).scheme}://{urlsplit(url).netloc}" for url in urls}


def require_browser() -> None:
    """Skip a test where there is no browser to drive, unless nothing may be skipped."""
    if BROWSER is None or DRIVER is None:
        reason = "no chromium and chromedriver on this machine: the page is not tested in a browser"
        if os.environ.get("PACELINE_REQUIRE_ALL") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
