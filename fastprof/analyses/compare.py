"""Compare two runs: is the mean step slower, by how much, and what changed; parts sum to the change.

Definitions: docs/compare.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from fastprof.analyses import compared_tables
from fastprof.analyses.compared_tables import (
    Amounts,
    ComparedPrograms,
    compare_compiled,
    compare_records,
    count_rows,
    list_change_rows,
    list_program_rows,
)
from fastprof.analyses.contract import (
    AnalysisReport,
    Known,
    Notice,
    Opening,
    ScalarSpec,
    Section,
    Value,
    has_rows,
    is_known,
    make_scalars,
)
from fastprof.analyses.findings.facts import CERTAIN, LIKELY
from fastprof.derive.causes.cause_names import get_cause_label
from fastprof.derive.comparison.change_statistics import (
    FASTER,
    MIN_HISTORY,
    PAIR_FLOOR,
    SLOWER,
    UNCHANGED,
    History,
    StepChange,
    compare_steps,
    compare_with_history,
    find_slow_steps,
    measure_error,
    take_history,
)
from fastprof.derive.comparison.part_matching import BY_SCOPE, OP, STRAGGLER, Pair, RunSteps, StepPart, match_parts
from fastprof.derive.comparison.program_changes import RunProgram, find_batch_change, find_common_factor
from fastprof.schema.tables import Count, Flag, Number, Picoseconds, Share, String, TableSchema
from fastprof.schema.value_classes import dataclass
from fastprof.wording.kernel_names import shorten_kernel_name
from fastprof.wording.quantities import count_noun, format_measure, format_time, list_few, shorten_name

NAME = "compare"
NOT_COMPARABLE: Final = "not_comparable"
UNEXPLAINED: Final = "unexplained"
REPORTS: Final = ("steps", "gaps", "op_stats", "memory_profile", "memory_viewer")
"""Analyses of each run whose figures are compared."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts of a run that a comparison needs. ``parts``: of the mean step; ``figures``: value and unit by
    ``report.figure``, ``reasons``: why values are unknown; ``environment``: what was recorded, by display name;
    ``programs``: those that ran in its steps; ``records``: by table; ``whole``: parts of the entire run, by what is
    measured; ``sources``: paths of its captures; ``choice``: how the run was chosen in its log directory, "" if it was
    named; ``programs_left_out``: programs beyond those that are compared."""

    name: str
    steps: RunSteps
    parts: tuple[StepPart, ...]
    figures: Mapping[str, tuple[Value, str | None]]
    reasons: Mapping[str, str]
    environment: Mapping[str, str]
    programs: tuple[RunProgram, ...] = ()
    records: Mapping[str, Amounts] = field(default_factory=dict)
    whole: Mapping[str, Sequence[StepPart]] = field(default_factory=dict)
    sources: Sequence[str] = ()
    choice: str = ""
    programs_left_out: int = 0


_TABLES = (
    TableSchema("changes", "a change of the mean step, or without steps of the whole run, largest first; all rows "
                "together are step_change_ps or run_change_ps", (
        Count("rank", "place, from 1"),
        String("kind", "op; cause of non-compute time, as in the gaps analysis; straggler; or unexplained (the "
               "remainder, including rounding)"),
        String("title", "what changed, in words"),
        String("name", "op, scope of several ops, or event that explains the cause; null: none is recorded"),
        Picoseconds("base_ps", "time per step, or of the whole run, in the base run, of the mean device"),
        Picoseconds("new_ps", "time per step, or of the whole run, in the new run, of the mean device"),
        Picoseconds("change_ps", "new_ps - base_ps"),
        Share("share", "share of the total change, step_change_ps or run_change_ps; negative: against its direction; "
              "null: the total is 0, or within noise"),
        Number("base_count", "executions per step and device in the base run; null: no op"),
        Number("new_count", "executions per step and device in the new run; null: no op"),
        String("where", "name scope or framework op, or the slowest device; null: not recorded"),
        String("evidence", "change of the compiled program that explains it, else the table of a report of each run "
               "that shows it; null: it is a remainder"),
        String("certainty", "certain: matched by name; likely: matched by scope or cause alone"),
    ), derived=True),
    TableSchema("categories", "a kind of time in the mean step, largest change first", (
        String("kind", "op, a cause, or unexplained"),
        String("label", "display name of the kind"),
        Picoseconds("base_ps", "time per step in the base run"),
        Picoseconds("new_ps", "time per step in the new run"),
        Picoseconds("change_ps", "new_ps - base_ps"),
    ), derived=True),
    TableSchema("ops", "an op of either run, largest change first", (
        String("name", "op in the new run, else in the base run; of several their scope"),
        String("status", "new, gone, changed in count, changed in time, or unchanged"),
        String("base_names", "ops in the base run; null: it has none"),
        String("new_names", "ops in the new run; null: it has none"),
        String("scope", "name scope or framework op; null: not recorded"),
        Picoseconds("base_ps", "time per step in the base run"),
        Picoseconds("new_ps", "time per step in the new run"),
        Picoseconds("change_ps", "new_ps - base_ps"),
        Number("base_count", "executions per step and device in the base run"),
        Number("new_count", "executions per step and device in the new run"),
    ), derived=True),
    TableSchema("figures", "a figure of a report that both runs have", (
        String("figure", "report and figure name, as in steps.step_time_p50_ps"),
        String("unit", "ps, bytes, %, share, …; null: a count"),
        Number("base", "value in the base run"),
        Number("new", "value in the new run"),
        Number("change", "new - base"),
        Share("change_share", "change / base; null: base is 0"),
    ), derived=True),
    TableSchema("environment", "what differs between the runs beside their times", (
        String("what", "what was recorded"),
        String("base", "in the base run"),
        String("new", "in the new run"),
        Flag("forbids", "whether step times cannot be compared because of it"),
    ), derived=True),
    TableSchema("steps", "a complete step of either run", (
        String("run", "base or new"),
        Count("step", "step number"),
        Picoseconds("time_ps", "time until the next step begins, on the slowest core"),
        Flag("is_warm_up", "whether it is one of the first steps, over twice the median of those after: not counted"),
        Flag("is_slow", "longer than the median by over 5 median deviations and a tenth"),
    ), derived=True),
)  # fmt: skip
TABLES = {table.name: table for table in _TABLES} | compared_tables.TABLES

_MEAN = "mean time of complete steps after warm-up, on the slowest core"
_WHOLE = "device busy time of the mean device, else self time of host ops of the mean host"
_RUN_TIMES = ("base_run_ps", "new_run_ps", "run_change_ps")
SCALARS = {
    "headline": ScalarSpec(None, "the answer in a sentence"),
    "base_run": ScalarSpec(None, "name or path of the base run; with the number of hosts if it has several", "base"),
    "new_run": ScalarSpec(None, "name or path of the new run; with the number of hosts if it has several", "new"),
    "verdict": ScalarSpec(None, "slower, faster, unchanged: of the mean step; or not_comparable, with the reason"),
    "base_step_ps": ScalarSpec("ps", f"base run: {_MEAN}", "mean step, base"),
    "new_step_ps": ScalarSpec("ps", f"new run: {_MEAN}", "mean step, new"),
    "step_change_ps": ScalarSpec("ps", "new_step_ps - base_step_ps", "change of the mean step"),
    "step_change_share": ScalarSpec("share", "new mean step / base mean step - 1; with earlier runs: / their mean - 1",
                                    "relative change"),
    "step_change_low_share": ScalarSpec("share", "lower end of the 95 % interval of step_change_share",
                                        "95 % interval, from"),
    "step_change_high_share": ScalarSpec("share", "upper end of the 95 % interval of step_change_share",
                                         "95 % interval, to"),
    "smallest_detectable_share": ScalarSpec("share", "change of the mean step that these runs would show in 80 % of "
                                            "cases", "smallest detectable change"),
    "rule": ScalarSpec(None, "how the verdict was found: interval, runs or steps, floor"),
    "base_median_ps": ScalarSpec("ps", "base run: median of the same steps", "median step, base"),
    "new_median_ps": ScalarSpec("ps", "new run: median of the same steps", "median step, new"),
    "base_step_count": ScalarSpec(None, "steps of the base run that count", "steps, base"),
    "new_step_count": ScalarSpec(None, "steps of the new run that count", "steps, new"),
    "base_run_ps": ScalarSpec("ps", f"base run, if a run has no steps: {_WHOLE}", "whole run, base"),
    "new_run_ps": ScalarSpec("ps", f"new run, if a run has no steps: {_WHOLE}", "whole run, new"),
    "run_change_ps": ScalarSpec("ps", "new_run_ps - base_run_ps", "change of the whole run"),
    "unexplained_ps": ScalarSpec("ps", "part of step_change_ps, without steps of run_change_ps, that no other "
                                 "row of changes has",
                                 "change without a named cause"),
    **compared_tables.SCALARS,
}  # fmt: skip
OPENING = Opening(("{headline}",), ("step_change_share", "base_step_ps", "new_step_ps", "smallest_detectable_share"))

_OF_STEPS: Final = tuple(
    name
    for name in SCALARS
    if name not in ("headline", "base_run", "new_run", "unexplained_ps", *_RUN_TIMES, *compared_tables.SCALARS)
)
_LABELS: Final = {OP: "compute", UNEXPLAINED: "unexplained"}


def _are_changes(*, noise: bool) -> Callable[[AnalysisReport], bool]:
    """Return a predicate for Section.shown: whether there are changes that together are noise, or are not."""
    return lambda report: (
        report.tables["changes"].num_rows > 0 and (report.scalars["verdict"].value == UNCHANGED) == noise
    )


SECTIONS = (
    Section("Runs", scalars=("base_run", "new_run")),
    Section("Runs differ", "environment", ("what", "base", "new", "forbids"), shown=has_rows("environment")),
    Section("Changes, with their share of the total change (negative: against its direction)", "changes",
            ("title", "base_ps", "new_ps", "change_ps", "share", "where"),
            "share", shown=_are_changes(noise=False), by_worth=True, wraps="title"),
    Section("Changes, which together are within noise", "changes",
            ("title", "base_ps", "new_ps", "change_ps", "where"), nonzero="change_ps",
            shown=_are_changes(noise=True), by_worth=True, wraps="title"),
    Section("Steps", scalars=_OF_STEPS,
            shown=is_known("verdict")),
    Section("Changes of compiled programs", "program_changes", ("title", "program", "change_ps"), rows=8,
            shown=has_rows("program_changes"), wraps="title"),
    Section("Whole runs", scalars=_RUN_TIMES, shown=is_known("run_change_ps")),
    Section("Time by cause", "categories", ("label", "base_ps", "new_ps", "change_ps"), rows=8,
            shown=has_rows("categories")),
)  # fmt: skip


def compare_runs(base: RunFacts, new: RunFacts, history: Sequence[tuple[str, float]] | None = None) -> AnalysisReport:
    """Compare the facts of two runs. ``history``: earlier runs and their mean steps, the newest first. Those since the
    last change point make the interval if they are enough; else the two runs are judged alone, and a notice says so."""
    earlier = take_history(history or ())
    programs = compare_compiled(base.programs, new.programs)
    whole = None if has_steps(base, new) else next((name for name in base.whole if name in new.whole), None)
    sides = [run.parts if whole is None else run.whole[whole] for run in (base, new)]
    pairs = match_parts(programs.link_parts(sides[0], 0), programs.link_parts(sides[1], 1))
    differences = list(list_differences(base, new, pairs))
    reasons = [row["reason"] for row in differences if row["reason"]]
    judged = new.steps.judged_ps
    mean = float(judged.mean()) if len(judged) else 0.0
    change = compare_with_history(earlier.values, mean, measure_error(judged)) or compare_steps(
        base.steps.judged_ps, judged
    )
    verdict = NOT_COMPARABLE if reasons or change is None else change.verdict
    totals = [
        (_get_mean(run.steps) or 0) if whole is None else round(sum(part.time_ps for part in parts))
        for run, parts in zip((base, new), sides, strict=True)
    ]
    total_change = 0 if verdict == UNCHANGED else totals[1] - totals[0]  # shares of noise mean nothing
    changes = _list_changes(pairs, totals, total_change, programs) if all(sides) else []
    tables = {
        "changes": changes,
        "categories": _sum_categories(changes),
        "ops": [_describe_op(pair, programs) for pair in _sort_pairs(pairs) if pair.kind == OP],
        "figures": list(_list_figures(base, new)),
        "environment": differences,
        "steps": list(_list_steps(base=base.steps, new=new.steps)),
        "programs": list_program_rows(programs),
        "program_changes": list_change_rows(programs, *sides),
        **compare_records(base.records, new.records),
    }
    values = _compute_values(base, new, change, changes) | count_rows(tables)
    run_times = (totals[0], totals[1], totals[1] - totals[0]) if whole is not None and changes else None
    reason = (None, "runs with steps are compared by step" if has_steps(base, new) else "no common time is recorded")
    values |= dict(zip(_RUN_TIMES, run_times or (reason,) * len(_RUN_TIMES), strict=True))
    headline = _make_headline(values, change, verdict, reasons, changes, whole)
    values |= {"verdict": verdict, "headline": headline}
    values |= dict(zip(("base_run", "new_run"), name_runs(base, new), strict=True))
    return AnalysisReport(
        NAME,
        {name: pa.Table.from_pylist(rows, schema=TABLES[name].arrow()) for name, rows in tables.items()},
        make_scalars(SCALARS, values),
        (
            *_list_notices(base, new, change, verdict, pairs),
            *(() if history is None else _list_reference_notices(earlier, change)),
        ),
        detail=(base, new),
    )


def name_runs(*runs: RunFacts) -> list[str]:
    """Return the names of runs, or their paths if names are equal or unknown, with the number of hosts if there
    are several."""
    names = [run.name for run in runs]
    if "" in names or len(set(names)) < len(names):
        names = []
        for run in runs:
            folders = {path.rpartition("/")[0] for path in run.sources}
            place = run.sources[0] if run.sources else run.name or "unnamed run"
            if len(run.sources) > 1:
                place = folders.pop() if len(folders) == 1 else f"{place} and others"
            names.append(place)
    hosts = [run.environment.get("hosts", "1") for run in runs]
    return [name if number == "1" else f"{name} ({number} hosts)" for name, number in zip(names, hosts, strict=True)]


# ---- verdict


_FEW: Final = "a run has fewer than two complete steps"


def has_steps(base: RunFacts, new: RunFacts) -> bool:
    """Return whether both runs have steps that count."""
    return bool(len(base.steps.judged) and len(new.steps.judged))


def _get_mean(steps: RunSteps) -> int | None:
    return round(float(steps.judged_ps.mean())) if len(steps.judged_ps) else None


def _compute_values(
    base: RunFacts, new: RunFacts, change: StepChange | None, changes: Sequence[Mapping[str, Any]]
) -> dict[str, Known]:
    """Return the figures but the verdict and the headline."""
    first, second = _get_mean(base.steps), _get_mean(new.steps)
    few = (None, _FEW)
    known = first is not None and second is not None
    values: dict[str, Known] = {
        "base_step_ps": few if first is None else first,
        "new_step_ps": few if second is None else second,
        "step_change_ps": second - first if first is not None and second is not None else few,
        "step_change_share": change.share if change else few,
        "step_change_low_share": change.low if change else few,
        "step_change_high_share": change.high if change else few,
        "smallest_detectable_share": change.smallest if change else few,
        "rule": change.rule if change else few,
        "unexplained_ps": changes[-1]["change_ps"] if changes else (None, "devices or steps are not recorded"),
    }
    for name, run in (("base", base), ("new", new)):
        judged = run.steps.judged_ps
        values[f"{name}_median_ps"] = round(float(np.median(judged))) if known and len(judged) else few
        values[f"{name}_step_count"] = len(judged)
    return values


_SIGNS: Final = {SLOWER: "slower", FASTER: "faster"}


def _make_headline(
    values: Mapping[str, Known],
    change: StepChange | None,
    verdict: str,
    reasons: Sequence[str],
    changes: Sequence[Mapping[str, Any]],
    whole: str | None,
) -> str:
    first, second = values["base_step_ps"], values["new_step_ps"]
    times_of_run = values["base_run_ps"], values["new_run_ps"]
    if whole is not None and isinstance(times_of_run[0], int) and isinstance(times_of_run[1], int):
        amounts = f"{format_time(times_of_run[0])} → {format_time(times_of_run[1])}"
        return f"Cannot judge: {reasons[0]}. {whole.capitalize()} of all that was recorded: {amounts}."
    if not isinstance(first, int) or not isinstance(second, int) or change is None:
        return f"Cannot compare: {reasons[0] if reasons else _FEW}."
    times = f"{format_time(first)} → {format_time(second)}"
    if verdict == NOT_COMPARABLE:
        return f"Cannot compare step times ({times}): {reasons[0]}."
    interval = f"95 % interval {_format_change(change.low)} to {_format_change(change.high)}"
    if verdict == UNCHANGED:
        least = _format_share(change.smallest)
        return f"Mean step unchanged within noise: {times} ({interval}); smallest detectable change {least}."
    largest = "not in ops or causes"
    for row in changes[:-1]:
        if (row["change_ps"] > 0) == (verdict == SLOWER):
            more = "more" if verdict == SLOWER else "less"
            largest = f"{row['title']}, {format_time(abs(row['change_ps']))} {more} per step"
            break
    share = _format_share(abs(change.share))
    reference = f" than in {change.earlier_runs:,} earlier runs" if change.earlier_runs else ""
    return f"Mean step {share} {_SIGNS[verdict]}{reference}: {times} ({interval}). Largest change: {largest}."


def _format_share(share: float) -> str:
    return format_measure(share, "share")


def _format_change(share: float) -> str:
    return ("+" if share >= 0 else "−") + _format_share(abs(share))


# ---- changes


def _sort_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    return sorted(pairs, key=lambda pair: (-abs(pair.change_ps), pair.kind, pair.name))


def _list_changes(
    pairs: Sequence[Pair], totals: Sequence[int], total_change: int, programs: ComparedPrograms
) -> list[dict[str, Any]]:
    """Return the rows of changes, and last what they leave of the mean steps. ``total_change``: 0 leaves them without
    shares."""
    every = [_describe_change(pair, programs) for pair in _sort_pairs(pairs)]
    rest = [total - sum(row[side] for row in every) for total, side in zip(totals, ("base_ps", "new_ps"), strict=True)]
    rows = [row for row in every if row["change_ps"]]
    rows.append({
        "kind": UNEXPLAINED, "title": "Remainder without a named cause", "base_ps": rest[0], "new_ps": rest[1],
        "change_ps": rest[1] - rest[0], "certainty": CERTAIN,
    })  # fmt: skip
    for rank, row in enumerate(rows, 1):
        row["rank"] = rank
        row["share"] = row["change_ps"] / total_change if total_change else None
    return rows


def _describe_change(pair: Pair, programs: ComparedPrograms) -> dict[str, Any]:
    is_op = pair.kind == OP
    cause = next((part.change for part in (*pair.base, *pair.new) if part.change >= 0), -1)
    change = programs.describe_change(cause)
    base_ps, new_ps = round(pair.base_ps), round(pair.new_ps)
    scopes = sorted({part.scope for part in (*pair.base, *pair.new) if part.scope})
    where = pair.name if pair.kind == STRAGGLER else scopes[0] if len(scopes) == 1 else None
    return {
        "kind": pair.kind,
        "title": change.partition(";")[0] if change and len(pair.base) != len(pair.new) else _make_title(pair),
        "name": pair.name or None,
        "base_ps": base_ps,
        "new_ps": new_ps,
        "change_ps": new_ps - base_ps,
        "base_count": _sum_counts(pair.base) if is_op else None,
        "new_count": _sum_counts(pair.new) if is_op else None,
        "where": where or None,
        "evidence": change or _EVIDENCE.get(pair.kind) or f"gaps.by_step?cause={pair.kind}",
        "certainty": LIKELY if pair.matched == BY_SCOPE else CERTAIN,
    }


_EVIDENCE: Final = {OP: "op_stats.device_ops", STRAGGLER: "steps.hosts"}
_NAME_LENGTH: Final = 60
_KERNEL_MARKS: Final = frozenset("<(")
"""Characters that names of functions with arguments have."""


def _make_title(pair: Pair) -> str:
    """Return what changed, without the amount, which stands beside it."""
    is_kernel = pair.kind == OP and not _KERNEL_MARKS.isdisjoint(pair.name)
    name = shorten_name(shorten_kernel_name(pair.name) if is_kernel else pair.name, _NAME_LENGTH)
    if pair.kind == STRAGGLER:
        return f"Waiting for the slowest device{f' ({name})' if name else ''}"
    if pair.kind != OP:
        label = get_cause_label(pair.kind)
        return f"{label[:1].upper()}{label[1:]}{f' ({name})' if name else ''}"
    if not pair.base or not pair.new:
        return f"{name} is {'new' if pair.new else 'gone'}"
    ops = len(pair.base), len(pair.new)
    became = f" ({count_noun(ops[0], 'op', 'ops')} became {ops[1]:,})" if ops[0] != ops[1] else ""
    return f"{name}{became}"


def _sum_counts(parts: Sequence[StepPart]) -> float:
    return sum(part.count or 0.0 for part in parts)


def _describe_op(pair: Pair, programs: ComparedPrograms) -> dict[str, Any]:
    row = _describe_change(pair, programs)
    names = {side: list_few(dict.fromkeys(part.name for part in parts)) for side, parts in
             (("base_names", pair.base), ("new_names", pair.new))}  # fmt: skip
    status = (
        "new" if not pair.base else "gone" if not pair.new
        else "changed in count" if row["base_count"] != row["new_count"]
        else "changed in time" if row["change_ps"] else "unchanged"
    )  # fmt: skip
    kept = ("name", "base_ps", "new_ps", "change_ps", "base_count", "new_count")
    return {name: row[name] for name in kept} | {
        "status": status, "scope": row["where"], **{side: text or None for side, text in names.items()},
    }  # fmt: skip


def _sum_categories(changes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    sums: dict[str, dict[str, Any]] = {}
    for row in changes:
        kind = row["kind"]
        label = _LABELS.get(kind) or get_cause_label(kind)
        of_kind = sums.setdefault(kind, {"kind": kind, "label": label, "base_ps": 0, "new_ps": 0, "change_ps": 0})
        for name in ("base_ps", "new_ps", "change_ps"):
            of_kind[name] += row[name]
    return sorted(sums.values(), key=lambda row: -abs(row["change_ps"]))


# ---- what else differs


def _list_figures(base: RunFacts, new: RunFacts) -> Iterator[dict[str, Any]]:
    for name, (first, unit) in base.figures.items():
        before, after = get_number(first), get_number(new.figures.get(name, (None, None))[0])
        if before is not None and after is not None:
            change = after - before
            yield {
                "figure": name, "unit": unit, "base": before, "new": after, "change": change,
                "change_share": change / before if before else None,
            }  # fmt: skip


_MOST: Final = 1e300


def get_number(value: object) -> float | None:
    """Return a finite number as float, or None for other values."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not -_MOST < value < _MOST:
        return None
    return float(value)


