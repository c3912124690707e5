"""The main jobs on the captures beside this file: answers, Parquet and back, pages. `make demo` runs it."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from pathlib import Path

import pyarrow.dataset as ds

import fastprof
from fastprof.cli.main import main as run_command

HERE = Path(__file__).parent
OUT = Path("demo-out")
# What each command answers, its words, and the file that keeps its answer.
ANSWERS = (
    ("what costs the time, and what to do", "diagnosis demo/xla", "diagnosis.txt"),
    ("a slow host of a pod, and its slow step", "overview demo/pod", "overview.txt"),
    ("time by program and category", "op-profile demo/xla", "op-profile.txt"),
    ("distance of ops from the device's peak", "roofline demo/xla", "roofline.txt"),
    ("communication that compute does not hide", "communication demo/xla", "communication.txt"),
    ("what is alive at a program's memory peak", "memory-viewer demo/xla", "memory-viewer.txt"),
    ("an op that keeps memory at every step", "memory-profile demo/memory", "memory-profile.txt"),
    ("the slow stage of an input pipeline", "tf-data demo/tf-data", "tf-data.txt"),
    ("requests of a model server", "inference demo/serving", "inference.txt"),
    ("a trace for ui.perfetto.dev", "export trace demo/xla --format perfetto -o {file} --force", "xla.pftrace"),
    ("pages and timeline as one file", "report demo/xla --html {file} --force", "xla.html"),
)


def find_demo(words: str) -> list[str]:
    """Return the words of a command with the paths of this folder as seen from the current one."""
    place = str(HERE.relative_to(Path.cwd()) if HERE.is_relative_to(Path.cwd()) else HERE)
    return [place + word.removeprefix("demo") if word.startswith("demo/") else word for word in words.split()]


def run(words: list[str], answer: Path) -> float:
    """Run a command, its answer in a file; return its seconds."""
    began = time.perf_counter()
    writes_itself = str(answer) in words
    with (
        Path(os.devnull if writes_itself else answer).open("w") as stream,
        contextlib.redirect_stdout(stream),
        contextlib.redirect_stderr(io.StringIO()) as notes,
    ):
        code = run_command(words)
    if code:
        print(notes.getvalue(), file=sys.stderr)
        sys.exit(f"fastprof {' '.join(words)}: exit status {code}")
    return time.perf_counter() - began


def show(left: str, right: object, seconds: str = "") -> None:
    print(f"  {left:<42}  {right!s:<28}  {seconds}".rstrip(), flush=True)


def export_and_read_back() -> None:
    """Export the capture of a real run to Parquet and compare what pyarrow reads with what was loaded."""
    run(find_demo(f"export demo/logdir --output {OUT / 'tables'} --force"), OUT / "export.txt")
    written = ds.dataset(OUT / "tables" / "events").to_table()
    loaded = fastprof.load(HERE / "logdir").events
    if written["start_ps"].combine_chunks() != loaded["start_ps"].combine_chunks():
        sys.exit("the exported start_ps are not those of the capture")
    show("events as Parquet, equal when read back", OUT / "tables")


def main() -> None:
    OUT.mkdir(exist_ok=True)
    print("fastprof demo: captures of this repository, their answers in files\n")
    for question, words, name in ANSWERS:
        seconds = run(find_demo(words.format(file=OUT / name)), OUT / name)
        show(question, OUT / name, f"{seconds:.1f} s")
    export_and_read_back()
    capture = find_demo("demo/xla")[0]
    print("\nGo on with")
    show(f"fastprof {capture}", "what costs the time, and what to do next")
    show(f"fastprof serve {capture} --open", "timeline and pages; pip install starlette uvicorn")
    show(f"open {OUT / 'xla.html'}", "the same pages, without a server")
    show("README.md", "how to record a program of your own")


if __name__ == "__main__":
    main()
