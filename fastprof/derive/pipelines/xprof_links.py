"""What XProf's tool reads of links between iterator events: kept, so that its answer can be made later."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof.derive.pipelines.host_lines import CONSUME, GENERATOR, ITERATOR, PRODUCE, HostLines
from fastprof.derive.pipelines.iterator_events import IteratorEvents, is_integer
from fastprof.derive.steps.links import CROWD, numbered
from fastprof.schema.array_types import Bools, Int32s, Int64s

_BUFFERS = ("Prefetch", "ParallelInterleave", "ParallelMap", "MapAndBatch", "ParseExample", "ParallelBatch")
"""The buffers whose events XProf knows, in its order."""


@dataclass(frozen=True, slots=True, eq=False)
class XprofLinks:
    """Numbers of iterator events. ``maker[i]`` made context ``made[i]``, ``taker[i]`` took context ``taken[i]``; for
    element ``produced[i]`` was ``product[i]`` made, its first child that is of an iterator; element ``consumed[i]`` was
    taken by ``consumer[i]``."""

    maker: Int32s
    made: Int32s
    taker: Int32s
    taken: Int32s
    context_count: int
    product: Int32s
    produced: Int64s
    consumer: Int32s
    consumed: Int64s


def as_xprof_reads(kind: npt.NDArray[np.uint8], value: Int64s) -> Int64s:
    """XProf reads what was not recorded as int64 as 0."""
    return np.where(kind == records.INT64, value, 0)


def xprof_links(lines: HostLines, events: IteratorEvents) -> XprofLinks:
    """Leaves contexts out where none is taken by what they matter to."""
    making, taking, count = _contexts(lines)
    product, produced = _products(lines, making, taking, count)
    consumer, consumed = _consumers(lines, making, taking, count)
    makes, takes = making.event >= 0, taking.event >= 0
    has_parent = events.origins.parent_kind[events.origin[product]] != records.NONE
    return XprofLinks(
        making.event[makes], making.context[makes], taking.event[takes], taking.context[takes], count,
        product[has_parent], produced[has_parent], consumer, consumed,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Ends:
    """What makes or takes contexts, in the order of the capture: kept row and iterator event, -1: it is none, and the
    number of the context."""

    row: Int32s
    event: Int32s
    context: Int32s

    def of_rows(self, lines: HostLines) -> Int32s:
        """The context by kept row, -1: none."""
        found = np.full(len(lines) + 1, -1, np.int32)  # the last for what is not kept
        found[self.row] = self.context
        found[-1] = -1
        return found

    def first_of(self, count: int, wanted: Bools) -> Int32s:
        """By context, the first wanted iterator event, -1: none; one more at the end, for context -1."""
        found = np.full(count + 1, -1, np.int32)
        found[self.context[wanted][::-1]] = self.event[wanted][::-1]  # of equal indices the last assignment stays
        return found


def _contexts(lines: HostLines) -> tuple[_Ends, _Ends, int]:
    """What makes contexts and what takes them, and how many contexts there are."""
    none = np.zeros(0, np.int32)
    if not len(lines.all_having(ITERATOR | GENERATOR | CONSUME, "_c")):
        return _Ends(none, none, none), _Ends(none, none, none), 0
    ends = [_ends(lines, kind, number) for kind, number in (("_pt", "_p"), ("_ct", "_c"))]
    (making, *keys), (taking, *others) = ends
    link, count = numbered([np.concatenate(pair) for pair in zip(keys, others, strict=True)])
    made, taken = link[: len(making)], link[len(making) :]
    makes, takes = np.bincount(made, minlength=count), np.bincount(taken, minlength=count)
    wanted = (makes > 0) & (takes > 0) & ((makes < CROWD) | (takes < CROWD))
    place = (np.cumsum(wanted) - 1).astype(np.int32)
    found = []
    for rows, links in ((making, made), (taking, taken)):
        kept = lines.kept(rows[wanted[links]])
        found.append(_Ends(kept, lines.number[kept], place[links[wanted[links]]]))
    return found[0], found[1], int(wanted.sum())


def _ends(lines: HostLines, type_: str, number: str) -> tuple[Int32s, Int64s, Int64s]:
    """Rows of the plane with both stats, and their values."""
    numbers, types = lines.all_stat(number), lines.all_stat(type_)
    _, own, other = np.intersect1d(numbers.rows, types.rows, assume_unique=True, return_indices=True)
    kinds = np.where(types.kind[other] == records.INT64, types.value[other] & 0xFFFFFFFF, 0)
    ids = np.where(is_integer(numbers.kind[own]), numbers.value[own], 0)
    return numbers.rows[own], kinds, ids


def _products(lines: HostLines, making: _Ends, taking: _Ends, count: int) -> tuple[Int32s, Int64s]:
    """The first iterator event that each Produce event leads to, and the element that it names."""
    makes = _known(lines, PRODUCE)
    kind, element = lines.beside("element_id", makes)
    rows = lines.iterator_rows
    child = np.full(len(lines) + 1, -1, np.int32)  # the last for -1
    around = np.maximum(lines.around[rows], -1)
    child[around[::-1]] = lines.number[rows][::-1]  # of equal indices the last assignment stays
    child[-1] = -1
    taker = taking.first_of(count, taking.event >= 0)
    first = np.where(child[makes] < 0, taker[making.of_rows(lines)[makes]], child[makes])
    keep = (kind != records.NONE) & (first >= 0)
    return first[keep], as_xprof_reads(kind, element)[keep]


def _consumers(lines: HostLines, making: _Ends, taking: _Ends, count: int) -> tuple[Int32s, Int64s]:
    """The iterator event that each Consume event lies in, or that made its context, and the element that it names."""
    takes = _known(lines, CONSUME)
    kind, element = lines.beside("element_id", takes)
    maker = making.first_of(count, np.ones(len(making.event), np.bool_))
    around = lines.around[takes]
    by = np.where(around == -1, maker[taking.of_rows(lines)[takes]], lines.number[np.maximum(around, -1)])
    keep = (kind != records.NONE) & (by >= 0)
    return by[keep], as_xprof_reads(kind, element)[keep]


def _known(lines: HostLines, role: int) -> Int32s:
    """The rows of a role that XProf knows, in the order in which it goes through them: buffer by buffer."""
    rows = lines.having(role)
    names = lines.events.names
    place = np.full(len(names), -1, np.int8)
    for meta in np.unique(lines.meta[rows]).tolist():
        buffer = names[meta].removesuffix("Produce").removesuffix("Consume")
        place[meta] = _BUFFERS.index(buffer) if buffer in _BUFFERS else -1
    places = place[lines.meta[rows]]
    known = np.flatnonzero(places >= 0)
    found: Int32s = rows[known[np.argsort(places[known], kind="stable")]]
    return found
