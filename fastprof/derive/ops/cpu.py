"""Ops of what XLA compiled for the CPU: events of host threads that name an instruction of a program (``hlo_op``).

The threads of a host are the lines of one device. Where an event lies within another of its thread, as the body of a
loop within the loop, the time is its own. XProf does not show these.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fastprof.derive.ops.gpu_ops import distinct, last_name, programs
from fastprof.derive.ops.line_times import LineTimes, line_times
from fastprof.derive.ops.tables import (
    Ops,
    OpTable,
    summed_by,
    sums_by,
)
from fastprof.derive.ops.work_sources import with_work_of_programs
from fastprof.hlo.counting import GENERAL
from fastprof.hlo.modules import Modules
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.tables.host_events import HostEvents, Plane

EVENT_STATS: Final = ("hlo_op", "program_id")


def _rows(events: HostEvents, plane: Plane) -> Int32s:
    """The plane's events that name an instruction."""
    at, _ = events.texts("hlo_op")
    return at[slice(*np.searchsorted(at, [plane.first, plane.last]).tolist())]


def plane_ops(events: HostEvents, modules: Modules, plane: Plane) -> tuple[Ops, LineTimes, Int32s]:
    """The ops that a host's threads ran, their events, and beside these the row of each one's op."""
    times = line_times(events, plane.lines, _rows(events, plane))
    keys, op = _keys(events, times.rows)
    time = summed_by(op, times.duration_ps, len(keys))
    columns = _described(keys, modules)
    table = OpTable.of(
        [name for _, name in keys],
        program_id=[program_id for program_id, _ in keys],
        occurrences=time["count"].copy(),
        time_ps=time["total"].copy(),
        min_ps=time["minimum"].copy(),
        self_ps=sums_by(op, times.self_ps, len(keys)),
        cores=np.ones(len(keys), np.int32),
        **columns,
    )
    return times.ops(with_work_of_programs(table, modules), times.span_ps), times, op


def _keys(events: HostEvents, rows: Int32s) -> tuple[list[tuple[int, str]], Int32s]:
    """Program and instruction of each op, and beside the rows the place of each one's."""
    at, numbers = events.texts("hlo_op")
    texts, text = distinct(numbers[np.searchsorted(at, rows)])
    program_ids, program = distinct(_programs_at(events, rows))
    pairs, pair = distinct(program.astype(np.int64) * len(texts) + text)
    names = [last_name(name) for name in events.all_texts(texts)]
    found: dict[tuple[int, str], int] = {}
    places = [
        found.setdefault((int(program_ids[one // len(texts)]), names[one % len(texts)]), len(found))
        for one in pairs.tolist()
    ]
    return list(found), np.array(places, np.int32)[pair]


def _programs_at(events: HostEvents, rows: Int32s) -> Int64s:
    return programs(events)[1][rows]


def _described(keys: list[tuple[int, str]], modules: Modules) -> dict[str, list[object]]:
    """What the programs say of their instructions."""
    columns: dict[str, list[object]] = {
        name: ["" for _ in keys]
        for name in ("category", "provenance", "long_name", "deduplicated_name", "source_file", "source_stack")
    }
    columns["source_line"] = [-1] * len(keys)
    of_program: dict[int, list[int]] = {}
    for place, (program_id, _) in enumerate(keys):
        of_program.setdefault(program_id, []).append(place)
    for program_id, places in of_program.items():
        for place, one in zip(places, modules.find(program_id, [keys[i][1] for i in places], GENERAL), strict=True):
            if one is not None:
                columns["category"][place] = one.category
                columns["provenance"][place] = one.framework_op
                columns["long_name"][place] = one.long_name
                columns["deduplicated_name"][place] = one.deduplicated_name
                for name, told in zip(("source_file", "source_line", "source_stack"), one.source, strict=True):
                    columns[name][place] = told
    return columns
