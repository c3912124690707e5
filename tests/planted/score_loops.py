"""Compare step time and input time of recorded loops with a stopwatch.

    python tests/planted/score_loops.py [LOOP ...]

The stopwatch runs within each program: a step lasts from the start of one iteration to the start of the next; its
input is the time that the loop waits for the loader. A loop is right when

- the median step time is within 3 % of the stopwatch, and equal in overview, steps, input pipeline and trends,
- the input share is within 3 points of the stopwatch, and equal in overview, input pipeline and trends,
- the first finding is ``input``, costs what the loader took in the run within a tenth, and is equal in overview and
  diagnosis.

The stopwatch counts the steps that the analysis steps counts for means: those that it knows to be recorded whole.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent)]  # the fastprof of this checkout, and tests

from reports import figures, session_of  # noqa: E402

from fastprof.profile import batch  # noqa: E402

LOOPS = HERE / "loops"
STEP_TOLERANCE, INPUT_POINTS, COST_TOLERANCE = 0.03, 3.0, 0.1
MEASURED: dict[str, dict[str, Any]] = json.loads((LOOPS / "measured.json").read_text())


@dataclass(frozen=True)
class Stopwatch:
    """Times that a program measured about itself. ``cost_ns`` is the loader time in the run."""

    step_ns: float
    input_percent: float
    cost_ns: int


@dataclass(frozen=True)
class LoopScore:
    """``step_ps``, ``input_percent`` and ``first`` (cause and cost of the first finding) map analyses to figures."""

    name: str
    stopwatch: Stopwatch
    step_ps: dict[str, float | None]
    input_percent: dict[str, float | None]
    first: dict[str, tuple[str, int] | None]

    @property
    def step_is_right(self) -> bool:
        expected = self.stopwatch.step_ns * 1000
        return _is_one(self.step_ps) and abs(_value(self.step_ps) - expected) <= STEP_TOLERANCE * expected

    @property
    def input_is_right(self) -> bool:
        off = abs(_value(self.input_percent) - self.stopwatch.input_percent)
        return _is_one(self.input_percent) and off <= INPUT_POINTS

    @property
    def finding_is_right(self) -> bool:
        first, expected = self.first["diagnosis"], self.stopwatch.cost_ns * 1000
        if not _is_one(self.first) or first is None or first[0] != "input":
            return False
        return abs(first[1] - expected) <= COST_TOLERANCE * expected

    @property
    def is_right(self) -> bool:
        return self.step_is_right and self.input_is_right and self.finding_is_right

    def line(self) -> str:
        steps = "/".join(_shown(None if one is None else one / 1e9, 2) for one in _distinct(self.step_ps))
        inputs = "/".join(_shown(one, 1) for one in _distinct(self.input_percent))
        finds = "/".join("nothing" if one is None else f"{one[0]} {one[1] / 1e9:.1f}" for one in _distinct(self.first))
        rights = (self.step_is_right, self.input_is_right, self.finding_is_right)
        wrong = " ".join(name for name, right in zip(("STEP", "INPUT", "FINDING"), rights, strict=True) if not right)
        watch = self.stopwatch
        return (
            f"{self.name:26}{watch.step_ns / 1e6:8.2f} {steps:20}{watch.input_percent:6.1f} {inputs:14}"
            f"{watch.cost_ns / 1e6:8.1f} {finds:28}{wrong or 'ok'}"
        )


def _distinct(values: dict[str, Any]) -> list[Any]:
    """Each value once, in the order of the analyses."""
    return list(dict.fromkeys(values.values()))


def _is_one(values: dict[str, Any]) -> bool:
    return len(_distinct(values)) == 1 and None not in values.values()


def _value(values: dict[str, float | None]) -> float:
    return next(iter(values.values())) or 0.0


def _shown(value: float | None, digits: int) -> str:
    return "none" if value is None else f"{value:.{digits}f}"


def stopwatch(measured: dict[str, Any], counts: list[bool]) -> Stopwatch:
    """Return what the program measured, over the steps that count; over all if the analysis has other steps."""
    counts = counts if len(counts) == len(measured["step_ns"]) else [True] * len(measured["step_ns"])
    steps, waits = (list(compress(measured[name], counts)) for name in ("step_ns", "input_ns"))
    return Stopwatch(statistics.median(steps), 100 * sum(waits) / sum(steps), measured["planted_ns"])


def score(name: str) -> LoopScore:
    (packed,) = LOOPS.glob(f"{name}.*.gz")
    profile = session_of(packed.read_bytes())
    reports = {one: profile.report(one) for one in ("overview", "steps", "input_pipeline", "diagnosis")}
    scalars = {one: figures(report) for one, report in reports.items()}
    step = {one: scalars[one]["step_time_p50_ps"] for one in ("overview", "steps", "input_pipeline")}
    step = {one: None if value is None else round(value) for one, value in step.items()}
    trend = batch.measure_run(profile)
    step["trends"] = trend["step_time_p50_ps"]
    percent = {one: scalars[one]["input_percent"] for one in ("overview", "input_pipeline")}
    percent["trends"] = None if trend["input_share"] is None else 100 * trend["input_share"]
    percent = {one: None if value is None else round(value, 9) for one, value in percent.items()}
    counts = reports["steps"].tables["steps"]["complete"].to_pylist()
    first = {one: _first(reports[one].tables["findings"].to_pylist()) for one in ("overview", "diagnosis")}
    return LoopScore(name, stopwatch(MEASURED[name], counts), step, percent, first)


def _first(findings: Sequence[dict[str, Any]]) -> tuple[str, int] | None:
    return (findings[0]["cause"], findings[0]["cost_ps"] or 0) if findings else None


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("loops", nargs="*", choices=[[], *MEASURED], metavar="LOOP")
    scores = [score(name) for name in arguments.parse_args().loops or MEASURED]
    sys.stdout.write("Each pair: stopwatch, then fastprof; several figures of fastprof where analyses differ\n")
    sys.stdout.write(f"{'loop':26}{'median step, ms':30}{'input, %':20}{'first finding, ms':38}wrong\n")
    for one in scores:
        sys.stdout.write(one.line() + "\n")
    sys.stdout.write(f"{sum(one.is_right for one in scores)} of {len(scores)} are right\n")


if __name__ == "__main__":
    main()
