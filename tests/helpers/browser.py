"""A real browser, driven by the protocol that all of them speak: W3C WebDriver."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

DRIVER = shutil.which("chromedriver") or ""
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FOUND = next(filter(None, map(shutil.which, _NAMES)), "")
BROWSER = os.environ.get("VECALL_BROWSER", _FOUND)  # empty: none
MISSING = "needs Chromium and chromedriver: apt-get install chromium chromium-driver"
PATIENCE_S = 20.0
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Element(NamedTuple):
    """An element of the page."""

    browser: Browser
    id: str

    def ask(self, method: str, what: str, **body: Any) -> Any:
        return self.browser.ask(method, f"/element/{self.id}/{what}", **body)

    def click(self) -> None:
        self.ask("POST", "click")

    def write(self, text: str) -> None:
        """Replace what a field holds."""
        self.ask("POST", "clear")
        self.ask("POST", "value", text=text)

    @property
    def text(self) -> str:
        return self.ask("GET", "text")

    @property
    def name(self) -> str:
        """What a screen reader says."""
        return self.ask("GET", "computedlabel")


class Browser:
    """One session of a browser.

    Args:
        url: The address of the driver's session.
        downloads: Where it saves files.
    """

    def __init__(self, url: str, downloads: Path) -> None:
        self.downloads = downloads
        self._client = httpx.Client(base_url=url, timeout=60.0, trust_env=False)

    def close(self) -> None:
        """Close the connection to the driver."""
        self._client.close()

    def ask(self, method: str, path: str, **body: Any) -> Any:
        more = {"json": body} if method == "POST" else {}
        told = self._client.request(method, path, **more).json()["value"]
        if isinstance(told, dict) and "error" in told:
            msg = f"{told['error']}: {told['message']}"
            raise AssertionError(msg)
        return told

    def run(self, script: str, *given: Any) -> Any:
        """The value that a script returns; one that returns a promise is awaited."""
        return self.ask("POST", "/execute/sync", script=script, args=list(given))

    def command(self, name: str, **given: Any) -> Any:
        """A command of the protocol of Chromium's developer tools."""
        return self.ask("POST", "/goog/cdp/execute", cmd=name, params=given)

    def go(self, url: str) -> None:
        self.ask("POST", "/url", url=url)

    def find(self, xpath: str) -> list[Element]:
        found = self.ask("POST", "/elements", using="xpath", value=xpath)
        return [Element(self, each[_ELEMENT]) for each in found]

    def wait(self, known: Callable[[], Any]) -> Any:
        """What a function returns, once it is true."""
        end = time.monotonic() + PATIENCE_S
        while True:
            told = known()
            if told:
                return told
            if time.monotonic() > end:
                msg = f"did not come; the page says: {self.text[:2000]}"
                raise AssertionError(msg)
            time.sleep(0.02)

    def one(self, xpath: str) -> Element:
        """The only visible element, once it is there."""
        return self.wait(lambda: self.find(xpath))[0]

    def button(self, label: str, within: str = "") -> Element:
        """A button or a link by its text."""
        words = f'[normalize-space(.)="{label}"]'
        return self.one(f"{within}//*[self::button or self::a]{words}")

    def field(self, name: str) -> Element:
        return self.one(f'//*[@name="{name}"]')

    @property
    def text(self) -> str:
        return self.run("return document.body.innerText")

    def says(self, text: str) -> None:
        """Wait until the page shows a text."""
        self.wait(lambda: text in self.text)

    def settled(self) -> None:
        """Wait until a view is there."""
        ready = "return !!document.querySelector('main h1') && !main.ariaBusy"
        self.wait(lambda: self.run(ready))

    def resize(self, width: int, height: int) -> None:
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def scheme(self, name: str) -> None:
        """Prefer "light" or "dark"."""
        media = [{"name": "prefers-color-scheme", "value": name}]
        self.command("Emulation.setEmulatedMedia", features=media)

    def picture(self, path: Path) -> None:
        """Write a picture of what is to be seen."""
        path.write_bytes(base64.b64decode(self.ask("GET", "/screenshot")))

    def log(self) -> list[str]:
        """Messages of the console and of the network since the last call."""
        told = self.ask("POST", "/se/log", type="browser")
        return [each["message"] for each in told]

    def requests(self) -> list[str]:
        """The addresses that were asked for since the last call."""
        events = self.ask("POST", "/se/log", type="performance")
        messages = [json.loads(each["message"])["message"] for each in events]
        return [
            each["params"]["request"]["url"]
            for each in messages
            if each["method"] == "Network.requestWillBeSent"
        ]


@contextmanager
def browsing(downloads: Path) -> Iterator[Browser]:
    """A browser of its own, without a window; what it saves goes to a folder."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    driver = subprocess.Popen(
        [DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    root = f"http://127.0.0.1:{port}"
    chrome = {
        "binary": BROWSER,
        "args": [
            "--headless=new",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            *(["--no-sandbox"] if os.name == "posix" and os.getuid() == 0 else []),
        ],
        "prefs": {"download.default_directory": str(downloads)},
    }
    wanted = {
        "browserName": "chrome",
        "goog:chromeOptions": chrome,
        "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
    }
    try:
        _wait_for(root)
        asked = {"capabilities": {"alwaysMatch": wanted}}
        with httpx.Client(timeout=60.0, trust_env=False) as client:
            told = client.post(f"{root}/session", json=asked).json()["value"]
            assert "sessionId" in told, told
            url = f"{root}/session/{told['sessionId']}"
            opened = Browser(url, downloads)
            try:
                yield opened
            finally:
                opened.close()
                client.delete(url)
    finally:
        driver.terminate()
        driver.wait()


def _wait_for(root: str) -> None:
    for _ in range(400):
        try:
            if httpx.get(f"{root}/status", trust_env=False).json()["value"]["ready"]:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    msg = "the driver does not answer"
    raise AssertionError(msg)
