"""The main job on the captures beside this file: summary, top ops, Parquet and back, analyses. `make demo` runs it."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.dataset as ds

import fastprof
from fastprof.cli.main import main as command

HERE = Path(__file__).parent
LOGDIR = HERE / "logdir"
OUT, PAGES = Path("demo-out"), Path("demo-pages")


def step(*words: str) -> None:
    """Shows a command, and runs it."""
    print(f"\n$ fastprof {' '.join(words)}", flush=True)
    code = command(list(words))
    if code:
        sys.exit(code)


def shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def main() -> None:
    logdir = shown(LOGDIR)
    step("info", logdir)
    step("events", logdir, "--limit", "10")
    step("export", logdir, "--output", str(OUT), "--force")

    print("\nRead back with pyarrow:")
    written = ds.dataset(OUT / "events", partitioning="hive").to_table()
    loaded = fastprof.load(LOGDIR).events
    print(f"  {written.num_rows} events in {OUT}/events, {loaded.num_rows} in the capture")
    if written["start_ps"].combine_chunks() != loaded["start_ps"].combine_chunks():
        sys.exit("the data set is not what the capture holds")
    print("  start_ps: equal, event by event")

    step("overview", shown(HERE / "pod"))
    step("inference", shown(HERE / "serving"), "--limit", "5")
    step("memory-profile", shown(HERE / "memory"), "--limit", "5")
    step("tf-data", shown(HERE / "tf-data"), "--limit", "5")
    xla()


def xla() -> None:
    """What a compiled program did: one training step, on two chips."""
    capture = shown(HERE / "xla")
    step("op-profile", capture, "--limit", "8")
    step("hlo-stats", capture, "--limit", "5")
    step("roofline", capture, "--limit", "5")
    step("communication", capture, "--limit", "5")
    step("memory-viewer", capture, "--limit", "5")
    step("hlo", capture)
    viewing(capture)


def viewing(capture: str) -> None:
    """Files for trace viewers, and the pages as one file. `fastprof serve demo/xla --open` has all of it live."""
    PAGES.mkdir(exist_ok=True)
    step("trace", capture, "--format", "perfetto", "-o", str(PAGES / "xla.pftrace"), "--force")
    step("report", capture, "--html", str(PAGES / "xla.html"), "--force")
    print(f"\nOpen {PAGES}/xla.html in a browser, or run: fastprof serve {capture} --open")


if __name__ == "__main__":
    main()
