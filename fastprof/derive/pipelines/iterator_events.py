"""The events of iterators: which iterator each is of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof.derive.pipelines.host_lines import GENERATOR, NAMED, HostLines
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