def list_differences(base: RunFacts, new: RunFacts, pairs: Sequence[Pair]) -> Iterator[dict[str, Any]]:
    """Yield what differs; ``reason``: why times cannot be compared because of it, or ""."""
    for name in dict.fromkeys([*base.environment, *new.environment]):
        first, second = base.environment.get(name), new.environment.get(name)
        if first != second:
            yield _make_difference(name, first, second, "")
    if (batch := find_batch_change(pairs, base.programs, new.programs)) is not None:
        times = [
            mean / size for mean, size in zip((_get_mean(base.steps), _get_mean(new.steps)), batch, strict=True) if mean
        ]
        each = (
            f"; per example {format_time(round(times[0]))} → {format_time(round(times[1]))}" if len(times) == 2 else ""
        )
        first, second = (f"{size:g}" for size in batch)
        yield _make_difference("batch", first, second, f"the batch differs ({first} → {second}){each}")
    shared = [(pair.base_ps, pair.new_ps, bool(pair.base and pair.new)) for pair in pairs if pair.kind == OP]
    for side in (0, 1):
        total = sum(times[side] for times in shared)
        if total and sum(times[side] for times in shared if times[2]) < _LEAST_SHARED * total:
            first, second = (str(sum(bool(times[place]) for times in shared)) for place in (0, 1))
            yield _make_difference("ops", first, second, "the runs have hardly any op in common")
            break
    missing = " and ".join(name for name, run in (("base", base), ("new", new)) if not len(run.steps.judged))
    if missing:
        first, second = (f"{len(run.steps.judged):,}" for run in (base, new))
        yield _make_difference("steps that count", first, second, f"no complete steps: {missing} run")


