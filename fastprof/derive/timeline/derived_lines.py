"""Lines derived from those of a capture: steps, scopes, ops, modules, source lines, transfers and launches of
devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof import hlo
from fastprof._native import records
from fastprof._native.timeline_kernels import offloads
from fastprof.decode.span_stats import XPROF
from fastprof.derive.host import Host
from fastprof.derive.ops import stream_events
from fastprof.derive.ops.gpu_ops import read_program_ids
from fastprof.derive.steps.device_steps import PlaneSteps
from fastprof.derive.steps.event_graph import STATS
from fastprof.derive.timeline.derived_track import (
    Arg,
    DerivedTimeline,
    DerivedTrack,
    Levels,
    LevelSource,
    Lists,
    PlaneNames,
    derive_levels,
    join_tracks,
    list_line_rows,
    list_metas_by_plane,
    list_scopes,
    make_lists,
    make_singles,
    number_op,
    sort_by_time,
)
from fastprof.derive.timeline.event_groups import GroupTitles, find_shown_groups, merge_steps
from fastprof.derive.timeline.host_timeline import (
    STEPS,
    Process,
    is_grouped,
    list_derived_streams,
    list_processes,
    number_stream_tids,
)
from fastprof.hlo.programs import Modules
from fastprof.schema.columns import (
    Bools,
    Int32s,
    Int64s,
    find_first_rows,
    find_group_bounds,
    find_present,
    join_values,
    number_keys,
    number_values,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS, INTEGER_KINDS, TEXT_KINDS, HostEvents, Line, Plane
from fastprof.tables.needs import Needs

TID: Final = 0xDEADBEF0
_DRIVER: Final = "cu"
_PS_PER_US: Final = 1e6


def derive_launch_lines(host: Host, gpus: Sequence[Process], names: Mapping[int, PlaneNames]) -> list[DerivedTrack]:
    """Derive lines from host thread events, but not of the driver, that launched something on a GPU for a step. The
    place of a GPU among those of the host identifies it."""
    device, value = host.raw.ints("device_id")
    ordered = sorted(gpus, key=lambda process: process.plane.number)
    rows = _find_step_launches(host)
    titles = GroupTitles(host, [host.groups.group_id[rows]])
    has, place = find_present(device, rows)
    rows, number = rows[has], value[place]
    order = np.argsort(number, kind="stable")
    bounds = find_group_bounds(number[order], len(ordered)).tolist()
    tracks = []
    for process, first, last in zip(ordered, bounds[:-1], bounds[1:], strict=True):
        if last > first:
            mine = rows[order[first:last]]
            tracks.append(_derive_gpu_launches(host, process, mine, names[process.plane.number], titles))
    return tracks


def _find_step_launches(host: Host) -> Int64s:
    """Return launches of steps."""
    events = host.raw
    plane = events.plane_named(HOST_THREADS)
    if plane is None:
        return np.zeros(0, np.int64)
    rows = list_line_rows(line for line in plane.lines if not line.is_derived)
    has, _ = find_present(events.ints("correlation_id")[0], rows)
    rows = rows[has]
    of_driver = np.array([name.startswith(_DRIVER) for name in events.names], bool)
    launches: Int64s = rows[(host.groups.group_id[rows] >= 0) & ~of_driver[events.meta[rows]]]
    return launches


def _derive_gpu_launches(
    host: Host, process: Process, rows: Int64s, names: PlaneNames, titles: GroupTitles
) -> DerivedTrack:
    start, duration = host.raw.start_ps[rows], host.raw.duration_ps[rows]
    groups, group = number_values(host.groups.group_id[rows])
    order = np.argsort(group, kind="stable")
    first = np.searchsorted(group[order], np.arange(len(groups)))
    begin = np.minimum.reduceat(start[order], first)
    end = np.maximum.reduceat((start + duration)[order], first)
    count = np.bincount(group)
    longest = np.maximum.reduceat(duration[order], first)
    mean = np.add.reduceat(duration[order], first) // count  # whole picoseconds, as XProf has it
    number = np.array(names.numbers([f"Launch Stats for {title}" for title in titles.of(groups).to_pylist()]), np.int64)
    every = np.arange(len(groups))
    args = [
        Arg("num_launches", every, count.astype(np.int64)),
        Arg("max_launch_time_us", every, longest / _PS_PER_US),
        Arg("avg_launch_time_us", every, mean / _PS_PER_US),
    ]
    columns = (begin, end - begin, number, groups.astype(np.int32))
    return DerivedTrack(process, TID, "Launch Stats", names, *columns, args=args)


STEP_TID: Final = 0xDEADBEEF
_NAME_SCOPES, _OPS, _MODULES, _HLO_OPS, _SOURCES, _GRAPHS = 1, 2, 3, 4, 5, 6
_TITLES: Final = {
    _NAME_SCOPES: "Framework Name Scope", _OPS: "Framework Ops", _MODULES: "XLA Modules", _HLO_OPS: "XLA Ops",
    _SOURCES: "Source code", _GRAPHS: "Command Buffers",
}  # fmt: skip
_BETWEEN_NAMES: Final = "::"
_SCOPE_RANGES: Final = "/host:__ScopeRangeCallStack__"


@dataclass(frozen=True, slots=True)
class _Kernels:
    """Kernels of a host by row, ascending. ``key``: what each belongs to, the place in ``keys``."""

    rows: Int32s
    key: Int32s
    keys: list[_Key]


@dataclass(frozen=True, slots=True)
class _Key:
    """``program``: an int64, or None if not recorded. ``hlo_op``: the names of an instruction and of those around it,
    outermost first, joined by ``::``, or None if ``tf_op`` counts."""

    program: int | None
    module: str
    hlo_op: str | None
    tf_op: str


class GpuLines:
    """Derives the lines of the GPUs of a host, one plane after the other."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.events = host.raw
        self.group_id = host.groups.group_id
        self.kernels = _find_kernels(self.events)
        self.ranges = find_scope_ranges(self.events)
        self.titles = GroupTitles(host, [steps.group_id for steps in host.groups.device_steps.values()])

    def of(self, process: Process, names: PlaneNames) -> list[DerivedTrack]:
        tracks = [self._steps(process, names)]
        tids = number_stream_tids(process.plane)
        for stream in list_derived_streams(process.plane):
            tracks += self._of_stream(process, stream, tids[stream.number], names)
        return [track for track in tracks if len(track)]

    def _steps(self, process: Process, names: PlaneNames) -> DerivedTrack:
        """Derive steps: consecutive events of a group are one."""
        steps: PlaneSteps = self.host.groups.device_steps[process.plane.number]
        groups, group = number_values(steps.group_id)
        number = np.array(names.numbers([str(step) for step in groups.tolist()]), np.int64)
        made = len(groups) if self.host.groups.made is None else int(np.searchsorted(groups, self.host.groups.made))
        titles = self.titles.of(groups[:made]).to_pylist() + [str(step) for step in groups[made:].tolist()]
        shown = [titles[place] for place in group.tolist()]
        named = np.flatnonzero(group < made)
        arg = Arg("step_name", named, [shown[place] for place in named.tolist()])
        return DerivedTrack(
            process, STEP_TID, "Steps", names, steps.start_ps, steps.duration_ps,
            number[group] if len(groups) else steps.start_ps, steps.group_id, STEPS, shown, [arg],
        )  # fmt: skip

    def _of_stream(self, process: Process, stream: Line, tid: int, names: PlaneNames) -> list[DerivedTrack]:
        rows = sort_by_time(self.events, list_line_rows([stream]))
        has, place = find_present(self.kernels.rows, rows)
        rows, key = rows[has], self.kernels.key[place]
        if not len(rows):
            return []
        used, number = number_values(key)
        lists = _list_names([self.kernels.keys[key_] for key_ in used.tolist()], names, self.host.modules)
        scopes, scope_lists = self._ranges(rows)
        times = (self.events.start_ps[rows], self.events.duration_ps[rows])
        source = LevelSource(*times, self.group_id[rows], number.astype(np.int32), True, scopes, scope_lists)
        levels_of_line = self._lines(source, lists)
        levels_of_line[_GRAPHS] = self._graphs(source, rows, names, levels_of_line[_MODULES])
        tracks = []
        for line, levels in levels_of_line.items():
            title = f"{_TITLES[line]} - from #{stream.xline_id}"
            columns = (levels.start_ps, levels.duration_ps, levels.name, levels.group)
            tracks.append(DerivedTrack(process, tid + line, title, names, *columns))
            if line in (_HLO_OPS, _GRAPHS):
                tracks[-1].args += self._graph_args(rows, levels)
        return tracks

    def _lines(self, source: LevelSource, lists: dict[int, Lists]) -> dict[int, Levels]:
        modules = derive_levels(source.in_outermost(), lists[_MODULES], scoped=True)
        scopes = derive_levels(source, lists[_NAME_SCOPES], modules.closes)
        return {
            _NAME_SCOPES: scopes,
            _OPS: derive_levels(source, lists[_OPS], scopes.closes),
            _MODULES: modules,
            _HLO_OPS: derive_levels(source, lists[_HLO_OPS], modules.closes, scoped=True),
            _SOURCES: derive_levels(source, lists[_SOURCES]),
        }

    def _ranges(self, rows: Int64s) -> tuple[Int32s | None, Lists | None]:
        """Return the ids of the ranges that events lie in."""
        at, value = self.events.ints("scope_range_id")
        has, place = find_present(at, rows)
        if not len(place):
            return None, None
        ids, number = number_values(value[place])
        scopes = np.full(len(rows), -1, np.int32)
        scopes[has] = number
        return scopes, make_lists([list_ranges_around(range_id, self.ranges) for range_id in ids.tolist()])

    def _graphs(self, source: LevelSource, rows: Int64s, names: PlaneNames, modules: Levels) -> Levels:
        """Derive graph launches from kernels that are nodes of a graph."""
        has, graph = self._of_rows(self._graph_ids, rows)
        ids, key = number_values(graph)
        numbers = names.numbers([f"Command Buffer {graph_id}" for graph_id in ids.view(np.uint64).tolist()])
        graphs = np.full(len(rows), -1, np.int32)
        graphs[has] = key
        launched, launch = self._of_rows(self._launches, rows)
        launches, number = number_values(launch)
        scopes = np.full(len(rows), -1, np.int32)
        scopes[launched] = number
        of_graphs = replace(source, key=graphs, scopes=scopes, scope_lists=make_singles(launches))
        return derive_levels(of_graphs, make_singles(np.array(numbers, np.int64)), modules.closes, scoped=True)

    def _graph_args(self, rows: Int64s, levels: Levels) -> list[Arg]:
        """Return the graph, and the launch, of kernels that are nodes of graphs: of several of an event the last."""
        has, graph = self._of_rows(self._graph_ids, rows)
        launched, launch = self._of_rows(self._launches, rows)
        known = levels.deepest >= 0
        args = [
            _make_last_arg("cuda_graph_id", levels.deepest[has & known], graph.view(np.uint64)[known[has]]),
            _make_last_arg("correlation_id", levels.deepest[has & launched & known], launch[(has & known)[launched]]),
        ]
        return [arg for arg in args if len(arg.rows)]

    def _of_rows(self, stat: tuple[Int32s, Int64s], rows: Int64s) -> tuple[npt.NDArray[np.bool_], Int64s]:
        """Return which of the rows have a stat, and the values of these."""
        has, place = find_present(stat[0], rows)
        return has, stat[1][place]

    @cached_property
    def _graph_ids(self) -> tuple[Int32s, Int64s]:
        """Unsigned numbers other than 0."""
        stat = self.events.stat("cuda_graph_id").of_kinds((records.UINT64,))
        return stat.rows[stat.value != 0], stat.value[stat.value != 0]

    @property
    def _launches(self) -> tuple[Int32s, Int64s]:
        return self.events.ints("correlation_id")


