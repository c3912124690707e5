"""One job of fastprof, repeated in this process; reports the seconds of each repetition, less the warm-up.

Usage: fastprof_reader.py CAPTURE JOB [--threads N] [--warm-up N] [--repeat N]. Each repetition loads the
capture afresh. The very first, which imports what `load` needs, is reported apart. Facts are row counts of
the last repetition.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import fastprof

if TYPE_CHECKING:
    from fastprof.profile.report import Report

Facts = dict[str, int]
Work = Callable[["fastprof.Profile"], tuple[Facts, object]]
"""Does the job; returns counts, and what it made, so that freeing it is not counted."""

NAME_AND_TIMES = ["name", "start_ps", "duration_ps"]


def names(profile: fastprof.Profile) -> tuple[Facts, object]:
    """Name, start and duration of every event."""
    table = profile.event_table(columns=NAME_AND_TIMES)
    return {"events": table.num_rows}, table


def everything(profile: fastprof.Profile) -> tuple[Facts, object]:
    """Every event with all its columns, and every stat, typed."""
    tables = profile.read("events", "event_stats")
    return {"events": tables["events"].num_rows, "stats": tables["event_stats"].num_rows}, tables


def all_tables(profile: fastprof.Profile) -> tuple[Facts, object]:
    """All tables read from the capture, held together."""
    tables = profile.read(*(name for name in profile.tables if name != "nesting"))
    return {"events": tables["events"].num_rows, "stats": tables["event_stats"].num_rows}, tables


def nesting(profile: fastprof.Profile) -> tuple[Facts, object]:
    """Depth, parent and self time of every event."""
    table = profile.nesting
    return {"events": table.num_rows}, table


def summary(profile: fastprof.Profile) -> tuple[Facts, object]:
    """Events by name: count, total, self, mean, least, most."""
    table = profile.event_summary()
    return {"names": table.num_rows}, table


def typed_columns(profile: fastprof.Profile) -> tuple[Facts, object]:
    """Name, times, and two stats as typed columns beside them."""
    table = profile.event_table(columns=NAME_AND_TIMES, stats=["id", "_c"])
    return {"events": table.num_rows}, table


def scan(profile: fastprof.Profile) -> tuple[Facts, object]:
    """Name, start and duration in batches, none of them kept."""
    return {"events": sum(batch.num_rows for batch in profile.scan(columns=NAME_AND_TIMES))}, None


def overview(profile: fastprof.Profile) -> tuple[Facts, object]:
    """The overview: which steps there are, where their time goes, the most expensive ops."""
    report = profile.report("overview")
    return _steps(report), report


def op_stats(profile: fastprof.Profile) -> tuple[Facts, object]:
    """Where time goes by op, on host and devices."""
    report = profile.report("op_stats")
    return {"ops": report.tables["ops"].num_rows}, report


def input_pipeline(profile: fastprof.Profile) -> tuple[Facts, object]:
    """How much of each step waits for input, and the input ops."""
    report = profile.report("input_pipeline")
    return {**_steps(report), "input_ops": report.tables["input_ops"].num_rows}, report


def pod_viewer(profile: fastprof.Profile) -> tuple[Facts, object]:
    """Each step on each core of all hosts."""
    report = profile.report("pod_viewer")
    return {"rows": report.tables["cores"].num_rows}, report


def memory_profile(profile: fastprof.Profile) -> tuple[Facts, object]:
    """All allocations and what is taken back: who holds how much, fragmentation, lifetimes, growth."""
    report = profile.report("memory_profile")
    peaks = report.tables["allocators"]["peak_bytes"].to_pylist()
    snapshots = report.tables["snapshots"].num_rows
    return {"allocators": len(peaks), "peak_bytes": sum(peaks), "snapshots": snapshots}, report


def tf_data(profile: fastprof.Profile) -> tuple[Facts, object]:
    """The input pipelines: every call, every iterator, what they wait for."""
    tables = profile.report("tf_data").tables
    return {"pipelines": tables["pipelines"].num_rows, "calls": tables["calls"].num_rows}, tables


def hlo_stats(profile: fastprof.Profile) -> tuple[Facts, object]:
    """Every instruction that ran: time, work, what bounds it."""
    report = profile.report("hlo_stats")
    return {"ops": report.tables["ops"].num_rows}, report


def op_profile(profile: fastprof.Profile) -> tuple[Facts, object]:
    """The same as a tree of programs and categories, and by scope of names."""
    report = profile.report("op_profile")
    return {"nodes": report.tables["tree"].num_rows}, report


def roofline(profile: fastprof.Profile) -> tuple[Facts, object]:
    """How near each instruction comes to what the device can."""
    report = profile.report("roofline")
    return {"rows": report.tables["ops"].num_rows}, report


def memory_viewer(profile: fastprof.Profile) -> tuple[Facts, object]:
    """The memory of the largest program over its run, and what is alive at the peak."""
    report = profile.report("memory_viewer")
    return {"points": report.tables["heap"].num_rows}, report


def programs(profile: fastprof.Profile) -> tuple[Facts, object]:
    """All tables of programs: computations, instructions, buffers, the heap."""
    tables = profile.read(*(name for name in profile.tables if name.startswith("hlo_")))
    return {"instructions": tables["hlo_instructions"].num_rows}, tables


def program_text(profile: fastprof.Profile) -> tuple[Facts, object]:
    """Each program as text."""
    texts = [profile.hlo_text(name) for name in profile.tables["hlo_modules"]["module"].to_pylist()]
    return {"characters": sum(map(len, texts))}, texts


def _steps(report: Report) -> Facts:
    return {"steps": report.tables["steps"].num_rows}


JOBS: dict[str, Work] = {
    "names": names,
    "everything": everything,
    "all-tables": all_tables,
    "nesting": nesting,
    "summary": summary,
    "typed-columns": typed_columns,
    "scan": scan,
    "overview": overview,
    "op-stats": op_stats,
    "input-pipeline": input_pipeline,
    "pod-viewer": pod_viewer,
    "memory-profile": memory_profile,
    "tf-data": tf_data,
    "hlo-stats": hlo_stats,
    "op-profile": op_profile,
    "roofline": roofline,
    "memory-viewer": memory_viewer,
    "programs": programs,
    "program-text": program_text,
}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("capture")
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--warm-up", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args(argv)
    work = JOBS[args.job]
    facts: Facts = {}
    seconds = []
    for _ in range(args.warm_up + args.repeat):
        began = time.perf_counter()
        facts, made = work(fastprof.load(args.capture, threads=args.threads))
        seconds.append(time.perf_counter() - began)
        del made
    print(json.dumps({"first": seconds[0], "seconds": seconds[args.warm_up :], "facts": facts}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
