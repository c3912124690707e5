"""Rows of the memory profile's tables: their sources, the columns that tables share, and how the rows of several hosts
become one table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.derive.memory.host_memory import MemoryFigures
from fastprof.derive.memory.memory_events import NUMBERS, MemoryEvents
from fastprof.schema.columns import Int64s
from fastprof.schema.tables import Column, Formula, Need, TableSchema, Text

Numbers = npt.NDArray[Any]
"""Arrays, masked ones among them; masked values are null."""


SIZED: Final = Need("peak_bytes", "no size of an allocation is recorded")


class TextCells(NamedTuple):
    """Texts of rows: ``values[at[i]]`` in row i, null if the value is None, or ``at`` is -1."""

    values: Sequence[str | None]
    at: Numbers


def mask_unknown(values: Numbers, which: Numbers) -> Numbers:
    """Return the values, null unless marked."""
    return values if which.all() else np.ma.masked_array(values, ~which)


def mask_negative(sizes: Numbers) -> Numbers:
    return mask_unknown(sizes, sizes >= 0)


@dataclass(frozen=True, eq=False)
class HostMemoryRows:
    """Rows of one host. ``allocator``: number of each row's allocator; ``at``: its event, or -1; ``site``: what its
    memory is for, or -1; ``values``: object with the other columns; ``before``: number of snapshots of the hosts before
    this one."""

    host: MemoryFigures
    allocator: Numbers
    at: Any = None
    site: Any = None
    values: Any = None
    before: int = 0

    @property
    def events(self) -> MemoryEvents:
        return self.host.events

    def in_use(self, at: Any) -> Numbers:
        """Return memory in use after some events, null for -1."""
        return mask_unknown(self.host.in_use_bytes[at], self.host.in_use_known[at] & _is_some(at))

    def step(self, at: Any, which: Any = True) -> Numbers:
        """Return the step at the time of some events."""
        step, in_step = self.host.step
        return mask_unknown(step[at], in_step[at] & which)

    def following(self, before: int) -> HostMemoryRows:
        """Move the rows behind ``before`` snapshots of other hosts."""
        return replace(self, before=before)

    def amounts(self, name: str) -> Int64s:
        """Return the field of ``values`` with this name."""
        column: Int64s = getattr(self.values, name)
        return column

    def column(self, column: Column) -> Any:
        if column.of:
            return column.of(self)
        values: Numbers = getattr(self.values, column.name)
        return mask_negative(values) if column.nullable else values


class StoredMemoryRows(NamedTuple):
    """Rows of one host without its events: their columns, as formulas give them."""

    allocator: Numbers
    columns: Mapping[str, Any]

    @classmethod
    def of(cls, schema: TableSchema, rows: HostMemoryRows) -> StoredMemoryRows:
        return cls(rows.allocator, {column.name: rows.column(column) for column in schema.columns})

    def following(self, before: int) -> StoredMemoryRows:
        return self._replace(columns={**self.columns, FIRST_SNAPSHOT: self.columns[FIRST_SNAPSHOT] + before})

    def amounts(self, name: str) -> Int64s:
        column: Int64s = np.ma.getdata(self.columns[name])
        return column

    def column(self, column: Column) -> Any:
        return self.columns[column.name]


def make_recorded_formula(column: str, at: Formula = attrgetter("at")) -> Formula:
    """Make the formula of a figure of each row's event, null if the event does not record it. ``at``: the events."""
    bit = NUMBERS[column][1]

    def of(rows: HostMemoryRows) -> Numbers:
        events = at(rows)
        has = (rows.events.recorded[events] & bit) != 0
        return mask_unknown(getattr(rows.events, column)[events], has & _is_some(events))

    return of


def _is_some(at: Any) -> Any:
    """Return which events exist; -1 stands for none."""
    return isinstance(at, slice) or at >= 0


def get_fragmentation(rows: HostMemoryRows, at: Any = None) -> Numbers:
    """Return the fragmentation after the event of each row, or after other events ``at``."""
    at = rows.at if at is None else at
    numbers = rows.events.fragmentation[at]
    return mask_unknown(numbers, np.isfinite(numbers) & _is_some(at))


FIRST_SNAPSHOT: Final = "first_snapshot"
"""Name of the column that counts snapshots of the hosts before."""
MOMENT: Final = "from the start of the host's capture"
NONE: Final = "null: not recorded"
STEP: Final = "null: no step at that time"
WHOSE = (
    Text("host", "host, named after the file of its capture",
         lambda rows: TextCells([rows.host.about.host], np.zeros(len(rows.allocator), np.int32))),
    Text("allocator", "name of the allocator (allocator_name), or the number of the device (device_ordinal, "
         "index_on_host)", lambda rows: TextCells(rows.host.memory.names, rows.allocator)),
)  # fmt: skip
WHAT = (
    Text("op_name", f"op that requested the memory (tf_op); {NONE}",
         lambda rows: TextCells(rows.events.sites.names[0], rows.site)),
    Text("region_type", f"purpose of the memory, such as temp, output, persist/dynamic; {NONE}",
         lambda rows: TextCells(rows.events.sites.names.region_type, rows.site)),
    Text("data_type", f"type of the tensor's elements; {NONE}",
         lambda rows: TextCells(rows.events.sites.names.data_type, rows.site)),
    Text("shape", f"shape of the tensor; {NONE}", lambda rows: TextCells(rows.events.sites.names.shape, rows.site)),
)  # fmt: skip


def build_table(
    schema: TableSchema,
    parts: Sequence[HostMemoryRows | StoredMemoryRows],
    order: Numbers | None = None,
    texts: Mapping[str, Iterable[Sequence[str | None]]] = MappingProxyType({}),
) -> pa.Table:
    """Join the rows of all parts, one after the other, then in this order. A column without a formula is the field of
    ``rows.values`` that has its name; if it may be null, negative values are null. ``texts``: by column, texts that are
    numbered before those of the rows, so that tables with the same ones can follow one another."""
    if not parts:
        return schema.empty()
    arrays = [_build_column(column, parts, order, texts.get(column.name, ())) for column in schema.columns]
    fields = [column.field(array.type) for column, array in zip(schema.columns, arrays, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _build_column(
    column: Column,
    parts: Sequence[HostMemoryRows | StoredMemoryRows],
    order: Numbers | None,
    texts: Iterable[Sequence[str | None]],
) -> pa.Array:
    pieces: list[Any] = [rows.column(column) for rows in parts]
    if isinstance(pieces[0], TextCells):
        return _join_texts(pieces, order, texts)
    values = pieces[0] if len(pieces) == 1 else np.ma.concatenate(pieces)  # type: ignore[no-untyped-call]
    return pa.array(values if order is None else values[order], column.type)


def _join_texts(
    pieces: Sequence[TextCells], order: Numbers | None, before: Iterable[Sequence[str | None]]
) -> pa.DictionaryArray:
    """Number texts in the narrowest type: there are few texts, and any number of rows."""
    place: dict[str, int] = {}
    numbers = [
        [-1 if value is None else place.setdefault(value, len(place)) for value in (*values, None)]
        for values in (*before, *(piece.values for piece in pieces))
    ][-len(pieces) :]
    narrow = np.min_scalar_type(-1 - len(place))  # signed
    rows = np.concatenate([  # of place -1, the None at the end
        np.array(number, narrow).take(piece.at, mode="wrap") for number, piece in zip(numbers, pieces, strict=True)
    ])  # fmt: skip
    rows = rows if order is None else rows[order]
    indices = pa.array(rows, mask=rows < 0 if (rows < 0).any() else None)
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(place), pa.string()), safe=False)
