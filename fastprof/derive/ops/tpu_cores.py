"""Ops of TPU cores: how the events of their op lines nest, what each op costs, and what SparseCores ran for it.

Times are those of the device if an event has them (stats device_offset_ps and device_duration_ps), else the host's.
An op is identified by (program_id, symbol_id) in its event metadata; events without them only take part in nesting,
unless no event has them: then events with an HLO category are ops.

The stat memory_access_breakdown has the bytes that an op moves, by memory space and direction. It is a
MemoryAccessBreakdown of op_metrics.proto: repeated field 1, each with operation_type 1, memory_space 2,
bytes_accessed 3, all varints.

An op that a SparseCore works for has the key of the SparseCore's module events: stats offload_core_id and
tc_offload_start_id. What runs within such a module belongs to the op.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof.derive.devices.device_events import (
    OpEvents,
    clip_negative,
    find_op_ids,
    get_device_spans,
    is_op_metadata,
    list_op_events,
)
from fastprof.derive.ops.line_times import Spans, measure_span
from fastprof.derive.ops.op_table import (
    CMEM,
    FROM_CAPTURE,
    HBM,
    MOST_WORK,
    READ,
    SPARSE_CORE,
    TENSOR_CORE,
    TEXT_COLUMNS,
    VMEM,
    WRITE,
    MemoryAccess,
    Ops,
    OpTable,
    is_work,
    merge_tables,
)
from fastprof.schema.columns import (
    Float64s,
    Int32s,
    Int64s,
    expand_ranges,
    find_equal,
    find_last_started,
    find_least_by,
    join_values,
    number_distinct_rows,
    number_sorted_rows,
    number_values,
    sum_by,
    sum_exactly,
    summarize_by,
    take_rows,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import STEP_LINES, TEXT_KINDS, HostEvents, Line, Plane, compute_once
from fastprof.wording.quantities import format_size

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


Totals = dict[tuple[int, int], int]
"""Bytes by direction and space."""


def sum_memory_accesses(payloads: Mapping[int, bytes], keys: Int64s, known: dict[bytes, Totals]) -> MemoryAccess:
    """Return the accesses of each op, ``keys[i]`` being the payload of op i, for one occurrence. Of a payload that is
    cut off or holds something else, what comes before counts. ``known``: payloads read before; cores that run one
    program share them."""
    accesses: list[tuple[int, int, int, int]] = []
    for row, key in enumerate(keys.tolist()):
        payload = payloads.get(key, b"")
        totals = known.get(payload)
        if totals is None:
            totals = known[payload] = _sum_accesses(payload)
        accesses += [(row, operation, space, count) for (operation, space), count in totals.items()]
    return MemoryAccess.of(accesses)


def format_accesses(payload: bytes) -> str:
    """One line per memory and direction: ``HBM read: 8.000 MiB (8,388,608 bytes)``; "" if none is recorded."""
    lines = []
    for (operation, space), size in _sum_accesses(payload).items():
        moved = f"{_SPACES.get(space, f'memory {space}')} {_WAYS.get(operation, 'moved')}: {format_size(size)}"
        lines.append(moved + (f" ({size:,} bytes)" if abs(size) >= 1024 else ""))
    return "\n".join(lines)


_SPACES: Final = {0: "unknown memory", HBM: "HBM", CMEM: "CMEM", VMEM: "VMEM"}
_WAYS: Final = {READ: "read", WRITE: "written"}


def _sum_accesses(payload: bytes) -> Totals:
    totals: Totals = {}
    for number, value in _parse_fields(payload):
        if number == 1 and isinstance(value, bytes):
            fields = {at: known for at, known in _parse_fields(value) if isinstance(known, int)}
            operation = fields.get(1, 0) if fields.get(1, 0) in (READ, WRITE) else 0
            space = fields.get(2, 0)
            key = operation, space - (space >> 63 << 64)
            totals[key] = totals.get(key, 0) + fields.get(3, 0)
    return totals


def _parse_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers and values of a message's varints and length-delimited fields, as far as they are whole."""
    at = 0
    while at < len(data):
        tag, at = _parse_varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _parse_varint(data, at)
            if at <= len(data):
                yield tag >> 3, value
        elif kind == _BYTES:
            length, at = _parse_varint(data, at)
            if at + length <= len(data):
                yield tag >> 3, data[at : at + length]
            at += length
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            return


def _parse_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a value and where it ends: past the end if it is cut off."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value % 2**64, at
        shift += 7
    return 0, len(data) + 1


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
"""Larger Time Scale Multipliers are damage, not clock ratios."""

_FIRST_EVENTS: Final = (1 << 11, 1 << 14)


