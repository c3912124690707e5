"""Figures of many runs: a row per run and figure, with the runs from which on the mean is another one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from fastprof.schema.tables import Flag, Kind, Number, Share, String, TableSchema
from fastprof.schema.value_classes import dataclass
from fastprof.wording.quantities import count_noun, format_measure

if TYPE_CHECKING:
    from fastprof.profile.profile import Profile

_LOSSES: Final = ("data_loss", "error")
_FIGURES: Final = TableSchema(
    "figures",
    "a figure of a run, by figure and log directory, the newest run first",
    (
        String("logdir", "log directory as given"),
        String("run", "name of the run"),
        Kind(pa.int64(), "ns")("start_unix_ns", "start of profiling on the first host, Unix time; null: not recorded"),
        String("figure", "report and name of the figure"),
        Number("value", "value of the figure; null: unknown, reason says why"),
        String("unit", "unit of value, before and after; null: a count"),
        Flag("is_change_point", "whether the mean is another one from this run on; null: the value is unknown"),
        Share("change_share", "after / before - 1; null: no change point, or before is 0"),
        Number("before", "mean of the runs from the change point before; null: no change point"),
        Number("after", "mean of the runs until the next change point; null: no change point"),
        String("reason", "why the value is unknown; null: it is known"),
    ),
    derived=True,
)


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Figures of a run. ``reports``: what ``measure_figures`` returns; ``error``: why the run cannot be read."""

    logdir: str
    run: str
    reports: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    error: str | None = None

    @property
    def problem(self) -> str | None:
        """Return why the run cannot be read, or what of it is lost."""
        return self.error or next((report["problem"] for report in self.reports.values()), None)

    def make_row(self, figure: str) -> dict[str, Any]:
        """Return the row of a figure, without what depends on other runs."""
        from fastprof.analyses.check import get_figure_unit

        report, _, name = figure.partition(".")
        measured = self.reports.get(report, {})
        value, reason = measured.get("figures", {}).get(name, (None, self.error or "not recorded"))
        return {
            "logdir": self.logdir, "run": self.run, "start_unix_ns": measured.get("start_unix_ns"), "figure": figure,
            "value": value, "unit": get_figure_unit(figure),
            "reason": reason if value is None else None,
        }  # fmt: skip


def measure_figures(profile: Profile, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the numbers of reports by report: value and reason of each figure, the start of the run, and its problem.
    Raises FastprofError."""
    from fastprof.analyses.compare import get_number

    reports = profile.reports_together(*names)
    about = {"start_unix_ns": find_start(profile), "problem": describe_losses(profile)}
    measured = {}
    for name, report in reports.items():
        figures = {
            figure.name: (get_number(figure.value), figure.reason or "the figure is not a number")
            for figure in report.scalars.values()
        }
        measured[name] = {**about, "figures": figures}
    return measured


def find_start(profile: Profile) -> int | None:
    """Return the start of profiling on the first host, or None if it is not recorded."""
    starts = [start for start in profile.tables["hosts"]["start_unix_ns"].to_pylist() if start is not None]
    return min(starts, default=None)


def describe_losses(profile: Profile) -> str | None:
    """Return what of a run is lost or broken, or None if nothing is."""
    remarks = profile.remarks().to_pylist()
    lost = [f"{row['count']:,} {row['code']}: {row['example']}" for row in remarks if row["severity"] in _LOSSES]
    return "; ".join(lost) or None


def list_figure_reports(figures: Iterable[str]) -> list[str]:
    """Return the reports that have these figures. UsageError: a figure is unknown."""
    from fastprof.analyses.check import resolve_figure

    return list(dict.fromkeys(resolve_figure(name).partition(".")[0] for name in figures))


def make_figures_table(runs: Sequence[RunFigures], figures: Iterable[str]) -> pa.Table:
    """Make the table of figures, or their aliases. ``runs``: the newest first. Each log directory is a series of its
    own, because runs of different ones may be of different programs."""
    from fastprof.analyses.check import resolve_figure

    rows = []
    for figure in dict.fromkeys(map(resolve_figure, figures)):
        for logdir in dict.fromkeys(run.logdir for run in runs):
            rows += _mark_changes([run.make_row(figure) for run in runs if run.logdir == logdir])
    return pa.Table.from_pylist(rows, schema=_FIGURES.arrow())


def make_readable_table(figures: pa.Table) -> pa.Table:
    """Return rows of one figure for people: columns have its unit, and the value its name."""
    unit, name = figures["unit"][0].as_py(), figures["figure"][0].as_py().partition(".")[2]
    ending = "_ps" if unit == "ps" else ""
    values = {name: "value", f"before{ending}": "before", f"after{ending}": "after"}
    columns = {"logdir": "logdir", "run": "run", name: "value", "change_share": "change_share"} | values
    if figures["reason"].null_count < figures.num_rows:
        columns["reason"] = "reason"
    fields = {shown: figures.field(source).with_name(shown) for shown, source in columns.items()}
    fields |= {shown: fields[shown].with_metadata({"unit": unit or ""}) for shown in values}
    return pa.table([figures[source] for source in columns.values()], schema=pa.schema(list(fields.values())))


def describe_series(rows: Sequence[Mapping[str, Any]]) -> str:
    """Describe rows of one figure and log directory: the latest value and the last change point."""
    known = [row for row in rows if row["value"] is not None]
    if not known:
        return f"unknown in {count_noun(len(rows), 'run', 'runs')}"
    latest, unit = known[0], known[0]["unit"]
    text = f"{format_measure(latest['value'], unit)} in run {latest['run']}"
    change = next((row for row in known if row["is_change_point"]), None)
    if change is None:
        return f"{text}; no change point in {count_noun(len(known), 'run', 'runs')}"
    share = change["change_share"]
    size = "" if share is None else f"{'+' if share > 0 else '-'}{format_measure(abs(share), 'share')} "
    before, after = (format_measure(change[side], unit) for side in ("before", "after"))
    return f"{text}; mean {after} since run {change['run']}, {size}from {before}"


def _mark_changes(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the change points of a series to its rows, the newest first."""
    changes = {change["run"]: change for change in list_changes([(row["run"], row["value"]) for row in rows])}
    return [
        row if row["value"] is None else row | {"is_change_point": row["run"] in changes} | changes.get(row["run"], {})
        for row in rows
    ]


def list_changes(series: Sequence[tuple[str, float | None]]) -> list[dict[str, Any]]:
    """Return the change points of runs and their values, both the newest first; None: unknown."""
    from fastprof.derive.comparison.change_points import find_change_points

    known = [(run, value) for run, value in reversed(series) if value is not None]
    points = find_change_points([value for _, value in known])
    return [
        {"run": known[point.index][0], "change_share": point.share, "before": point.before, "after": point.after}
        for point in reversed(points)
    ]
