"""The table of steps that XProf's overview page and input pipeline analyzer share, of GPUs and CPUs, and of TPUs.

It shows the complete steps only. Off TPUs its rows are the steps of the first host, whatever other hosts did, while
the summary of step times is over all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from fastprof.derive.steps import verdicts
from fastprof.derive.steps.database import StepDatabase
from fastprof.derive.steps.step_figures import PS_PER_MS, GenericSteps, has_sparse_cores, step_times
from fastprof.derive.steps.step_time import CATEGORIES
from fastprof.schema.array_types import Float64s
from fastprof.xprof.pages.data_table import (
    Col,
    Values,
    anchor,
    number,
    of_columns,
    one_digit,
    text,
    three_digits,
    two_digits,
)  # fmt: skip

if TYPE_CHECKING:
    from fastprof.derive.steps.step_figures import TpuStepValues

SMALLEST: Final = 2.2250738585072014e-308
"""What XProf takes for the largest of values before it has seen any: the largest of zeros alone is this."""

_GENERIC: Final = (
    ("deviceComputeTimeMs", "device_compute"),
    ("deviceToDeviceTimeMs", "device_to_device"),
    ("deviceCollectivesTimeMs", "device_collectives"),
    ("hostComputeTimeMs", "host_compute"),
    ("kernelLaunchTimeMs", "kernel_launch"),
    ("infeedTimeMs", "infeed"),
    ("outfeedTimeMs", "outfeed"),
    ("compileTimeMs", "compile"),
    ("otherTimeMs", "other"),
)
"""Columns of the generic table, one a category of step time: their ids, and the names of their properties."""

_TF_DATA_GUIDE: Final = anchor("https://www.tensorflow.org/guide/data", "the tf.data API")


class Stat(NamedTuple):
    """XProf's statistics, with the rounding and the quirks of its formulas; 0 of no values."""

    average: float = 0.0
    standard_deviation: float = 0.0
    """Of a sample; NaN for a single 0, since the largest value is then not the smallest one."""
    minimum: float = 0.0
    maximum: float = 0.0

    @classmethod
    def of(cls, values: Float64s) -> Stat:
        count, total, squares, low, high = len(values), 0.0, 0.0, math.inf, SMALLEST
        for value in values.tolist():
            total += value
            squares += value * value
            low, high = min(low, value), max(high, value)
        if not count:
            return cls()
        variance = (squares - total**2 / count) / (count - 1) if count > 1 else math.nan
        deviation = 0.0 if low == high else math.sqrt(variance) if variance >= 0 else math.nan
        return cls(total / count, deviation, low, high)


def summary(name: str, values: Float64s, write: Callable[[float], str] = one_digit) -> dict[str, str]:
    """The four properties of a summary."""
    return {f"{name}_{part}": write(value) for part, value in Stat.of(values)._asdict().items()}


def next_step(classification: str, uses_tf_data: bool) -> str:
    """What XProf advises to do next, by its verdict on input."""
    if classification not in (verdicts.HOST, verdicts.BOTH):
        return "You may skip the rest of this page."
    if uses_tf_data:
        return "Look at Section 3 for the breakdown of input time on the host."
    return (
        f"Consider using {_TF_DATA_GUIDE} to enable profiler's host-side analysis for input pipeline. Profiler "
        "currently does not support custom input pipeline (please ignore Section 3 below)."
    )


def html(finding: verdicts.Finding) -> str:
    """A statement with its link as XProf writes it."""
    if finding.link is None:
        return finding.statement
    return finding.statement.replace(finding.link.words, anchor(finding.link.url, finding.link.words))


# ---- GPUs and CPUs --------------------------------------------------------------------------------------


def generic_table(
    db: StepDatabase, steps: GenericSteps, verdict: verdicts.Bottleneck, uses_tf_data: bool
) -> dict[str, object]:
    """``db``: the complete steps; ``steps``: those of them that are shown, with their verdict."""
    times = steps.categories(PS_PER_MS)  # XProf adds up milliseconds
    spans = steps.step_ps / PS_PER_MS
    labels = [db.name[row] or str(int(db.step[row])) for row in steps.row.tolist()]
    rows = zip(labels, times.tolist(), spans.tolist(), strict=True)
    columns: list[tuple[Col, Values]] = [
        (text("stepnum", "Step number"), labels),
        *((number(id, one.label), time) for (id, _), one, time in zip(_GENERIC, CATEGORIES, times.T, strict=True)),
        (text("tooltip", role="tooltip"), [_generic_tooltip(*row) for row in rows]),
        (number("stepTimeMs", "Step time"), spans),
    ]
    p = {
        "hardware_type": db.hardware,
        "step_time_graph_column_ids": ",".join(["stepnum", *(id for id, _ in _GENERIC)]) + ", tooltip",
        "input_conclusion": verdict.input.statement,
        "summary_nextstep": next_step(verdict.input.classification, uses_tf_data),
        **summary("steptime_ms", step_times(db) / PS_PER_MS),
    }
    for (_, name), time in zip(_GENERIC, times.T, strict=True):
        p[f"{name}_time_ms_avg"], p[f"{name}_time_ms_sdv"] = map(one_digit, Stat.of(time)[:2])
    for name in ("device_collectives", "kernel_launch", "all_other"):  # XProf: the statement in both
        p[f"{name}_bottleneck"] = p[f"{name}_statement"] = getattr(verdict, name).statement
    return of_columns(columns, p)


