"""Pans and zooms the timeline of a capture in headless Chromium, and prints the gaps between frames as JSON.

    python frame_times.py CAPTURE

Keys are held down as a user holds them: to the right, to the left, in, out. The gaps are those of
requestAnimationFrame while something moves.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ab import program
from playwright.sync_api import sync_playwright
from viewer_probe import first, free_port

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-sync"]
HOLD_S = 2.0
MOVES = ("w", "w", "d", "a", "w", "d", "a", "w", "d", "a", "s", "d", "a", "s", "d", "a")
RECORD = """() => {
    window.gaps = [];
    let last = performance.now();
    const note = now => { window.gaps.push(now - last); last = now; requestAnimationFrame(note); };
    requestAnimationFrame(now => { last = now; requestAnimationFrame(note); });
}"""


def gaps(page: Any) -> list[float]:
    """Milliseconds between frames while keys are held."""
    page.evaluate(RECORD)
    for key in MOVES:
        page.keyboard.down(key)
        time.sleep(HOLD_S)
        page.keyboard.up(key)
    found: list[float] = page.evaluate("() => window.gaps")
    return found


def main(capture: str) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp())
    port = free_port()
    began = time.perf_counter()
    server = subprocess.Popen(
        [program("fastprof"), "serve", capture, "--port", str(port), "--cache", str(folder), "-q"],
        stdout=subprocess.DEVNULL,
    )
    try:
        url = f"http://127.0.0.1:{port}/"
        first(url, began)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
            page = browser.new_page(viewport={"width": 1600, "height": 900})
            page.goto(f"{url}#/timeline")
            page.wait_for_function("() => window.fastprofTimeline?.idle?.()", timeout=120_000)
            page.mouse.move(900, 500)
            ordered = sorted(gaps(page))
            browser.close()
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)
    facts = {
        "frames": len(ordered),
        "median_us": int(ordered[len(ordered) // 2] * 1000),
        "p99_us": int(ordered[len(ordered) * 99 // 100] * 1000),
        "longest_us": int(ordered[-1] * 1000),
    }
    return {"seconds": [sum(ordered) / 1000], "facts": facts}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
