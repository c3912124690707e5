"""Reports of many runs, one run after the other, and the runs side by side: a row a run with its step time, device
idle time and largest costs; or a row a run and figure, with the runs from which on the mean is another one."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import date
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from fastprof.errors import CaptureError, FastprofError, NotFoundError, UnreadableError
from fastprof.inputs import resolve as sessions
from fastprof.inputs.paths import show_path
from fastprof.inputs.resolve import Run
from fastprof.inputs.stores.store_path import bind_paths
from fastprof.profile.loading import load, load_on_engine
from fastprof.schema.tables import Bytes, Count, Flag, Kind, Number, Picoseconds, Share, String, TableSchema
from fastprof.schema.value_classes import dataclass
from fastprof.wording.quantities import count_noun, format_measure

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from fastprof.engines.engine import Engine
    from fastprof.profile.profile import Profile
    from fastprof.profile.report import Report


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
            # Add the change points of the series to its rows, the newest first.
            series = [run.make_row(figure) for run in runs if run.logdir == logdir]
            changes = {change["run"]: change for change in list_changes([(row["run"], row["value"]) for row in series])}
            rows += [
                row
                if row["value"] is None
                else row | {"is_change_point": row["run"] in changes} | changes.get(row["run"], {})
                for row in series
            ]
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


def list_changes(series: Sequence[tuple[str, float | None]]) -> list[dict[str, Any]]:
    """Return the change points of runs and their values, both the newest first; None: unknown."""
    from fastprof.derive.comparison.change_statistics import find_change_points

    known = [(run, value) for run, value in reversed(series) if value is not None]
    points = find_change_points([value for _, value in known])
    return [
        {"run": known[point.index][0], "change_share": point.share, "before": point.before, "after": point.after}
        for point in reversed(points)
    ]


VERSION: Final = 5
"""Number that grows when other values are computed: older rows are computed again."""
REPORTS: Final = ("steps", "diagnosis", "memory_profile", "input_pipeline")
_TRENDS: Final = TableSchema(
    "trends",
    "a run",
    (
        String("run", "run name"),
        Count("step_count", "steps; null: the run cannot be read"),
        Picoseconds(
            "step_time_p50_ps", "median time of complete steps, each until the next one begins; null: there are none"
        ),
        Picoseconds("step_time_mean_ps", "mean time of complete steps; null: there are none"),
        Share(
            "step_time_change_share",
            "change of step_time_mean_ps if its mean over runs is another one from this run on: mean until the next "
            "change point / mean before - 1; null: no change point",
        ),
        Picoseconds("step_time_max_ps", "longest time of a complete step; null: there are none"),
        Share("input_share", "share of step time in which input is loaded or waited for; null: there are no steps"),
        Share("not_computing_share", "share of the run without compute, mean over devices; null: unknown"),
        Share("finding_share", "share of the first finding in the run; null: unknown"),
        String("finding", "first finding of the diagnosis: the costliest cause; null: there is none"),
        Bytes("memory_peak_bytes", "the largest peak of an allocator; null: not recorded"),
        Kind(pa.int64(), "ns")("start_unix_ns", "start of profiling on the first host, Unix time; null: not recorded"),
        String("problem", "reason why the run cannot be read, or lost parts of it; null: neither"),
    ),
    derived=True,
)


_CHANGES: Final = TableSchema(
    "changes",
    "a change point of a column of trends, by column, the newest first",
    (
        String("column", "column of trends"),
        String("run", "first run after the change"),
        Share("change_share", "after / before - 1; null: before is 0"),
        Number("before", "mean of the runs from the change point before"),
        Number("after", "mean of the runs until the next change point"),
    ),
    derived=True,
)
_MEASURED: Final = ("ps", "share", "bytes")
"""Units of columns that have change points."""
_RUNS: Final = TableSchema(
    "runs", "a run, by log directory", (String("logdir", "log directory as given"), *_TRENDS.columns), derived=True
)


def measure_run(profile: Profile) -> dict[str, Any]:
    """Return the row of a run, but for its name. Reads all events. Raises FastprofError."""
    reports = profile.reports_together(*REPORTS)
    steps, diagnosis, memory, pipeline = (reports[name].scalars for name in REPORTS)
    findings = reports["diagnosis"].tables["findings"].slice(0, 1).to_pylist()
    share, percent = diagnosis["compute_share"].value, pipeline["input_percent"].value
    return {
        "step_count": steps["step_count"].value,
        "step_time_p50_ps": _round_figure(steps["step_time_p50_ps"].value),
        "step_time_mean_ps": _round_figure(steps["step_time_mean_ps"].value),
        "step_time_max_ps": _round_figure(steps["step_time_max_ps"].value),
        "input_share": percent / 100 if isinstance(percent, float) else None,
        "not_computing_share": 1.0 - share if isinstance(share, float) else None,
        "finding": findings[0]["title"] if findings else None,
        "finding_share": findings[0]["share"] if findings else None,
        "memory_peak_bytes": memory["peak_bytes"].value,
        "start_unix_ns": find_start(profile),
        "problem": describe_losses(profile),
    }


def _round_figure(figure: object) -> int | None:
    return round(figure) if isinstance(figure, int | float) else None


def make_trends_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Make the table of rows that have a ``run``; unreadable runs have only a ``problem``."""
    return pa.Table.from_pylist(_mark_step_changes(rows), schema=_TRENDS.arrow())


