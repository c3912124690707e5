"""A headless Chromium, a server of ours, and what every test of the page holds: no error in the console, no request to
another place.

The browser is a package of the system (Debian's ``chromium``), driven by playwright. Where it is absent these tests
skip and say so; FASTPROF_REQUIRE_BROWSER=1, as CI sets it, makes that an error.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--font-render-hinting=none",
]
_ABSENT = "no chromium on the path: the page is not tested (Debian: apt-get install chromium)"
_READY_S = 30


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for the tests of a file. Not for all: while it is open, the loop of its driver runs in this thread,
    and tests that run a loop of their own would fail."""
    if CHROMIUM is None:
        if os.environ.get("FASTPROF_REQUIRE_BROWSER"):
            pytest.fail(f"FASTPROF_REQUIRE_BROWSER is set, and {_ABSENT}")
        pytest.skip(_ABSENT)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        yield started
        started.close()


class Served:
    """A running server: its ``url``, and the process."""

    def __init__(self, url: str, process: subprocess.Popen[bytes]) -> None:
        self.url = url
        self.process = process


def serve(cache: Path, *words: str, port: int = 0) -> Served:
    """Starts ``fastprof serve`` and waits until it answers."""
    port = port or _free_port()
    url = f"http://127.0.0.1:{port}/"
    command = [sys.executable, "-m", "fastprof", "serve", *words, "--port", str(port), "--cache", str(cache)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            complaint = process.stderr.read().decode() if process.stderr else ""
            raise AssertionError(f"the server ended with {process.returncode}: {complaint}")
        try:
            with urllib.request.urlopen(url, timeout=2):
                return Served(url, process)
        except HTTPError:  # it answers, and wants a token
            return Served(url, process)
        except (URLError, ConnectionError, TimeoutError):
            time.sleep(0.05)
    process.kill()
    raise AssertionError(f"the server did not answer in {_READY_S} s")


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """``server(path)`` is the address of a server of that session; one process each, kept to the end."""
    running: dict[tuple[str, ...], Served] = {}

    def address(*words: str | Path) -> str:
        key = tuple(str(word) for word in words)
        if key not in running:
            running[key] = serve(tmp_path_factory.mktemp("cache"), *key)
        return running[key].url

    yield address
    for one in running.values():
        one.process.terminate()
        one.process.wait(10)
        if one.process.stderr:
            one.process.stderr.close()


@pytest.fixture
def faults() -> list[str]:
    """What went wrong in the page so far; a test that expects some takes them out."""
    return []


@pytest.fixture(scope="module")
def window(browser: Any) -> Iterator[Any]:
    """One window for the tests of a file, held open by an empty tab: opening one takes longer than drawing a page.
    Motion is reduced: an animated skeleton is drawn in each frame."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    context.new_page()
    yield context
    context.close()


@pytest.fixture
def page(window: Any, faults: list[str]) -> Iterator[Any]:
    """A page that fails the test on an error in the console and on any request to another place than its server.
    Pages before it left nothing with the browser that it finds."""
    first = window.pages[0]
    opened = window.new_page()
    opened.wait_for_function = partial(opened.wait_for_function, polling=50)  # milliseconds; else it draws each frame
    opened.on("console", lambda said: faults.append(said.text) if said.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("request", lambda request: _check_local(request.url, faults))
    yield opened
    for other in window.pages[1:]:
        other.close()
    window.clear_cookies()
    window.clear_permissions()
    devtools = window.new_cdp_session(first)
    devtools.send("Storage.clearDataForOrigin", {"origin": "*", "storageTypes": "all"})
    devtools.detach()
    assert faults == []


AXE = Path(__file__).resolve().parents[2] / ".venv/page/node_modules/axe-core/axe.min.js"
_FOUND = """async () => {
    document.querySelectorAll("details").forEach((one) => { one.open = true; });
    const { violations } = await axe.run(document, { resultTypes: ["violations"] });
    return violations.filter((one) => ["serious", "critical"].includes(one.impact)).map((one) =>
        `${one.id}: ${one.nodes.slice(0, 5).map((node) => node.html.slice(0, 200)).join(" | ")}`);
}"""


@pytest.fixture
def find_faults(page: Any) -> Callable[[], list[str]]:
    """``find_faults()`` is the serious faults of accessibility that axe-core finds in the page, all of it unfolded."""
    if not AXE.exists():
        absent = "no axe-core in .venv/page: run make lint"
        if os.environ.get("FASTPROF_REQUIRE_BROWSER"):
            pytest.fail(absent)
        pytest.skip(absent)

    def found() -> list[str]:
        page.evaluate(AXE.read_text())
        return list(page.evaluate(_FOUND))

    return found


def _check_local(url: str, faults: list[str]) -> None:
    if not url.startswith(("http://127.0.0.1:", "data:", "blob:", "file:///")):
        faults.append(f"a request off the machine: {url}")