def _make_last_arg(name: str, rows: Int64s, values: npt.NDArray[Any]) -> Arg:
    """Make an arg; the last value of each row counts."""
    used, last = np.unique(rows[::-1], return_index=True)
    return Arg(name, used, values[::-1][last])


# ---- what kernels belong to


def _find_kernels(events: HostEvents) -> _Kernels:
    """Return the events of GPUs that ran kernels or graphs of them, and what these belong to."""
    is_kernel = np.zeros(len(events), bool)
    rows, numbers = events.texts("kernel_details")
    is_kernel[rows[_is_not_empty(events, numbers)]] = True
    is_kernel[events.stat("cuda_graph_exec_id").rows] = True
    on_gpu = np.zeros(len(events), bool)
    for plane in events.planes_of("GPU"):
        on_gpu[plane.first : plane.last] = True
    rows = np.flatnonzero(is_kernel & on_gpu).astype(np.int32)
    has_program, program = read_program_ids(events)
    ids, code = number_values(program[rows])
    program_code = np.where(has_program[rows], code, -1)
    module, hlo_op, tf_op = (join_values(*events.texts(stat), rows) for stat in ("hlo_module", "hlo_op", "tf_op"))
    columns = [program_code, module, hlo_op, np.where(hlo_op >= 0, -1, tf_op)]
    key, count = number_keys([column.astype(np.int64) for column in columns])
    first = find_first_rows(key, count)
    parts = [column[first].tolist() for column in columns]
    texts = _get_texts(
        events, np.concatenate([column[first] for column in columns[1:]]) if count else np.zeros(0, np.int64)
    )
    keys = [
        _Key(None if p < 0 else int(ids[p]), texts.get(m, ""), texts.get(o), texts.get(t, ""))
        for p, m, o, t in zip(*parts, strict=True)
    ]
    return _Kernels(rows, key, keys)


