"""Ops of GPUs: which instruction of a compiled program, or which op of a framework, each kernel belongs to, and what
those cost.

A kernel's op is what its stats ``program_id`` and ``hlo_op`` say (of several names the last), where the capture carries
that program; else what its stat ``tf_op`` says, together with the kernel's own name. Kernels of neither kind count for
nothing but the span of their device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.hlo.cost import NOTHING, Cost
from fastprof.hlo.modules import Modules
from fastprof.host_events import HostEvents, Line, Plane, Stat
from fastprof.names import Int32s
from fastprof.op_metrics.gpu_stats import EVENT_STATS as EVENT_STATS
from fastprof.op_metrics.tables import (
    HBM,
    READ,
    WRITE,
    Float64s,
    Int64s,
    MemoryAccess,
    Ops,
    OpTable,
    exact_sum,
    span_ps,
    sums_by,
)
from fastprof.steps.device_steps import is_derived
from fastprof.tf_op import parse

if TYPE_CHECKING:
    from fastprof.steps.grouping import Groups

Numbers = npt.NDArray[np.integer[Any]]

PLANES: Final = (r"^/device:GPU:",)

UNKNOWN_TYPE: Final = "unknown"
"""Category of an op of a framework that tells no type."""


@dataclass(frozen=True, slots=True)
class GpuOp:
    """What is known of one op; ``cost`` is that of one kernel of it. Framework ops are of no program: 0."""

    program_id: int
    name: str
    category: str
    provenance: str
    cost: Cost


@dataclass(frozen=True, slots=True)
class GpuOpEvents:
    """``op``: by row of the host's events the place of its op in ``ops``; -1: it belongs to none. ``is_hlo``: by op,
    whether it is an instruction of a program."""

    ops: list[GpuOp]
    op: Int32s
    is_hlo: npt.NDArray[np.bool_]


def device_ops(events: HostEvents, groups: Groups, modules: Modules) -> list[Ops]:
    """The ops of each GPU, in the order of the planes."""
    found = op_events(events, modules)
    ops = []
    for plane in events.planes_of("GPU"):
        lines = _op_lines(plane)
        ops.append(_ops_of(events, lines, _kernels(events, groups, lines, found), found))
    return ops


def xprof_device_ops(events: HostEvents, groups: Groups, modules: Modules) -> list[Ops]:
    """The same as XProf counts them. To it kernels that follow each other on a line, in one group and of instructions
    of one name, are of the first one's program, even where they are of others; and the work that such a run's last
    kernel tells of is that of each of its kernels."""
    found = op_events(events, modules)
    ops = []
    for plane in events.planes_of("GPU"):
        lines = _op_lines(plane)
        kernels = _in_runs(_kernels(events, groups, lines, found), groups, lines, found)
        ops.append(_ops_of(events, lines, kernels, found))
    return ops


# ---- from events to ops


def op_events(events: HostEvents, modules: Modules) -> GpuOpEvents:
    """The op of each event of a GPU."""
    wanted = np.zeros(len(events), bool)
    for plane in events.planes_of("GPU"):
        for line in _op_lines(plane):
            wanted[line.first : line.last] = True
    ops: list[GpuOp] = []
    op = np.full(len(events), -1, np.int32)
    compiled = _of_programs(events, wanted, modules, ops, op)
    instructions = len(ops)
    _of_frameworks(events, wanted & ~compiled, ops, op)
    return GpuOpEvents(ops, op, np.arange(len(ops)) < instructions)


def _op_lines(plane: Plane) -> list[Line]:
    """The lines that a GPU recorded, where they have events."""
    return [line for line in plane.lines if not is_derived(line) and line.last > line.first]


def _of_programs(
    events: HostEvents, wanted: npt.NDArray[np.bool_], modules: Modules, ops: list[GpuOp], op: Int32s
) -> npt.NDArray[np.bool_]:
    """Adds the instructions that events ran, and writes the events' ops. Returns which events name an instruction,
    whether it is known or not."""
    rows, numbers = _in(wanted, *events.texts("hlo_op"))
    texts, text = _distinct(numbers)
    names: dict[str, int] = {}
    full_names = events.all_texts(texts)
    name_of_text = [names.setdefault(one.split("::")[-1], len(names)) if one else -1 for one in full_names]
    name = np.array(name_of_text, np.int64)[text] if len(text) else np.zeros(0, np.int64)
    rows, name = rows[name >= 0], name[name >= 0]
    claimed = np.zeros(len(events), bool)
    claimed[rows] = True
    has_program, program = _programs(events)
    rows, name = rows[has_program[rows]], name[has_program[rows]]
    programs, code = _distinct(program[rows])
    keys, key = _distinct(code.astype(np.int64) * len(names) + name)
    op_of_key = np.full(len(keys), -1, np.int32)
    known = _instructions(modules, programs, list(names), keys)
    for place, one in enumerate(known):
        if one is not None:
            op_of_key[place] = len(ops)
            ops.append(one)
    op[rows] = op_of_key[key]
    return claimed


def _instructions(modules: Modules, programs: Numbers, names: list[str], keys: Numbers) -> list[GpuOp | None]:
    """What programs say of their instructions; a key is the place of a program times the number of names, plus that of
    a name."""
    found: list[GpuOp | None] = [None] * len(keys)
    of_program: dict[int, list[int]] = {}
    for place, one in enumerate((keys // max(len(names), 1)).tolist()):
        of_program.setdefault(one, []).append(place)
    for number, places in of_program.items():
        program_id = int(programs[number])
        known = modules.find(program_id, [names[keys[place] % len(names)] for place in places])
        for place, one in zip(places, known, strict=True):
            if one is not None:
                found[place] = GpuOp(program_id, one.name, one.category, one.framework_op, one.cost)
    return found


def _programs(events: HostEvents) -> tuple[npt.NDArray[np.bool_], Int64s]:
    rows, values = events.ints("program_id")
    present = np.zeros(len(events), bool)
    program = np.zeros(len(events), np.int64)
    present[rows] = True
    program[rows] = values
    return present, program


def _of_frameworks(events: HostEvents, wanted: npt.NDArray[np.bool_], ops: list[GpuOp], op: Int32s) -> None:
    """Adds the ops of frameworks that other events ran, one for each op and kernel, and writes the events' ops."""
    rows, numbers = _in(wanted, *events.texts("tf_op"))
    texts, text = _distinct(numbers)
    full_names = events.all_texts(texts)
    kernels = len(events.names)
    pairs, pair = _distinct(text.astype(np.int64) * kernels + events.meta[rows] % kernels)
    op_of_pair = np.full(len(pairs), -1, np.int32)
    places: dict[str, int] = {}
    for i, one in enumerate(pairs.tolist()):
        full_name = full_names[one // kernels]
        if full_name:
            parsed = parse(full_name)
            name = f"{parsed.name}/{events.names[one % kernels]}"
            if name not in places:
                places[name] = len(ops)
                ops.append(GpuOp(0, name, parsed.type or UNKNOWN_TYPE, full_name, NOTHING))
            op_of_pair[i] = places[name]
    op[rows] = op_of_pair[pair]


def _in(wanted: npt.NDArray[np.bool_], rows: Numbers, values: Numbers) -> tuple[Numbers, Numbers]:
    keep = wanted[rows]
    return rows[keep], values[keep]


def _distinct(values: Numbers) -> tuple[Numbers, Numbers]:
    """The distinct values as they are first met, and the place of each value among them."""
    encoded = pa.array(values).dictionary_encode()
    return np.asarray(encoded.dictionary), np.asarray(encoded.indices)


# ---- from ops to figures


@dataclass(frozen=True, slots=True)
class _Kernels:
    """The events of a plane that belong to an op, line by line: their rows, the numbers of their ops, whether they are
    eager, and the work that they themselves tell of, 0 where they do not."""

    rows: Int64s
    op: Int32s
    eager: npt.NDArray[np.bool_]
    flops: Float64s
    bytes: Float64s


def _kernels(events: HostEvents, groups: Groups, lines: list[Line], found: GpuOpEvents) -> _Kernels:
    rows = np.concatenate([np.arange(line.first, line.last) for line in lines] or [np.empty(0, np.int64)])
    rows = rows[found.op[rows] >= 0]
    op = found.op[rows]
    flops, moved = (np.where(found.is_hlo[op], _told(events, stat, rows), 0.0) for stat in ("flops", "bytes_accessed"))
    return _Kernels(rows, op, groups.is_eager[rows] != 0, flops, moved)


def _told(events: HostEvents, stat: str, rows: Int64s) -> Float64s:
    """An integer stat of these events, 0 where they have none."""
    at, values = events.ints(stat)
    has, place = _places(at, rows)
    told = np.zeros(len(rows))
    told[has] = values[place]
    return told


def _places(at: Int32s, rows: Int64s) -> tuple[npt.NDArray[np.bool_], Int64s]:
    """Which of these events have a stat, and where theirs are. It looks at no other events: a host may have thousands
    of GPUs."""
    place = np.searchsorted(at, rows.astype(at.dtype))
    has = place < len(at)
    has[has] = at[place[has]] == rows[has]
    return has, place[has]


def _in_runs(kernels: _Kernels, groups: Groups, lines: list[Line], found: GpuOpEvents) -> _Kernels:
    """The same as XProf counts them, see ``xprof_device_ops``."""
    count = len(kernels.rows)
    if not count:
        return kernels
    names: dict[str, int] = {}
    met, place_of_op = _distinct(kernels.op)
    name_of_op = np.array([names.setdefault(found.ops[one].name, len(names)) for one in met.tolist()], np.int64)
    name, group = name_of_op[place_of_op], groups.group_id[kernels.rows]
    line = np.searchsorted([one.last for one in lines], kernels.rows, side="right")
    is_hlo = found.is_hlo[kernels.op]
    same = (name[1:] == name[:-1]) & (line[1:] == line[:-1]) & (group[1:] == group[:-1]) & (group[1:] >= 0)
    starts = np.flatnonzero(np.append(True, ~(same & is_hlo[1:] & is_hlo[:-1])))
    run = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, count)))
    flops, moved = (_last_told(told, starts)[run] for told in (kernels.flops, kernels.bytes))
    op = kernels.op[starts][run]
    _, first, place = np.unique(op, return_index=True, return_inverse=True)
    return _Kernels(kernels.rows, op, kernels.eager[first][place], flops, moved)


