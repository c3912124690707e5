"""Sums of events by name: count, total time, self time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native import records
from fastprof._native.kernels import group_sums
from fastprof.decode.nesting import int64s
from fastprof.decode.request import Request
from fastprof.errors import CaptureError
from fastprof.schema.array_types import Records
from fastprof.schema.tables import Column, TableSchema
from fastprof.tables.table_set import TableSet

SUMMARY = TableSchema("event_summary", "the events of one name", (
    Column("name", pa.string(), "name of the events; null: their planes have no name for them", True),
    Column("count", pa.int64(), "events; occurrences of aggregated ones"),
    Column("total_ps", pa.int64(), "sum of durations", unit="ps"),
    Column("self_ps", pa.int64(), "sum of self times; aggregated events have none", unit="ps"),
    Column("mean_ps", pa.int64(), "total_ps / count, rounded down; null: count is 0 or less", True, "ps"),
    Column("min_ps", pa.int64(), "shortest; null: all are aggregated", True, "ps"),
    Column("max_ps", pa.int64(), "longest; null: all are aggregated", True, "ps"),
), derived=True)  # fmt: skip


def event_summary(tables: TableSet) -> pa.Table:
    """Largest self time first, then by name. Sums are exact; CaptureError if one exceeds 64 bits."""
    decoded = tables.decode(Request(("name", "duration_ps", "num_occurrences")))
    names = decoded.events["name"]
    groups = np.asarray(names.indices.fill_null(-1)).astype(np.int32)
    texts = names.dictionary
    groups[groups < 0] = len(texts)
    duration = int64s(decoded.events["duration_ps"])
    occurrences = decoded.events["num_occurrences"]
    single = np.asarray(occurrences.is_null()) if occurrences.null_count < len(occurrences) else None
    size = len(texts) + 1
    total = _sums(groups, duration, size, "durations")
    alone = total
    if single is not None:
        alone = _sums(np.where(single, groups, -1).astype(np.int32), duration, size, "durations")
    counts = total["count"]
    if single is not None:
        counts = _sums(groups, np.where(single, 1, int64s(occurrences)), size, "occurrences")["total"]
    nesting = tables["nesting"]["self_time_ps"]
    self_time = _sums(groups, int64s(nesting), size, "self times")["total"]
    return _table(tables, texts, total, alone, counts, self_time)


def _sums(groups: npt.NDArray[np.int32], values: npt.NDArray[np.int64], size: int, what: str) -> Records:
    sums = np.zeros(size, records.GROUP_SUM)
    try:
        group_sums(groups, np.ascontiguousarray(values), sums)
    except OverflowError as error:
        raise CaptureError(f"the {what} of the events of one name do not add up in 64 bits") from error
    return sums


def _table(
    tables: TableSet,
    texts: pa.Array,
    total: Records,
    alone: Records,
    counts: npt.NDArray[np.int64],
    self_time: npt.NDArray[np.int64],
) -> pa.Table:
    import pyarrow.compute as pc  # it takes longer to import than most questions take to answer

    met = np.flatnonzero(total["count"])
    names = pa.concat_arrays([texts.cast(pa.string()), pa.nulls(1, pa.string())]).take(pa.array(met))
    keys = pa.table({"self": self_time[met], "name": names})
    order = pc.sort_indices(keys, sort_keys=[("self", "descending"), ("name", "ascending")])
    met, names = met[order.to_numpy()], names.take(order)
    none = alone["count"][met] == 0
    mean = total["total"][met] // np.maximum(counts[met], 1)
    columns = [
        names,
        pa.array(counts[met]),
        pa.array(total["total"][met]),
        pa.array(self_time[met]),
        pa.array(mean, mask=counts[met] <= 0),
        pa.array(alone["minimum"][met], mask=none),
        pa.array(alone["maximum"][met], mask=none),
    ]
    return tables.table(SUMMARY, dict(zip(SUMMARY.names(), columns, strict=True)))
