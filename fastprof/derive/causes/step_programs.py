"""Which compiled program takes most of the time of each step: only steps of the same one can be compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from fastprof.derive.steps.device_steps import MODULE_LINES, is_derived
from fastprof.derive.steps.event_origin import is_thread
from fastprof.derive.steps.grouping import Groups
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.tables.host_events import HostEvents

STATS: Final = ("program_id", "hlo_module")
NO_PROGRAM: Final = -1


def main_programs(groups: Groups, steps: Int64s) -> Int64s:
    """Beside each step, given by its group, a number that steps of the same main program share. NO_PROGRAM: none is
    recorded of it."""
    events = groups.events
    rows, program = _programs(events)
    order = np.argsort(steps, kind="stable")
    found = np.full(len(steps), NO_PROGRAM, np.int64)
    if not len(rows) or not len(steps):
        return found
    group = groups.group_id[rows].astype(np.int64)
    place = np.minimum(np.searchsorted(steps[order], group), len(steps) - 1)
    ours = steps[order][place] == group
    known, program = np.unique(program[ours], return_inverse=True)
    pairs, pair = np.unique(place[ours] * max(len(known), 1) + program.reshape(-1), return_inverse=True)
    time = np.zeros(len(pairs), np.int64)
    np.add.at(time, pair.reshape(-1), events.duration_ps[rows[ours]])
    step, program = np.divmod(pairs, max(len(known), 1))
    longest_last = np.lexsort((time, step))
    found[order[step[longest_last]]] = program[longest_last]
    return found


def _programs(events: HostEvents) -> tuple[Int64s, Int64s]:
    """Rows that show which program runs, and its number: executions of programs on TPUs, else events that record the id
    of their program, else its name. Threads count if no device records any."""
    modules = [line for line in events.lines if line.name in MODULE_LINES and not is_derived(line)]
    if any(line.last > line.first for line in modules):
        rows = np.concatenate([np.arange(line.first, line.last, dtype=np.int64) for line in modules])
        return rows, _same_text(events.meta[rows].astype(np.int64), events.names.__getitem__)
    rows, program = _of_devices(events, *events.ints("program_id"))
    if len(rows):
        return rows, program
    rows, number = _of_devices(events, *events.texts("hlo_module"))
    return rows, _same_text(number, events.text)


def _of_devices(events: HostEvents, rows: Int32s, values: Int64s) -> tuple[Int64s, Int64s]:
    lines = [line for line in events.lines if not is_thread(line) and not is_derived(line)]
    bounds = np.array([(line.first, line.last) for line in lines], np.int64).reshape(-1, 2)
    there = np.searchsorted(rows, bounds)
    ours = np.concatenate([np.zeros(0, np.int64), *(np.arange(*pair) for pair in there.tolist())]).astype(np.int64)
    keep = ours if len(ours) else np.arange(len(rows))
    return rows[keep].astype(np.int64), values[keep].astype(np.int64)


def _same_text(numbers: Int64s, text: Callable[[int], str]) -> Int64s:
    """Numbers of texts, the same for equal texts."""
    known, place = np.unique(numbers, return_inverse=True)
    first: dict[str, int] = {}
    same = np.array([first.setdefault(text(one), one) for one in known.tolist()], np.int64)
    return same[place.reshape(-1)]