_LEAST_SHARED: Final = 0.2
"""Least share of op time in ops of both runs."""


def _make_difference(what: str, base: str | None, new: str | None, reason: str) -> dict[str, Any]:
    return {
        "what": what, "base": base or "not recorded", "new": new or "not recorded", "forbids": bool(reason),
        "reason": reason,
    }  # fmt: skip


def _list_steps(**runs: RunSteps) -> Iterator[dict[str, Any]]:
    for name, steps in runs.items():
        slow = np.append(np.zeros(steps.warm_up, np.bool_), find_slow_steps(steps.judged_ps))
        for place, (number, time_ps) in enumerate(zip(steps.number.tolist(), steps.time_ps.tolist(), strict=True)):
            yield {
                "run": name, "step": number, "time_ps": time_ps, "is_warm_up": place < steps.warm_up,
                "is_slow": bool(slow[place]),
            }  # fmt: skip


def list_history_notices(histories: Mapping[str, History]) -> Iterator[Notice]:
    """Yield which earlier runs do not count, because the figure changed after them. ``histories``: by figure."""
    for figure, earlier in histories.items():
        if earlier.change is not None:
            size = "" if earlier.change.share is None else f" ({_format_change(earlier.change.share)})"
            yield Notice("info", f"Earlier runs count from {earlier.changed} on: there the {figure} changed{size}.")


