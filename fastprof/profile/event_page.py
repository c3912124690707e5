"""A page of the events of a session: those of some length, in some order, from some row on, and how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from fastprof.errors import UsageError
from fastprof.wording.spelling import suggest_name

if TYPE_CHECKING:
    from fastprof.profile.profile import Profile

ORDERS = {"asc": "ascending", "desc": "descending"}


class EventPage(NamedTuple):
    """Rows of a page. ``total``: the number of events that it is a page of."""

    rows: pa.Table
    total: int


def list_events(
    profile: Profile,
    *,
    columns: Sequence[str],
    stats: Sequence[str] = (),
    sort: str | None = None,
    offset: int = 0,
    limit: int | None = None,
    min_duration_ps: int | None = None,
    max_duration_ps: int | None = None,
) -> EventPage:
    """Return ``limit`` events from row ``offset`` on.

    ``sort``: a column, with ``:asc`` or ``:desc`` (default); without it events are in their order in the session.
    ``min_duration_ps``, ``max_duration_ps``: limits of the duration, both included. All events are read, a batch at a
    time; in memory are those of the page and before it. UsageError: no such column.
    """
    wanted = [*columns, *stats]
    column, order = parse_order(sort, wanted) if sort is not None else ("", "")
    read = list(columns) if "duration_ps" in columns else [*columns, "duration_ps"]
    most = None if limit is None else offset + limit
    total, rows = 0, None
    for batch in profile.scan(columns=read, stats=stats):
        table = pa.Table.from_batches([batch])
        for bound, compare in ((min_duration_ps, pc.greater_equal), (max_duration_ps, pc.less_equal)):
            if bound is not None:
                table = table.filter(compare(table["duration_ps"], bound))
        total += table.num_rows
        table = table.select(wanted)
        if rows is None:
            rows = table
        elif most is None or column or rows.num_rows < most:
            rows = pa.concat_tables([rows, table], promote_options="default")
        if column and most is not None and rows.num_rows > 2 * most + _SOME_ROWS:
            rows = sort_rows(rows, column, order).slice(0, most)
    assert rows is not None  # without events there is an empty batch
    rows = sort_rows(rows, column, order) if column else rows
    return EventPage(rows.slice(offset, limit), total)


_SOME_ROWS = 1 << 16
"""Rows that are collected before they are sorted again."""


def parse_order(sort: str, columns: Sequence[str]) -> tuple[str, str]:
    """Return the column and the order of pyarrow. UsageError: the column or the order is unknown."""
    column, _, word = sort.partition(":")
    if column not in columns:
        known = ", ".join(columns) + suggest_name(column, columns)
        raise UsageError(f"no column {column!r} to sort by; columns: {known}")
    if word and word not in ORDERS:
        raise UsageError(f"sort order {word!r} is neither asc nor desc")
    return column, ORDERS[word or "desc"]


def sort_rows(table: pa.Table, column: str, order: str) -> pa.Table:
    """Return the rows in the order of a column, nulls last, equal rows in their order."""
    values = table[column]
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    keys = pa.table({"value": values, "place": pa.array(range(table.num_rows), pa.int64())})
    return table.take(pc.sort_indices(keys, sort_keys=[("value", order), ("place", "ascending")]))
