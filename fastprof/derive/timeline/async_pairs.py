"""Pairs of ops, one that starts what the other ends: asynchronous collectives and copies.

Of ``copy-start`` and ``copy-done`` the capture records two ops that wait for nothing in common but the transfer between
them. What a part follows is its first operand in the text of the op, else in the program of the capture, else what its
name says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from fastprof._native import records
from fastprof.derive.devices.op_names import without_serial
from fastprof.derive.host import Host
from fastprof.derive.ops.async_ops import ASYNC_LINE, DONE, UPDATE, before_each, part_before
from fastprof.derive.ops.stat_values import stat_places
from fastprof.derive.steps.device_steps import is_derived
from fastprof.hlo.shape_reader import read_expression
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.tables.host_events import HOST_THREADS, HostEvents

_LATER: Final = (DONE, UPDATE)
_NO_PROGRAM: Final = -1


def async_pairs(host: Host) -> tuple[Int32s, Int32s]:
    """Rows of ops, and of those that follow them: on devices on any line of the plane, on hosts on the same thread. An
    op is followed once, by the first that comes."""
    events = host.raw
    names = [_op_name(*pair) for pair in zip(events.display_names, events.names, strict=True)]
    later = np.array([_is_later(name, text) for name, text in zip(names, events.names, strict=True)], np.bool_)
    if not later.any():
        return np.zeros(0, np.int32), np.zeros(0, np.int32)
    scope, shown = _scopes(events)
    ends = np.flatnonzero(later[events.meta] & shown)
    followed: dict[tuple[int, str], int] = {}

    def of_end(meta: int, program: int) -> int:
        before = _before(host, names[meta], events.names[meta], program)
        return followed.setdefault((program, before), len(followed)) if before else -1

    end_key = _keys(events, ends, of_end)
    sought = {name for _, name in followed}
    starts = np.flatnonzero(np.array([name in sought for name in names], np.bool_)[events.meta] & shown)
    start_key = _keys(events, starts, lambda meta, program: followed.get((program, names[meta]), -1))
    ends, starts = ends[end_key >= 0], starts[start_key >= 0]
    rows = np.concatenate([starts, ends])
    key = scope[rows] * len(followed) + np.concatenate([start_key[start_key >= 0], end_key[end_key >= 0]])
    place = before_each(key, events.start_ps[rows], np.arange(len(rows)) < len(starts))[len(starts) :]
    return starts[place[place >= 0]].astype(np.int32), ends[place >= 0].astype(np.int32)


def _op_name(display_name: str, name: str) -> str:
    """The name of an op, whose event is called so or by its text."""
    return (display_name or name).partition(" = ")[0].removeprefix("%")


def _is_later(name: str, text: str) -> bool:
    """Whether an op updates or ends what another one starts."""
    if not any(ending in text or ending in name for ending in _LATER):
        return False
    read = read_expression(text) if " = " in text else None
    return (read.opcode if read is not None else without_serial(name)).endswith(_LATER)


def _before(host: Host, name: str, text: str, program: int) -> str:
    """The op that another one follows."""
    text = text if " = " in text else ""
    read = read_expression(text) if text else None
    known = "" if read is not None and read.operands else _operand(host, program, name)
    return known or part_before(name, text)


def _operand(host: Host, program: int, name: str) -> str:
    """The first operand of an instruction in the program that the capture carries; "": it carries none."""
    module = host.modules.module(program) if program != _NO_PROGRAM and len(host.modules) else None
    row = -1 if module is None else int(module.find([name])[0])
    operands = [] if module is None or row < 0 else module.operands_of(row)
    return module.names[operands[0]] if module is not None and operands and operands[0] >= 0 else ""


def _keys(events: HostEvents, rows: Int64s, key: Callable[[int, int], int]) -> Int64s:
    """The key of each row, by its metadata and its program; each pair is looked at once."""
    recorded = events.meta_stat("program_id").of_kinds((records.INT64, records.UINT64))
    of_meta = np.full(len(events.names), _NO_PROGRAM, np.int64)
    of_meta[recorded.rows] = recorded.value
    program = of_meta[events.meta[rows]]
    own, values = events.ints("program_id")
    has, place = stat_places(own, rows)
    program[has] = values[place]
    pairs, number = np.unique(np.stack([events.meta[rows], program]), axis=1, return_inverse=True)
    keys = np.array([key(meta, of) for meta, of in pairs.T.tolist()], np.int64)
    return keys[number.reshape(-1)] if len(keys) else np.zeros(0, np.int64)


def _scopes(events: HostEvents) -> tuple[Int64s, Bools]:
    """By row, a number of the plane, of host threads that of the line; and whether the line has ops as they ran."""
    scope, shown = np.zeros(len(events), np.int64), np.zeros(len(events), np.bool_)
    for plane in events.planes:
        is_thread = plane.name.startswith(HOST_THREADS)
        for line in plane.lines:
            rows = slice(line.first, line.last)
            scope[rows] = 2 * line.number + 1 if is_thread else 2 * plane.number
            shown[rows] = not is_derived(line) and line.name != ASYNC_LINE
    return scope, shown
