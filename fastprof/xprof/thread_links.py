"""What links iterator events to events of other threads, for XProf's reading of input pipelines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastprof.derive.pipelines.host_lines import CONSUME, GENERATOR, ITERATOR, PRODUCE, HostLines
from fastprof.schema.array_types import Bools, Int32s, Int64s


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
