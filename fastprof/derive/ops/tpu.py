"""Ops of TPU cores: how the events of their op lines nest, and what each op costs.

Times are those of the device if an event has them (stats device_offset_ps and device_duration_ps), else the host's.
An op is identified by (program_id, symbol_id) in its event metadata; events without them only take part in nesting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof.derive.devices.device_events import OpEvents, device_spans, not_negative, op_events
from fastprof.derive.ops.line_times import Spans, spanned_ps
from fastprof.derive.ops.memory_accesses import Totals, memory_accesses
from fastprof.derive.ops.tables import (
    FROM_CAPTURE,
    MOST_WORK,
    SPARSE_CORE,
    TENSOR_CORE,
    MemoryAccess,
    Ops,
    OpTable,
    exact_sum,
    is_work,
    summed_by,
    sums_by,
)
from fastprof.schema.array_types import Bools, Float64s, Int32s, Int64s
from fastprof.tables.event_stats import Stat
from fastprof.tables.host_events import HostEvents, Line, Plane
from fastprof.tables.once import once

STEP_LINES: Final = ("Steps", "Sparse Core Steps")

EVENT_STATS: Final = (
    "device_offset_ps",
    "device_duration_ps",
    "min_duration_ps",
    "dma_stall_duration_ps",
    "Time Scale Multiplier",
    "vdd_energy_j",
    "offload_core_id",
    "tc_offload_start_id",
)
METADATA_STATS: Final = (
    "program_id",
    "symbol_id",
    "hlo_category",
    "tf_op",
    "deduplicated_name",
    "flops",
    "model_flops",
    "bytes_accessed",
    "memory_access_breakdown",
    "source",
    "source_stack",
)
PLANES: Final = (r"^/device:TPU:",)


MOST_TIMES: Final = 1000.0
"""A Time Scale Multiplier above this is damage, not a clock ratio, and is ignored."""

_FIRST_EVENTS: Final = (1 << 11, 1 << 14)

_INTEGERS = (records.INT64, records.UINT64)
TEXT_KINDS = (records.STR, records.REF)


def _known_ops(events: HostEvents, met: Int64s) -> tuple[Int64s, Int32s]:
    """The ops that these rows of metadata stand for, numbered as met; rows of equal keys are one op. Returns the row
    that describes each op, and the op of each row met; -1: it is none."""
    program, symbol = (events.meta_stat(name).at(met) for name in ("program_id", "symbol_id"))
    rows = np.flatnonzero(_of_kinds(program, _INTEGERS) & _of_kinds(symbol, _INTEGERS) & (symbol.value != 0))
    keys = np.stack([program.value[rows], symbol.value[rows]], axis=1)
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first), dtype=np.int32)
    op_of_met = np.full(len(met), -1, np.int32)
    op_of_met[rows] = rank[inverse.reshape(-1)]
    return met[rows][np.sort(first)], op_of_met


def _of_kinds(found: Stat, kinds: tuple[int, int]) -> Bools:
    matches: Bools = (found.kind == kinds[0]) | (found.kind == kinds[1])
    return matches


def op_table(events: HostEvents, found: OpEvents, core_type: int) -> tuple[OpTable, Int32s]:
    """The ops of these events, and the row of each event's op; -1: it is none."""
    met, number = _as_met(found.meta, len(events.names))
    metas, op_of_met = _known_ops(events, met)
    op = np.append(op_of_met, np.int32(-1))[number]
    count = len(metas)
    time = summed_by(op, found.duration_ps, count)
    occurrences = time["count"].copy()
    columns = _described(events, metas, occurrences)
    times = time["total"].copy()
    scaled = _normalized(events, found.rows, found.duration_ps)
    table = OpTable.of(
        occurrences=occurrences,
        time_ps=times,
        self_ps=sums_by(op, found.self_ps, count),
        min_ps=_shortest(events, op, found.rows, count),
        normalized_ps=times if scaled is None else sums_by(op, scaled, count),
        dma_stall_ps=_stalls(events, op, found.rows, count),
        energy_j=_energy(events, op, found.rows, count),
        cores=np.ones(count, np.int32),
        core_type=np.full(count, core_type, np.uint8),
        **columns,
    )
    return table, op


def _shortest(events: HostEvents, op: Int32s, rows: Int32s, count: int) -> Int64s:
    """The shortest occurrence of each op, by the host's clock if it does not record it itself."""
    durations = _replaced(events, "min_duration_ps", rows, not_negative(_of_rows(events.duration_ps, rows)))
    return summed_by(op, durations, count)["minimum"].copy()


