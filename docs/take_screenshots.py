"""Take the screenshots of the site's first page: the viewer with a session that ships with the project.

`make site` runs this. It needs a chromium in the path.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
SCREENSHOTS = ROOT / "docs" / "screenshots"
PAGES = {"1-What-costs-the-time": "diagnosis", "2-Timeline": "timeline", "3-Time-by-op": "op_profile"}
"""Page of the viewer by file name; names give the order and the description."""


def main() -> None:
    SCREENSHOTS.mkdir(exist_ok=True)
    server = [sys.executable, "-m", "fastprof", "serve", str(ROOT / "demo" / "xla"), "--port", "0"]
    with subprocess.Popen(server, stderr=subprocess.PIPE, text=True) as serving, sync_playwright() as playwright:
        assert serving.stderr is not None
        address = re.findall(r"http://\S+", serving.stderr.readline())[0]
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800}, device_scale_factor=1)
        for name, shown in PAGES.items():
            page.goto(f"{address}#/{shown}")
            page.wait_for_load_state("networkidle")
            page.wait_for_timeout(1000)  # charts are drawn a frame later
            page.screenshot(path=SCREENSHOTS / f"{name}.png")
        browser.close()
        serving.terminate()


if __name__ == "__main__":
    main()
