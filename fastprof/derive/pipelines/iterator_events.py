"""The events of iterators: which iterator each is of, and what links them to events of other threads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof.derive.pipelines.host_lines import CONSUME, GENERATOR, ITERATOR, NAMED, PRODUCE, HostLines
from fastprof.derive.steps.links import first_of, numbered
from fastprof.schema.array_types import Bools, Int32s, Int64s

INTEGERS = (records.INT64, records.UINT64)
_SEPARATOR = "::"


def is_integer(kind: npt.NDArray[np.uint8]) -> Bools:
    """Whether stats of these kinds are integers."""
    found: Bools = (kind == records.INT64) | (kind == records.UINT64)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Origins:
    """What iterator events say of their iterator: a row for each that differs, in order of first event. ``*_kind``: how
    the id was recorded (NONE: it was not); ``name``: place in ``names``; ``is_named``: the name begins as those of
    iterators do; ``is_root``: the whole of the name is one iterator, which is what a program calls."""

    iterator_id: Int64s
    id_kind: npt.NDArray[np.uint8]
    parent_id: Int64s
    parent_kind: npt.NDArray[np.uint8]
    name: Int32s
    is_generator: Bools
    is_named: Bools
    is_root: Bools
    names: list[str]

    def __len__(self) -> int:
        return len(self.iterator_id)

    @property
    def is_identified(self) -> Bools:
        """Whether it says which iterator it is."""
        return is_integer(self.id_kind) & self.is_named


@dataclass(frozen=True, slots=True, eq=False)
class IteratorEvents:
    """Events of iterators, by line and start. ``parent``: the event right around each, where that is one of these too;
    -1: none."""

    start_ps: Int64s
    duration_ps: Int64s
    origin: Int32s
    parent: Int32s
    origins: Origins

    def __len__(self) -> int:
        return len(self.start_ps)


def iterator_events(lines: HostLines) -> IteratorEvents:
    """The iterator events of a host, as ``lines.number`` numbers them."""
    rows = lines.iterator_rows
    origin, origins = _origins(lines, rows)
    parent = lines.number[np.maximum(lines.around[rows], -1)]
    return IteratorEvents(lines.start_ps[rows], lines.duration_ps[rows], origin, parent, origins)


def _origins(lines: HostLines, rows: Int32s) -> tuple[Int32s, Origins]:
    id_kind, iterator_id = lines.beside("id", rows)
    parent_kind, parent_id = lines.beside("parent_id", rows)
    meta = lines.meta[rows]
    kinds = meta.astype(np.int64) << 16 | id_kind.astype(np.int64) << 8 | parent_kind
    origin, count = numbered([iterator_id, parent_id, kinds])
    first = first_of(origin, count)
    metas, name = np.unique(meta[first], return_inverse=True)
    names = [lines.events.names[number] for number in metas.tolist()]
    role = lines.roles[rows[first]]
    parts = np.array([len(text.split(_SEPARATOR)) for text in names], np.int64)
    is_generator = (role & GENERATOR) != 0
    is_root = (parts[name] == 2) & ~is_generator if len(names) else is_generator
    return origin, Origins(
        iterator_id[first], id_kind[first], parent_id[first], parent_kind[first], name.astype(np.int32), is_generator,
        (role & NAMED) != 0, is_root, names,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class ContextEnds:
    """Events that make contexts, or that run in them, in the order of the capture. ``node``: number of the iterator
    event, or that of the buffer event plus the number of iterator events, -1: another event. ``type_*``, ``id_*``: how
    the type and the id of the context were recorded, and their values."""

    node: Int32s
    type_kind: npt.NDArray[np.uint8]
    type_value: Int64s
    id_kind: npt.NDArray[np.uint8]
    id_value: Int64s


@dataclass(frozen=True, slots=True, eq=False)
class ThreadLinks:
    """What iterator events have to do with events of other threads: through the elements of buffers, a row for each
    event that puts one in or takes one out, and through contexts.

    ``name``: place in ``names``; ``kind``, ``element``: how the element's id was recorded, and its value; ``around``:
    the iterator event right around, -1: there is no event around, -2: another event; ``inside``: the first iterator
    event right inside, -1: none. ``makes`` and ``takes`` are empty where no iterator or buffer event runs in a context.
    """

    is_produce: Bools
    name: Int32s
    names: list[str]
    kind: npt.NDArray[np.uint8]
    element: Int64s
    around: Int32s
    inside: Int32s
    makes: ContextEnds
    takes: ContextEnds


def thread_links(lines: HostLines) -> ThreadLinks:
    rows = lines.having(PRODUCE | CONSUME)
    kind, element = lines.beside("element_id", rows)
    metas, name = np.unique(lines.meta[rows], return_inverse=True)
    outer = lines.around[rows]
    around = np.where(outer == -1, -1, np.where(lines.number[np.maximum(outer, -1)] < 0, -2, lines.number[outer]))
    inside = np.full(len(lines) + 1, -1, np.int32)  # the last for -1
    iterators = lines.iterator_rows
    inside[np.maximum(lines.around[iterators], -1)[::-1]] = lines.number[iterators][::-1]  # the last assignment stays
    node = lines.number.copy()
    node[rows] = len(iterators) + np.arange(len(rows), dtype=np.int32)
    in_contexts = len(lines.all_having(ITERATOR | GENERATOR | CONSUME, "_c")) > 0
    makes, takes = (_context_ends(lines, node, *stats, in_contexts) for stats in (("_pt", "_p"), ("_ct", "_c")))
    return ThreadLinks(
        (lines.roles[rows] & PRODUCE) != 0, name.astype(np.int32), [lines.events.names[one] for one in metas.tolist()],
        kind, element, around.astype(np.int32), inside[rows], makes, takes,
    )  # fmt: skip


def _context_ends(lines: HostLines, node: Int32s, type_: str, number: str, wanted: bool) -> ContextEnds:
    """The events of the plane that have both stats. ``node``: by kept row, and one more for -1."""
    ids, types = lines.all_stat(number), lines.all_stat(type_)
    _, at, beside = np.intersect1d(ids.rows, types.rows, assume_unique=True, return_indices=True)
    at, beside = (at, beside) if wanted else (at[:0], beside[:0])
    return ContextEnds(
        node[lines.kept(ids.rows[at])], types.kind[beside], types.value[beside], ids.kind[at], ids.value[at]
    )