def _stalls(events: HostEvents, op: Int32s, rows: Int32s, count: int) -> Int64s:
    if not len(events.stat("dma_stall_duration_ps")):
        return np.zeros(count, np.int64)
    return sums_by(op, _replaced(events, "dma_stall_duration_ps", rows, np.zeros_like(rows)), count)


def _energy(events: HostEvents, op: Int32s, rows: Int32s, count: int) -> Float64s:
    if not len(events.stat("vdd_energy_j")):
        return np.zeros(count)
    used = op >= 0
    return np.bincount(op[used], _doubles(events, "vdd_energy_j", rows, 0.0)[used], count).astype(np.float64)


def _of_rows(column: Int64s, rows: Int32s) -> Int64s:
    """The values of rows that ascend."""
    if len(rows) and int(rows[-1]) - int(rows[0]) == len(rows) - 1:
        return column[int(rows[0]) : int(rows[-1]) + 1]
    return column[rows]


def _as_met(meta: Int32s, count: int) -> tuple[Int64s, Int32s]:
    """The rows of metadata that occur, each once, in the order in which they first do, and the number there of each
    event; -1: it has none. ``count``: of all rows of the host, which may have many more planes than this one."""
    if len(meta) < count:
        distinct, first, inverse = np.unique(meta, return_index=True, return_inverse=True)
        known = np.flatnonzero(distinct >= 0)
        known = known[np.argsort(first[known])]
        number = np.full(len(distinct), -1, np.int32)
        number[known] = np.arange(len(known), dtype=np.int32)
        return distinct[known].astype(np.int64), number[inverse.reshape(-1)]
    met = _first_met(meta, count)
    number = np.full(count + 1, -1, np.int32)
    number[met] = np.arange(len(met), dtype=np.int32)
    return met, number[meta]  # of -1 the last


def _first_met(meta: Int32s, count: int) -> Int64s:
    occurs = np.zeros(count + 1, bool)
    occurs[meta] = True
    for length in _FIRST_EVENTS:  # all of them mostly occur among the first events
        met, first = np.unique(meta[:length], return_index=True)
        first = np.sort(first[met >= 0])
        if len(first) == np.count_nonzero(occurs[:-1]):
            return meta[first].astype(np.int64)
    place = np.full(count + 1, len(meta), np.int64)
    place[meta[::-1]] = np.arange(len(meta))[::-1]
    rows = np.flatnonzero(occurs[:-1])
    return rows[np.argsort(place[rows], kind="stable")]


def _replaced(events: HostEvents, stat: str, rows: Int32s, otherwise: Int64s) -> Int64s:
    """A stat of these rows, which ascend line by line, that is a time; times below 0 are ignored."""
    at, values = events.ints(stat)
    if not len(at):
        return otherwise
    place = np.minimum(np.searchsorted(at, rows.astype(at.dtype)), len(at) - 1)
    return np.where((at[place] == rows) & (values[place] >= 0), values[place], otherwise)


def _doubles(events: HostEvents, stat: str, rows: Int32s, otherwise: float, most: float = MOST_WORK) -> Float64s:
    """A stat of these rows; values below 0 or above ``most`` are ignored."""
    found = events.stat(stat)
    if not len(found):
        return np.full(len(rows), otherwise)
    recorded = found.at(rows)
    values = np.where(recorded.kind != records.NONE, recorded.numbers, otherwise)
    return np.where((values >= 0) & (values <= most), values, otherwise)


def _normalized(events: HostEvents, rows: Int32s, durations: Int64s) -> Int64s | None:
    """Durations at the nominal clock, rounded down; None: the clock is always nominal."""
    if not len(events.stat("Time Scale Multiplier")):
        return None
    return _truncated(durations * _doubles(events, "Time Scale Multiplier", rows, 1.0, MOST_TIMES))


def _truncated(values: npt.NDArray[Any]) -> Int64s:
    whole: Int64s = np.clip(np.trunc(values), -(2.0**62), 2.0**62).astype(np.int64)
    return whole