def _identify_ops(events: HostEvents, met: Int64s) -> tuple[Int64s, Int32s]:
    """Return the ops that these rows of metadata stand for, numbered as met; rows of equal keys are one op, and rows
    without keys are ops of their own. Returns the row that describes each op, and the op of each row met; -1 if it is
    none."""
    rows = np.flatnonzero(is_op_metadata(events)[met])
    program, symbol = (events.meta_stat(name).at(met[rows]) for name in ("program_id", "symbol_id"))
    has_keys = len(find_op_ids(events)) > 0  # then only rows with keys are ops
    first, number = number_distinct_rows([program.value, symbol.value] if has_keys else [met[rows]])
    op_of_met = np.full(len(met), -1, np.int32)
    op_of_met[rows] = number
    return met[rows][first], op_of_met


def build_tpu_op_table(events: HostEvents, op_events: OpEvents, core_type: int) -> tuple[OpTable, Int32s]:
    """Return the ops of these events, and the row of each event's op; -1 if it is none."""
    met, number = _number_as_met(op_events.meta, len(events.names))
    metas, op_of_met = _identify_ops(events, met)
    op = np.append(op_of_met, np.int32(-1))[number]
    count = len(metas)
    time = summarize_by(op, op_events.duration_ps, count)
    occurrences = time["count"].copy()
    columns = _describe_metadata(events, metas, occurrences)
    times = time["total"].copy()
    # the host's clock counts if an occurrence does not record its shortest duration itself
    durations = clip_negative(take_rows(events.duration_ps, op_events.rows))
    shortest = summarize_by(op, _read_time_stat(events, "min_duration_ps", op_events.rows, durations), count)
    del durations
    normalized = times
    if len(events.stat("Time Scale Multiplier")):  # else the clock is always nominal
        multiplier = _read_double_stat(events, "Time Scale Multiplier", op_events.rows, 1.0, MOST_TIMES)
        normalized = sum_by(op, _truncate_values(op_events.duration_ps * multiplier), count)
        del multiplier
    stalls, energy = np.zeros(count, np.int64), np.zeros(count)
    if len(events.stat("dma_stall_duration_ps")):
        rows = op_events.rows
        stalls = sum_by(op, _read_time_stat(events, "dma_stall_duration_ps", rows, np.zeros_like(rows)), count)
    if len(events.stat("vdd_energy_j")):
        used = op >= 0
        joules = _read_double_stat(events, "vdd_energy_j", op_events.rows, 0.0)[used]
        energy = np.bincount(op[used], joules, count).astype(np.float64)
        del used, joules
    table = OpTable.of(
        occurrences=occurrences,
        time_ps=times,
        self_ps=sum_by(op, op_events.self_ps, count),
        min_ps=shortest["minimum"].copy(),
        normalized_ps=normalized,
        dma_stall_ps=stalls,
        energy_j=energy,
        cores=np.ones(count, np.int32),
        core_type=np.full(count, core_type, np.uint8),
        **columns,
    )
    return table, op


def _number_as_met(meta: Int32s, count: int) -> tuple[Int64s, Int32s]:
    """Return the rows of metadata that occur, each once, in the order in which they first do, and the number there of
    each event; -1 if it has none. ``count``: of all rows of the host, which may have many more planes than this one."""
    if len(meta) < count:
        distinct, first, inverse = np.unique(meta, return_index=True, return_inverse=True)
        known = np.flatnonzero(distinct >= 0)
        known = known[np.argsort(first[known])]
        number = np.full(len(distinct), -1, np.int32)
        number[known] = np.arange(len(known), dtype=np.int32)
        return distinct[known].astype(np.int64), number[inverse.reshape(-1)]
    met = _find_first_met(meta, count)
    number = np.full(count + 1, -1, np.int32)
    number[met] = np.arange(len(met), dtype=np.int32)
    return met, number[meta]  # of -1 the last


def _find_first_met(meta: Int32s, count: int) -> Int64s:
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


def _read_time_stat(events: HostEvents, stat: str, rows: Int32s, otherwise: Int64s) -> Int64s:
    """Return a stat of these rows, which ascend line by line, that is a time; times below 0 are ignored."""
    at, values = events.ints(stat)
    if not len(at):
        return otherwise
    there, place = find_equal(at, rows)
    return np.where(there & (values[place] >= 0), values[place], otherwise)


def _read_double_stat(
    events: HostEvents, stat: str, rows: Int32s, otherwise: float, most: float = MOST_WORK
) -> Float64s:
    """Return a stat of these rows; values below 0 or above ``most`` are ignored."""
    column = events.stat(stat)
    if not len(column):
        return np.full(len(rows), otherwise)
    recorded = column.at(rows)
    values = np.where(recorded.kind != records.NONE, recorded.numbers, otherwise)
    return np.where((values >= 0) & (values <= most), values, otherwise)


