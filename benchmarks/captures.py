"""The captures that are measured, made when first needed and kept under ``data``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

GENERATOR = 1
"""Goes up when make_traces.py writes different captures, so that those on disk are replaced."""

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("FASTPROF_BENCHMARK_DATA") or HERE / "data")
BLOCK = 8 << 20


@dataclass(frozen=True, slots=True)
class Capture:
    """A capture on disk, or a run directory of several, and what they hold together."""

    name: str
    path: Path
    bytes: int
    events: int
    stats: int
    lines: int

    @property
    def files(self) -> list[Path]:
        return sorted(self.path.iterdir()) if self.path.is_dir() else [self.path]

    def warm(self) -> None:
        """Reads the files once, so that no run pays for the disk."""
        for path in self.files:
            with path.open("rb", buffering=0) as file:
                while file.read(BLOCK):
                    pass


MAIN = "host-120mb"
"""The capture that the claims are measured on: about four million events with stats."""

TEN_TIMES = "host-40m"
"""Ten times the events of the main one, for the trace viewer."""

HUGE = "host-4.5gib"
"""Past what 32-bit offsets reach."""

REAL_TPU = HERE.parent.parent / "shared" / "captures" / "xspace" / "tpu-v6e-jax-inference" / "host0.xplane.pb"
"""A real capture of four TPU v6e chips, where the real captures lie beside the checkout."""

POD, POD_HOSTS, POD_STEPS = "pod-64", 64, 125

SHAPES: dict[str, tuple[str, ...]] = {
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
"""The captures of every shape and size: arguments of make_traces.py, by the name of the capture."""

GROWING = ("host-500k", "host-1m", "host-2m", MAIN)
"""From half a million host events to four million."""

MEMORY_GROWING = ("memory-250k", "memory-500k", "memory-1m", "memory-2m")
"""Named after the allocations and what is taken back; there are 1.3 other events to each."""

PIPELINES_GROWING = ("pipelines-500k", "pipelines-1m", "pipelines-2m", "pipelines-4m")
"""Up to four million events of a host that reads from tf.data."""

PROGRAMS_GROWING = ("program-25k", "program-50k", "program-100k")
"""Named after the instructions of their one program."""

DEVICE_PLANES = "^/device:TPU:|^Task Environment"

RECIPES = {
    **SHAPES,
    "host-1mb": ("host", "--events", "33000"),
    "host-40mb": ("host", "--events", "1340000"),
    "device-1mb": ("device", "--events", "23000"),
    "device-40mb": ("device", "--events", "920000"),
    "host-500k": ("host", "--events", "500000"),
    "host-1m": ("host", "--events", "1000000"),
    "host-2m": ("host", "--events", "2000000"),
    TEN_TIMES: ("host", "--events", "40300000"),
    "device-1m": ("device", "--events", "1000000"),
    "tpu-1m": ("scale", "--capture", str(REAL_TPU), "--times", "135", "--planes", DEVICE_PLANES),
    "memory-250k": ("memory", "--events", "570000"),
    "memory-500k": ("memory", "--events", "1140000"),
    "memory-1m": ("memory", "--events", "2280000"),
    "memory-2m": ("memory", "--events", "4560000"),
    "pipelines-500k": ("pipelines", "--events", "500000"),
    "pipelines-1m": ("pipelines", "--events", "1000000"),
    "pipelines-2m": ("pipelines", "--events", "2000000"),
    "pipelines-4m": ("pipelines", "--events", "4030000"),
    "program-25k": ("program", "--events", "25000"),
    "program-50k": ("program", "--events", "50000"),
    "program-100k": ("program", "--events", "100000"),
    POD: ("pod", "--hosts", str(POD_HOSTS), "--steps", str(POD_STEPS)),
}
"""All of them."""

SMALL = tuple(name for name in SHAPES if not name.endswith(("gb", "gib")))


def capture(name: str, folder: Path | None = None) -> Capture:
    """The capture of that name; made now if it is not there, which takes up to a few minutes."""
    shape, *options = RECIPES[name]
    path = (folder or DATA) / (name if shape == "pod" else f"{name}.xplane.pb")
    stamp = path.with_name(path.name + ".recipe")
    recipe = f"generator {GENERATOR}: {' '.join(RECIPES[name])}\n"
    if not (path.exists() and stamp.exists() and stamp.read_text() == recipe):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.rmtree(path)
        print(f"making {path.name}", file=sys.stderr, flush=True)
        command = [sys.executable, str(HERE / "make_traces.py"), shape, str(path), *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        stamp.write_text(recipe)
    return Capture(name, path, **json.loads(path.with_name(path.name + ".json").read_text()))


def devices() -> tuple[str, ...]:
    """The captures of a million device events: the real one scaled, where it is at hand, and the made one."""
    return ("tpu-1m", "device-1m") if REAL_TPU.exists() else ("device-1m",)


def as_run(folder: Path, files: Iterable[Path]) -> Path:
    """A run directory below a folder that holds the captures: as links, for some programs read nothing else and
    write beside it."""
    run = folder / "plugins" / "profile" / "run"
    run.mkdir(parents=True)
    for path in files:
        os.link(path, run / path.name)
    return run


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder beside the captures, gone afterwards with what was written to it."""
    folder = DATA / "scratch"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
