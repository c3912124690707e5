"""What rules read: the reports of analyses, and how long the run took on a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from fastprof.analyses.contract import Report, Value
from fastprof.analyses.findings.names_of_host import NamesOfHost
from fastprof.derive.causes.budget import BETWEEN_STEPS, CAUSE_NAMES, BudgetOfHosts
from fastprof.derive.host import CPU_ONLY
from fastprof.derive.ops.tables import sums_by
from fastprof.schema.array_types import Float64s, Int64s


@dataclass(frozen=True)
class Facts:
    """``framework``: that made the capture, see derive.devices.framework; ``hardware``: CPU_ONLY, GPU or TPU;
    ``reports``: by name of the analysis; ``names``: what names of events show, of all hosts."""

    framework: str
    hardware: str
    reports: Mapping[str, Report]
    names: NamesOfHost

    @cached_property
    def device_count(self) -> int:
        """Devices that have a window: those that ran anything."""
        return len(self.table("gaps", "devices"))

    @cached_property
    def window_ps(self) -> int:
        """Time of the run: of the mean device."""
        return self.per_device(int(self.figure("gaps", "window_ps") or 0))

    def per_device(self, time_ps: int) -> int:
        """A sum over devices as time of the run."""
        return time_ps // max(1, self.device_count)

    @property
    def budget(self) -> BudgetOfHosts:
        """Time of devices by step, kind and cause: what the tables of gaps are made of."""
        return self.reports["gaps"].detail_as(BudgetOfHosts)

    @cached_property
    def time_by_step(self) -> tuple[Int64s, Int64s]:
        """The steps, ascending, and the time of all devices: [step, cause], see CAUSE_NAMES."""
        rows = self.budget.budget
        rows = rows[rows.step != BETWEEN_STEPS]
        steps, step = np.unique(rows.step, return_inverse=True)
        count = len(CAUSE_NAMES)
        time = sums_by(step.reshape(-1) * count + rows.cause, rows.time_ps, len(steps) * count)
        return steps, time.reshape(len(steps), count)

    def table(self, analysis: str, table: str) -> pa.Table:
        return self.reports[analysis].tables[table]

    def figure(self, analysis: str, name: str) -> Value:
        return self.reports[analysis].scalars[name].value

    def devices(self) -> str:
        """The devices as the subject of a sentence, with a verb."""
        if self.hardware == CPU_ONLY:
            return "Compute waits"
        return f"The {self.hardware} waits" if self.device_count == 1 else f"{self.hardware}s wait"


def numbers(table: pa.Table, column: str) -> Float64s:
    """A column of numbers; nan: unknown."""
    values: Float64s = np.asarray(table[column].to_numpy(), np.float64)
    return values


def times(table: pa.Table, column: str) -> Int64s:
    """A column of picoseconds, none of them null."""
    values: Int64s = np.asarray(table[column].to_numpy(), np.int64)
    return values