def _truncate_values(values: npt.NDArray[Any]) -> Int64s:
    whole: Int64s = np.clip(np.trunc(values), -(2.0**62), 2.0**62).astype(np.int64)
    return whole


def _describe_metadata(events: HostEvents, metas: Int64s, occurrences: Int64s) -> dict[str, Any]:
    """Columns from the metadata of ops; work is multiplied by their occurrences."""
    names, displays = events.names, events.display_names
    rows = metas.tolist()
    source_files, source_lines = [], []
    for text in _read_meta_texts(events, "source", metas):
        file, _, line = text.partition(":")
        is_line = line.isascii() and line.isdigit() and len(line) < 10
        source_files.append(file if is_line else "")
        source_lines.append(int(line) if is_line else -1)
    categories = _read_meta_texts(events, "hlo_category", metas)
    flops = _read_meta_numbers(events, "flops", metas) * occurrences
    moved = _read_meta_numbers(events, "bytes_accessed", metas) * occurrences
    model = _read_meta_numbers(events, "model_flops", metas) * occurrences
    # XProf traces leave out flops: what the model requires is not what the device did
    flops_stats = ("flops", "model_flops") if len(events.meta_stat("flops")) else ("flops",)
    accesses = events.meta_bytes("memory_access_breakdown", rows)
    memory = sum_memory_accesses(accesses, metas, _cache_accesses(events))
    return {
        "name": [displays[row] or names[row] for row in rows],
        "long_name": [names[row] if displays[row] else "" for row in rows],
        "program_id": events.meta_stat("program_id").at(metas).value,
        "category": categories,
        "provenance": _read_meta_texts(events, "tf_op", metas),
        "deduplicated_name": _read_meta_texts(events, "deduplicated_name", metas),
        "source_file": source_files,
        "source_line": source_lines,
        "source_stack": _read_meta_texts(events, "source_stack", metas),
        "flops": flops,
        "model_flops": np.where(model > 0, model, flops),
        "bytes_accessed": moved,
        "flops_source": _encode_work_source(events, flops_stats, metas, categories, flops),
        "bytes_source": _encode_work_source(events, ("bytes_accessed",), metas, categories, moved),
        "tells_memories": [row in accesses for row in rows],
        "memory": MemoryAccess(
            memory.row, memory.operation, memory.space, memory.bytes * occurrences[memory.row].astype(np.float64)
        ),
    }


def _read_meta_texts(events: HostEvents, stat: str, metas: Int64s) -> list[str]:
    texts = _list_texts(events, stat)
    return [texts.get(row, "") for row in metas.tolist()]


@compute_once
def _list_texts(events: HostEvents, stat: str) -> dict[int, str]:
    """Return a text of event metadata by row, read once for all cores."""
    column = events.meta_stat(stat).of_kinds(TEXT_KINDS)
    distinct, place = number_values(column.value)
    texts = events.all_texts(distinct)
    return {row: texts[at] for row, at in zip(column.rows.tolist(), place.tolist(), strict=True)}


def _read_meta_numbers(events: HostEvents, stat: str, metas: Int64s) -> Float64s:
    """One figure per op; 0 if it is not recorded or not a valid number."""
    figures = _list_figures(events, stat)[metas]
    return np.where(is_work(figures), figures, 0.0)


@compute_once
def _list_figures(events: HostEvents, stat: str) -> Float64s:
    """Return a number of event metadata by row, read once for all cores."""
    return events.meta_stat(stat).at(np.arange(len(events.names))).numbers


def _encode_work_source(
    events: HostEvents, stats: Sequence[str], metas: Int64s, categories: Sequence[str], figures: Float64s
) -> npt.NDArray[np.uint8]:
    """Return whether each op's metadata record its figure. A custom call of unknown work records 0."""
    recorded = np.zeros(len(metas), bool)
    for stat in stats:
        recorded |= is_work(_list_figures(events, stat)[metas])
    is_custom = np.array([category == "custom-call" for category in categories], bool)
    return np.where(recorded & ~(is_custom & (figures == 0)), FROM_CAPTURE, 0).astype(np.uint8)


@compute_once
def _cache_accesses(_events: HostEvents) -> dict[bytes, Totals]:
    """Payloads that were read before, and what they say: cores that run one program share them."""
    return {}


