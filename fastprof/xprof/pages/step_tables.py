"""The table of steps that XProf's overview page and input pipeline analyzer share, of GPUs and CPUs, and of TPUs.

It shows the complete steps only. Off TPUs its rows are the steps of the first host, whatever other hosts did, while
the summary of step times is over all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof.derive.steps import verdicts
from fastprof.derive.steps.database import StepDatabase
from fastprof.derive.steps.step_figures import (
    COLLECTIVES,
    COMPILATION,
    COMPUTE,
    DEVICE_TO_DEVICE,
    HOST_COMPUTE,
    INPUT,
    LAUNCH,
    OTHER,
    OUTPUT,
    PS_PER_MS,
    GenericSteps,
    has_sparse_cores,
    step_times,
)  # fmt: skip
from fastprof.xprof.pages.data_table import anchor, data_table, number, one_digit, text, three_digits, two_digits

if TYPE_CHECKING:
    from fastprof.derive.steps.tpu_step_values import TpuStepValues

SMALLEST: Final = 2.2250738585072014e-308
"""What XProf takes for the largest of values before it has seen any: the largest of zeros alone is this."""

_GENERIC: Final = (
    ("deviceComputeTimeMs", "Device compute", COMPUTE, "device_compute"),
    ("deviceToDeviceTimeMs", "Device to device", DEVICE_TO_DEVICE, "device_to_device"),
    ("deviceCollectivesTimeMs", "Device collective communication", COLLECTIVES, "device_collectives"),
    ("hostComputeTimeMs", "Host compute", HOST_COMPUTE, "host_compute"),
    ("kernelLaunchTimeMs", "Kernel launch", LAUNCH, "kernel_launch"),
    ("infeedTimeMs", "Input", INPUT, "infeed"),
    ("outfeedTimeMs", "Output", OUTPUT, "outfeed"),
    ("compileTimeMs", "Compilation", COMPILATION, "compile"),
    ("otherTimeMs", "All others", OTHER, "other"),
)
"""Columns of the generic table: id, label, category of step time, and name of its properties."""

_GENERIC_TOOLTIP: Final = (
    ("All others", OTHER), ("Compilation", COMPILATION), ("Output", OUTPUT), ("Input", INPUT),
    ("Kernel launch", LAUNCH), ("Host compute", HOST_COMPUTE), ("Device collectives", COLLECTIVES),
    ("Device to device", DEVICE_TO_DEVICE), ("Device compute", COMPUTE),
)  # fmt: skip

_TF_DATA_GUIDE: Final = anchor("https://www.tensorflow.org/guide/data", "the tf.data API")


@dataclass(slots=True)
class Stat:
    """XProf's running statistics, with the rounding and the quirks of its formulas."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    low: float = math.inf
    high: float = SMALLEST

    @classmethod
    def of(cls, values: Iterable[float]) -> Stat:
        stat = cls()
        for value in values:
            stat.count += 1
            stat.total += value
            stat.squares += value * value
            stat.low = min(stat.low, value)
            stat.high = max(stat.high, value)
        return stat

    @property
    def average(self) -> float:
        return self.total / self.count if self.count else 0.0

    @property
    def deviation(self) -> float:
        """Of a sample; NaN for a single 0, since the largest value is then not the smallest one."""
        if not self.count or self.low == self.high:
            return 0.0
        if self.count == 1:
            return math.nan
        variance = (self.squares - self.total**2 / self.count) / (self.count - 1)
        return math.sqrt(variance) if variance >= 0 else math.nan

    @property
    def minimum(self) -> float:
        return self.low if self.count else 0.0

    @property
    def maximum(self) -> float:
        return self.high if self.count else 0.0


def summary(name: str, values: Iterable[float], write: object = one_digit) -> dict[str, str]:
    """The four properties of a summary."""
    assert callable(write)
    stat = Stat.of(values)
    return {
        f"{name}_average": write(stat.average),
        f"{name}_standard_deviation": write(stat.deviation),
        f"{name}_minimum": write(stat.minimum),
        f"{name}_maximum": write(stat.maximum),
    }


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
    db: StepDatabase, steps: GenericSteps, verdict: verdicts.GenericBottleneck, uses_tf_data: bool
) -> dict[str, object]:
    """``db``: the complete steps; ``steps``: those of them that are shown, with their verdict."""
    columns = [
        text("stepnum", "Step number"),
        *(number(name, label) for name, label, _, _ in _GENERIC),
        text("tooltip", role="tooltip"),
        number("stepTimeMs", "Step time"),
    ]
    times = steps.categories(PS_PER_MS).tolist()  # XProf adds up milliseconds
    spans = (steps.step_ps / PS_PER_MS).tolist()
    rows = []
    for row, category, span in zip(steps.row.tolist(), times, spans, strict=True):
        label = db.name[row] or str(int(db.step[row]))
        rows.append([label, *(category[at] for _, _, at, _ in _GENERIC), _generic_tooltip(label, category, span), span])
    return data_table(columns, rows, _generic_properties(db, times, verdict, uses_tf_data))


def _generic_tooltip(label: str, category: Sequence[float], span: float) -> str:
    lines = [f"Step {label}, duration: {two_digits(span)} ms"]
    lines += [f"-{name}: {two_digits(category[at])} ms" for name, at in _GENERIC_TOOLTIP]
    return "\n".join(lines)


