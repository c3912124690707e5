"""What HolisticTraceAnalysis answers on kernels by their names, beside what fastprof computes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from hta_ranks import MICRO, Cell, Rank, answers

_KINDS = {"COMPUTATION": "compute", "COMMUNICATION": "communication", "MEMORY": "copy"}
_FIGURES = {
    "sum (us)": "time_ps",
    "max (us)": "max_ps",
    "min (us)": "min_ps",
    "stddev": "stdev_ps",
    "mean (us)": "mean_ps",
}


def names(folder: Path, rank: Rank) -> Iterator[Cell]:
    """Of kernels, and of copies too."""
    ours = {(row.kind, row.name): row for row in rank.sums.names}
    for report, kinds in (
        ("kernel_breakdown", ("compute", "communication")),
        ("kernel_breakdown_with_memory", tuple(_KINDS.values())),
    ):
        rows = answers(folder, report, rank.number)
        yield Cell(report, "rows", sum(kind in kinds for kind, _ in ours), len(rows))
        for row in rows:
            mine = ours.get((_KINDS[row["kernel_type"]], row["name"]))
            yield from _figures(report, mine, row)
    for words, kind in _KINDS.items():
        folded = _folded([row for row in ours.values() if row.kind == kind])
        rows = [row for row in answers(folder, "kernel_breakdown_top10", rank.number) if row["kernel_type"] == words]
        if rows:  # it lists copies on request only
            yield Cell("kernel_breakdown_top10", f"{kind} rows", len(folded), len(rows))
        for row in rows:
            yield from _figures("kernel_breakdown_top10", folded.get(row["name"]), row)


def annotations(folder: Path, rank: Rank) -> Iterator[Cell]:
    """Of threads, and of GPUs."""
    until = rank.until
    tables = rank.profile.select(time_ps=None if until is None else (None, until)).annotations().tables
    for report, table in (
        ("cpu_user_annotation_breakdown", "annotations"),
        ("gpu_user_annotation_breakdown", "gpu_annotations"),
    ):
        rows = answers(folder, report, rank.number)
        ours = {row["name"]: SimpleNamespace(**row) for row in tables[table].to_pylist()}
        if rows:  # HTA knows none of 2021
            yield Cell(report, "rows", len(ours), len(rows))
        for row in rows:
            mine = ours.get(row["name"])
            if mine is not None:
                mine.time_ps = mine.total_ps
            yield from _figures(report, mine, row)


def _folded(rows: list[SimpleNamespace]) -> dict[str, SimpleNamespace]:
    """As HTA shows more than ten names: those past the tenth, or at which the cumulated sums exceed their own quantile
    0.8, are ``others``, and all figures are of the sums of the names."""
    if len(rows) <= 10:
        return {row.name: row for row in rows}
    sums = np.array([row.time_ps for row in rows])
    cumulated = np.cumsum(sums)
    shown = np.flatnonzero(cumulated <= np.quantile(cumulated, 0.8))[:10]
    parts = {rows[place].name: sums[place : place + 1] for place in shown.tolist()} | {"others": sums[len(shown) :]}
    return {
        name: SimpleNamespace(
            time_ps=of.sum(), max_ps=of.max(), min_ps=of.min(), mean_ps=of.mean(),
            stdev_ps=of.std(ddof=1) if len(of) > 1 else 0,
        )
        for name, of in parts.items()
    }  # fmt: skip


def _figures(report: str, mine: SimpleNamespace | None, row: dict[str, str]) -> Iterator[Cell]:
    """Our means and deviations are rounded down to picoseconds; HTA has a deviation of 0 of what ran once."""
    for name, column in _FIGURES.items():
        value = None if mine is None else (getattr(mine, column) or 0) / MICRO
        yield Cell(report, f"{row['name'][:60]} {name}", value, float(row[name]), 1 / MICRO)