@compute_once
def build_plane_table(events: HostEvents, plane: Plane) -> tuple[OpTable, Int32s]:
    """Return the ops of a core's op lines, and the row of each event's op."""
    core_type = SPARSE_CORE if plane.kind == "SPARSECORE" else TENSOR_CORE
    return build_tpu_op_table(events, list_op_events(events, plane), core_type)


def sum_core_ops(events: HostEvents, plane: Plane) -> Ops:
    """Return the ops of one core: of its op lines, against the span of these and of its step lines."""
    table, _ = build_plane_table(events, plane)
    steps = [get_device_spans(events, line.first, line.last) for line in list_step_lines(plane)]
    return sum_core_totals(table, measure_span(events, plane, [*list_op_spans(events, plane), *steps]))


def sum_core_totals(table: OpTable, span: int) -> Ops:
    """Return the ops of one core that was observed for ``span`` ps."""
    ratio = np.divide(table.normalized_ps, table.time_ps, out=np.zeros(len(table)), where=table.time_ps != 0)
    op_ps = sum_exactly(table.self_ps)
    return Ops(table, max(op_ps, span), op_ps, sum_exactly(_truncate_values(table.self_ps * ratio)))


def list_step_lines(plane: Plane) -> list[Line]:
    """Return the lines of steps of a core that have events."""
    return [line for line in plane.lines if line.name in STEP_LINES and line.last > line.first]


def list_op_spans(events: HostEvents, plane: Plane) -> list[Spans]:
    """Starts and durations of the events of a core's op lines."""
    op_events = list_op_events(events, plane)
    return [(op_events.start_ps, op_events.duration_ps)] if len(op_events) else []


MODULE_LINE = "Sparse Core Modules"
_Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class OffloadedOps:
    """Events of a SparseCore within modules that have a key: the row of each one's op, and the number of its key.
    ``module_ps``: the time of the modules of each key, by its number."""

    table: OpTable
    op: Int64s
    key: Int64s
    duration_ps: Int64s
    self_ps: Int64s
    module_ps: dict[int, int]


class SparseCores:
    """Ops that the SparseCores of a host ran on behalf of its TensorCore ops."""

    def __init__(self, events: HostEvents) -> None:
        self._events = events
        self._numbers: dict[_Key, int] = {}
        parts = [self._offloaded(plane) for plane in events.planes_of("SPARSECORE")]
        self._parts = [part for part in parts if len(part.op)]

    def children_of(self, planes: Sequence[Plane], ops: Sequence[Ops]) -> list[Ops]:
        """Return the ops of TensorCores, with those that SparseCores ran on their behalf as children."""
        if not self._parts:
            return list(ops)
        return [self._with_children(plane, own) for plane, own in zip(planes, ops, strict=True)]

    # ---- rules, which XProf's count differs in

    def module_of(self, op_events: OpEvents, begin: Int64s, end: Int64s) -> Int64s:
        """Return the module that each event lies within, the last that begins no later than it; -1 if there is none.
        ``begin``, ``end``: those of modules."""
        order = np.argsort(begin, kind="stable")
        return find_enclosing_module(op_events, begin, end, order, find_last_started(begin[order], op_events.start_ps))

    def self_ps(self, op_events: OpEvents) -> Int64s:
        """Return the self time of each event."""
        return op_events.self_ps

    def counted(self, op: Int32s) -> Int32s:
        """Return the op of each occurrence on a TensorCore that has children, or -1."""
        return op

    def more_children(self, _part: OffloadedOps, _parent_of_key: Int64s) -> list[tuple[OpTable, Int64s]]:
        """Children that are not ops, and the parent of each."""
        return []

    # ----

    def _keys(self, first: int, last: int) -> tuple[Int64s, list[_Key]]:
        """Return the rows of a range that have both stats of a key, and their keys."""
        core_rows, cores = self._events.ints("offload_core_id")
        start_rows, starts = self._events.ints("tc_offload_start_id")
        rows, i, j = np.intersect1d(core_rows, start_rows, assume_unique=True, return_indices=True)
        inside = (rows >= first) & (rows < last)
        keys = list(zip(cores[i][inside].tolist(), starts[j][inside].tolist(), strict=True))
        return rows[inside].astype(np.int64), keys

    def _offloaded(self, plane: Plane) -> OffloadedOps:
        """Return what a SparseCore ran within modules that have a key; new keys are numbered on."""
        op_events = list_op_events(self._events, plane)
        table, op = build_plane_table(self._events, plane)
        key = np.full(len(op_events), -1, np.int64)
        module_ps: Counter[int] = Counter()
        for line in plane.lines:
            rows, keys = self._keys(line.first, line.last)
            if line.name == MODULE_LINE and len(rows):
                begin, duration = get_device_spans(self._events, line.first, line.last)
                begin, duration = begin[rows - line.first], duration[rows - line.first]
                numbers = [self._numbers.setdefault(offload, len(self._numbers)) for offload in keys]
                inside = self.module_of(op_events, begin, begin + duration)
                key = np.where(inside >= 0, np.array(numbers, np.int64)[inside], key)
                for number, time in zip(numbers, duration.tolist(), strict=True):
                    module_ps[number] += time
        used = (key >= 0) & (op >= 0)
        own = self.self_ps(op_events)[used]
        return OffloadedOps(table, op[used].astype(np.int64), key[used], op_events.duration_ps[used], own, module_ps)

    def _with_children(self, plane: Plane, ops: Ops) -> Ops:
        """Return the ops of one TensorCore; of each op the children of all its occurrences together."""
        rows, keys = self._keys(plane.first, plane.last)
        parent_of_key = np.full(len(self._numbers), -1, np.int64)
        for op, key in zip(self._ops_at(plane, rows).tolist(), keys, strict=True):
            if key in self._numbers and op >= 0:
                parent_of_key[self._numbers[key]] = op
        added = []
        for part in self._parts:
            added.append(_list_children(part, parent_of_key[part.key]))
            added += self.more_children(part, parent_of_key)
        parent = np.concatenate([parents for _, parents in added])
        if not len(parent):
            return ops
        tables = [table for table, _ in added]
        named = [key for table in tables for key in zip(table.program_id.tolist(), table.name, strict=True)]
        children = merge_tables(tables, np.arange(len(named)), named)  # one below the other
        return replace(ops, children=children, parent=parent.astype(np.int32))

    def _ops_at(self, plane: Plane, rows: Int64s) -> Int64s:
        """Return the op of each of these rows of a core; -1 if it has none."""
        op_events = list_op_events(self._events, plane)
        order = np.argsort(op_events.rows, kind="stable")
        op = self.counted(build_plane_table(self._events, plane)[1])
        return join_values(op_events.rows[order], op[order], rows).astype(np.int64)


