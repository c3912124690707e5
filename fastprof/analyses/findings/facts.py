"""What rules read: the reports of analyses, and how long the run took on a device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastprof.analyses.contract import Report, Scalar, Value
from fastprof.analyses.findings.advice import advice
from fastprof.analyses.findings.names_of_host import NamesOfHost
from fastprof.decode.plane_kinds import several
from fastprof.derive.causes.budget import CAUSE_NAMES, Budget, BudgetOfHosts
from fastprof.derive.causes.cause_names import GAP_CAUSES
from fastprof.derive.devices.tracer_levels import TracerLevels
from fastprof.derive.host import CPU_ONLY, GPU
from fastprof.derive.ops.tables import sums_by
from fastprof.derive.steps.across_hosts import SessionSteps
from fastprof.derive.steps.torch_loaders import LoaderTime
from fastprof.schema.array_types import Bools, Float64s, Int64s

if TYPE_CHECKING:
    from fastprof.derive.tfprof.advisor import Examined


@dataclass(frozen=True)
class Facts:
    """``framework``: that made the capture, see derive.devices.framework; ``hardware``: CPU_ONLY, GPU or TPU;
    ``reports``: by name of the analysis; ``names``: what names of events show, of all hosts; ``levels``: what the
    profiler was asked to record of all hosts, None: unknown; ``capability``: the least compute capability of GPUs,
    None: unknown; ``graphs``: what tfprof's advisor finds; ``device``: what to call a device: GPU, TPU, MTIA, NPU, …;
    ``maker``: who made the GPUs, as tensor_cores has it, None: unknown, or several; ``loader``: how the host that waits
    longest for a DataLoader of PyTorch does."""

    framework: str
    hardware: str
    reports: Mapping[str, Report]
    names: NamesOfHost
    levels: TracerLevels | None = None
    capability: tuple[int, int] | None = None
    graphs: tuple[Examined, ...] = ()
    device: str = GPU
    maker: str | None = None
    loader: LoaderTime = field(default_factory=LoaderTime)

    @cached_property
    def memo(self) -> dict[str, Any]:
        """Results that several rules share, by a name that the rules choose."""
        return {}

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
        """Share of the recorded time of the run."""
        return self.compute_ps / max(self._total("window_ps") - self.lost_records_ps, 1)

    @cached_property
    def lost_records_ps(self) -> int:
        """Time in which devices may have run work whose records are lost, over all."""
        return total(self.lost_to("lost_records").time_ps)

    def _total(self, column: str) -> int:
        return sum(times(self.table("gaps", "devices"), column)[self._counts].tolist())

    @cached_property
    def lost(self) -> dict[str, Lost]:
        """By cause of gaps, the rows of the table by_cause."""
        devices = zip(*(texts_of(self.table("gaps", "devices"), name) for name in ("host", "device")), strict=True)
        counts = {device for device, one in zip(devices, self._counts.tolist(), strict=True) if one}
        rows = self.table("gaps", "by_cause")
        host, device, event, causes = (texts_of(rows, name) for name in ("host", "device", "event", "cause"))
        of_cause: dict[str, list[int]] = {}
        for place, (cause, *of_device) in enumerate(zip(causes, host, device, strict=True)):
            if cause is not None and tuple(of_device) in counts:
                of_cause.setdefault(cause, []).append(place)
        amounts = [times(rows, name) for name in ("time_ps", "count", "longest_ps")]
        return {
            cause: Lost(
                [host[place] for place in places],
                [device[place] for place in places],
                [event[place] for place in places],
                *(column[places] for column in amounts),
            )
            for cause, places in of_cause.items()
        }

    def lost_to(self, cause: str) -> Lost:
        """The rows of one cause, perhaps none."""
        none = np.zeros(0, np.int64)
        return self.lost.get(cause, Lost([], [], [], none, none, none))

    @property
    def kernels(self) -> int:
        """How many GPUs ran; 0: the devices are no GPUs."""
        return int(self.figure("kernel_stats", "occurrences") or 0)

    @cached_property
    def launch_waits(self) -> int:
        """How often devices wait for a launch: pieces of such time, but at most one for each kernel. The host may do
        several things one after another in one wait."""
        pieces = total(self.lost_to("launch").count)
        return min(pieces, self.kernels or pieces)

    def per_device(self, time_ps: int) -> int:
        """A sum over devices as time of the run."""
        return time_ps // max(1, self.device_count)

    @property
    def gaps(self) -> BudgetOfHosts:
        """Time of devices by step, kind and cause: what the tables of gaps are made of."""
        return self.reports["gaps"].detail_as(BudgetOfHosts)

    def budgets(self, cause: str | None = None) -> Iterator[Budget]:
        """Of devices that findings are of, some hosts after the others. ``cause``: of gaps, None: all."""
        for rows in self.gaps.budgets(cause):
            yield rows[self._counts[rows.device]]

    def between_steps_share(self, cause: str) -> float:
        """Return the part of the time of a cause of gaps that lies between what is marked as steps, over all devices,
        without waits for slower hosts; 0.0 if there are no steps."""
        if not self.figure("steps", "step_count"):
            return 0.0
        of_cause = total(self.time_by_step[1][:, CAUSE_NAMES.index(cause)])
        known = self.waited_between_ps if cause == "idle" else 0
        return max(self.between_steps_ps(cause) - known, 0) / max(of_cause - known, 1)

    def between_steps_ps(self, cause: str) -> int:
        """Return the time of a cause of gaps outside of what is marked as steps or runs for them, over all devices."""
        return int(self.gaps.apart_ps[self._counts, GAP_CAUSES.index(cause)].sum())

    @cached_property
    def waited_between_ps(self) -> int:
        """Unexplained idle time, summed over devices, in which their hosts wait between step extents for a slower
        host."""
        hosts = self.table("steps", "hosts").select(["host", "waited_between_ps"]).to_pylist()
        waited = {row["host"]: row["waited_between_ps"] for row in hosts if row["waited_between_ps"]}
        if not waited:
            return 0
        names = texts_of(self.table("gaps", "devices"), "host")
        devices = Counter(name for name, one in zip(names, self._counts.tolist(), strict=True) if one)
        idle: Counter[str] = Counter()
        apart_ps = self.gaps.apart_ps[:, GAP_CAUSES.index("idle")] * self._counts
        for name, time_ps in zip(names, apart_ps.tolist(), strict=True):
            idle[name] += time_ps
        return sum(min(time * devices[name], idle[name]) for name, time in waited.items())

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
        """Step numbers in order, BETWEEN_STEPS first if time is between steps, and the time of all devices:
        [step, cause], see CAUSE_NAMES."""
        steps, count = np.zeros(0, np.int64), len(CAUSE_NAMES)
        sums = np.zeros((0, count), np.int64)
        for rows in self.budgets():
            known, step = np.unique(np.concatenate([steps, rows.step]), return_inverse=True)
            before, own = np.split(step.reshape(-1), [len(steps)])
            cells = np.concatenate([(before[:, None] * count + np.arange(count)).reshape(-1), own * count + rows.cause])
            of_cells = sums_by(cells, np.concatenate([sums.reshape(-1), rows.time_ps]), len(known) * count)
            steps, sums = known, of_cells.reshape(len(known), count)
        database = self.reports["steps"].detail_as(SessionSteps).database
        return database.numbers_of(steps), sums

    def table(self, analysis: str, table: str) -> pa.Table:
        return self.reports[analysis].tables[table]

    def figure(self, analysis: str, name: str) -> Value:
        return self.scalar(analysis, name).value

    def scalar(self, analysis: str, name: str) -> Scalar:
        """The figure with the reason why it is unknown, if it is."""
        return self.reports[analysis].scalars[name]

    @property
    def on_gpus(self) -> bool:
        """Whether the devices are GPUs of CUDA or ROCm."""
        return self.device == GPU

    def advise(self, cause: str) -> str:
        """What to do about a cause, in the words of the framework, for these devices."""
        return advice(cause, self.framework, on_gpus=self.on_gpus)

    def devices(self) -> str:
        """The devices as the subject of a sentence, with a verb."""
        if self.hardware == CPU_ONLY:
            return "Compute waits"
        if self.device_count == 1:
            return f"The {self.device} waits"
        named = several(self.device)
        return f"{named[0].upper()}{named[1:]} wait"


@dataclass(frozen=True)
class Lost:
    """What devices lose to one cause of gaps, a row each."""

    host: list[str]
    device: list[str]
    event: list[str | None]
    time_ps: Int64s
    count: Int64s
    longest_ps: Int64s

    def __len__(self) -> int:
        return len(self.host)

    def mostly(self, names: Sequence[str], least: float) -> str | None:
        """The name of rows with most of the time, if that is at least this share of it; None: none has."""
        time: Counter[str] = Counter()
        for name, time_ps in zip(names, self.time_ps.tolist(), strict=True):
            time[name] += time_ps
        if not time:
            return None
        name, most = time.most_common(1)[0]
        return name if most >= least * time.total() else None


def total(values: Int64s) -> int:
    """The exact sum."""
    return sum(values.tolist())


def texts_of(table: pa.Table, column: str) -> list[Any]:
    """The texts of a column, equal ones in memory once."""
    found: list[Any] = []
    for part in table[column].chunks:
        is_dictionary = pa.types.is_dictionary(part.type)
        known = part.dictionary.to_pylist() if is_dictionary else part.to_pylist()
        found += [None if at is None else known[at] for at in part.indices.to_pylist()] if is_dictionary else known
    return found


def numbers(table: pa.Table, column: str) -> Float64s:
    """A column of numbers; nan: unknown."""
    values: Float64s = np.asarray(table[column].to_numpy(), np.float64)
    return values


def times(table: pa.Table, column: str) -> Int64s:
    """A column of picoseconds, none of them null."""
    values: Int64s = np.asarray(table[column].to_numpy(), np.int64)
    return values