def _mark_step_changes(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Add the change of the mean step to the rows of runs, the newest first; each log directory is a series."""
    shares: dict[tuple[str | None, str], float | None] = {}
    for logdir in dict.fromkeys(row.get("logdir") for row in rows):
        series = [(row["run"], row.get("step_time_mean_ps")) for row in rows if row.get("logdir") == logdir]
        shares |= {(logdir, change["run"]): change["change_share"] for change in list_changes(series)}
    return [{**row, "step_time_change_share": shares.get((row.get("logdir"), row["run"]))} for row in rows]


def make_changes_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Make the table of the change points of rows, the newest run first."""
    changes = [
        {"column": column.name, **change}
        for column in _TRENDS.columns
        if column.unit in _MEASURED and column.name != "step_time_change_share"
        for change in list_changes([(row["run"], row.get(column.name)) for row in rows])
    ]
    return pa.Table.from_pylist(changes, schema=_CHANGES.arrow())


def make_runs_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Make the table of rows as ``make_trends_table`` does, of runs of several log directories."""
    return pa.Table.from_pylist(_mark_step_changes(rows), schema=_RUNS.arrow())


def batch(
    logdir: str | os.PathLike[str],
    *names: str,
    runs: str | Run | Iterable[str | Run] | None = None,
    since: str | date | None = None,
    params: Mapping[str, Any] | None = None,
    on_error: str = "raise",
    threads: int | None = None,
    max_unpacked: int | None = None,
    executor: Executor | Callable[[], Executor] | None = None,
    retries: int = 2,
    host_timeout: float | None = None,
    in_flight: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
) -> Iterator[tuple[Run, dict[str, Report]]]:
    """Yield the reports ``names`` (none: all) of each run of a log directory, newest first, as each run is complete.

    ``runs``: names of runs, in this order. ``since``: only runs of that time or later, by name, else by the last change
    of their files: "2026-11-01", "2026-11-01 12:30" or a ``datetime``. ``params``: parameters of the analyses. Other
    arguments are those of ``load``; one executor serves all runs. With ``on_error="skip"`` a run without a readable
    host is left out, with a warning. NotFoundError: there are no runs, or none of a name; other errors are raised when
    the run is reached.
    """
    how = {"on_error": on_error, "threads": threads, "max_unpacked": max_unpacked}
    engine = _make_engine(executor, retries, host_timeout, in_flight)
    logdir = bind_paths(logdir, storage_options, filesystem)
    profiles = _open_profiles(_choose_runs(logdir, runs, since), how, engine, names, params or {})
    return _report_each(profiles, names, params or {}, on_error == "skip")


def trends(
    logdir: str | os.PathLike[str],
    *,
    figures: str | Iterable[str] = (),
    runs: str | Run | Iterable[str | Run] | None = None,
    since: str | date | None = None,
    on_error: str = "raise",
    threads: int | None = None,
    max_unpacked: int | None = None,
    executor: Executor | Callable[[], Executor] | None = None,
    retries: int = 2,
    host_timeout: float | None = None,
    in_flight: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
) -> pa.Table:
    """Return the runs of a log directory side by side, newest first: the table of ``fastprof trends``, computed each
    time.

    With ``figures``, as of ``fastprof.check``, return a row per run and figure instead: logdir, run, start_unix_ns,
    figure, value, unit, is_change_point, change_share, before, after, reason. docs/compare.md says what a change point
    is. UsageError: a figure is unknown.

    Columns: run, step_count, step_time_p50_ps, step_time_mean_ps, step_time_change_share (of the mean, at its change
    points), step_time_max_ps, input_share, not_computing_share, finding_share, finding (costliest cause),
    memory_peak_bytes, start_unix_ns, problem. ``runs``, ``since``: a selection, as in
    ``batch``; otherwise of a run with a second window without Python functions only that window. Other arguments are
    those of ``load``; one executor serves all runs. A run that cannot be read has its
    error as ``problem``. NotFoundError: there are no runs, or none of a name.
    """

    how = {"on_error": on_error, "threads": threads, "max_unpacked": max_unpacked}
    engine = _make_engine(executor, retries, host_timeout, in_flight)
    logdir = bind_paths(logdir, storage_options, filesystem)
    chosen = [figures] if isinstance(figures, str) else list(figures)
    names = list_figure_reports(chosen) if chosen else REPORTS
    rows: list[dict[str, Any]] = []
    selected = _choose_runs(logdir, runs, since)
    if runs is None:
        selected = sessions.choose_for_times(selected)
    for run, opened in _open_profiles(selected, how, engine, names, {}):
        try:
            row = {"reports": measure_figures(opened(), names)} if chosen else measure_run(opened())
        except FastprofError as error:
            row = {"problem": str(error)}
        rows.append({"run": run.name} | row)
    if not chosen:
        return make_trends_table(rows)
    where = show_path(os.fspath(logdir))
    return make_figures_table(
        [RunFigures(where, row["run"], row.get("reports", {}), row.get("problem")) for row in rows], chosen
    )


def _choose_runs(
    logdir: str | os.PathLike[str], runs: str | Run | Iterable[str | Run] | None, since: str | date | None
) -> list[Run]:
    if runs is None:
        return sessions.list_runs(logdir, since)
    given = [runs] if isinstance(runs, str | Run) else runs
    there = {run.name: run for run in sessions.list_runs(logdir)}
    wanted = [run.name if isinstance(run, Run) else run for run in given]
    for name in wanted:
        if name not in there:
            raise NotFoundError(f"no run {name!r}; there are: {', '.join(there)}", path=os.fspath(logdir))
    recent = there if since is None else {run.name for run in sessions.list_runs(logdir, since)}
    return [there[name] for name in wanted if name in recent]


def _make_engine(
    executor: Executor | Callable[[], Executor] | None,
    retries: int,
    host_timeout: float | None,
    in_flight: int | None,
) -> Engine | None:
    if executor is None:
        return None
    from fastprof.engines.engine import Engine

    return Engine(executor, retries, host_timeout, in_flight)


def _open_profiles(
    runs: Sequence[Run], how: dict[str, Any], engine: Engine | None, names: Sequence[str], params: Mapping[str, Any]
) -> Iterator[tuple[Run, Callable[[], Profile]]]:
    """Yield each run, and a function that opens it. Idle workers begin with the next run for these reports."""
    if engine is None:
        for run in runs:
            yield run, partial(load, run, **how)
        return
    begun: Callable[[], Profile] | None = None
    try:
        for run, following in zip_longest(runs, runs[1:]):
            opened, begun = begun or partial(_open_on_engine, run, how, engine), None
            engine.ahead = None
            if following is not None:
                begun = _begin_profile(following, how, engine, names, params)
            yield run, opened
    finally:
        if engine.ahead is not None:
            engine.ahead.cancel()


def _open_on_engine(run: Run, how: dict[str, Any], engine: Engine) -> Profile:
    return load_on_engine(run, how | {"run": None, "as_hosts": False}, engine, None)


def _begin_profile(
    run: Run, how: dict[str, Any], engine: Engine, names: Sequence[str], params: Mapping[str, Any]
) -> Callable[[], Profile] | None:
    """Return a function that returns the profile of a run, or None if something is wrong with it, which is reported in
    its own turn."""
    from fastprof.profile.on_engine import ProfileOnEngine

    try:
        profile = _open_on_engine(run, how, engine)
        if isinstance(profile, ProfileOnEngine):
            profile.begin(names, params)
    except FastprofError:
        return None
    return lambda: profile


def _report_each(
    profiles: Iterable[tuple[Run, Callable[[], Profile]]], names: Sequence[str], params: Mapping[str, Any], skip: bool
) -> Iterator[tuple[Run, dict[str, Report]]]:
    for run, opened in profiles:
        try:
            reports = opened().reports(*names, **params)
        except (CaptureError, UnreadableError) as error:
            if not skip:
                raise
            warnings.warn(f"the run {run.name} is left out: {error}", stacklevel=2)
        else:
            yield run, reports
