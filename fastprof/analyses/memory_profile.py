"""Memory by allocator: peaks, live allocations, fragmentation, lifetimes, growth over steps.

Accelerator allocators write an event for each allocation and free, with their state after it. All events are kept.
Definitions: docs/analyses/memory-profile.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastprof.analyses.accumulation import LazyHostValues
from fastprof.analyses.contract import (
    AnalysisReport,
    Evidence,
    Known,
    LazyTables,
    Notice,
    Opening,
    ScalarSpec,
    Section,
    add_need,
    has_rows,
    is_known,
    make_scalars,
)
from fastprof.derive.devices.op_names import TENSORFLOW_1, find_host_framework, is_kineto
from fastprof.derive.host import Host
from fastprof.derive.memory import memory_events, memory_remarks, session_memory
from fastprof.derive.memory.host_memory import SIZED, HostMemory, HostOutline, MemorySteps, list_module_runs
from fastprof.derive.memory.memory_events import MemoryEvents, read_device_sizes
from fastprof.derive.memory.memory_tables import TABLES as TABLES
from fastprof.derive.memory.session_memory import COUNTS, SHORT_LIVED, HostMemoryState, MemoryOptions, SessionMemory
from fastprof.derive.steps import host_steps
from fastprof.derive.steps.step_source import AUTO, STEPS_FROM
from fastprof.schema.tables import Need
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS
from fastprof.tables.needs import Needs, unite_needs

if TYPE_CHECKING:
    from fastprof.tables.host_events import HostEvents

NAME = "memory_profile"
OF_ALL_THREADS = OF_HOSTS = True
"""Flags: the report has everything during chosen steps, whatever its group."""
READS = unite_needs([
    Host.GROUPING,
    Needs(stats=host_steps.STATS, metadata_stats=host_steps.METADATA_STATS),
    Needs(stats=memory_events.STATS),
])  # fmt: skip
AFTER: tuple[str, ...] = ()
REMEDY = "Record allocations: profile_memory=True in PyTorch, host_tracer_level=2 in TensorFlow and JAX."
ONE_BY_ONE = True
CONTENT = Evidence(
    "No memory profile: the capture has no events of allocators.",
    events=tuple(map(re.escape, memory_events.EVENTS)),
)
_LATEST_PS = 2**63 - 1
_MANY = 1 << 16
"""Events whose ends are compared at a time: their copy stays in the processor cache."""


@dataclass(frozen=True, slots=True)
class Params:
    at: int | None = field(
        default=None,
        metadata={
            "help": "also report live memory at this time after the start of each host's capture, such as 1.5s or 20ms",
            "type": "time",
            "alone": True,
        },
    )
    request: int | None = field(
        default=None,
        metadata={
            "help": "also report when a request of this size would fit, in bytes or as 2GiB; the error message of a "
            "failed allocation has its size",
            "type": "bytes",
            "alone": True,
        },
    )
    short_lived_us: int = field(
        default=1000,
        metadata={
            "help": "allocations that live no longer than this, in microseconds, are short-lived",
            "min": 0,
            "alone": True,
        },
    )
    steps_from: str = field(default=AUTO, metadata=STEPS_FROM)


_SOME_STEPS = (
    "Only some steps are selected. Their activity on all threads is reported, including memory that was allocated "
    "earlier or freed later."
)
_OF_LARGEST = "of the allocator with the largest peak"
_RECORDED = Need("snapshot_count", "no allocation or free is recorded")
SCALARS = {
    "peak_bytes": ScalarSpec("bytes", "peak memory in use, stack and heap: the largest peak of any allocator"),
    "peak_allocator": ScalarSpec(None, "name of the allocator with the largest peak"),
    "peak_host": ScalarSpec(None, "host of the allocator with the largest peak"),
    "peak_ps": ScalarSpec("ps", "time of the largest peak, from the start of the host's capture", "time of the peak"),
    "peak_step": ScalarSpec(None, "step at the time of the largest peak", "step of the peak"),
    "capacity_bytes": ScalarSpec("bytes", "memory that the allocator with the largest peak may use: in use and free "
                                 "at the peak; for PyTorch's allocator, all memory of the device"),
    "peak_share": ScalarSpec("share", "peak_bytes / capacity_bytes", "peak share of capacity"),
    "lifetime_peak_bytes": ScalarSpec("bytes", "peak memory in use since the process began, as the allocator counts "
                                      f"it (on TPUs the heap alone), {_OF_LARGEST}", "lifetime peak"),
    "held_before_bytes": ScalarSpec("bytes", "memory in use at the peak that was allocated before the capture, "
                                    f"{_OF_LARGEST}", "allocated before the capture, at the peak"),
    "wasted_bytes": ScalarSpec("bytes", "memory in use at the peak beyond the requested sizes, as far as recorded, "
                               f"{_OF_LARGEST}: allocators round requests up and do not always split large chunks",
                               "allocator rounding at the peak"),
    "fragmentation_share": ScalarSpec("share", f"fragmentation at the peak, {_OF_LARGEST}",
                                      "fragmentation of free memory at the peak"),
    **add_need(_RECORDED, {
        "allocator_count": ScalarSpec(None, "allocators of all hosts with an allocation or a free", "allocators"),
        "snapshot_count": ScalarSpec(None, "snapshots: allocations and frees, each with the memory in use after it",
                                     "snapshots"),
        "allocation_count": ScalarSpec(None, "allocations of all allocators", "allocations"),
        "free_count": ScalarSpec(None, "frees of all allocators", "frees"),
        "held_at_end_count": ScalarSpec(None, "allocations that were not freed within the capture",
                                        "allocations held at the end"),
        "replaced_count": ScalarSpec(None, "allocations whose free is missing in the capture", "frees not recorded"),
    }),
    **add_need(SIZED, {
        "short_lived_count": ScalarSpec(None, "allocations that lived no longer than short_lived_us", "short-lived"),
        "short_lived_share": ScalarSpec("share", "short_lived_count / allocation_count", "short-lived share"),
        "short_lived_bytes": ScalarSpec("bytes", "sum of the sizes of short-lived allocations", "short-lived sizes"),
    }),
}  # fmt: skip
_WORTH = 0.01
"""Least share of too small chunks in free memory, or in all allocated memory if that is less, that text mentions."""


def is_fragmented(table: pa.Table) -> pa.Array:
    """Return whether text shows each row of the table fragmentation, which includes unknown and requested ones."""
    too_small, free, taken = (
        table[name].cast(pa.float64(), safe=False).to_numpy()
        for name in ("too_small_most_bytes", "free_bytes", "taken_most_bytes")
    )
    little = (too_small <= 0) | (too_small < np.fmin(free, taken) * _WORTH)  # fmin ignores unknown values
    return pa.array(~little | (table["moment"].cast(pa.string()).to_numpy() == "at"))


_ALIVE = ("allocator", "total_bytes", "requested_bytes", "count", "share", "source", "shape", "op_name")
OPENING = Opening(
    (
        "{peak_allocator} holds {peak_bytes} at its peak, {peak_share} of its capacity.",
        "{peak_allocator} holds {peak_bytes} at its peak.",
    ),
    (
        "peak_bytes", "peak_share", "capacity_bytes", "fragmentation_share", "wasted_bytes", "held_at_end_count",
    ),
)  # fmt: skip

SECTIONS = (
    Section("Memory", scalars=tuple(SCALARS), shown=is_known("allocator_count")),
    Section("Allocators", "allocators", ("allocator", "peak_bytes", "peak_step", "capacity_bytes",
            "reserved_at_peak_bytes", "lifetime_peak_bytes", "allocation_count", "free_count", "held_at_end_bytes",
            "fragmentation_at_peak"), rows=16, shown=has_rows("allocators"), parts=("reserved_at_peak_bytes",)),
    Section("When the request fits", "request", ("allocator", "fits", "start_ps", "duration_ps", "most_free_bytes",
            "largest_free_least_bytes", "largest_free_most_bytes"), rows=12, shown=has_rows("request")),
    Section("Alive at the peak, similar op names merged", "active_groups", ("allocator", "total_bytes",
            "wasted_bytes", "share", "source", "op_names"), rows=15, shown=has_rows("active_groups")),
    Section("Alive at the peak", "active", _ALIVE, rows=15, shown=has_rows("active")),
    Section("Alive at the requested time", "at", _ALIVE, rows=15, shown=has_rows("at")),
    Section("Growth from step to step", "growth", ("allocator", "op_name", "growth_bytes", "growth_per_step_bytes",
            "steps_grown", "step_count", "grows_steadily"), shown=has_rows("growth")),
    Section("Fragmentation, with the largest free chunk at the most", "fragmentation", ("allocator", "moment",
            "start_ps", "free_bytes", "largest_free_bytes", "next_largest_bytes", "too_small_least_bytes",
            "too_small_most_bytes"), rows=12, shown=has_rows("fragmentation", is_fragmented), only=is_fragmented),
    Section("Steps", "steps", ("allocator", "step", "peak_bytes", "begin_bytes", "growth_bytes", "allocation_count",
            "allocated_bytes", "freed_bytes", "short_lived_bytes"), rows=10, shown=has_rows("steps")),
    Section("Ops by the memory that they allocate", "ops", ("allocator", "op_name", "count", "allocated_bytes",
            "largest_bytes", "held_at_end_bytes", "short_lived_count", "lifetime_p50_ps"), rows=15,
            shown=has_rows("ops")),
)  # fmt: skip


def of_host(host: Host, params: Params) -> HostMemoryState:
    """Read all memory events of the host, even if only some steps are reported: what is freed within them was allocated
    before, and the other way round."""
    events = host.entire.raw
    begin_ps, end_ps = _measure_span(events)
    kept = _read_memory_events(host.entire)
    about = HostOutline(
        host=host.name,
        hardware=host.hardware,
        has_host_plane=events.plane_named(HOST_THREADS) is not None,
        begin_ps=begin_ps,
        end_ps=end_ps,
        steps=MemorySteps.of(host.steps_from(params.steps_from).database) if len(kept) else MemorySteps.none(),
        threads=host.workers.threads,
        of_runs=find_host_framework(host.raw) == TENSORFLOW_1,
        chosen=host.entire is not host,
        of_torch=is_kineto(events),
        device_bytes=read_device_sizes(events),
    )
    options = MemoryOptions(params.at, params.short_lived_us, params.request)
    return HostMemoryState(HostMemory(about, kept, list_module_runs(host.raw)), options)


def _read_memory_events(host: Host) -> MemoryEvents:
    """Read the memory events while their groups are made; without such events no groups are needed."""
    read = partial(memory_events.read_memory_events, host.raw, workers=host.workers)
    if not set(memory_events.EVENTS).intersection(host.raw.names):
        return read()
    tasks: list[Callable[[], Any]] = [lambda: host.groups, read]
    groups, events = host.workers.run(None, tasks)
    with_groups: MemoryEvents = events.in_groups(groups.group_id)
    return with_groups


def _measure_span(events: HostEvents) -> tuple[int, int]:
    """Return the first begin and the last end of any event, at most the last number of 64 bits."""
    lines = events.used_lines
    if not lines:
        return 0, 0
    first = min(int(events.start_ps[line.first]) for line in lines)
    last = max(int(events.start_ps[line.last - 1]) for line in lines)
    if last + int(events.duration_ps.max()) > _LATEST_PS:
        return first, _LATEST_PS
    parts = range(0, len(events), _MANY)
    ends = (int((events.start_ps[i : i + _MANY] + events.duration_ps[i : i + _MANY]).max()) for i in parts)
    return first, max(last, *ends)


def run(kept: Sequence[HostMemoryState], params: Params, after: Mapping[str, AnalysisReport]) -> AnalysisReport:
    of_all: LazyHostValues[HostMemoryState] = LazyHostValues(kept)
    every = SessionMemory(of_all, params.at)
    hosts = of_all.only(every.places)
    tables = LazyTables(session_memory.make_tables(hosts, every))
    remarks = every.remarks(hosts)
    if len(hosts) and every.any_chosen:
        remarks.append(("info", _SOME_STEPS))
    notices = tuple(Notice(*remark) for remark in remarks)
    count, short = every.counts["allocation_count"], every.counts["short_lived_count"]
    values: dict[str, Known] = {name: every.counts[name] for name in (*COUNTS, *SHORT_LIVED)}
    values["allocator_count"] = len(every.rank)
    values["short_lived_share"] = short / count if count else (None, "there are no allocations")
    values |= _describe_largest(every.largest(hosts))
    return AnalysisReport(NAME, tables, make_scalars(SCALARS, values), notices, detail=of_all)


def _describe_largest(largest: tuple[HostMemoryState, pa.Table] | None) -> dict[str, Known]:
    """Return the figures of the allocator with the largest peak. ``largest``: its host, and its row of allocators."""
    names = {name: name for name in ("peak_bytes", "peak_ps", "peak_step", "capacity_bytes", "lifetime_peak_bytes")}
    names |= {
        "held_before_bytes": "held_before_at_peak_bytes",
        "wasted_bytes": "wasted_at_peak_bytes",
        "fragmentation_share": "fragmentation_at_peak",
    }
    if largest is None:
        nothing = (None, memory_remarks.NOT_RECORDED)
        return dict.fromkeys((*names, "peak_allocator", "peak_host", "peak_share"), nothing)
    host, (row,) = largest[0], largest[1].to_pylist()
    unrecorded, reasons = "the allocator does not record it", {}
    if row["peak_bytes"] is not None:
        steps = host.about.steps
        if not len(steps):
            instead = "; --steps-from modules makes executions of programs steps" if host.module_count else ""
            reasons["peak_step"] = f"the host has no known steps{instead}"
        elif row["peak_ps"] < steps.start_ps[0]:
            reasons["peak_step"] = "the peak was before the first step"
        else:
            where = "after the last step" if row["peak_ps"] >= steps.end_ps.max() else "between steps"
            reasons["peak_step"] = f"the peak was {where}"
        reasons["wasted_bytes"] = (
            "the capture has no allocation that was alive then, or does not record its requested size"
        )
    elif host.about.chosen:
        unrecorded = "the capture records no memory at the time of the selected steps"
    values: dict[str, Known] = {"peak_allocator": row["allocator"], "peak_host": row["host"]}
    for name, column in names.items():
        missing = (None, reasons.get(name, unrecorded))
        values[name] = missing if row[column] is None else row[column]
    share = row["peak_bytes"] / row["capacity_bytes"] if row["peak_bytes"] and row["capacity_bytes"] else None
    fits = share is not None and 0 <= share <= 1
    values["peak_share"] = share if fits else (None, "the memory limit of the allocator is unknown")
    return values
