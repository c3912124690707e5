"""What rules read: the reports of analyses, and how long the run took on a device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastprof.analyses.contract import Report, Scalar, Value
from fastprof.analyses.findings.names_of_host import NamesOfHost
from fastprof.derive.causes.budget import BETWEEN_STEPS, CAUSE_NAMES, Budget, BudgetOfHosts
from fastprof.derive.causes.cause_names import GAP_CAUSES
from fastprof.derive.devices.tracer_levels import TracerLevels
from fastprof.derive.host import CPU_ONLY
from fastprof.derive.ops.tables import sums_by
from fastprof.schema.array_types import Bools, Float64s, Int64s

if TYPE_CHECKING:
    from fastprof.derive.tfprof.advisor import Examined


@dataclass(frozen=True)
class Facts:
    """``framework``: that made the capture, see derive.devices.framework; ``hardware``: CPU_ONLY, GPU or TPU;
    ``reports``: by name of the analysis; ``names``: what names of events show, of all hosts; ``levels``: what the
    profiler was asked to record of all hosts, None: unknown; ``capability``: the least compute capability of GPUs,
    None: unknown; ``graphs``: what tfprof's advisor finds."""

    framework: str
    hardware: str
    reports: Mapping[str, Report]
    names: NamesOfHost
    levels: TracerLevels | None = None
    capability: tuple[int, int] | None = None
    graphs: tuple[Examined, ...] = ()

    @cached_property
    def _counts(self) -> Bools:
        """By device that ran anything, whether findings are of it: it computes or communicates, or none does. Copies
        alone, as those of a process that prepares data on a device, are not what a run waits for."""
        devices = self.table("gaps", "devices")
        works = times(devices, "compute_ps") + times(devices, "communication_ps") > 0
        return works if works.any() else np.ones(len(devices), np.bool_)

    @cached_property
    def computing_count(self) -> int:
        """Devices that compute or communicate."""
        devices = self.table("gaps", "devices")
        return int(np.count_nonzero(times(devices, "compute_ps") + times(devices, "communication_ps")))

    @cached_property
    def device_count(self) -> int:
        """Devices that findings are of."""
        return int(np.count_nonzero(self._counts))

    @cached_property
    def window_ps(self) -> int:
        """Time of the run: of the mean device."""
        return self.per_device(self._total("window_ps"))

    @cached_property
    def compute_ps(self) -> int:
        """Time in which devices compute, over all."""
        return self._total("compute_ps")

    @property
    def compute_share(self) -> float:
        """Of the time of the run."""
        return self.compute_ps / self._total("window_ps")

    def _total(self, column: str) -> int:
        return sum(times(self.table("gaps", "devices"), column)[self._counts].tolist())

    @cached_property
    def lost(self) -> list[Mapping[str, Any]]:
        """The rows of the table by_cause of gaps."""
        devices = zip(*(self.table("gaps", "devices")[name].to_pylist() for name in ("host", "device")), strict=True)
        counts = {device for device, one in zip(devices, self._counts.tolist(), strict=True) if one}
        rows: list[Mapping[str, Any]] = self.table("gaps", "by_cause").to_pylist()
        return [row for row in rows if (row["host"], row["device"]) in counts]

    @property
    def kernels(self) -> int:
        """How many GPUs ran; 0: the devices are no GPUs."""
        return int(self.figure("kernel_stats", "occurrences") or 0)

    @cached_property
    def launch_waits(self) -> int:
        """How often devices wait for a launch: pieces of such time, but at most one for each kernel. The host may do
        several things one after another in one wait."""
        pieces = sum(int(row["count"]) for row in self.lost if row["cause"] == "launch")
        return min(pieces, self.kernels or pieces)

    def per_device(self, time_ps: int) -> int:
        """A sum over devices as time of the run."""
        return time_ps // max(1, self.device_count)

    @property
    def gaps(self) -> BudgetOfHosts:
        """Time of devices by step, kind and cause: what the tables of gaps are made of."""
        return self.reports["gaps"].detail_as(BudgetOfHosts)

    def budget(self, cause: str | None = None) -> Budget:
        """Of devices that findings are of. ``cause``: of gaps, None: all."""
        rows = self.gaps.budget(cause)
        return rows[self._counts[rows.device]]

    def between_steps_share(self, cause: str) -> float:
        """The part of the time of a cause of gaps that is in no step, over all devices; 0.0: there are no steps."""
        if not self.figure("steps", "step_count"):
            return 0.0
        rows = self.budget(cause)
        return int(rows.time_ps[rows.step == BETWEEN_STEPS].sum()) / max(int(rows.time_ps.sum()), 1)

    def explanations(self, cause: str) -> Counter[str | None]:
        """By what explains time of a cause of gaps, over all devices: that time. None: nothing does."""
        rows = self.gaps.explained(cause)
        rows = rows[self._counts[rows.device]]
        time: Counter[str | None] = Counter()
        for event, time_ps in zip(rows.event.tolist(), rows.time_ps.tolist(), strict=True):
            time[event] += time_ps
        return time

    def beside_ps(self, cause: str) -> int:
        """Of the time that devices wait for a cause of gaps, over all, that in which something else goes on."""
        return int(self.gaps.beside_ps[self._counts, GAP_CAUSES.index(cause)].sum())

    @cached_property
    def time_by_step(self) -> tuple[Int64s, Int64s]:
        """The steps, ascending, and the time of all devices: [step, cause], see CAUSE_NAMES."""
        rows = self.budget()
        rows = rows[rows.step != BETWEEN_STEPS]
        steps, step = np.unique(rows.step, return_inverse=True)
        count = len(CAUSE_NAMES)
        time = sums_by(step.reshape(-1) * count + rows.cause, rows.time_ps, len(steps) * count)
        return steps, time.reshape(len(steps), count)

    def table(self, analysis: str, table: str) -> pa.Table:
        return self.reports[analysis].tables[table]

    def figure(self, analysis: str, name: str) -> Value:
        return self.scalar(analysis, name).value

    def scalar(self, analysis: str, name: str) -> Scalar:
        """The figure with the reason why it is unknown, if it is."""
        return self.reports[analysis].scalars[name]

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