def _is_not_empty(events: HostEvents, numbers: Int64s) -> npt.NDArray[np.bool_]:
    """Return which strings are not empty."""
    used, place = number_values(numbers)
    return np.array([bool(text) for text in events.all_texts(used)], bool)[place] if len(used) else used.astype(bool)


def _get_texts(events: HostEvents, numbers: npt.NDArray[Any]) -> dict[int, str]:
    used = np.unique(numbers[numbers >= 0])
    return dict(zip(used.tolist(), events.all_texts(used), strict=True))


def _list_names(keys: Sequence[_Key], names: PlaneNames, modules: Modules) -> dict[int, Lists]:
    """Return, per line, the names that events of each key have there."""
    of_key = [_find_names(key, names, modules) for key in keys]
    return {
        line: make_lists([names_of_line.get(line, []) for names_of_line in of_key])
        for line in _TITLES
        if line != _GRAPHS
    }


def _find_names(key: _Key, names: PlaneNames, modules: Modules) -> dict[int, list[int]]:
    by_line: dict[int, list[int]] = {}
    number = None if key.program is None else key.program % 2**64
    if key.module:
        by_line[_MODULES] = [names.number(key.module if number is None else f"{key.module}({number})")]
    op, source = key.tf_op, ""
    if key.hlo_op is not None:
        prefix = key.module if number is None else str(number)
        levels = key.hlo_op.split(_BETWEEN_NAMES)
        by_line[_HLO_OPS] = [names.number(f"{prefix}/{name}", name) for name in levels]
        op, source = _find_program_texts(modules, key.program, levels[-1])
    if op:
        by_line[_NAME_SCOPES] = names.numbers(list_scopes(op))
        by_line[_OPS] = [number_op(names, op)]
    if source:
        by_line[_SOURCES] = [names.number(source)]
    return by_line


