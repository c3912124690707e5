"""Measures everything and writes the results page: what ``make bench`` calls.

    python benchmarks/run.py                     all of it, docs/benchmarks.md; takes about half an hour
    python benchmarks/run.py --quick             no gigabytes, fewer rounds, page on stdout
    python benchmarks/run.py decoding memory     these sections only, page on stdout

Captures are made and rivals installed on first use. Where a section fails, the others are still measured,
but the page is not written.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import page
import rivals
from captures import HERE
from measure import JobFailedError
from section import Plan, Section
from section_analyses import analyses, analyses_memory, million_device_events
from section_decoding import decoding, whole_programs
from section_export import export
from section_growth import growth, memory_growth, pipelines_growth, pod
from section_limits import limits
from section_memory import memory
from section_memory_tf_data import memory_profile, tf_data
from section_shapes import shapes
from section_starting import starting
from section_traces import traces
from section_viewer import viewer
from section_xla import programs, xla

PAGE = HERE.parent / "docs" / "benchmarks.md"
QUICK = Plan(rounds=3, slow_every=3, huge=False)


def in_process(plan: Plan) -> Section:
    """The benchmarks of bench_*.py, run by pytest-benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.json"
        command = [
            sys.executable, "-m", "pytest", "-q", str(HERE), "-p", "no:cacheprovider",
            "-o", "python_files=bench_*.py", "-o", "python_functions=bench_*",
            f"--benchmark-json={results}", f"--benchmark-min-rounds={plan.rounds}", "--benchmark-max-time=2",
            "--benchmark-disable-gc", "--benchmark-warmup=on",
        ]  # fmt: skip
        if subprocess.run(command, stdout=sys.stderr, cwd=HERE.parent, check=False).returncode != 0:
            raise JobFailedError("a benchmark of bench_*.py failed")
        measured = json.loads(results.read_text())["benchmarks"]
    section = Section(
        "In process",
        "By pytest-benchmark in one warm process, on a capture of 10 MB; a row is a function of"
        " `benchmarks/bench_*.py`.",
        ("what", "median", "from", "to", "rounds"),
    )
    for bench in measured:
        stats = bench["stats"]
        times = [f"{stats[key] * 1000:.2f} ms" for key in ("median", "min", "max")]
        section.rows.append((bench["extra_info"].get("title", bench["name"]), *times, str(stats["rounds"])))
    return section


ALL: dict[str, Callable[[Plan], Section]] = {
    "decoding": decoding,
    "whole-programs": whole_programs,
    "memory": memory,
    "limits": limits,
    "export": export,
    "starting": starting,
    "shapes": shapes,
    "analyses": analyses,
    "analyses-memory": analyses_memory,
    "devices": million_device_events,
    "xla": xla,
    "programs": programs,
    "memory-profile": memory_profile,
    "tf-data": tf_data,
    "traces": traces,
    "viewer": viewer,
    "growth": growth,
    "memory-growth": memory_growth,
    "pipelines-growth": pipelines_growth,
    "pod": pod,
    "in-process": in_process,
}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of: {', '.join(ALL)}")
    parser.add_argument("--quick", action="store_true", help="small captures and few rounds")
    parser.add_argument("--update", action="store_true", help="replace these sections of the page, and no others")
    parser.add_argument("--rounds", type=int, help="rounds of each section")
    args = parser.parse_args(argv)
    if unknown := [name for name in args.sections if name not in ALL]:
        parser.error(f"no section {', '.join(unknown)}; there are: {', '.join(ALL)}")
    plan = QUICK if args.quick else Plan()
    if args.rounds:
        plan = Plan(args.rounds, plan.slow_every, plan.huge)
    done, failed = [], 0
    for name in args.sections or ALL:
        print(f"== {name}", file=sys.stderr, flush=True)
        try:
            done.append(ALL[name](plan))
        except (JobFailedError, rivals.RivalMissingError) as error:
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            failed += 1
    text = page.render(done)
    if args.update and not failed:
        PAGE.write_text(page.replace_sections(PAGE.read_text(), done))
    elif args.quick or args.sections or failed:
        print(text)
    else:
        PAGE.write_text(text)
        print(f"wrote {PAGE.name}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
