"""Gate for pipelines: a run checked against limits, an earlier run, earlier runs or a saved baseline."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fastprof.errors import CaptureError, UsageError
from fastprof.inputs.paths import is_directory
from fastprof.profile.comparison import make_run_facts, measure_run_facts, open_earlier_runs
from fastprof.profile.profile import Profile
from fastprof.profile.report import Report
from fastprof.wording.quantities import format_size, shorten_name

if TYPE_CHECKING:
    from fastprof.analyses.check import Reference
    from fastprof.analyses.compare import RunFacts
    from fastprof.derive.comparison.part_matching import StepPart
    from fastprof.inputs.resolve import Named

BASELINE_SUFFIX: Final = ".baseline.json"
_FORMAT: Final = "fastprof baseline"
_MOST_BYTES: Final = 16 << 20


def check(
    new: Named | Profile | Sequence[Named],
    fail_if: str | Iterable[str],
    *,
    against: str | os.PathLike[str] | None = None,
    save_baseline: str | os.PathLike[str] | None = None,
    **reading: Any,
) -> Report:
    """Check a run against conditions. A condition describes a run that fails: ``step_time > +5%``,
    ``peak_memory > 14GiB``, ``gaps.idle_share > 20%``.

    ``against``: an earlier capture or run, a log directory with earlier runs, or a file that ``save_baseline`` wrote.
    ``save_baseline``: write the figures of the run to this file. ``reading``: as of ``load``.

    Figures: verdict (passed, failed, cannot judge), failed_count, unknown_count. The table ``conditions`` has a row per
    condition; docs/compare.md has the rules. UsageError: not a condition. Other errors are those of ``load``.
    """
    from fastprof.analyses.check import check_run, list_reports, parse_condition
    from fastprof.analyses.compare import REPORTS
    from fastprof.profile.loading import load

    conditions = [parse_condition(text) for text in ([fail_if] if isinstance(fail_if, str) else fail_if)]
    if not conditions and save_baseline is None:
        raise UsageError("there are no conditions: give fail_if, such as 'step_time > +5%'")
    profile = new if isinstance(new, Profile) else load(new, **reading)
    names = list(list_reports(conditions))
    compares_steps = any(condition.is_change and condition.report == "steps" for condition in conditions)
    if save_baseline is not None or (against is not None and compares_steps):
        names += [name for name in REPORTS if name not in names]  # one pass: the runs may not be comparable
    facts = make_run_facts(profile, profile.reports_together(*names))
    reference = None
    if against is not None:
        reference = _read_reference(os.fspath(against), profile, names, compares_steps, reading | {"run": None})
    if save_baseline is not None:
        parts = measure_run_facts(profile, has_records=False).parts
        write_baseline(Path(save_baseline), replace(facts, parts=parts))
    return Report(check_run(facts, reference, conditions))


def _read_reference(
    path: str, new: Profile, names: Sequence[str], compares_steps: bool, reading: Mapping[str, Any]
) -> Reference:
    """Return the baseline of a file, or the facts of earlier runs, the newest first, with why step times cannot be
    compared. ``names``: reports to measure; ``compares_steps``: find out whether step times can be compared."""
    from fastprof.analyses.check import Reference
    from fastprof.inputs.resolve import list_runs
    from fastprof.profile.loading import load

    if path.endswith(BASELINE_SUFFIX):
        baseline = read_baseline(Path(path))
        (saved,) = baseline.runs
        if not compares_steps:
            return baseline
        current = measure_run_facts(new, has_records=False)
        parts = _take_largest_ops(current) if saved.parts else ()  # older baselines have no ops
        return replace(baseline, reason=_explain_difference(saved, replace(current, parts=parts)))
    is_history = is_directory(path) and len(list_runs(path)) > 1
    runs, reason = [], ""
    for earlier in open_earlier_runs(path, set(new.sources), reading) if is_history else [load(path, **reading)]:
        if {*map(os.path.realpath, earlier.sources)} == {*map(os.path.realpath, new.sources)}:
            raise UsageError("against is the checked run itself: give an earlier one")
        runs.append(make_run_facts(earlier, earlier.reports_together(*names)))
        if compares_steps and len(runs) == 1:
            reason = _explain_difference(
                measure_run_facts(earlier, has_records=False), measure_run_facts(new, has_records=False)
            )
    return Reference(runs, reason=reason)


def _explain_difference(base: RunFacts, new: RunFacts) -> str:
    """Return why step times of two runs cannot be compared, or ""."""
    from fastprof.analyses.compare import list_differences
    from fastprof.derive.comparison.part_matching import match_parts

    differences = list_differences(base, new, match_parts(base.parts, new.parts))
    models = [run.environment.get("devices", "") for run in (base, new)]
    kinds = [{model.lstrip("0123456789, ") for model in text.split(", ")} for text in models]
    others = f"the devices differ ({' → '.join(models)})" if kinds[0] != kinds[1] else ""
    return next((row["reason"] for row in differences if row["reason"]), others)


_OPS: Final = 32
"""Ops that a baseline has: those with most time."""
_LETTERS: Final = 96


def _take_largest_ops(facts: RunFacts) -> tuple[StepPart, ...]:
    """Return the ops that show a batch: the largest ones, with short names, as a baseline keeps them."""
    from fastprof.derive.comparison.part_matching import OP

    ops = sorted((part for part in facts.parts if part.kind == OP), key=lambda part: (-part.time_ps, part.name))
    return tuple(
        replace(part, name=part.name[:_LETTERS], scope=part.scope[-_LETTERS:], shape=part.shape[:_LETTERS])
        for part in ops[:_OPS]
    )


def write_baseline(path: Path, facts: RunFacts) -> None:
    """Write figures, step times and the largest ops of a run as JSON, a few kilobytes."""
    from fastprof.analyses.check import DEFINITIONS

    document = {
        "format": _FORMAT,
        "definitions": DEFINITIONS,
        "run": facts.name,
        "environment": dict(facts.environment),
        "steps": [
            [int(number), int(time)] for number, time in zip(facts.steps.number, facts.steps.time_ps, strict=True)
        ],
        "figures": {name: list(figure) for name, figure in facts.figures.items() if isinstance(figure[0], int | float)},
        "ops": [
            [part.name, part.scope, part.shape, round(part.time_ps), part.flops] for part in _take_largest_ops(facts)
        ],
    }
    if not path.name.endswith(BASELINE_SUFFIX):
        raise UsageError(f"{path}: the name of a baseline ends in {BASELINE_SUFFIX}")
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def read_baseline(path: Path) -> Reference:
    """Read what ``write_baseline`` wrote. CaptureError: the file is not a baseline."""
    from fastprof.analyses.check import DEFINITIONS, Reference
    from fastprof.analyses.compare import RunFacts, get_number
    from fastprof.derive.comparison.change_statistics import find_warm_up
    from fastprof.derive.comparison.part_matching import OP, RunSteps, StepPart

    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ValueError(f"more than {format_size(_MOST_BYTES)}")
        document = json.loads(data)
        if document["format"] != _FORMAT:
            raise ValueError("another format")
        version = document["definitions"]
        if not isinstance(version, int) or not 0 < version <= DEFINITIONS:
            raise ValueError("made by a newer fastprof, or damaged")
        steps = document["steps"]
        if not all(type(part) is int and 0 <= part < 1 << 62 for step in steps for part in step):
            raise ValueError("steps are pairs of a number and a time in ps")
        number, time_ps = np.array(steps, np.int64).reshape(len(steps), 2).T
        figures = {str(name): (get_number(value), unit) for name, (value, unit) in document["figures"].items()}
        environment = {str(name): str(value) for name, value in document["environment"].items()}
        known = RunSteps(number, time_ps, find_warm_up(time_ps))
        parts = tuple(
            StepPart(OP, str(name), get_number(time) or 0.0, None, str(scope), str(shape), get_number(flops))
            for name, scope, shape, time, flops in document.get("ops", ())
        )
        saved = RunFacts(str(document["run"]), known, parts, figures, {}, environment, sources=[os.fspath(path)])
        return Reference([saved], version)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        reason = shorten_name(str(error) or type(error).__name__, 100)
        raise CaptureError(f"not a baseline of fastprof: {reason}", path=os.fspath(path)) from error
