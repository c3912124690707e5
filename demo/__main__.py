"""The main job on the capture beside this file: summary, top ops, Parquet, and back. Run it with `make demo`."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.dataset as ds

import fastprof
from fastprof.cli.main import main as command

LOGDIR = Path(__file__).parent / "logdir"
OUT = Path("demo-out")


def step(*words: str) -> None:
    """Shows a command, and runs it."""
    print(f"\n$ fastprof {' '.join(words)}", flush=True)
    code = command(list(words))
    if code:
        sys.exit(code)


def main() -> None:
    logdir = str(LOGDIR.relative_to(Path.cwd()) if LOGDIR.is_relative_to(Path.cwd()) else LOGDIR)
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


if __name__ == "__main__":
    main()
