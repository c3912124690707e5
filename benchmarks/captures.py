"""The captures that are measured, made when first needed and kept under ``data``."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

GENERATOR = 1
"""Raised when make_traces.py writes other captures than before, so that those on disk are made anew."""

HERE = Path(__file__).resolve().parent
DATA = HERE / "data"
BLOCK = 8 << 20


@dataclass(frozen=True, slots=True)
class Capture:
    """A capture on disk and what it holds."""

    name: str
    path: Path
    bytes: int
    events: int
    stats: int
    lines: int

    def warm(self) -> None:
        """Reads the file once, so that no run pays for the disk."""
        with self.path.open("rb", buffering=0) as file:
            while file.read(BLOCK):
                pass


MAIN = "host-120mb"
"""The capture that the claims are measured on: about four million events with stats."""

HUGE = "host-4.5gib"
"""Past what 32-bit offsets reach."""

RECIPES: dict[str, tuple[str, ...]] = {
    "host-10mb": ("host", "--events", "330000"),
    MAIN: ("host", "--events", "4030000"),
    "host-1gb": ("host", "--events", "32000000"),
    HUGE: ("host", "--events", "156000000"),
    "device-10mb": ("device", "--events", "230000"),
    "device-100mb": ("device", "--events", "2400000"),
    "device-1gb": ("device", "--events", "23500000"),
    "many-lines-10mb": ("many-lines", "--events", "330000"),
    "many-lines-100mb": ("many-lines", "--events", "3300000"),
    "many-lines-1gb": ("many-lines", "--events", "32000000"),
    "one-line-10mb": ("one-line", "--events", "340000"),
    "one-line-100mb": ("one-line", "--events", "3350000"),
    "one-line-1gb": ("one-line", "--events", "32000000"),
}
"""Arguments of make_traces.py, by the name of the capture."""

SMALL = tuple(name for name in RECIPES if not name.endswith(("gb", "gib")))


def capture(name: str, folder: Path = DATA) -> Capture:
    """The capture of that name; made now if it is not there, which takes up to a few minutes."""
    path = folder / f"{name}.xplane.pb"
    stamp = path.with_name(path.name + ".recipe")
    recipe = f"generator {GENERATOR}: {' '.join(RECIPES[name])}\n"
    if not (path.exists() and stamp.exists() and stamp.read_text() == recipe):
        folder.mkdir(parents=True, exist_ok=True)
        print(f"making {path.name}", file=sys.stderr, flush=True)
        shape, *options = RECIPES[name]
        command = [sys.executable, str(HERE / "make_traces.py"), shape, str(path), *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        stamp.write_text(recipe)
    return Capture(name, path, **json.loads(path.with_name(path.name + ".json").read_text()))
