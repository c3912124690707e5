"""Does the diagnosis find what is planted?

    python tests/planted/score.py [--details] [CASE ...]

A case is right when the first finding has the planted cause and costs what is planted, within a tenth. A finding that
calls itself an upper bound may also lie between the planted cost and the time of all that has the cause. A healthy case
is right when no finding exceeds 3 % of the run. Held-out cases are counted apart.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE), str(HERE / "held_out")]

from held_out_cases import HELD_OUT as HELD_OUT  # noqa: E402
from planted_cases import HEALTHY, PLANTED, Case  # noqa: E402
from reports import session_of  # noqa: E402

from fastprof import Report  # noqa: E402

TOLERANCE, QUIET = 0.1, 0.03


@dataclass(frozen=True)
class Score:
    case: Case
    findings: Sequence[dict[str, Any]]
    cost_ps: int
    most_ps: int
    run_ps: int

    @property
    def first(self) -> dict[str, Any] | None:
        return self.findings[0] if self.findings else None

    @property
    def share(self) -> float:
        """The largest of the findings."""
        return max((one["share"] or 0.0 for one in self.findings), default=0.0)

    @property
    def has_cause(self) -> bool:
        return self.first is not None and self.first["cause"] == self.case.cause

    @property
    def is_right(self) -> bool:
        if not self.case.cause:
            return self.share <= QUIET
        if self.first is None or not self.has_cause:
            return False
        most = self.most_ps if self.first["is_bound"] else self.cost_ps
        return self.cost_ps * (1 - TOLERANCE) <= (self.first["cost_ps"] or 0) <= most * (1 + TOLERANCE)

    def line(self) -> str:
        found = self.first
        said = f"{found['cause']} {(found['cost_ps'] or 0) / 1e9:.2f} ms" if found else "nothing"
        planted = f"{self.case.cause} {self.cost_ps / 1e9:.2f} ms" if self.case.cause else "healthy"
        verdict = "ok" if self.is_right else "COST" if self.has_cause else "WRONG"
        place = next((k for k, one in enumerate(self.findings, 1) if one["cause"] == self.case.cause), None)
        later = f" (at rank {place})" if place and place > 1 else ""
        return f"{verdict:6}{self.case.name:26}{planted:34}{said:34}{self.share:7.1%}{later}"


def diagnose(case: Case) -> Report:
    return session_of(*case.run().captures.values()).report("diagnosis")


def score(case: Case, report: Report | None = None) -> Score:
    """Score a case by its diagnosis, made here if none is given."""
    run, report = case.run(), report or diagnose(case)
    most = run.cost_ps if run.most_ps is None else run.most_ps
    return Score(case, report.tables["findings"].to_pylist(), run.cost_ps, most, run.run_ps)


def show(title: str, cases: Iterable[Case], details: bool) -> None:
    scores = [score(case) for case in cases]
    if not scores:
        return
    sys.stdout.write(f"\n{title}: {sum(one.is_right for one in scores)} of {len(scores)} are right\n")
    sys.stdout.write(f"      {'case':26}{'planted':34}{'first finding':34}largest\n")
    for one in scores:
        sys.stdout.write(one.line() + "\n")
        for found in one.findings if details else ():
            cost = f"{(found['cost_ps'] or 0) / 1e9:.2f} ms"
            sys.stdout.write(f"        {found['rank']}. {found['cause']:20}{cost:>14}  {found['title']}\n")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("cases", nargs="*")
    arguments.add_argument("--details", action="store_true", help="all findings of each case that is not held out")
    given = arguments.parse_args()
    for title, cases in (("Planted", PLANTED), ("Healthy", HEALTHY), ("Held out", HELD_OUT)):
        details = given.details and cases is not HELD_OUT
        show(title, (one for one in cases if not given.cases or one.name in given.cases), details)


if __name__ == "__main__":
    main()
