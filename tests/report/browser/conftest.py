"""A real browser: headless Chromium, spoken to over a pipe in its DevTools protocol. Nothing to install beside it."""

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE = 60  # seconds; a busy machine starts a browser slowly


class Tab:
    """One page. `problems` collects console errors and exceptions, `requests` every address asked for."""

    def __init__(self, process, to_browser: int, from_browser: int):
        self.process, self._to, self._from = process, to_browser, from_browser
        self._buffer, self._numbers, self._session = b"", itertools.count(1), None
        self.problems: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params):
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def _next(self) -> dict:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            assert select.select([self._from], [], [], max(0, deadline - time.monotonic()))[0], "the browser is silent"
            piece = os.read(self._from, 1 << 20)
            assert piece, "the browser has gone"
            self._buffer += piece
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, event: str | None, params: dict) -> None:
        if event == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(params["exceptionDetails"])[:500])
        elif event == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(json.dumps(params["args"])[:500])
        elif event == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(params["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def open(self, page: Path, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        mobile = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **mobile)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Page.navigate", url=page.resolve().as_uri())
        self.wait("document.readyState === 'complete'")

    def evaluate(self, script: str):
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, condition: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self.evaluate(condition):
            assert time.monotonic() < deadline, f"never true: {condition}"
            time.sleep(0.02)

    def show(self, selector: str) -> None:
        """Scroll to an element and wait until the plots in sight are drawn."""
        self.evaluate(f"document.querySelector({selector!r}).scrollIntoView({{behavior: 'instant'}})")
        self.wait(
            "[...document.querySelectorAll('.plot')].filter(p => p.offsetParent && p.getBoundingClientRect().top <"
            " innerHeight && p.getBoundingClientRect().bottom > 0).every(p => p.querySelector('svg.main-svg'))"
        )

    def screenshot(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


def start(profile: Path) -> Tab:
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"no Chromium here (looked for {', '.join(NAMES)}): install it with the system's packages")
    to_browser, from_browser = os.pipe(), os.pipe()
    reads, writes = (fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_browser[0], from_browser[1]))
    command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
    command += ["--no-first-run", "--disable-background-networking", f"--user-data-dir={profile}", "about:blank"]
    # --remote-debugging-pipe listens on 3 and answers on 4
    exchange = f"import os, sys; os.dup2({reads}, 3); os.dup2({writes}, 4); os.execv(sys.argv[1], sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", exchange, *command], pass_fds=(reads, writes),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    for end in (to_browser[0], from_browser[1], reads, writes):
        os.close(end)
    return Tab(process, to_browser[1], from_browser[0])


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    opened = start(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.process.terminate()
    opened.process.wait(timeout=PATIENCE)
    os.close(opened._to)
    os.close(opened._from)


@pytest.fixture
def artefacts() -> Path:
    """Where screenshots are kept for a person to look at."""
    return Path(os.environ.get("ILBRL_TEST_ARTEFACTS", Path(__file__).parents[3] / "artefacts" / "report"))
