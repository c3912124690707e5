"""A run in one row, to be read beside others: step time, devices that do not compute, what costs most,
memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from fastprof.schema.column_kinds import Bytes, Count, Kind, Picoseconds, Share, String
from fastprof.schema.tables import TableSchema

if TYPE_CHECKING:
    from fastprof.profile.profile import Profile

VERSION: Final = 3
"""Grows when other values are computed: rows that were kept are computed again."""
_LOSSES: Final = ("data_loss", "error")
REPORTS: Final = ("steps", "diagnosis", "memory_profile", "input_pipeline")
_TRENDS: Final = TableSchema(
    "trends",
    "a run",
    (
        String("run", "name of the run"),
        Count("step_count", "steps; null: the run cannot be read"),
        Picoseconds(
            "step_time_p50_ps", "median time of complete steps, each until the next one begins; null: there are none"
        ),
        Picoseconds("step_time_max_ps", "longest time of a complete step; null: there are none"),
        Share("input_share", "share of step time in which input is loaded or waited for; null: there are no steps"),
        Share("not_computing_share", "share of the run in which the mean device does not compute; null: unknown"),
        Share("finding_share", "share of the run that the first finding costs; null: unknown"),
        String("finding", "the first finding of the diagnosis: what costs most; null: there is none"),
        Bytes("memory_peak_bytes", "the largest peak of an allocator; null: not recorded"),
        Kind(pa.int64(), "ns")("start_unix_ns", "start of profiling on the first host, Unix time; null: not recorded"),
        String("problem", "why the run cannot be read, or what of it is lost; null: neither"),
    ),
    derived=True,
)


def of_profile(profile: Profile) -> dict[str, Any]:
    """The row of a run, but for its name. Reads all events. Raises FastprofError."""
    reports = profile.reports_together(*REPORTS)
    steps, diagnosis, memory, pipeline = (reports[name].scalars for name in REPORTS)
    starts = [start for start in profile.tables["hosts"]["start_unix_ns"].to_pylist() if start is not None]
    findings = reports["diagnosis"].tables["findings"].slice(0, 1).to_pylist()
    share, percent = diagnosis["compute_share"].value, pipeline["input_percent"].value
    return {
        "step_count": steps["step_count"].value,
        "step_time_p50_ps": _rounded(steps["step_time_p50_ps"].value),
        "step_time_max_ps": _rounded(steps["step_time_max_ps"].value),
        "input_share": percent / 100 if isinstance(percent, float) else None,
        "not_computing_share": 1.0 - share if isinstance(share, float) else None,
        "finding": findings[0]["title"] if findings else None,
        "finding_share": findings[0]["share"] if findings else None,
        "memory_peak_bytes": memory["peak_bytes"].value,
        "start_unix_ns": min(starts, default=None),
        "problem": _losses(profile),
    }


def _losses(profile: Profile) -> str | None:
    """What reading the run has lost."""
    rows = profile.remarks().to_pylist()
    lost = [f"{row['count']:,} {row['code']}: {row['example']}" for row in rows if row["severity"] in _LOSSES]
    return "; ".join(lost) or None


def _rounded(figure: object) -> int | None:
    return round(figure) if isinstance(figure, int | float) else None


def table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Of rows that have a ``run``; one that cannot be read has a ``problem`` only."""
    return pa.Table.from_pylist([dict(row) for row in rows], schema=_TRENDS.arrow())