def _find_program_texts(modules: Modules, program: int | None, instruction: str) -> tuple[str, str]:
    """Return the full name of the op that an instruction comes from, and file and line; "": there is no such
    instruction."""
    module = None if program is None else modules.module(program)
    row = -1 if module is None else int(module.find([instruction])[0])
    if module is None or row < 0:
        return "", ""
    file, line = module.source_place(row)
    return module.full_op_name(row), f"{file.rpartition('/')[2]}:{line}" if file else ""


def find_scope_ranges(events: HostEvents) -> dict[int, int]:
    """Return the id of the annotation range around each range, by id: a plane has a stat for each."""
    plane = events.plane_named(_SCOPE_RANGES)
    stats = {} if plane is None else plane.stats
    return {
        int(name[1:]): value
        for name, value in stats.items()
        if name.startswith("#") and name[1:].isdecimal() and isinstance(value, int)
    }


def list_ranges_around(innermost: int, around: Mapping[int, int]) -> list[int]:
    """Return the ids of a range and of those around it, outermost first."""
    ranges, seen = [innermost], set()
    while (outer := around.get(ranges[-1])) is not None and outer not in seen:
        seen.add(outer)
        ranges.append(outer)
    return ranges[::-1]


_TID: Final = 0xDEADBEEF + 8
_TRANSFERS: Final = tuple(
    f"{op}-{end}" for op in ("copy", "dynamic-slice", "dynamic-update-slice") for end in ("start", "done")
)
_HOST_MEMORY: Final = "S(5)"


