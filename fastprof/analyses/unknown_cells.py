"""Cells of reports that are 0 only because nothing is recorded: null, with the reason in the metadata of the column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from fastprof.analyses.contract import Report, Scalar, known, why_absent
from fastprof.analyses.late_tables import LateTables
from fastprof.schema.array_types import Bools
from fastprof.schema.tables import REASON, Need, TableSchema


def null_unknown_cells(report: Report, schemas: Mapping[str, TableSchema]) -> Report:
    """Return the report, whose cells of 0 are null if there are none of the records that their column needs."""
    needs = {
        name: [(column.name, need) for column in schema.columns for need in column.needs]
        for name, schema in schemas.items()
    }
    tables = LateTables({name: partial(_table, report, name, needs.get(name, ())) for name in report.tables})
    return replace(report, tables=tables) if any(needs.values()) else report


def _table(report: Report, name: str, needs: Sequence[tuple[str, Need]]) -> pa.Table:
    table = every = report.tables[name]
    for column, need in needs:
        absent, why = _absent_rows(every, need, report.scalars)
        unknown = absent & (table[column].to_numpy() == 0)
        if not unknown.any():
            continue
        place, field = table.schema.get_field_index(column), table.schema.field(column)
        pairs = zip(table[column].to_pylist(), unknown.tolist(), strict=True)
        values = [None if is_unknown else value for value, is_unknown in pairs]
        field = field.with_metadata({**(field.metadata or {}), REASON: why})
        table = table.set_column(place, field, pa.array(values, field.type))
    return table


def _absent_rows(table: pa.Table, need: Need, figures: Mapping[str, Scalar]) -> tuple[Bools, str]:
    """Return the rows without the records, and why their cells are unknown."""
    rows = np.ones(table.num_rows, np.bool_)
    if need.only is not None:
        column, values = need.only
        rows &= np.isin(np.array(table[column].to_pylist(), object), values)
    if need.count in table.column_names:
        return rows & ~(np.nan_to_num(table[need.count].to_numpy()) > 0), need.absent
    why = why_absent(need, known(figures[need.count]))
    return rows & (why is not None), why or ""
