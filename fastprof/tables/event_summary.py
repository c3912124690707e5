"""Sums of events by name: count, total time, self time."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native import records
from fastprof._native.kernels import group_sums
from fastprof.decode.decoder import Request
from fastprof.decode.nesting import get_int64s
from fastprof.errors import CaptureError, UsageError
from fastprof.schema.columns import Records, find_percentiles
from fastprof.schema.tables import Count, Kind, Picoseconds, TableSchema, make_column, mark_nulls, take_texts
from fastprof.tables.table_set import TableSet


def _has_no_single(sums: Any) -> Any:
    return sums["single"]["count"] == 0


SUMMARY = TableSchema("event_summary", "the events of one name", (
    Kind(pa.string())("name", "name of the events; null: their planes have no name for them",
                      lambda sums: sums["name"]),
    Count("count", "number of events; aggregated events count with their occurrences", lambda sums: sums["count"]),
    Picoseconds("total_ps", "sum of durations", lambda sums: sums["all"]["total"]),
    Picoseconds("self_ps", "sum of self times; aggregated events have no self time", lambda sums: sums["self"]),
    Picoseconds("mean_ps", "total_ps / count, rounded down; null: count is 0 or less",
                lambda sums: sums["all"]["total"] // np.maximum(sums["count"], 1), lambda sums: sums["count"] <= 0),
    Picoseconds("min_ps", "shortest duration; null: all are aggregated",
                lambda sums: sums["single"]["minimum"], _has_no_single),
    Picoseconds("max_ps", "longest duration; null: all are aggregated",
                lambda sums: sums["single"]["maximum"], _has_no_single),
), derived=True)  # fmt: skip


def make_event_summary(tables: TableSet, percentiles: Sequence[int] = ()) -> pa.Table:
    """Largest self time first, then by name. Sums are exact; CaptureError if one exceeds 64 bits. ``percentiles``: of
    the durations, from 1 to 100; each is a recorded duration (nearest rank), in a column such as p99_ps."""
    if not all(isinstance(percentile, int) and 1 <= percentile <= 100 for percentile in percentiles):
        raise UsageError(f"percentiles are integers from 1 to 100, not {', '.join(map(str, percentiles))}")
    decoded = tables.decode(Request(("name", "duration_ps", "num_occurrences")))
    names = decoded.events["name"]
    texts = names.dictionary
    numbers = np.frombuffer(names.indices.buffers()[1], names.indices.type.to_pandas_dtype())
    groups = numbers[names.offset :][: len(names)].astype(np.int32)
    groups[mark_nulls(names)] = len(texts)
    duration = get_int64s(decoded.events["duration_ps"])
    occurrences = decoded.events["num_occurrences"]
    single = mark_nulls(occurrences) if occurrences.null_count < len(occurrences) else None
    size = len(texts) + 1
    total = single_total = _sum_groups(groups, duration, size, "durations")
    counts = total["count"]
    if single is not None:
        single_total = _sum_groups(np.where(single, groups, -1).astype(np.int32), duration, size, "durations")
        counts = _sum_groups(groups, np.where(single, 1, get_int64s(occurrences)), size, "occurrences")["total"]
    self_time = _sum_groups(groups, get_int64s(tables["nesting"]["self_time_ps"]), size, "self times")["total"]
    rows = np.flatnonzero(total["count"])
    every_name = pa.concat_arrays([make_column(texts, pa.string()), pa.nulls(1, pa.string())])
    keys = zip(self_time[rows].tolist(), take_texts(every_name, rows).to_pylist(), rows.tolist(), strict=True)
    ordered = sorted(keys, key=lambda key: (-key[0], key[1] is None, key[1] or ""))
    rows = np.array([row for *_, row in ordered], np.int64)
    columns = {"all": total, "single": single_total, "count": counts, "self": self_time}
    sums: dict[str, Any] = {name: values[rows] for name, values in columns.items()}
    sums["name"] = pa.array([name for _, name, _ in ordered], pa.string())
    schema = SUMMARY
    if percentiles:
        ranked = groups if single is None else np.where(single, groups, size).astype(np.int32)
        ranks = find_percentiles(ranked, duration, size, percentiles)
        sums |= {f"p{percentile}": values[rows] for percentile, values in ranks.items()}
        text = "duration that {} % of the events do not exceed; null: all are aggregated"
        more = [
            Picoseconds(f"p{percentile}_ps", text.format(percentile), itemgetter(f"p{percentile}"), _has_no_single)
            for percentile in ranks
        ]
        schema = TableSchema(SUMMARY.name, SUMMARY.row, (*SUMMARY.columns, *more), derived=True)
    return tables.table(schema, {column.name: column.array(sums) for column in schema.columns})


def _sum_groups(groups: npt.NDArray[np.int32], values: npt.NDArray[np.int64], size: int, what: str) -> Records:
    sums = np.zeros(size, records.GROUP_SUM)
    try:
        group_sums(groups, np.ascontiguousarray(values), sums)
    except OverflowError as error:
        raise CaptureError(f"the {what} of the events of one name do not add up in 64 bits") from error
    return sums
