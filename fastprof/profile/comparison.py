"""Comparison of two runs, and of a run with the earlier runs of a log directory."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from fastprof.derive.comparison.event_counts import OP_ARGUMENTS
from fastprof.derive.devices.device_peaks import describe_device
from fastprof.derive.devices.run_environment import CPU
from fastprof.derive.steps.step_source import AUTO
from fastprof.errors import FastprofError, UsageError
from fastprof.profile.profile import Profile
from fastprof.profile.report import Report
from fastprof.schema.tables import Number, String, TableSchema
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.analyses.compare import RunFacts
    from fastprof.derive.comparison.part_matching import RunSteps
    from fastprof.derive.comparison.program_changes import RunProgram
    from fastprof.inputs.resolve import Named


@dataclass(frozen=True, slots=True)
class _Device:
    """A device plane as ``describe_device`` takes it."""

    name: str
    kind: str
    stats: dict[str, Any]


_PS_IN_US: Final = 10**6
HISTORY_RUNS: Final = 20
"""Runs of a log directory that make a history: the newest ones that are not the new run."""


def compare(
    base: Named | Profile | Sequence[Named],
    new: Named | Profile | Sequence[Named],
    *,
    against: str | os.PathLike[str] | None = None,
    steps_from: str = "auto",
    **reading: Any,
) -> Report:
    """Compare two runs: is the mean step slower, by how much, and which ops and causes changed.

    ``base``, ``new``: profiles, or what ``load`` takes. ``against``: a log directory; the spread of the mean step
    between its newest runs then decides what is noise. ``steps_from``: the source of steps, as in other analyses.
    ``reading``: on_error, threads, max_unpacked, executor, … of ``load``.

    Figures: verdict (slower, faster, unchanged, not_comparable), base_step_ps, new_step_ps, step_change_ps,
    step_change_share with its 95 % interval, smallest_detectable_share, …. The table ``changes`` has a row a cause;
    its rows add up to step_change_ps. docs/compare.md has the definitions. Errors are those of ``load``.
    """
    from fastprof.analyses.compare import compare_runs
    from fastprof.profile.loading import load

    facts, paths = [], set[str]()
    for source in (base, new):  # one after the other, so that one run is in memory
        profile = source if isinstance(source, Profile) else load(source, **reading)
        facts.append(measure_run_facts(profile, steps_from))
        paths.update(profile.sources)
        del profile
    earlier = reading | {"run": None}
    history = None if against is None else tuple(_measure_history(against, paths, steps_from, earlier))
    return Report(compare_runs(facts[0], facts[1], history))


def measure_run_facts(profile: Profile, steps_from: str = "auto", *, has_records: bool = True) -> RunFacts:
    """Return what a comparison needs of a run. Reads all events, and those of the judged steps again if devices compute
    outside of them. ``has_records``: with programs and records beside ops, which no verdict needs."""
    from fastprof.analyses import compared_tables
    from fastprof.analyses.compare import REPORTS
    from fastprof.derive.comparison.part_matching import computes_outside, list_run_parts, list_step_parts

    params = {} if steps_from == AUTO else {"steps_from": steps_from}  # reports of the default may be known
    more = compared_tables.REPORTS if has_records else ()
    reports = profile.reports_together(*REPORTS, *more, **params)
    facts, hosts = make_run_facts(profile, reports), profile.tables["hosts"].num_rows
    by_step, ops = reports["gaps"].tables["by_step"], reports["op_stats"]
    whole = list_run_parts(by_step, ops.tables["device_ops"], ops.tables["host_ops"], hosts)
    if len(facts.steps.judged) and computes_outside(facts.steps, by_step):
        within = int(facts.steps.judged.min()), int(facts.steps.judged.max()) + 1
        ops = profile.select(steps=within).reports_together("op_stats")["op_stats"]
    parts = list_step_parts(facts.steps, by_step, ops.tables["device_ops"], ops.tables["host_ops"])
    facts = replace(facts, parts=tuple(parts), whole=whole)
    if not has_records:
        return facts
    programs, left_out = _list_programs(profile, ops.tables["device_ops"], reports["memory_viewer"].tables["modules"])
    records = compared_tables.collect_records(reports, facts.steps, hosts)
    return replace(facts, programs=tuple(programs), programs_left_out=left_out, records=records)


def _list_programs(profile: Profile, ops: pa.Table, modules: pa.Table) -> tuple[list[RunProgram], int]:
    """Return the programs of the ops of a run, with their peaks of device memory, and the number left out."""
    listed = [program for _, program in profile.table_set.programs()]
    if not listed:
        return [], 0
    from fastprof.derive.comparison.program_changes import list_run_programs

    times: dict[int, float] = defaultdict(float)
    for number, time_ps in zip(ops["program_id"].to_pylist(), ops["self_ps"].to_pylist(), strict=True):
        if number is not None and time_ps:
            times[number] += time_ps
    peaks = {row["program_id"]: row["peak_bytes"] for row in modules.to_pylist() if not row["memory_space"]}
    return list_run_programs(listed, times, peaks)


def make_run_facts(profile: Profile, reports: Mapping[str, Report]) -> RunFacts:
    """Return steps and figures of a run, without the parts of its steps. ``reports``: steps, and others."""
    from fastprof.analyses.compare import RunFacts
    from fastprof.derive.comparison.part_matching import list_run_steps

    figures = {
        f"{name}.{figure.name}": figure for name, report in reports.items() for figure in report.scalars.values()
    }
    values = {name: (figure.value, figure.unit) for name, figure in figures.items()}
    reasons = {name: figure.reason for name, figure in figures.items() if figure.reason is not None}
    steps = list_run_steps(reports["steps"].tables["steps"])
    environment = _describe_environment(profile, reports["steps"], steps)
    remarks = (row for run in profile.runs.values() for row in run.remarks().to_pylist())
    choice = next((row["example"] for row in remarks if row["code"] in ("newest_run", "runs_below")), "")
    if choice:
        choice = f"{choice.partition(_ADVICE)[0]}; give the path of a run to choose another"
    return RunFacts(
        profile.run or "",
        steps,
        (),
        values,
        reasons,
        environment,
        sources=profile.sources,
        choice=choice,
    )


_ADVICE: Final = "; choose with "
"""Beginning of the advice in a remark, which does not name the run to choose for."""


def _describe_environment(profile: Profile, report: Report, steps: RunSteps) -> dict[str, str]:
    """Return what two runs should have in common, by display name."""
    planes = profile.tables["planes"].to_pylist()
    stats: dict[int, dict[str, Any]] = defaultdict(dict)
    for row in profile.tables["plane_stats"].to_pylist():
        values = (row[f"{kind}_value"] for kind in ("int", "double", "str"))
        stats[row["plane_id"]][row["stat"]] = next((value for value in values if value is not None), None)
    models = Counter(
        describe_device(_Device(plane["name"], plane["device_type"], stats.get(plane["plane_id"], {})))
        for plane in planes
        if plane["device_type"] not in (None, CPU, "CUSTOM", "CHIP")
    )
    facts = {
        "hosts": f"{profile.tables['hosts'].num_rows:,}",
        "devices": ", ".join(f"{count:,} {model}" for model, count in sorted(models.items())) or CPU,
        "steps from": report.scalars["steps_source"].value,
        "complete steps": f"{len(steps.number):,}",
    }
    return {name: str(value) for name, value in facts.items() if value is not None}


def _measure_history(
    logdir: str | os.PathLike[str], compared: set[str], steps_from: str, reading: Mapping[str, Any]
) -> Iterator[tuple[str, float]]:
    """Yield earlier runs with their mean steps, the newest first; runs without steps have none."""
    for profile in open_earlier_runs(logdir, compared, reading):
        facts = make_run_facts(profile, profile.reports_together("steps", steps_from=steps_from))
        if len(facts.steps.judged_ps):
            yield facts.name, float(facts.steps.judged_ps.mean())


def open_earlier_runs(
    logdir: str | os.PathLike[str], compared: set[str], reading: Mapping[str, Any]
) -> Iterator[Profile]:
    """Yield the newest runs of a log directory, at most HISTORY_RUNS. ``compared``: paths of captures of runs that do
    not count; if the directory has one of them, only runs before the last of them count. Runs that cannot be read are
    left out."""
    from fastprof.inputs.log_directory import WITHOUT_PYTHON
    from fastprof.inputs.resolve import choose_for_times, list_runs
    from fastprof.profile.loading import load

    runs = list_runs(logdir)
    paths = set(map(os.path.realpath, compared))
    folders = {path.rpartition("/")[0] for path in compared}
    own = [
        run.path in folders
        if run.is_unlisted
        else not paths.isdisjoint(os.path.realpath(file.path) for file in run.files)
        for run in runs
    ]
    first = own.index(True) if True in own else -1
    windows = {f"{run.name}{WITHOUT_PYTHON}" for run, is_own in zip(runs, own, strict=True) if is_own}
    earlier = [run for run, is_own in zip(runs[first + 1 :], own[first + 1 :], strict=True) if not is_own]
    if windows.isdisjoint(run.name for run in runs):
        earlier = choose_for_times(earlier)
    else:  # Python functions slowed what is compared, so it is compared with runs that have them, too
        earlier = [run for run in earlier if not run.name.endswith(WITHOUT_PYTHON)]
    for run in earlier[:HISTORY_RUNS]:
        try:
            yield load(run, **reading)
        except FastprofError:
            continue


_HTA: Final = TableSchema(
    "hta",
    "a name of events in a step of either trace, as TraceDiff of HolisticTraceAnalysis lists it",
    (
        String("name", "name of the events"),
        Number("Control_counts", "number of these events in the base run"),
        Number("Control_total_duration", "their time in the base run, in µs"),
        Number("Test_counts", "number of these events in the new run"),
        Number("Test_total_duration", "their time in the new run, in µs"),
        Number("diff_counts", "Test_counts - Control_counts"),
        Number("diff_duration", "Test_total_duration - Control_total_duration, in µs"),
        String("counts_change_categories", "+, - or =, by diff_counts"),
    ),
    derived=True,
)


def compare_events(
    base: Named | Profile,
    new: Named | Profile,
    *,
    device: str = "all",
    steps: tuple[int | None, int | None] = (None, None),
    **reading: Any,
) -> pa.Table:
    """Compare the events of a step of two PyTorch traces by name, as TraceDiff of HolisticTraceAnalysis does: counts,
    times in µs and their differences, by name. ``device``: all, cpu or gpu; ``steps``: numbers of the steps of both
    traces, None for the first; ``reading``: as of ``load``. UsageError: a trace has no such step."""
    from fastprof.derive.comparison.event_counts import DEVICES, count_step_events
    from fastprof.profile.loading import load

    if device not in DEVICES:
        raise UsageError(f"device is one of {', '.join(DEVICES)}, not {device!r}")
    profiles = [source if isinstance(source, Profile) else load(source, **reading) for source in (base, new)]
    sides = [count_step_events(profile.table_set, step, device) for profile, step in zip(profiles, steps, strict=True)]
    rows = []
    for name in sorted({*sides[0], *sides[1]}):
        (count, time_ps), (new_count, new_time_ps) = (side.get(name, (0, 0)) for side in sides)
        difference = new_count - count
        values = (
            name, count, time_ps / _PS_IN_US, new_count, new_time_ps / _PS_IN_US, difference,
            (new_time_ps - time_ps) / _PS_IN_US, "+" if difference > 0 else "-" if difference < 0 else "=",
        )  # fmt: skip
        rows.append(dict(zip(_HTA.names(), values, strict=True)))
    return pa.Table.from_pylist(rows, schema=_HTA.arrow())


_SHEETS: Final = ("intersect", "only_baseline", "only_variant")
_METRICS: Final = {
    "operation_count": "calls that launch kernels themselves",
    "total_direct_kernel_time_sum": "time of these kernels, in µs",
    "total_direct_kernel_time_mean": "time of these kernels per call, in µs",
}
_TRACELENS: Final = TableSchema(
    "tracelens",
    "an op with its arguments in either trace, as reports of TraceLens compare them, largest change first",
    (
        String("sheet", "intersect: in both runs; only_baseline, only_variant: in one"),
        String("name", "name of the op"),
        *(String(name, f"{name} as recorded, empty without a record") for name in OP_ARGUMENTS),
        *(
            Number(f"{run}::{metric}", f"{text}, in the {run} run; null: the run has no such op")
            for metric, text in _METRICS.items()
            for run in ("base", "new")
        ),
        *(
            Number(f"{metric}__new_{kind}", f"{text}; null: one run has no such op, or base is 0")
            for metric in _METRICS
            for kind, text in (("diff", "new - base"), ("pct", "100 * (new - base) / base"))
        ),
    ),
    derived=True,
)


def compare_ops(base: Named | Profile, new: Named | Profile, **reading: Any) -> pa.Table:
    """Compare the ops of two PyTorch traces that launch kernels, by name and arguments, as TraceLens compares its
    reports. ``reading``: as of ``load``. UsageError: a run lacks a GPU, PyTorch's events, or shapes."""
    from fastprof.derive.comparison.event_counts import sum_launching_ops
    from fastprof.profile.loading import load

    profiles = [source if isinstance(source, Profile) else load(source, **reading) for source in (base, new)]
    sides = [sum_launching_ops(profile.table_set) for profile in profiles]
    rows = []
    for key in dict.fromkeys(key for side in sides for key in side):
        row: dict[str, Any] = dict(zip(("name", *OP_ARGUMENTS), key, strict=True))
        known = [side.get(key) for side in sides]
        row["sheet"] = _SHEETS[0] if all(known) else _SHEETS[1] if known[0] else _SHEETS[2]
        values = [
            (None,) * len(_METRICS) if each is None else (each[0], each[1] / _PS_IN_US, each[1] / each[0] / _PS_IN_US)
            for each in known
        ]
        for metric, first, second in zip(_METRICS, *values, strict=True):
            row |= {f"base::{metric}": first, f"new::{metric}": second}
            if first is not None and second is not None:
                row[f"{metric}__new_diff"] = second - first
                row[f"{metric}__new_pct"] = 100 * (second - first) / first if first else None
        times = [each[1] if each else 0 for each in known]
        rows.append((-abs(times[1] - times[0]), key, row))
    rows.sort(key=lambda ranked: ranked[:2])
    return pa.Table.from_pylist([row for *_, row in rows], schema=_TRACELENS.arrow())
