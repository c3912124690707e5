"""Export to Parquet against XProf's, then of a capture past 4 GiB, read back."""

from __future__ import annotations

import sys
from pathlib import Path

import rivals
from ab import exporting
from captures import HERE, HUGE, MAIN, Capture, capture, scratch
from measure import MIB, Job, JobFailedError, interleave
from section import MB, Plan, Section, at_least, at_most, mebibytes, run, seconds

HUGE_LIMIT_MIB = 600
COLUMNS = ("events:duration_ps", "event_stats:event_id")
"""What is read back: both readers count the rows and add up the column."""


def export(plan: Plan) -> Section:
    section = Section(
        "Export to Parquet",
        "Whole processes. `fastprof export` writes every table, stats typed; XProf's `create_events_db`"
        " writes one table, the stats of an event as one text. The huge capture is past 4 GiB;"
        " protobuf, JAX and XProf refuse one of 2 GiB. Every file is read back.",
        ("what", "seconds", "peak memory", "written", "asked"),
    )
    with scratch() as folder:
        _against_xprof(section, capture(MAIN), folder, plan.part(2, 3))
    if plan.huge:
        with scratch() as folder:
            _huge(section, capture(HUGE), folder)
    return section


def _against_xprof(section: Section, taken: Capture, folder: Path, rounds: int) -> None:
    out, cache = folder / "out", folder / "xprof"
    cache.mkdir()
    done = run([exporting(taken.path, out), rivals.create_events_db(taken.path, cache)], rounds, taken)
    ours, rival = done["export"], done["create_events_db"]
    ratio = rival.median / ours.median
    verdict = f"{ratio:.1f} times faster, {at_least(ratio, 5)}"
    section.add(f"`fastprof export` of `{taken.name}`", seconds(ours), mebibytes(ours), _written(out), verdict)
    title = f"XProf `create_events_db` of `{taken.name}`"
    section.add(title, seconds(rival), mebibytes(rival), _written(cache), "")
    _read_back(section, taken, out)


def _huge(section: Section, taken: Capture, folder: Path) -> None:
    out = folder / "out"
    outcome = interleave([exporting(taken.path, out)], 1)["export"]
    title = f"`fastprof export` of `{taken.name}`: {taken.bytes / (1 << 30):.2f} GiB"
    verdict = f"MiB {at_most(outcome.peak / MIB, HUGE_LIMIT_MIB)}"
    section.add(title, seconds(outcome), mebibytes(outcome), _written(out), verdict)
    _read_back(section, taken, out)


def _read_back(section: Section, taken: Capture, out: Path) -> None:
    """Counts rows with pyarrow.dataset and DuckDB; other counts than those of the capture are an error."""
    command = (sys.executable, str(HERE / "read_back.py"), str(out), *COLUMNS)
    outcome = interleave([Job("read-back", command, reports=True)], 1)["read-back"]
    expected = {"events": taken.events, "event_stats": taken.stats}
    for key, rows in outcome.facts.items():
        wanted = expected[key.split()[1]]
        if rows != wanted:
            raise JobFailedError(f"{key} of {taken.name}: {rows} rows read back, not {wanted}")
    title = f"read back by pyarrow.dataset and DuckDB: {taken.events:,} events, {taken.stats:,} stats"
    section.add(title, seconds(outcome), mebibytes(outcome), "", "the right counts")


def _written(folder: Path) -> str:
    """Bytes of the Parquet files below a folder; of XProf's, which keeps one for each run, the largest."""
    sizes = [file.stat().st_size for file in folder.rglob("*.parquet")]
    return f"{(max(sizes, default=0) if folder.name == 'xprof' else sum(sizes)) / MB:,.0f} MB"
