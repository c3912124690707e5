"""Parts of the mean step of a run: device time by op, and by cause where devices do not compute.

::

    mean step   |== op ==|= op =|- exposed collective -|.. idle, by cause ..|~ waits for the slowest device ~|
    of the mean device, in the complete steps after warm-up                  of the slowest beyond the mean one

The parts are of the mean device; the step takes as long as on its slowest core. What separates the two is a part of its
own, so that all parts together are the mean step.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastprof.derive.comparison.step_statistics import find_warm_up
from fastprof.derive.devices.communication_kinds import find_collective_kind, find_communication
from fastprof.derive.steps.step_database import IDLE
from fastprof.schema.columns import Int64s
from fastprof.schema.value_classes import dataclass

OP, STRAGGLER, COMMUNICATION = "op", "straggler", "communication"
DEVICE_BUSY, HOST_OPS = "device busy time", "host op time"
"""Times of runs without steps: of the mean device without idle time, and self time of ops of the mean host."""
_IDLE_KIND: Final = "idle"
_UNNAMED: Final = "compute of no recorded op"


@dataclass(frozen=True, slots=True)
class RunSteps:
    """Complete steps of a run, in order: their numbers, the time of each on its slowest core, and how many of the first
    are warm-up, which count for nothing."""

    number: Int64s
    time_ps: Int64s
    warm_up: int

    @property
    def judged_ps(self) -> Int64s:
        return self.time_ps[self.warm_up :]

    @property
    def judged(self) -> Int64s:
        return self.number[self.warm_up :]


@dataclass(frozen=True, slots=True)
class StepPart:
    """Part of the mean step. ``kind``: OP, or the name of a cause; ``name``: of the op, or of what explains the cause,
    "" if nothing does; ``scope``, ``shape``: of ops, "" if unknown; ``time_ps``: per step, of the mean
    device; ``count``, ``flops``: per step and device, None if unknown; ``program``: id of the op's program, None if
    unknown; ``change``: number of the change of programs that it belongs to, or -1."""

    kind: str
    name: str
    time_ps: float
    count: float | None = None
    scope: str = ""
    shape: str = ""
    flops: float | None = None
    program: int | None = None
    change: int = -1


def list_run_steps(steps: pa.Table) -> RunSteps:
    """Return the complete steps that all hosts have. ``steps``: the table of the analysis steps."""
    rows = steps.filter(pc.is_valid(steps["step"]))
    longest = rows.group_by("step").aggregate([("period_ps", "max"), ("complete", "min")]).sort_by("step")
    longest = longest.filter(longest["complete_min"])
    number, time_ps = (np.asarray(longest[name], np.int64) for name in ("step", "period_ps_max"))
    return RunSteps(number, time_ps, find_warm_up(time_ps))


def list_step_parts(steps: RunSteps, by_step: pa.Table, ops: pa.Table, host_ops: pa.Table) -> list[StepPart]:
    """Return the parts of the mean step. ``by_step``: the table of the analysis gaps; ``ops``, ``host_ops``: device_ops
    and host_ops of the analysis op_stats, of the judged steps alone; host ops count where no device ran any."""
    rows = by_step.filter(pc.is_in(by_step["step"], value_set=pa.array(steps.judged)))
    devices = len(list(_list_sums(rows, ("host", "device"))))
    if not devices:
        return []
    shares = len(steps.judged) * devices
    waits, waited_for = _measure_waits(rows)
    times = _sum_causes(rows, waits)
    compute = times.pop((None, ""), 0) / shares
    idle_ps = times.pop((STRAGGLER, ""), 0) / shares
    others = [StepPart(kind or OP, name, time / shares) for (kind, name), time in times.items()]
    parts = others + _list_ops(
        ops if ops.num_rows > int(IDLE in ops["name"].to_pylist()) else host_ops, compute, shares
    )
    waited_ps = idle_ps + sum(waits.values()) / shares
    if devices > 1 or waited_ps:
        beyond = float(np.mean(steps.judged_ps)) - compute - sum(part.time_ps for part in others)
        parts.append(StepPart(STRAGGLER, waited_for, max(beyond, waited_ps) if devices > 1 else waited_ps))
    return parts


def list_run_parts(by_step: pa.Table, ops: pa.Table, host_ops: pa.Table, hosts: int) -> dict[str, list[StepPart]]:
    """Return the parts of an entire run, by DEVICE_BUSY and HOST_OPS, as far as they are recorded. Tables as for
    ``list_step_parts``, of the entire run."""
    whole: dict[str, list[StepPart]] = {}
    rows = by_step.filter(pc.not_equal(by_step["kind"].cast("string"), _IDLE_KIND))
    devices = len(list(_list_sums(rows, ("host", "device"))))
    if devices:
        times = _sum_causes(rows, {})
        compute = times.pop((None, ""), 0) / devices
        others = [StepPart(kind or OP, name, time / devices) for (kind, name), time in times.items()]
        known = _list_ops(ops if ops.num_rows else host_ops, compute, devices)
        rest = compute - sum(part.time_ps for part in known)
        whole[DEVICE_BUSY] = [*others, *known, StepPart(OP, _UNNAMED, max(rest, 0.0))]
    if host_ops.num_rows and hosts:
        whole[HOST_OPS] = _list_ops(host_ops, math.inf, hosts)
    return {measure: parts for measure, parts in whole.items() if parts}


def _sum_causes(rows: pa.Table, waits: Mapping[Any, int]) -> Counter[tuple[str | None, str]]:
    """Return the time of all devices in all steps by cause and explanation, compute as None, less the time in
    collectives that devices wait for the slowest."""
    times: Counter[tuple[str | None, str]] = Counter()
    for cause, event, time in _list_sums(rows, ("cause", "event")):
        times[cause, "" if cause == STRAGGLER else event or ""] += time
    if waits:
        communication = rows.filter(pc.equal(rows["cause"].cast("string"), COMMUNICATION))
        names = ("host", "device", "step", "event", "time_ps")
        for host, device, step, event, time in zip(*(communication[name].to_pylist() for name in names), strict=True):
            times[COMMUNICATION, event or ""] -= min(waits.get((host, device, step), 0), time)
    return times


def _list_sums(rows: pa.Table, keys: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield each combination of values of key columns with the sum of its times."""
    columns = {name: rows[name].cast("string") if name != "step" else rows[name] for name in keys}
    sums = pa.table({**columns, "time_ps": rows["time_ps"]}).group_by(list(keys)).aggregate([("time_ps", "sum")])
    yield from zip(*(sums[name].to_pylist() for name in (*keys, "time_ps_sum")), strict=True)