def _generic_properties(
    db: StepDatabase, times: Sequence[Sequence[float]], verdict: verdicts.GenericBottleneck, uses_tf_data: bool
) -> dict[str, str]:
    graphed = ["stepnum", *(name for name, _, _, _ in _GENERIC)]
    p = {
        "hardware_type": db.hardware,
        "step_time_graph_column_ids": ",".join(graphed) + ", tooltip",
        "input_conclusion": verdict.input.statement,
        "summary_nextstep": next_step(verdict.input.classification, uses_tf_data),
    }
    p |= summary("steptime_ms", (step_times(db) / PS_PER_MS).tolist())
    for _, _, at, name in _GENERIC:
        stat = Stat.of(category[at] for category in times)
        p[f"{name}_time_ms_avg"], p[f"{name}_time_ms_sdv"] = one_digit(stat.average), one_digit(stat.deviation)
    for name, finding in (
        ("device_collectives", verdict.device_collectives),
        ("kernel_launch", verdict.kernel_launch),
        ("all_other", verdict.all_other),
    ):
        p[f"{name}_bottleneck"] = p[f"{name}_statement"] = finding.statement  # XProf: the statement in both
    return p


# ---- TPUs -----------------------------------------------------------------------------------------------


def tpu_table(
    db: StepDatabase, steps: TpuStepValues, verdict: verdicts.TpuBottleneck, uses_tf_data: bool
) -> dict[str, object]:
    """``db``: the steps, whose values across cores ``steps`` has."""
    v0 = [] if _knows_sparse_cores(db) else [
        ("scv0ComputeTimeMs", "SparseCoreV0 compute (in ms)", steps.scv0_compute_ms),
        ("scv0InfeedTimeMs", "SparseCoreV0 input (in ms)", steps.scv0_infeed_ms),
    ]  # fmt: skip
    timed = [
        ("tcComputeTimeMs", "TensorCore compute (in ms)", steps.tc_compute_ms),
        *v0,
        ("tcInfeedTimeMs", "TensorCore input (in ms)", steps.tc_infeed_ms),
        ("tcOutfeedTimeMs", "TensorCore output (in ms)", steps.tc_outfeed_ms),
        ("tcIdleTimeMs", "TensorCore idle (in ms)", steps.tc_idle_ms),
        ("hostTransferTimeMs", "Host transfer (in ms)", steps.host_transfer_ms),
    ]
    columns = [
        text("stepnum"),
        *(number(name, label) for name, label, _ in timed),
        text("tooltip", role="tooltip"),
        number("infeedPercentAverage", "% step time waiting for input data"),
        number("infeedPercentMin", "Infeed percent min", role="interval"),
        number("infeedPercentMax", "Infeed percent max", role="interval"),
    ]
    labels = [str(step) for step in steps.step.tolist()]
    cells = [labels, *(values.tolist() for _, _, values in timed), _tpu_tooltips(labels, steps)]
    cells += [steps.infeed_percent_average.tolist(), steps.infeed_percent_minimum.tolist()]
    highest = highest_infeed(steps)
    graphed = ",".join(["stepnum", *(name for name, _, _ in timed), "tooltip"])
    p = _tpu_properties(db, steps, verdict, uses_tf_data) | {"step_time_graph_column_ids": graphed}
    return data_table(columns, zip(*cells, highest, strict=True), p)


def _knows_sparse_cores(db: StepDatabase) -> bool:
    """Whether the capture describes a SparseCore, or any took part in a step: then there are none of the first kind."""
    return bool((db.cores.sparse & db.cores.has_details).any()) or has_sparse_cores(db)


def highest_infeed(steps: TpuStepValues) -> list[float]:
    return [max(percent, SMALLEST) for percent in steps.infeed_percent_maximum.tolist()]


def _tpu_tooltips(labels: Sequence[str], steps: TpuStepValues) -> list[str]:
    waits = (steps.tc_infeed_ms + steps.scv0_infeed_ms).tolist()
    spans = steps.step_ms.tolist()
    return [
        f"step {label}:\nTime waiting for input data = {three_digits(wait)} ms, Step time = {three_digits(span)} ms"
        for label, wait, span in zip(labels, waits, spans, strict=True)
    ]


def _tpu_properties(
    db: StepDatabase, steps: TpuStepValues, verdict: verdicts.TpuBottleneck, uses_tf_data: bool
) -> dict[str, str]:
    p = {
        "hardware_type": "TPU",
        "input_conclusion": html(verdict.input),
        "output_conclusion": html(verdict.output),
        "summary_nextstep": next_step(verdict.input.classification, uses_tf_data),
    }
    p |= summary("steptime_ms", (step_times(db) / PS_PER_MS).tolist(), two_digits)
    p |= summary("infeed_percent", highest_infeed(steps))
    averaged = {
        "tc_compute_ms": steps.tc_compute_ms,
        "tc_infeed_ms": steps.tc_infeed_ms,
        "tc_outfeed_ms": steps.tc_outfeed_ms,
        "tc_idle_ms": steps.tc_idle_ms,
        "host_transfer_ms": steps.host_transfer_ms,
        "active_steptime_ms": steps.active_ms,
        "tc_active_ms": steps.tc_active_ms,
    }
    if has_sparse_cores(db):
        averaged["sc_active_ms"] = steps.sc_active_ms
        if steps.sc_step_ms.min(initial=np.inf) > 0:
            averaged |= {
                "sc_compute_ms": steps.sc_compute_ms,
                "sc_infeed_ms": steps.sc_infeed_ms,
                "sc_outfeed_ms": steps.sc_outfeed_ms,
                "sc_idle_ms": steps.sc_idle_ms,
            }
            p["sc_step_time_ms_average"] = one_digit(Stat.of(steps.sc_step_ms.tolist()).average)
    elif not _knows_sparse_cores(db):
        averaged |= {"scv0_compute_ms": steps.scv0_compute_ms, "scv0_infeed_ms": steps.scv0_infeed_ms}
    for name, values in averaged.items():
        p[f"{name}_average"] = two_digits(Stat.of(values.tolist()).average)
    return p
