"""A real Chromium for tests, driven over its debugging pipe: no driver, no port, no library.

Owns starting and stopping it, pages, keys, and what it says of network, console and errors. Leaves out what
is checked (tests/report/html/test_browser.py). Chromium is looked for, never downloaded.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-extensions",
    "--disable-dev-shm-usage", "--no-default-browser-check", "--remote-debugging-pipe",
)  # fmt: skip
LIMIT = 60.0  # seconds for any one answer, on a busy machine


def find() -> str | None:
    """The path of a Chromium on this machine; None where there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Page:
    """One tab. `requests`: addresses it asked for; `said`: console messages and uncaught errors."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session
        self.requests: list[str] = []
        self.said: list[str] = []
        browser.pages[session] = self
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.call(method, params, self._session)

    def open(self, address: str) -> None:
        """Go to `address`, or to another place in the page that is open, and wait until it is ready."""
        self.call("Page.navigate", url=address)
        there = f"location.href.startsWith({json.dumps(address.split('#')[0])})"
        self.wait(f"{there} && document.documentElement?.dataset.ready === 'true'")

    def js(self, code: str) -> Any:
        """The value of `code`, awaited. Raises AssertionError with what it threw."""
        found = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, code: str) -> None:
        """Until `code` is true; while a page goes there is none that could answer."""
        end = time.monotonic() + LIMIT
        while True:
            try:
                if self.js(code):
                    return
            except AssertionError:
                if time.monotonic() > end:
                    raise
            assert time.monotonic() < end, f"never became true: {code}"
            time.sleep(0.02)

    def text(self, selector: str) -> str:
        return str(self.js(f"document.querySelector({json.dumps(selector)}).textContent"))

    def texts(self, selector: str) -> list[str]:
        """Of all elements that are shown."""
        code = f"[...document.querySelectorAll({json.dumps(selector)})].filter(n => n.checkVisibility())"
        return list(self.js(f"{code}.map(n => n.textContent)"))

    def click(self, selector: str) -> None:
        self.js(f"document.querySelector({json.dumps(selector)}).click()")

    def key(self, key: str, *, shift: bool = False) -> None:
        """A key press as a hand makes it: an event of the browser, not of the page."""
        codes = {
            "Tab": 9,
            "Enter": 13,
            "Escape": 27,
            "ArrowLeft": 37,
            "ArrowRight": 39,
            "Home": 36,
            "End": 35,
        }
        what: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": codes.get(key, ord(key[0].upper()))}
        what["modifiers"] = 8 if shift else 0
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **what)
        self.call("Input.dispatchKeyEvent", type="keyUp", **what)

    def write(self, selector: str, text: str) -> None:
        self.js(f"document.querySelector({json.dumps(selector)}).focus()")
        self.call("Input.insertText", text=text)

    def size(self, width: int, height: int = 900) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def prefers(self, scheme: str) -> None:
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def heard(self, method: str, params: dict[str, Any]) -> None:
        """An event of this tab."""
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.consoleAPICalled":
            self.said.append(" ".join(str(a.get("value")) for a in params["args"]))
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.said.append(str(details.get("exception", {}).get("description") or details["text"]))
        elif method == "Log.entryAdded":
            self.said.append(params["entry"]["text"])


class Browser:
    """One Chromium with an empty profile in `folder`; a context manager that ends it."""

    def __init__(self, program: str, folder: Path) -> None:
        self.pages: dict[str, Page] = {}
        self._next = 0
        self._rest = b""
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        # The browser reads from 3 and writes to 4: first out of the way, then there, in a process that
        # becomes the browser (a function run between fork and exec is not safe where there are threads).
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (theirs_in, theirs_out)]
        place = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); "
        place += "os.execv(sys.argv[3], sys.argv[3:])"
        command = [sys.executable, "-I", "-S", "-c", place, *map(str, ends)]
        command += [program, *FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"]
        with (folder / "chromium.log").open("wb") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, pass_fds=ends
            )
        for fd in (theirs_in, theirs_out, *ends):
            os.close(fd)
        self._in, self._out = ours_in, ours_out
        os.set_blocking(self._in, False)

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._out)
        os.close(self._in)
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def page(self) -> Page:
        """A new tab."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        return Page(
            self, self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        )

    def call(self, method: str, params: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        """Send one command and give its result; events on the way go to their page."""
        self._next += 1
        message: dict[str, Any] = {"id": self._next, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._next:
                assert "error" not in answer, f"{method}: {answer.get('error')}"
                return dict(answer["result"])
            page = self.pages.get(answer.get("sessionId", ""))
            if page is not None and "method" in answer:
                page.heard(answer["method"], answer["params"])

    def _read(self) -> dict[str, Any]:
        end = time.monotonic() + LIMIT
        while b"\0" not in self._rest:
            try:
                found = os.read(self._in, 1 << 20)
            except BlockingIOError:
                assert time.monotonic() < end, "the browser does not answer"
                time.sleep(0.005)
                continue
            assert found, "the browser is gone"
            self._rest += found
        line, self._rest = self._rest.split(b"\0", 1)
        return dict(json.loads(line))