def find_enclosing_module(op_events: OpEvents, begin: Int64s, end: Int64s, order: Int64s, place: Int64s) -> Int64s:
    """Return the module at each event's place in an order of modules; -1 if there is none, or the event is not all in
    it."""
    module = order[np.maximum(place, 0)]
    inside = (begin[module] <= op_events.start_ps) & (op_events.start_ps + op_events.duration_ps <= end[module])
    return np.where((place >= 0) & inside, module, -1)


def _list_children(offloaded: OffloadedOps, parent: Int64s) -> tuple[OpTable, Int64s]:
    """Return the ops of a SparseCore by the op that they ran for: a row for each (parent, op), and its parent."""
    known = parent >= 0
    first, place = number_sorted_rows([parent[known], offloaded.op[known]])
    count, rows = len(first), offloaded.op[known][first]
    every = offloaded.table
    occurrences = np.bincount(place, minlength=count).astype(np.int64)
    share = occurrences / np.maximum(every.occurrences[rows], 1)
    texts = ("name", *TEXT_COLUMNS)
    columns: dict[str, Any] = {name: [getattr(every, name)[row] for row in rows.tolist()] for name in texts}
    table = OpTable.of(
        **columns,
        program_id=every.program_id[rows],
        source_line=every.source_line[rows],
        occurrences=occurrences,
        time_ps=sum_by(place, offloaded.duration_ps[known], count),
        self_ps=sum_by(place, offloaded.self_ps[known], count),
        min_ps=find_least_by(place, offloaded.duration_ps[known], count),
        flops=every.flops[rows] * share,
        model_flops=every.model_flops[rows] * share,
        bytes_accessed=every.bytes_accessed[rows] * share,
        cores=every.cores[rows],
        core_type=every.core_type[rows],
        flops_source=every.flops_source[rows],
        bytes_source=every.bytes_source[rows],
        memory=_share_memory_accesses(every.memory, rows, share),
    )
    return table, parent[known][first]


def _share_memory_accesses(memory: MemoryAccess, rows: Int64s, share: Float64s) -> MemoryAccess:
    """Share of what these rows of a table moved; a row may occur several times."""
    order = np.argsort(memory.row, kind="stable")
    owner = memory.row[order]
    first, last = (np.searchsorted(owner, rows.astype(owner.dtype), side=side) for side in ("left", "right"))
    row, place = expand_ranges(first, last - first)
    at = order[place]
    moved = memory.bytes[at] * share[row]
    return MemoryAccess(row.astype(np.int32), memory.operation[at], memory.space[at], moved)