def _measure_waits(rows: pa.Table) -> tuple[Mapping[Any, int], str]:
    """Return how long each device waits in collectives of each step for the slowest: beyond the device that spends
    least there; and the device for which most is waited, or ""."""
    communication = rows.filter(pc.equal(rows["cause"].cast("string"), COMMUNICATION))
    spent: dict[Any, dict[tuple[str, str], int]] = defaultdict(lambda: defaultdict(int))
    for step, host, device, time in _list_sums(communication, ("step", "host", "device")):
        spent[step][host, device] = time
    present = Counter(step for step, *_ in _list_sums(rows, ("step", "host", "device")))
    waits, blamed = {}, Counter[str]()
    for step, times in spent.items():
        least = min(times.values()) if len(times) == present[step] else 0
        if len(times) > 1:
            waits.update({(host, device, step): time - least for (host, device), time in times.items()})
            slowest = min(times, key=lambda place: times[place])
            blamed["/".join(slowest)] += sum(times.values()) - least * len(times)
    return waits, blamed.most_common(1)[0][0] if blamed else ""


_COLUMNS: Final = ("name", "self_ps", "occurrences")
_COPIES: Final = ("copy (", "Memcpy", "memset")
"""Prefixes of categories of copies."""
_OF_DEVICES: Final = ("category", "framework_op", "long_name")


def _list_ops(ops: pa.Table, compute: float, shares: int) -> list[StepPart]:
    """Return the ops that compute. Ops that run side by side take more time than passes: they share it."""
    columns = [*_COLUMNS, *(name for name in (*_OF_DEVICES, "flops", "program_id") if name in ops.column_names)]
    parts = []
    for row in ops.select(columns).to_pylist():
        category, scope, text = (row.get(name) or "" for name in _OF_DEVICES)
        name = row["name"].removeprefix(f"{scope}/")
        moves = category.startswith(_COPIES) or find_communication(category, text, name) or find_collective_kind(name)
        if row["name"] == IDLE or not row["self_ps"] or moves:  # of what moves data, exposed time counts: see causes
            continue
        flops, shape = row.get("flops"), text.partition(" = ")[2].partition("{")[0].partition(" ")[0]
        time_ps, count = row["self_ps"] / shares, row["occurrences"] / shares
        work = None if flops is None else flops / shares
        parts.append(StepPart(OP, name, time_ps, count, scope, shape, work, row.get("program_id")))
    total = sum(part.time_ps for part in parts)
    return [replace(part, time_ps=part.time_ps * compute / total) for part in parts] if total > compute else parts


def computes_outside(steps: RunSteps, by_step: pa.Table) -> bool:
    """Return whether devices compute in other time than the judged steps."""
    compute = by_step.filter(pc.is_null(by_step["cause"]))
    inside = pc.fill_null(pc.is_in(compute["step"], value_set=pa.array(steps.judged)), False)
    return bool(pc.any(pc.invert(inside)).as_py())