class Offloads:
    """``key``: int32 by row of metadata, the number of the transfer that it starts or ends in ``titles``, or -1 if
    there is none. ``starts``: uint8 likewise, whether it starts it."""

    def __init__(self, events: HostEvents) -> None:
        self.events = events
        self.key = np.full(len(events.names), -1, np.int32)
        self.starts = np.zeros(len(events.names), np.uint8)
        titles: dict[str, int] = {}
        for row, (shown, text) in enumerate(zip(events.display_names, events.names, strict=True)):
            if shown and _HOST_MEMORY in text and any(part in shown for part in _TRANSFERS):
                at = shown.find("-start") if "-start" in shown else shown.find("-done")
                number = shown.rpartition(".")[2] if "." in shown else "0"
                title = f"offload-{shown[:at]}.{number}"
                self.key[row] = titles.setdefault(title, len(titles))
                self.starts[row] = "-start" in shown
        self.titles = list(titles)

    def of(self, process: Process, names: PlaneNames, rows: Int64s) -> list[DerivedTrack]:
        """Derive transfers, which last from the start of their first op to the end of their last, on the first row that
        is free. ``rows``: the events of the device, in order."""
        rows = rows[self.key[self.events.meta[rows]] >= 0]
        if not len(rows):
            return []
        meta = self.events.meta[rows]
        used, key = number_values(self.key[meta])
        begin = self.events.start_ps[rows]
        end = begin + self.events.duration_ps[rows]
        first, last, row = self._paired(begin, end, key.astype(np.int32), meta, len(used))
        numbers = np.array([names.nameless(self.titles[key_number]) for key_number in used.tolist()], np.int64)
        tracks = []
        for number in range(int(row.max(initial=-1)) + 1):
            begun, other = first[row == number], last[row == number]
            columns = (begin[begun], end[other] - begin[begun], numbers[key[begun]], np.full(len(begun), -1, np.int32))
            args = [
                Arg("_a", np.arange(len(begun)), np.ones(len(begun), np.int64)),
                self._of_metas("raw_bytes_accessed", meta[other]),
                self._of_metas("shape_with_layout", meta[begun]),
            ]
            title = f"Host Offload Ops row {number}"
            tracks.append(DerivedTrack(process, _TID + number, title, names, *columns, args=args))
        return tracks

    def _paired(
        self, begin: Int64s, end: Int64s, key: Int32s, meta: Int32s, keys: int
    ) -> tuple[Int64s, Int64s, Int32s]:
        """Return the places of the first and the last op of each transfer, and its row."""
        many = len(begin)
        start_at, end_at, row = np.empty(many, np.int64), np.empty(many, np.int64), np.empty(many, np.int32)
        starts = np.ascontiguousarray(self.starts[meta])
        count = offloads(begin, end, np.ascontiguousarray(key), starts, keys, start_at, end_at, row)
        return start_at[:count], end_at[:count], row[:count]

    def _of_metas(self, stat: str, metas: npt.NDArray[Any]) -> Arg:
        """Make an event arg of a stat of metadata."""
        recorded = self.events.meta_stat(stat)
        has, place = find_present(recorded.rows, metas)
        rows = np.flatnonzero(has)
        kinds, values = recorded.kind[place], recorded.value[place]
        is_text = np.isin(kinds, TEXT_KINDS)
        if is_text.any():
            return Arg(stat, rows[is_text], self.events.all_texts(values[is_text]))
        return Arg(stat, rows, np.where(np.isin(kinds, INTEGER_KINDS), values, 0), kinds)


_SCOPES_TID, _OPS_TID, _SOURCE_TID = (0xDEADBEEF + offset for offset in (2, 3, 7))