def _last_told(told: Float64s, starts: Int64s) -> Float64s:
    """The last figure of each run that is not 0; 0 where there is none."""
    last = np.maximum.accumulate(np.where(told != 0, np.arange(len(told)), -1))
    last = last[np.append(starts[1:], len(told)) - 1]
    return np.where(last >= starts, told[last], 0.0)


def _ops_of(events: HostEvents, lines: list[Line], kernels: _Kernels, found: GpuOpEvents) -> Ops:
    met, op = _distinct(kernels.op)
    ops = [found.ops[number] for number in met.tolist()]
    occurrences = np.bincount(op, minlength=len(ops)).astype(np.int64)
    times = sums_by(op, np.maximum(events.duration_ps[kernels.rows], 0), len(ops))
    told_flops, told_bytes = (np.bincount(op, told, len(ops)) for told in (kernels.flops, kernels.bytes))
    model_flops = _or_told([one.cost.model_flops for one in ops], occurrences, told_flops)
    flops = _or_told([one.cost.flops for one in ops], occurrences, told_flops)
    table = OpTable.of(
        [one.name for one in ops],
        program_id=[one.program_id for one in ops],
        category=[one.category for one in ops],
        provenance=[one.provenance for one in ops],
        occurrences=occurrences,
        time_ps=times,
        self_ps=times,
        flops=flops,
        model_flops=np.where(model_flops > 0, model_flops, flops),
        bytes_accessed=_or_told([one.cost.bytes_accessed for one in ops], occurrences, told_bytes),
        energy_j=_energy(events, kernels.rows, op, len(ops)),
        cores=np.ones(len(ops), np.int32),
        is_eager=np.bincount(op, kernels.eager, len(ops)) > 0,
        memory=_memory(ops, occurrences),
    )
    op_ps = exact_sum(times)
    return Ops(table, total_ps=max(op_ps, _span_ps(events, lines)), op_ps=op_ps)


