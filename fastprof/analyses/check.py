"""Check a run against limits: does a figure exceed a limit, or its value in an earlier run by more than noise?

Definitions: docs/compare.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from fastprof.analyses import ANALYSES, runner
from fastprof.analyses.compare import RunFacts, get_number, list_choices, list_history_notices, name_runs
from fastprof.analyses.contract import AnalysisReport, Known, Opening, ScalarSpec, Section, has_rows, make_scalars
from fastprof.derive.comparison.change_statistics import (
    History,
    StepChange,
    compare_steps,
    compare_with_history,
    measure_error,
    summarize_times,
    take_history,
)
from fastprof.errors import UsageError
from fastprof.schema.tables import Number, Share, String, TableSchema
from fastprof.schema.value_classes import dataclass
from fastprof.wording.amounts import parse_size, parse_time
from fastprof.wording.quantities import format_measure, shorten_name
from fastprof.wording.spelling import suggest_name

NAME = "check"
TITLE = "Check"
PASSED, FAILED, UNKNOWN = "passed", "failed", "cannot judge"
STATES: Final = {PASSED: "passed: the condition does not hold", FAILED: "failed: the condition holds", UNKNOWN: UNKNOWN}
"""States in words: a condition describes a run that fails."""
DEFINITIONS: Final = 1
"""Version of the definitions of figures; grows when a figure means something else than before."""
REDEFINED: Final[dict[str, int]] = {}
"""Version in which a figure got its present meaning, if that is not the first."""

ALIASES: Final = {
    **{f"step_time_{name}": f"steps.step_time_{name}_ps" for name in ("mean", "p50", "p90", "p99", "min", "max")},
    "step_time": "steps.step_time_mean_ps",
    "peak_memory": "memory_profile.peak_bytes",
    "program_memory": "memory_viewer.peak_bytes",
    "device_idle": "gaps.idle_share",
    "device_compute": "gaps.compute_share",
    "input_share": "input_pipeline.input_percent",
    "exposed_communication": "communication.exposed_share",
}
"""Short names of figures."""
_OF_STEPS: Final = re.compile(r"steps\.step_time_(?:mean|p(\d+))_ps")
"""Figures that have an interval, because each step has a value."""
_LONGEST: Final = 80
_CONDITION: Final = re.compile(
    r"\s*([A-Za-z]\w*(?:\.\w+)?)\s*([<>])\s*([+-]?)\s*(\d+(?:\.\d*)?|\.\d+)\s*([%A-Za-zµ]*)\s*", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that fails a run. ``figure``: report and figure; ``is_above``: fails above the limit, else below;
    ``limit``: in the unit of the figure, or a share if ``is_share``; ``is_change``: of the change from the base."""

    text: str
    figure: str
    is_above: bool
    limit: float
    is_change: bool
    is_share: bool

    @property
    def report(self) -> str:
        return self.figure.partition(".")[0]

    @property
    def unit(self) -> str | None:
        return get_figure_unit(self.figure)


def resolve_figure(name: str) -> str:
    """Return ``report.figure`` of a figure or its alias. UsageError: the figure is unknown."""
    if not isinstance(name, str):
        raise UsageError(f"names of figures are strings, not {type(name).__name__}")
    figure = ALIASES.get(name, name)
    report, _, scalar = figure.partition(".")
    known = runner.get_analysis(report).SCALARS if report in ANALYSES else {}
    if scalar not in known:
        near = suggest_name(name, [*ALIASES, *(f"{report}.{scalar}" for scalar in known)])
        raise UsageError(f"no figure {name!r}{near}; write an alias ({', '.join(ALIASES)}) or report.figure")
    return figure


def get_figure_unit(figure: str) -> str | None:
    """Return the unit of ``report.figure``."""
    report, _, scalar = figure.partition(".")
    return runner.get_analysis(report).SCALARS[scalar].unit


def parse_condition(text: str) -> Condition:
    """Parse ``step_time_p50 > +5%``: a figure or its alias, > or <, and a limit: a change in percent or in the unit of
    the figure if it has a sign, else a value. UsageError: not a condition, or no such figure."""
    match = _CONDITION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        shown = shorten_name(repr(text), _LONGEST)
        raise UsageError(f"{shown} is not a condition; write FIGURE > LIMIT, as in 'step_time > +5%'")
    name, sign, plus, amount, unit = match.groups()
    figure, words = resolve_figure(name), " ".join(text.split())
    if plus and (plus == "+") != (sign == ">"):
        raise UsageError(f"{words!r}: a change that fails is > +LIMIT or < -LIMIT")
    if plus and unit == "%":
        return Condition(words, figure, sign == ">", float(f"{plus}{amount}") / 100, True, True)
    limit = _parse_limit(words, amount, unit, get_figure_unit(figure))
    return Condition(words, figure, sign == ">", -limit if plus == "-" else limit, bool(plus), False)