class TpuLines:
    """Derives the lines of the TPUs of a host, one plane after the other."""

    def __init__(self, host: Host) -> None:
        self.events = host.raw
        self.group_id = find_shown_groups(host)
        self.offloads = Offloads(host.raw)
        self._is_async = self._asynchronous()
        self._of_meta = {stat: self._texts_of_metas(stat) for stat in ("tf_op", "source")}
        steps = merge_steps(host)
        self._removed = np.zeros(len(host.raw), bool)
        self._removed[steps.removed] = True
        self._duration_ps = host.raw.duration_ps
        if len(steps.rows):
            self._duration_ps = host.raw.duration_ps.copy()
            self._duration_ps[steps.rows] = steps.duration_ps

    def of(self, process: Process, names: PlaneNames) -> list[DerivedTrack]:
        rows = list_line_rows(process.plane.lines)
        rows = rows[~self._removed[rows]]
        rows = sort_by_time(self.events, rows, self._duration_ps[rows])
        rows = rows[~self._is_async[rows]]
        return self._levels(process, names, rows) + self.offloads.of(process, names, rows)

    def _asynchronous(self) -> Bools:
        """Return whether each event, or its metadata, says that it is asynchronous."""
        recorded = self.events.meta_stat("_a").of_kinds(INTEGER_KINDS)
        of_meta = np.zeros(len(self.events.names), bool)
        of_meta[recorded.rows] = recorded.value != 0
        is_async: Bools = of_meta[self.events.meta]
        rows, value = self.events.ints("_a")
        is_async[rows] = value != 0
        return is_async

    def _levels(self, process: Process, names: PlaneNames, rows: Int64s) -> list[DerivedTrack]:
        def of_ops(texts: list[str]) -> tuple[Lists, ...]:
            scopes = [names.numbers(list_scopes(text)) for text in texts]
            return make_lists(scopes), make_lists([[number_op(names, text)] if text else [] for text in texts])

        def of_sources(texts: list[str]) -> tuple[Lists, ...]:
            return (make_lists([names.numbers([text] if text else []) for text in texts]),)

        ops, (scope_lists, op_lists) = self._lists_of_stat(rows, "tf_op", of_ops)
        sources, (source_lists,) = self._lists_of_stat(rows, "source", of_sources)
        scopes = derive_levels(ops, scope_lists, close=True)
        lines = [
            (_SCOPES_TID, "Framework Name Scope", scopes),
            (_OPS_TID, "Framework Ops", derive_levels(ops, op_lists, scopes.closes)),
            (_SOURCE_TID, "Source code", derive_levels(sources, source_lists)),
        ]
        return [
            DerivedTrack(process, tid, title, names, levels.start_ps, levels.duration_ps, levels.name, levels.group)
            for tid, title, levels in lines
        ]

    def _lists_of_stat(
        self, rows: Int64s, stat: str, lists: Callable[[list[str]], tuple[Lists, ...]]
    ) -> tuple[LevelSource, tuple[Lists, ...]]:
        """Return the events that have a string, themselves or by their metadata, and the lists of names made of the
        strings."""
        own = join_values(*self.events.texts(stat), rows)
        number = np.where(own >= 0, own, self._of_meta[stat][self.events.meta[rows]])
        rows, number = rows[number >= 0], number[number >= 0]
        used, key = number_values(number)
        times = (self.events.start_ps[rows], self.events.duration_ps[rows])
        source = LevelSource(*times, self.group_id[rows], key.astype(np.int32), False)
        return source, lists(self.events.all_texts(used))

    def _texts_of_metas(self, stat: str) -> Int64s:
        """Return the string number of each row of metadata, or -1 if there is none."""
        recorded = self.events.meta_stat(stat).of_kinds(TEXT_KINDS)
        numbers = np.full(len(self.events.names), -1, np.int64)
        numbers[recorded.rows] = recorded.value
        return numbers


_OF_KERNELS: Final = (
    "kernel_details", "hlo_op", "hlo_module", "program_id", "tf_op", "cuda_graph_exec_id", "cuda_graph_id",
    "scope_range_id", "device_id",
)  # fmt: skip
_OF_TPU_OPS: Final = ("tf_op", "source", "_a", "raw_bytes_accessed", "shape_with_layout")

NEEDS: Final = Needs(
    stats=tuple(dict.fromkeys((*STATS, *_OF_KERNELS, *stream_events.STATS, "source", "flow"))),
    metadata_stats=tuple(dict.fromkeys((*hlo.METADATA_STATS, *_OF_TPU_OPS))),
)
"""What derived lines, flows, steps and counters of a timeline read. Raw timelines need none of it."""


def derive_timeline(host: Host) -> DerivedTimeline:
    """Return the tracks to show beside those of the capture; none if its writer has grouped it."""
    processes = list_processes(host.raw)
    tracks: list[DerivedTrack] = []
    if not is_grouped(host.raw):
        gpus = [
            process
            for process in processes
            if process.plane.kind == "GPU" and not _has_derived_lines(host.raw, process.plane)
        ]
        tpus = [process for process in processes if process.plane.kind == "TPU"]
        metas = list_metas_by_plane(host.raw)
        names = {process.plane.number: PlaneNames(host.raw, metas(process.plane)) for process in (*gpus, *tpus)}
        if gpus:
            of_gpus = GpuLines(host)
            tracks += [track for process in gpus for track in of_gpus.of(process, names[process.plane.number])]
            tracks += derive_launch_lines(host, gpus, names)
        if tpus:
            of_tpus = TpuLines(host)
            tracks += [track for process in tpus for track in of_tpus.of(process, names[process.plane.number])]
    return join_tracks(host.raw.host, processes, tracks)


def _has_derived_lines(events: HostEvents, plane: Plane) -> bool:
    """Return whether the plane is of a trace of XProf, which has the lines that XProf derived."""
    return events.transcribed_from == XPROF and any(line.is_derived for line in plane.lines)
