"""Compares jobs on one capture: whole rounds of all of them in turn, then medians and ratios.

    python benchmarks/ab.py CAPTURE everything xprof-rs jax-stats --rounds 5

Jobs of fastprof (``JOB``, ``JOB@1`` for one thread) are those of fastprof_reader.py, ``export``,
``events``, and ``fastprof-VERB`` for an analysis as a whole process; the rest are rivals. A capture is a path, of a
file or of a run directory, or a name of captures.py. The first job is the one that
ratios are of; a ratio says how many times longer a job takes than it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import rivals
from captures import DATA, HERE, RECIPES, as_run, capture
from measure import MIB, Job, interleave

FASTPROF_JOBS = (
    "names", "everything", "all-tables", "nesting", "summary", "typed-columns", "scan",
    "overview", "op-stats", "input-pipeline", "pod-viewer", "memory-profile", "tf-data",
    "op-profile", "hlo-stats", "roofline", "memory-viewer", "programs", "program-text",
)  # fmt: skip


def program(name: str) -> str:
    """A program installed beside this Python."""
    return str(Path(sys.executable).with_name(name))


def reading(
    path: Path, work: str, *, threads: int | None = None, warm_up: int = 1, repeat: int = 3, every: int = 1
) -> Job:
    """A job of fastprof in a fresh process: warmed up, then repeated."""
    options = ["--warm-up", str(warm_up), "--repeat", str(repeat)]
    if threads is not None:
        options += ["--threads", str(threads)]
    name = work if threads is None else f"{work}@{threads}"
    command = (sys.executable, str(HERE / "fastprof_reader.py"), str(path), work, *options)
    return Job(name, command, reports=True, every=every)


def exporting(path: Path, out: Path) -> Job:
    """``fastprof export`` of all tables to Parquet, a whole process: a dataset would have the run after one round."""
    layout = ("--layout", "paths", "--force")
    return Job("export", (program("fastprof"), "export", str(path), "-o", str(out), *layout, "-q"))


def summing_up(path: Path) -> Job:
    """``fastprof events``: the events by name, a whole process."""
    return Job("events", (program("fastprof"), "events", str(path), "--format", "json", "-q"))


def analysing(path: Path, verb: str, form: str = "json") -> Job:
    """``fastprof VERB``: an analysis, its report printed, a whole process."""
    return Job(f"fastprof-{verb}", (program("fastprof"), verb, str(path), "--format", form, "-q"))


def job_of(text: str, path: Path, scratch: Path) -> Job:
    """The job of a name given on the command line."""
    name, _, threads = text.partition("@")
    if name in FASTPROF_JOBS:
        return reading(path, name, threads=int(threads) if threads else None)
    if name == "export":
        return exporting(path, scratch / "out")
    if name == "events":
        return summing_up(path)
    if name == "create_events_db":
        return rivals.create_events_db(path, scratch)
    if name.startswith("fastprof-"):
        return analysing(path, name.removeprefix("fastprof-"))
    if name in rivals.MAKERS:
        return rivals.MAKERS[name](path)
    if name in rivals.RUN_MAKERS:
        run = as_run(scratch / name, sorted(path.iterdir()) if path.is_dir() else [path])
        return rivals.RUN_MAKERS[name](run)
    own = [*FASTPROF_JOBS, "export", "events", "fastprof-VERB"]
    known = ", ".join([*own, *rivals.MAKERS, *rivals.RUN_MAKERS, "create_events_db"])
    raise SystemExit(f"no job {name}; there are: {known}")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("capture")
    parser.add_argument("jobs", nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args(argv)
    path = capture(args.capture).path if args.capture in RECIPES else Path(args.capture)
    DATA.mkdir(exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="scratch-", dir=DATA))
    try:
        jobs = [job_of(text, path, scratch) for text in args.jobs]
        outcomes = interleave(jobs, args.rounds, quiet=True)
    finally:
        shutil.rmtree(scratch)
    first = outcomes[jobs[0].name]
    size = sum(file.stat().st_size for file in path.iterdir()) if path.is_dir() else path.stat().st_size
    for outcome in outcomes.values():
        ratio = outcome.median / first.median
        speed = size / outcome.median / 1e6
        memory = outcome.peak / size
        print(f"{outcome}  {ratio:6.2f}x  {speed:6.0f} MB/s  {memory:5.2f} file sizes")
    print(f"{path.name}: {size / MIB:.0f} MiB, {args.rounds} rounds")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
