"""What the ops of a TPU core are to communication, by row of event metadata: they compute, or communicate, and how."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof.derive.communication.flights import Operation, Operations
from fastprof.derive.communication.kinds import DONE, Part, kind_of
from fastprof.hlo.shape_reader import read_expression
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.tables.host_events import HostEvents

METADATA_STATS: Final = ("program_id", "symbol_id", "hlo_category", "tf_op")

NO_OP, WORKS, COMMUNICATES = range(3)

_INTEGERS = (records.INT64, records.UINT64)
_TEXTS = (records.STR, records.REF)


@dataclass(slots=True)
class Instructions:
    """Arrays by row of metadata; -1: it does not communicate. ``key``: numbers (program, name); ``start_key``: that of
    the op which starts what this one starts or ends."""

    mark: npt.NDArray[np.uint8]
    role: npt.NDArray[np.int8]
    op: Int32s
    key: Int64s
    start_key: Int64s
    program: Int64s
    _keys: dict[tuple[int, str], int] = field(default_factory=dict)

    def key_of(self, program: int, name: str) -> int:
        return self._keys.setdefault((program, name), len(self._keys))


def instructions(events: HostEvents, met: Int64s, aside: Int64s, operations: Operations) -> Instructions:
    """Of the rows of metadata that a core ``met`` on its op lines, and of those that it has ``aside``, of which only
    what communicates counts."""
    count = len(events.names)
    found = Instructions(
        mark=np.zeros(count, np.uint8),
        role=np.full(count, -1, np.int8),
        op=np.full(count, -1, np.int32),
        key=np.full(count, -1, np.int64),
        start_key=np.full(count, -1, np.int64),
        program=_whole(events, "program_id"),
    )
    found.mark[met[_are_ops(events)[met]]] = WORKS
    texts = _TextsOf(events)
    candidates = np.union1d(met[found.mark[met] == WORKS], aside)
    for row in candidates[texts.may_communicate(candidates)].tolist():
        name = (events.display_names[row] or events.names[row]).removeprefix("%")
        text = events.names[row] if events.display_names[row] else ""
        part, starts = _part(texts.category(row), text, name)
        if part is None:
            continue
        program = int(found.program[row])
        found.mark[row], found.role[row] = COMMUNICATES, part.role
        found.op[row] = operations.number(Operation(program, name, part.kind, text, texts.framework_op(row)))
        found.key[row], found.start_key[row] = (
            found.key_of(program, name),
            found.key_of(program, starts),
        )
    return found


@lru_cache(1 << 15)
def _part(category: str, text: str, name: str) -> tuple[Part | None, str]:
    """And the name of the op that starts what this one starts or ends."""
    part = kind_of(category, text, name)
    if part is None or part.role != DONE:
        return part, name
    read = read_expression(text)
    if read is not None and read.operands:
        return part, read.operands[0].name
    before, _, serial = name.rpartition("-done")
    return part, before + ("" if before in ("send", "recv") else "-start") + serial


def _whole(events: HostEvents, stat: str) -> Int64s:
    found = events.meta_stat(stat).of_kinds(_INTEGERS)
    values = np.zeros(len(events.names), np.int64)
    values[found.rows] = found.value
    return values


def _are_ops(events: HostEvents) -> npt.NDArray[np.bool_]:
    """Rows that identify an op, as op statistics need."""
    known = np.zeros(len(events.names), np.bool_)
    known[events.meta_stat("program_id").of_kinds(_INTEGERS).rows] = True
    known &= _whole(events, "symbol_id") != 0
    return known


class _TextsOf:
    """Categories and framework ops by row of metadata."""

    def __init__(self, events: HostEvents) -> None:
        self._events = events
        self._category = self._numbers("hlo_category")
        self._framework = self._numbers("tf_op")

    def _numbers(self, stat: str) -> Int64s:
        found = self._events.meta_stat(stat).of_kinds(_TEXTS)
        numbers = np.full(len(self._events.names), -1, np.int64)
        numbers[found.rows] = found.value
        return numbers

    def may_communicate(self, rows: Int64s) -> npt.NDArray[np.bool_]:
        """By category; of those without one all may."""
        distinct, place = np.unique(self._category[rows], return_inverse=True)
        texts = ["" if number < 0 else self._events.text(number) for number in distinct.tolist()]
        may = np.array([not text or kind_of(text, "", "") is not None for text in texts], np.bool_)
        return may[place.reshape(-1)]

    def category(self, row: int) -> str:
        return self._text(self._category[row])

    def framework_op(self, row: int) -> str:
        return self._text(self._framework[row])

    def _text(self, number: np.int64) -> str:
        return "" if number < 0 else self._events.text(int(number))
