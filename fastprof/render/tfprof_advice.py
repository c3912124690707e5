"""The advisor's reports in tfprof's words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa

from fastprof.derive.tfprof.advisor import (
    CHECKERS,
    Costly,
    costly_lines,
    costly_ops,
    costly_scopes,
    could_fuse_norms,
    has_channels_last,
    uses,
)
from fastprof.derive.tfprof.recorded import FIGURES
from fastprof.derive.tfprof.view_set import ViewSet
from fastprof.render.tfprof_amounts import time
from fastprof.schema.column_kinds import String
from fastprof.schema.tables import TableSchema

ADVICE: Final = TableSchema(
    "tfprof_advice",
    "a report of tfprof's advisor",
    (
        String("checker", "name of the checker", lambda rows: [name for name, _ in rows]),
        String(
            "report", "what it reports, in one line or several; may be empty", lambda rows: [one for _, one in rows]
        ),
    ),
    derived=True,
)
_LITTLE: Final = 0.5
_TIMES: Final = tuple(FIGURES.index(name) for name in ("cpu_micros", "accelerator_micros", "micros"))
_NO_STEPS: Final = (
    "Missing RunMetadata info. Skip ExpensiveOperationChecker\nMissing run_meta for ExpensiveOperationChecker\n"
)
_NO_CODE: Final = "Missing op_log (code traces) for ExpensiveOperationChecker\n"


def advice(views: ViewSet, checkers: Iterable[str] = CHECKERS) -> Mapping[str, list[str]]:
    """The reports of each checker, in the order of CHECKERS. tfprof's job checker has none and is not listed."""
    wanted = set(checkers)
    makers = {"AcceleratorUtilizationChecker": _of_use, "OperationChecker": _of_ops,
              "ExpensiveOperationChecker": _of_costs}  # fmt: skip
    return {name: makers[name](views) for name in CHECKERS if name in wanted and name in makers}


def complaints(views: ViewSet, checkers: Iterable[str] = CHECKERS) -> str:
    """What tfprof writes to standard error if something is not recorded."""
    if "ExpensiveOperationChecker" not in set(checkers):
        return ""
    no_steps = "" if views.recorded.steps else _NO_STEPS
    return no_steps + (unmatched(views) if views.lines.is_known else _NO_CODE)


def unmatched(views: ViewSet) -> str:
    """What tfprof says of gradients of nodes that it does not know."""
    count = views.lines.unmatched_gradients
    return f"{count} gradient nodes not accounted\n" if count else ""


def text(reports: Mapping[str, list[str]]) -> str:
    """The reports as tfprof prints them."""
    return "".join(f"\n{name}:\n" + "".join(f"{report}\n" for report in some) for name, some in reports.items())


def advice_table(reports: Mapping[str, list[str]]) -> pa.Table:
    """One row a report."""
    return ADVICE.of([(name, report) for name, some in reports.items() for report in some])


def _of_use(views: ViewSet) -> list[str]:
    reports = []
    for device, share in uses(views.recorded):
        low = "" if share >= _LITTLE else "low "
        reports.append(f"device: {device} {low}utilization: {share:.2f}")
    return reports


def _of_ops(views: ViewSet) -> list[str]:
    reports = []
    if could_fuse_norms(views.recorded):
        reports.append("Maybe use faster FusedBatchNorm instead of BatchNorm")
    if has_channels_last(views.recorded):
        reports.append("Found operation using NHWC data_format on GPU. Maybe NCHW is faster.")
    return reports


def _of_costs(views: ViewSet) -> list[str]:
    reports = []
    if views.recorded.steps:
        ops, total = costly_ops(views)
        if ops:
            lines = [
                f"top {number} operation type: {_spelt(op)} ({100 * int(op.figures[_TIMES[2]]) / (total + 1e-10):.2f}%)"
                for number, op in enumerate(ops, 1)
            ]
            reports.append("\n".join(lines))
    scopes = costly_scopes(views)
    if scopes:
        reports.append("\n".join(f"top {number} graph node: {_spelt(one)}" for number, one in enumerate(scopes, 1)))
    lines_of_code = costly_lines(views) if views.lines.is_known else None
    if lines_of_code is not None:
        reports.append("\n".join(f"{'  ' * line.depth}{_spelt(line)}" for line in lines_of_code))
    return reports


def _spelt(one: Costly) -> str:
    cpu, accelerator, both = (time(int(one.figures[place])) for place in _TIMES)
    return f"{one.name}, cpu: {cpu}, accelerator: {accelerator}, total: {both}"
