"""Lines that are derived for a GPU: its steps, and of each stream what its kernels belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof.derive.host import Host
from fastprof.derive.ops.gpu_ops import programs
from fastprof.derive.ops.stat_values import stat_beside, stat_places
from fastprof.derive.steps.device_steps import DeviceSteps
from fastprof.derive.steps.links import first_of, numbered
from fastprof.derive.timeline.derived_track import Arg, DerivedTrack, in_time_order, rows_of
from fastprof.derive.timeline.event_groups import GroupTitles
from fastprof.derive.timeline.level_lines import Levels, Lists, Source, derive, lists_of, singles
from fastprof.derive.timeline.plane_names import PlaneNames, number_of_op, scopes_of
from fastprof.derive.timeline.track_order import STEPS, Process, derived_streams, stream_tids
from fastprof.hlo.modules import Modules
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, Line

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
    """``program``: an int64, None: not recorded. ``hlo_op``: the names of an instruction and of those around it,
    outermost first, joined by ``::``; None: it is none, and ``tf_op`` counts."""

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
        self.kernels = _kernels(self.events)
        self.ranges = scope_ranges(self.events)
        self.titles = GroupTitles(host, [steps.group_id for steps in host.groups.device_steps.values()])

    def of(self, process: Process, names: PlaneNames) -> list[DerivedTrack]:
        tracks = [self._steps(process, names)]
        tids = stream_tids(process.plane)
        for stream in derived_streams(process.plane):
            tracks += self._of_stream(process, stream, tids[stream.number], names)
        return [track for track in tracks if len(track)]

    def _steps(self, process: Process, names: PlaneNames) -> DerivedTrack:
        """Consecutive events of a group are a step of it."""
        steps: DeviceSteps = self.host.groups.device_steps[process.plane.number]
        groups, group = np.unique(steps.group_id, return_inverse=True)
        number = np.array(names.numbers([str(one) for one in groups.tolist()]), np.int64)
        made = len(groups) if self.host.groups.made is None else int(np.searchsorted(groups, self.host.groups.made))
        titles = self.titles.of(groups[:made]) + [str(one) for one in groups[made:].tolist()]
        shown = [titles[one] for one in group.tolist()]
        named = np.flatnonzero(group < made)
        arg = Arg("step_name", named, [shown[one] for one in named.tolist()])
        return DerivedTrack(
            process, STEP_TID, "Steps", names, steps.start_ps, steps.duration_ps,
            number[group] if len(groups) else steps.start_ps, steps.group_id, STEPS, shown, [arg],
        )  # fmt: skip

    def _of_stream(self, process: Process, stream: Line, tid: int, names: PlaneNames) -> list[DerivedTrack]:
        rows = in_time_order(self.events, rows_of([stream]))
        has, place = stat_places(self.kernels.rows, rows)
        rows, key = rows[has], self.kernels.key[place]
        if not len(rows):
            return []
        used, number = np.unique(key, return_inverse=True)
        lists = _name_lists([self.kernels.keys[one] for one in used.tolist()], names, self.host.modules)
        scopes, scope_lists = self._ranges(rows)
        times = (self.events.start_ps[rows], self.events.duration_ps[rows])
        source = Source(*times, self.group_id[rows], number.astype(np.int32), True, scopes, scope_lists)
        found = self._lines(source, lists)
        found[_GRAPHS] = self._graphs(source, rows, names, found[_MODULES])
        tracks = []
        for line, levels in found.items():
            title = f"{_TITLES[line]} - from #{stream.xline_id}"
            columns = (levels.start_ps, levels.duration_ps, levels.name, levels.group)
            tracks.append(DerivedTrack(process, tid + line, title, names, *columns))
            if line in (_HLO_OPS, _GRAPHS):
                tracks[-1].args += self._graph_args(rows, levels)
        return tracks

    def _lines(self, source: Source, lists: dict[int, Lists]) -> dict[int, Levels]:
        modules = derive(source.in_outermost(), lists[_MODULES], scoped=True)
        scopes = derive(source, lists[_NAME_SCOPES], modules.closes)
        return {
            _NAME_SCOPES: scopes,
            _OPS: derive(source, lists[_OPS], scopes.closes),
            _MODULES: modules,
            _HLO_OPS: derive(source, lists[_HLO_OPS], modules.closes, scoped=True),
            _SOURCES: derive(source, lists[_SOURCES]),
        }

    def _ranges(self, rows: Int64s) -> tuple[Int32s | None, Lists | None]:
        """The ids of the ranges that events lie in."""
        at, value = self.events.ints("scope_range_id")
        has, place = stat_places(at, rows)
        if not len(place):
            return None, None
        ids, number = np.unique(value[place], return_inverse=True)
        scopes = np.full(len(rows), -1, np.int32)
        scopes[has] = number
        return scopes, lists_of([ranges_around(one, self.ranges) for one in ids.tolist()])

    def _graphs(self, source: Source, rows: Int64s, names: PlaneNames, modules: Levels) -> Levels:
        """Kernels that are nodes of a graph, launch by launch."""
        has, graph = self._of_rows(self._graph_ids, rows)
        ids, key = np.unique(graph, return_inverse=True)
        numbers = names.numbers([f"Command Buffer {one}" for one in ids.view(np.uint64).tolist()])
        graphs = np.full(len(rows), -1, np.int32)
        graphs[has] = key
        launched, launch = self._of_rows(self._launches, rows)
        launches, number = np.unique(launch, return_inverse=True)
        scopes = np.full(len(rows), -1, np.int32)
        scopes[launched] = number
        of_graphs = replace(source, key=graphs, scopes=scopes, scope_lists=singles(launches))
        return derive(of_graphs, singles(np.array(numbers, np.int64)), modules.closes, scoped=True)

    def _graph_args(self, rows: Int64s, levels: Levels) -> list[Arg]:
        """The graph, and the launch, of kernels that are nodes of graphs: of several of an event the last."""
        has, graph = self._of_rows(self._graph_ids, rows)
        launched, launch = self._of_rows(self._launches, rows)
        known = levels.deepest >= 0
        args = [
            _last("cuda_graph_id", levels.deepest[has & known], graph.view(np.uint64)[known[has]]),
            _last("correlation_id", levels.deepest[has & launched & known], launch[(has & known)[launched]]),
        ]
        return [arg for arg in args if len(arg.rows)]

    def _of_rows(self, stat: tuple[Int32s, Int64s], rows: Int64s) -> tuple[npt.NDArray[np.bool_], Int64s]:
        """Which of the rows have a stat, and the values of these."""
        has, place = stat_places(stat[0], rows)
        return has, stat[1][place]

    @cached_property
    def _graph_ids(self) -> tuple[Int32s, Int64s]:
        """Unsigned numbers other than 0."""
        stat = self.events.stat("cuda_graph_id").of_kinds((records.UINT64,))
        return stat.rows[stat.value != 0], stat.value[stat.value != 0]

    @property
    def _launches(self) -> tuple[Int32s, Int64s]:
        return self.events.ints("correlation_id")


def _last(name: str, rows: Int64s, values: npt.NDArray[Any]) -> Arg:
    """An arg; the last value of each row counts."""
    used, last = np.unique(rows[::-1], return_index=True)
    return Arg(name, used, values[::-1][last])


# ---- what kernels belong to


def _kernels(events: HostEvents) -> _Kernels:
    """The events of GPUs that ran kernels or graphs of them, and what these belong to."""
    is_kernel = np.zeros(len(events), bool)
    rows, numbers = events.texts("kernel_details")
    is_kernel[rows[_telling(events, numbers)]] = True
    is_kernel[events.stat("cuda_graph_exec_id").rows] = True
    on_gpu = np.zeros(len(events), bool)
    for plane in events.planes_of("GPU"):
        on_gpu[plane.first : plane.last] = True
    rows = np.flatnonzero(is_kernel & on_gpu).astype(np.int32)
    has_program, program = programs(events)
    ids, code = np.unique(program[rows], return_inverse=True)
    program_code = np.where(has_program[rows], code, -1)
    module, hlo_op, tf_op = (stat_beside(*events.texts(stat), rows) for stat in ("hlo_module", "hlo_op", "tf_op"))
    columns = [program_code, module, hlo_op, np.where(hlo_op >= 0, -1, tf_op)]
    key, count = numbered([column.astype(np.int64) for column in columns])
    first = first_of(key, count)
    parts = [column[first].tolist() for column in columns]
    texts = _texts(
        events, np.concatenate([column[first] for column in columns[1:]]) if count else np.zeros(0, np.int64)
    )
    keys = [
        _Key(None if p < 0 else int(ids[p]), texts.get(m, ""), texts.get(o), texts.get(t, ""))
        for p, m, o, t in zip(*parts, strict=True)
    ]
    return _Kernels(rows, key, keys)


def _telling(events: HostEvents, numbers: Int64s) -> npt.NDArray[np.bool_]:
    """Which texts are not empty."""
    used, place = np.unique(numbers, return_inverse=True)
    return np.array([bool(text) for text in events.all_texts(used)], bool)[place] if len(used) else used.astype(bool)


def _texts(events: HostEvents, numbers: npt.NDArray[Any]) -> dict[int, str]:
    used = np.unique(numbers[numbers >= 0])
    return dict(zip(used.tolist(), events.all_texts(used), strict=True))


def _name_lists(keys: Sequence[_Key], names: PlaneNames, modules: Modules) -> dict[int, Lists]:
    """By line, the names that events of each key have there."""
    of_key = [_names_of(key, names, modules) for key in keys]
    return {line: lists_of([found.get(line, []) for found in of_key]) for line in _TITLES if line != _GRAPHS}


def _names_of(key: _Key, names: PlaneNames, modules: Modules) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    number = None if key.program is None else key.program % 2**64
    if key.module:
        found[_MODULES] = [names.number(key.module if number is None else f"{key.module}({number})")]
    op, source = key.tf_op, ""
    if key.hlo_op is not None:
        prefix = key.module if number is None else str(number)
        levels = key.hlo_op.split(_BETWEEN_NAMES)
        found[_HLO_OPS] = [names.number(f"{prefix}/{name}", name) for name in levels]
        op, source = _texts_of_program(modules, key.program, levels[-1])
    if op:
        found[_NAME_SCOPES] = names.numbers(scopes_of(op))
        found[_OPS] = [number_of_op(names, op)]
    if source:
        found[_SOURCES] = [names.number(source)]
    return found


def _texts_of_program(modules: Modules, program: int | None, instruction: str) -> tuple[str, str]:
    """The full name of the op that an instruction comes from, and file and line; "": there is no such instruction."""
    module = None if program is None else modules.module(program)
    row = -1 if module is None else int(module.find([instruction])[0])
    if module is None or row < 0:
        return "", ""
    file, line = module.source_place(row)
    return module.full_op_name(row), f"{file.rpartition('/')[2]}:{line}" if file else ""


def scope_ranges(events: HostEvents) -> dict[int, int]:
    """By the id of a range of annotations, the id of the range around it: a plane has a stat for each."""
    plane = events.plane_named(_SCOPE_RANGES)
    stats = {} if plane is None else plane.stats
    return {
        int(name[1:]): value
        for name, value in stats.items()
        if name.startswith("#") and name[1:].isdecimal() and isinstance(value, int)
    }


def ranges_around(innermost: int, around: Mapping[int, int]) -> list[int]:
    """The ids of a range and of those around it, outermost first."""
    found, seen = [innermost], set()
    while (outer := around.get(found[-1])) is not None and outer not in seen:
        seen.add(outer)
        found.append(outer)
    return found[::-1]