def _parse_limit(text: str, amount: str, unit: str, of_figure: str | None) -> float:
    """Return a limit in the unit of the figure."""
    try:
        if of_figure == "ps" and unit:
            return float(parse_time(f"{amount}{unit}"))
        if of_figure == "bytes" and unit:
            return float(parse_size(f"{amount}{unit}"))
    except ValueError as error:
        advice = f"; a change has a sign: +{amount}%" if unit == "%" else ""
        raise UsageError(f"{text!r}: {error}{advice}") from error
    number = float(amount)
    if unit == "%" and of_figure in ("%", "share"):
        return number if of_figure == "%" else number / 100
    if unit:
        raise UsageError(f"{text!r}: the figure is in {of_figure or 'no unit'}, not {unit}")
    if of_figure in ("ps", "bytes") and number:
        raise UsageError(f"{text!r}: give the unit of the limit, such as {'20ms' if of_figure == 'ps' else '14GiB'}")
    return number


TABLES = {
    "conditions": TableSchema("conditions", "a condition, in the order given", (
        String("condition", "the condition as given; it describes a run that fails"),
        String("state", "passed, failed or cannot judge"),
        String("figure", "report and figure name"),
        String("unit", "unit of base, new and limit; null: a count"),
        Number("base", "value in the base run, or mean of the earlier runs; null: none is needed or known"),
        Number("new", "value in the checked run; null: unknown"),
        Share("change_share", "new / base - 1; null: base is unknown"),
        Share("change_low_share", "lower end of the 95 % interval of change_share; null: the figure has no interval"),
        Share("change_high_share", "upper end of the 95 % interval of change_share; null: the figure has no interval"),
        Share("smallest_detectable_share", "change that would be seen in 80 % of cases; null: no interval"),
        String("rule", "how the condition was judged; null: it was not, reason says why"),
        String("reason", "value and change in words, or why the condition cannot be judged"),
    ), derived=True),
}  # fmt: skip
SCALARS = {
    "headline": ScalarSpec(None, "the answer in a sentence"),
    "base_run": ScalarSpec(None, "name or path of the run of --against, or the number of earlier runs", "base"),
    "new_run": ScalarSpec(None, "name or path of the checked run; with the number of hosts if it has several", "new"),
    "verdict": ScalarSpec(
        None, "passed; failed: a condition failed; cannot judge: none failed, but one cannot be judged"
    ),
    "condition_count": ScalarSpec(None, "number of conditions"),
    "failed_count": ScalarSpec(None, "number of conditions that failed"),
    "unknown_count": ScalarSpec(None, "number of conditions that cannot be judged"),
}
OPENING = Opening(("{headline}",), ("failed_count", "unknown_count", "condition_count"))
SECTIONS = (
    Section("Runs", scalars=("base_run", "new_run")),
    Section("Conditions that fail a run", "conditions", ("condition", "state", "reason", "rule"), rows=100,
            shown=has_rows("conditions"),
            in_words=True, words={"state": STATES}),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reference:
    """Reference of a check: one run, or earlier runs. ``version``: of the definitions of its figures;
    ``reason``: why steps of the first run and the checked one cannot be compared, or ""."""

    runs: Sequence[RunFacts]
    version: int = DEFINITIONS
    reason: str = ""


def check_run(new: RunFacts, reference: Reference | None, conditions: Iterable[Condition]) -> AnalysisReport:
    """Judge the conditions."""
    conditions = list(conditions)
    rows = [_judge_condition(condition, new, reference) for condition in conditions]
    changing = [] if reference is None else [condition for condition in conditions if condition.is_change]
    histories = {each.figure: _take_history(each, reference) for each in changing if reference is not None}
    count = {state: sum(row["state"] == state for row in rows) for state in (PASSED, FAILED, UNKNOWN)}
    verdict = next((state for state in (FAILED, UNKNOWN) if count[state]), PASSED)
    headline = f"Passed: {len(rows):,} of {len(rows):,} conditions."
    if verdict != PASSED:
        words = ((FAILED, "failed"), (UNKNOWN, "cannot be judged"))
        counts = [f"{count[state]:,} {what}" for state, what in words if count[state]]
        headline = f"{verdict.capitalize()}: of {len(rows):,} conditions, {' and '.join(counts)}."
    values: dict[str, Known] = {
        "headline": headline,
        **_name_sides(new, [] if reference is None else reference.runs),
        "verdict": verdict,
        "condition_count": len(rows),
        "failed_count": count[FAILED],
        "unknown_count": count[UNKNOWN],
    }
    tables = {"conditions": pa.Table.from_pylist(rows, schema=TABLES["conditions"].arrow())}
    notices = (*list_choices(new=new), *list_history_notices(histories))
    return AnalysisReport(NAME, tables, make_scalars(SCALARS, values), notices, detail=new)


def _name_sides(new: RunFacts, earlier: Sequence[RunFacts]) -> dict[str, Known]:
    """Return the names of the checked run and of its reference."""
    if not earlier:
        return {"base_run": (None, "no run to compare with: give --against"), "new_run": name_runs(new)[0]}
    names = name_runs(earlier[0], new)
    if len(earlier) > 1:
        return {
            "base_run": f"{len(earlier):,} earlier runs, {earlier[-1].name} to {earlier[0].name}",
            "new_run": name_runs(new)[0],
        }
    return dict(zip(("base_run", "new_run"), names, strict=True))


def _judge_condition(condition: Condition, new: RunFacts, reference: Reference | None) -> dict[str, Any]:
    value = _get_value(new, condition)
    row: dict[str, Any] = {
        "condition": condition.text, "figure": condition.figure, "unit": condition.unit, "state": UNKNOWN, "new": value,
    }  # fmt: skip
    if value is None:
        return row | {"reason": f"the run has no value: {new.reasons.get(condition.figure, 'not recorded')}"}
    if not condition.is_change:
        exceeds = value > condition.limit if condition.is_above else value < condition.limit
        amounts = (format_measure(amount, condition.unit) for amount in (value, condition.limit))
        side = "above" if value > condition.limit else "below" if value < condition.limit else "equal to"
        reason = f" is {side} ".join(amounts)
        return row | {"state": FAILED if exceeds else PASSED, "rule": "value against limit", "reason": reason}
    if reference is None or not reference.runs:
        return row | {"reason": "a change needs an earlier run: give --against"}
    history = _take_history(condition, reference)
    if not history.values:
        return row | {"reason": "earlier runs have no value"}
    if reference.reason and _OF_STEPS.fullmatch(condition.figure):
        return row | {"reason": reference.reason}
    if reference.version < REDEFINED.get(condition.figure, 0):
        version = reference.version
        return row | {"reason": f"the baseline has version {version} of the figure, which means something else now"}
    if history.reason:
        return row | {"reason": history.reason}
    change = _measure_change(condition, new, reference.runs, history.values)
    return row | _judge_change(condition, value, history.values, change)


def _take_history(condition: Condition, reference: Reference) -> History:
    """Return the figure in earlier runs since its last change point."""
    values = ((run.name, _get_value(run, condition)) for run in reference.runs)
    return take_history([(name, value) for name, value in values if value is not None])


def _get_value(run: RunFacts, condition: Condition) -> float | None:
    """Return the figure of a run: of step times without warm-up, else as the report has it; None: unknown, or in
    another unit."""
    match, steps = _OF_STEPS.fullmatch(condition.figure), run.steps.judged_ps
    if match is not None and len(steps):
        return summarize_times(steps, None if match[1] is None else int(match[1]))
    value, unit = run.figures.get(condition.figure, (None, None))
    return get_number(value) if unit == condition.unit else None


def _measure_change(
    condition: Condition, new: RunFacts, earlier: Sequence[RunFacts], values: Sequence[float]
) -> StepChange | None:
    """Return the change with its interval, if the figure has one: from the spread of earlier runs, or from steps."""
    value = _get_value(new, condition) or 0.0
    match = _OF_STEPS.fullmatch(condition.figure)
    if match is None:
        return compare_with_history(values, value)
    steps, percent = new.steps.judged_ps, None if match[1] is None else int(match[1])
    change = compare_with_history(values, value, measure_error(steps, percent))
    return change or compare_steps(earlier[0].steps.judged_ps, steps, percent)


def _judge_change(
    condition: Condition, value: float, values: Sequence[float], change: StepChange | None
) -> dict[str, Any]:
    """Judge a change. It fails if the estimate exceeds the limit, and the near end of the 99 % interval the floor; if
    only the estimate exceeds, noise may explain it."""
    base = sum(values) / len(values) if change is not None and change.earlier_runs else values[0]
    share = value / base - 1 if base else None
    row: dict[str, Any] = {"base": base, "change_share": share, "rule": "exact: no interval"}
    if condition.is_share and base <= 0:
        return row | {"state": UNKNOWN, "reason": "the base is not positive, so that no change is relative to it"}
    estimate = (share or 0.0) if condition.is_share else value - base
    exceeds = estimate > condition.limit if condition.is_above else estimate < condition.limit
    amount = format_measure(abs(estimate), "share" if condition.is_share else condition.unit)
    amounts = (format_measure(known, condition.unit) for known in (value, base))
    reason = f" is {amount} {'more' if estimate > 0 else 'less'} than ".join(amounts)
    if change is not None:
        row |= {
            "change_low_share": change.low, "change_high_share": change.high,
            "smallest_detectable_share": change.smallest, "rule": change.rule,
        }  # fmt: skip
        if exceeds and not change.is_beyond_floor:
            least = format_measure(change.smallest, "share")
            return row | {"state": UNKNOWN, "reason": f"{reason}, but may be noise: smallest detectable change {least}"}
    if not exceeds:
        return row | {"state": PASSED, "reason": reason}
    return row | {"state": FAILED, "reason": f"{reason}; 'fastprof compare BASE NEW' shows what changed"}


def list_reports(conditions: Iterable[Condition]) -> Iterator[str]:
    """Yield the analyses that the conditions need, steps first."""
    yield from dict.fromkeys(["steps", *(condition.report for condition in conditions)])