def _described(events: HostEvents, metas: Int64s, occurrences: Int64s) -> dict[str, Any]:
    """Columns from the metadata of ops; work is multiplied by their occurrences."""
    names, displays = events.names, events.display_names
    rows = metas.tolist()
    sources = [_source(text) for text in _meta_texts(events, "source", metas)]
    categories = _meta_texts(events, "hlo_category", metas)
    flops = _meta_numbers(events, "flops", metas) * occurrences
    moved = _meta_numbers(events, "bytes_accessed", metas) * occurrences
    model = _meta_numbers(events, "model_flops", metas) * occurrences
    accesses = events.meta_bytes("memory_access_breakdown", rows)
    memory = memory_accesses(accesses, metas, _known_accesses(events))
    return {
        "name": [displays[row] or names[row] for row in rows],
        "long_name": [names[row] if displays[row] else "" for row in rows],
        "program_id": events.meta_stat("program_id").at(metas).value,
        "category": categories,
        "provenance": _meta_texts(events, "tf_op", metas),
        "deduplicated_name": _meta_texts(events, "deduplicated_name", metas),
        "source_file": [file for file, _ in sources],
        "source_line": [line for _, line in sources],
        "source_stack": _meta_texts(events, "source_stack", metas),
        "flops": flops,
        "model_flops": np.where(model > 0, model, flops),
        "bytes_accessed": moved,
        "flops_source": _source_of(events, _stats_of_flops(events), metas, categories, flops),
        "bytes_source": _source_of(events, ("bytes_accessed",), metas, categories, moved),
        "tells_memories": [row in accesses for row in rows],
        "memory": MemoryAccess(
            memory.row, memory.operation, memory.space, memory.bytes * occurrences[memory.row].astype(np.float64)
        ),
    }


def _meta_texts(events: HostEvents, stat: str, metas: Int64s) -> list[str]:
    found = events.meta_stat(stat).at(metas)
    chosen = np.where(_of_kinds(found, TEXT_KINDS), found.value, -1)
    distinct, inverse = np.unique(chosen, return_inverse=True)
    known = distinct[distinct >= 0]
    texts = [""] * (len(distinct) - len(known)) + events.all_texts(known)
    return [texts[place] for place in inverse.reshape(-1).tolist()]


def _meta_numbers(events: HostEvents, stat: str, metas: Int64s) -> Float64s:
    """One figure per op; 0 if it is not recorded or not a valid number."""
    figures = events.meta_stat(stat).at(metas).numbers
    return np.where(is_work(figures), figures, 0.0)


def _stats_of_flops(events: HostEvents) -> tuple[str, ...]:
    """Traces of XProf leave out flops: what the model requires is not what the device did."""
    return ("flops", "model_flops") if len(events.meta_stat("flops")) else ("flops",)


def _source_of(
    events: HostEvents, stats: Sequence[str], metas: Int64s, categories: Sequence[str], figures: Float64s
) -> npt.NDArray[np.uint8]:
    """Whether each op's metadata record its figure. A custom call of unknown work records 0."""
    recorded = np.zeros(len(metas), bool)
    for stat in stats:
        recorded |= is_work(events.meta_stat(stat).at(metas).numbers)
    is_custom = np.array([category == "custom-call" for category in categories], bool)
    return np.where(recorded & ~(is_custom & (figures == 0)), FROM_CAPTURE, 0).astype(np.uint8)


@once
def _known_accesses(_events: HostEvents) -> dict[bytes, Totals]:
    """Payloads that were read before, and what they say: cores that run one program share them."""
    return {}


def _source(text: str) -> tuple[str, int]:
    """File and line of `file:line`; nothing if the line is not a number."""
    file, _, line = text.partition(":")
    return (file, int(line)) if line.isascii() and line.isdigit() and len(line) < 10 else ("", -1)


@once
def plane_table(events: HostEvents, plane: Plane) -> tuple[OpTable, Int32s]:
    """The ops of a core's op lines, and the row of each event's op."""
    core_type = SPARSE_CORE if plane.kind == "SPARSECORE" else TENSOR_CORE
    return op_table(events, op_events(events, plane), core_type)


def core_ops(events: HostEvents, plane: Plane) -> Ops:
    """The ops of one core: of its op lines, against the span of these and of its step lines."""
    table, _ = plane_table(events, plane)
    steps = [device_spans(events, line.first, line.last) for line in step_lines(plane)]
    return with_totals(table, spanned_ps(events, plane, [*op_spans(events, plane), *steps]))


def with_totals(table: OpTable, span: int) -> Ops:
    """The ops of one core that was observed for ``span`` ps."""
    ratio = np.divide(table.normalized_ps, table.time_ps, out=np.zeros(len(table)), where=table.time_ps != 0)
    op_ps = exact_sum(table.self_ps)
    return Ops(table, max(op_ps, span), op_ps, exact_sum(_truncated(table.self_ps * ratio)))


def step_lines(plane: Plane) -> list[Line]:
    """The lines of steps of a core that have events."""
    return [line for line in plane.lines if line.name in STEP_LINES and line.last > line.first]


def op_spans(events: HostEvents, plane: Plane) -> list[Spans]:
    """Starts and durations of the events of a core's op lines."""
    found = op_events(events, plane)
    return [(found.start_ps, found.duration_ps)] if len(found) else []