def _generic_tooltip(label: str, times: Sequence[float], span: float) -> str:
    lines = [f"Step {label}, duration: {two_digits(span)} ms"]
    for one, time in reversed(list(zip(CATEGORIES, times, strict=True))):
        lines.append(f"-{one.label.replace('collective communication', 'collectives')}: {two_digits(time)} ms")
    return "\n".join(lines)


# ---- TPUs -----------------------------------------------------------------------------------------------

_TPU: Final = (
    ("tcComputeTimeMs", "TensorCore compute (in ms)", "tc_compute_ms"),
    ("scv0ComputeTimeMs", "SparseCoreV0 compute (in ms)", "scv0_compute_ms"),
    ("scv0InfeedTimeMs", "SparseCoreV0 input (in ms)", "scv0_infeed_ms"),
    ("tcInfeedTimeMs", "TensorCore input (in ms)", "tc_infeed_ms"),
    ("tcOutfeedTimeMs", "TensorCore output (in ms)", "tc_outfeed_ms"),
    ("tcIdleTimeMs", "TensorCore idle (in ms)", "tc_idle_ms"),
    ("hostTransferTimeMs", "Host transfer (in ms)", "host_transfer_ms"),
)
"""Columns of the table of TPUs: id, label, and field of TpuStepValues."""


def tpu_table(
    db: StepDatabase, steps: TpuStepValues, verdict: verdicts.Bottleneck, uses_tf_data: bool
) -> dict[str, object]:
    """``db``: the steps, whose values across cores ``steps`` has."""
    # a session with SparseCores, described or in a step, has none of the first kind
    sparse = has_sparse_cores(db)
    any_sparse = sparse or bool((db.cores.sparse & db.cores.has_details).any())
    timed = [column for column in _TPU if not (any_sparse and column[0].startswith("scv0"))]
    labels = [str(step) for step in steps.step.tolist()]
    highest = np.maximum(steps.infeed_percent_maximum, SMALLEST)
    columns: list[tuple[Col, Values]] = [
        (text("stepnum"), labels),
        *((number(id, label), getattr(steps, field)) for id, label, field in timed),
        (text("tooltip", role="tooltip"), _tpu_tooltips(labels, steps)),
        (number("infeedPercentAverage", "% step time waiting for input data"), steps.infeed_percent_average),
        (number("infeedPercentMin", "Infeed percent min", role="interval"), steps.infeed_percent_minimum),
        (number("infeedPercentMax", "Infeed percent max", role="interval"), highest),
    ]
    p = {
        "hardware_type": "TPU",
        "input_conclusion": html(verdict.input),
        "output_conclusion": html(verdict.output),
        "summary_nextstep": next_step(verdict.input.classification, uses_tf_data),
        "step_time_graph_column_ids": ",".join(["stepnum", *(id for id, *_ in timed), "tooltip"]),
        "active_steptime_ms_average": two_digits(Stat.of(steps.active_ms).average),
        **summary("steptime_ms", step_times(db) / PS_PER_MS, two_digits),
        **summary("infeed_percent", highest),
    }
    averaged = [*(field for *_, field in timed), "tc_active_ms"]
    if sparse:
        averaged.append("sc_active_ms")
        if steps.sc_step_ms.min(initial=np.inf) > 0:
            averaged += ["sc_compute_ms", "sc_infeed_ms", "sc_outfeed_ms", "sc_idle_ms"]
            p["sc_step_time_ms_average"] = one_digit(Stat.of(steps.sc_step_ms).average)
    return of_columns(
        columns, p | {f"{name}_average": two_digits(Stat.of(getattr(steps, name)).average) for name in averaged}
    )


def _tpu_tooltips(labels: Sequence[str], steps: TpuStepValues) -> list[str]:
    waits = (steps.tc_infeed_ms + steps.scv0_infeed_ms).tolist()
    return [
        f"step {label}:\nTime waiting for input data = {three_digits(wait)} ms, Step time = {three_digits(span)} ms"
        for label, wait, span in zip(labels, waits, steps.step_ms.tolist(), strict=True)
    ]