def list_choices(**runs: RunFacts) -> Iterator[Notice]:
    """Yield which run of a log directory was chosen."""
    for name, run in runs.items():
        if run.choice:
            yield Notice("info", f"{name.capitalize()} run: {run.choice}.")


def _list_reference_notices(earlier: History, change: StepChange | None) -> Iterator[Notice]:
    """Yield which earlier runs count, or why none does."""
    if change is not None and change.earlier_runs:
        yield from list_history_notices({"mean step": earlier})
    elif change is not None:
        few = f"there are {count_noun(len(earlier.values), 'earlier run', 'earlier runs')}, {MIN_HISTORY} are needed"
        yield Notice("info", f"The base run and the new run were judged alone: {earlier.reason or few}.")


_APART: Final = 0.02
"""Least difference of the changes of mean and median that is said."""


def _list_notices(
    base: RunFacts, new: RunFacts, change: StepChange | None, verdict: str, pairs: Sequence[Pair]
) -> Iterator[Notice]:
    yield from list_choices(base=base, new=new)
    for name, run in (("base", base), ("new", new)):
        if run.programs_left_out:
            most = f"The compiled programs of the {name} run with most device time were compared"
            left = count_noun(run.programs_left_out, "program was", "programs were")
            yield Notice("info", f"{most}; {left} left out.")
        if run.steps.warm_up:
            first = count_noun(run.steps.warm_up, "step is", "steps are")
            yield Notice("info", f"The first {first} warm-up in the {name} run and not counted.")
    for name, label in _PEAKS.items():
        before, after = (get_number(run.figures.get(name, (None, None))[0]) for run in (base, new))
        if before is not None and after is not None and before != after:
            share = f" ({_format_change(after / before - 1)})" if before else ""
            amounts = " → ".join(format_measure(peak, "bytes") for peak in (before, after))
            yield Notice("info", f"{label}: {amounts}{share}.")
    if not has_steps(base, new) and base.whole.keys() & new.whole.keys():
        yield Notice(
            "info", "A run has no steps, so that whole runs are compared: how long was recorded decides, too, and one "
            "measurement of each says nothing about noise.",
        )  # fmt: skip
    if change is None:
        return
    factor = find_common_factor(pairs)
    if factor is not None and verdict != NOT_COMPARABLE:
        yield Notice(
            "info", f"Nearly all ops take {_format_share(abs(factor - 1))} {'more' if factor > 1 else 'less'} time: "
            "likely the clock or the power limit of the device, not a single op.",
        )  # fmt: skip
    steps = [run.steps.judged_ps for run in (base, new)]
    of_mean, of_median = (float(middle(steps[1]) / middle(steps[0])) - 1 for middle in (np.mean, np.median))
    if abs(of_median - of_mean) > max(_APART, abs(of_mean) / 2) and (
        verdict != UNCHANGED or abs(of_median) > PAIR_FLOOR
    ):
        slow = [int(find_slow_steps(times).sum()) for times in steps]
        yield Notice(
            "info",
            f"Single steps make the difference: the mean step changes by {_format_change(of_mean)}, the median by "
            f"{_format_change(of_median)}. Slow steps: {slow[0]:,} in the base run, {slow[1]:,} in the new run.",
        )


_PEAKS: Final = {
    "memory_profile.peak_bytes": "Memory peak",
    "memory_viewer.peak_bytes": "Memory peak of the largest program",
}
"""Exact figures whose changes are said."""