def _or_told(per_event: list[int], occurrences: Int64s, told: npt.NDArray[Any]) -> Float64s:
    """Work of ops by their cost or, where that tells nothing, by what their events say."""
    known = np.array(per_event, np.float64)
    return np.where(known > 0, known * occurrences, told)


def _memory(ops: list[GpuOp], occurrences: Int64s) -> MemoryAccess:
    """Bytes to and from HBM, of ops that the cost model knows them of."""
    row, operation, moved = [], [], []
    for i, (one, count) in enumerate(zip(ops, occurrences.tolist(), strict=True)):
        for way, size in ((READ, one.cost.hbm_read_bytes), (WRITE, one.cost.hbm_write_bytes)):
            if size > 0:
                row.append(i)
                operation.append(way)
                moved.append(float(size) * count)
    return MemoryAccess(
        np.array(row, np.int32), np.array(operation, np.uint8), np.full(len(row), HBM, np.int64), np.array(moved)
    )


def _energy(events: HostEvents, rows: Int64s, op: Numbers, ops: int) -> Float64s:
    found = events.stat("vdd_energy_j")
    if not len(found) or not len(rows):
        return np.zeros(ops)
    has, place = _places(found.rows, rows)
    told = Stat(found.rows[place], found.kind[place], found.value[place]).numbers
    joules = np.zeros(len(rows))
    joules[has] = np.nan_to_num(told, nan=0.0, posinf=0.0, neginf=0.0)
    energy: Float64s = np.bincount(op, joules, ops).astype(np.float64)
    return energy


def _span_ps(events: HostEvents, lines: list[Line]) -> int:
    """From the first begin to the last end of all events, of which negative durations count as 0."""
    if not lines:
        return 0
    begin = min(int(events.start_ps[line.first : line.last].min()) for line in lines)
    end = max(_last_end(events, line) for line in lines)
    return span_ps(events.host, lines[0].plane.name, begin, end)


def _last_end(events: HostEvents, line: Line) -> int:
    start = events.start_ps[line.first : line.last]
    duration = np.maximum(events.duration_ps[line.first : line.last], 0)
    if int(start.max()) + int(duration.max()) < 2**63:
        return int((start + duration).max())
    ends: list[int] = [a + b for a, b in zip(start.tolist(), duration.tolist(), strict=True)]
    return max(ends)
