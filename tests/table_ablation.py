"""Cells of reports that become 0 if one kind of record is removed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from sweep import Reports

Row = dict[str, Any]

_STEPS_OR_RUN = ("input_pipeline", "pod_viewer", "python_time", "steps", "diagnosis")
"""Reports whose rows are of steps or of the run: without markers both begin and end elsewhere."""
KNOWN_ZEROS: Mapping[tuple[str, str], frozenset[str]] = {
    # places, and counts of what is known
    **{("op_profile", table): frozenset({"node", "depth", "children", "work_known_share"})
       for table in ("tree", "scopes", "layers")},
    ("critical_path", "windows"): frozenset({"instance", "start_ps"}),
    ("communication", "operations"): frozenset({"program_id", "min_ps"}),  # starts and ends are paired by order
    # a copy of unknown direction counts as one within the device
    ("communication", "devices"): frozenset({"step_count", "exposed_with_host_ps"}),
}  # fmt: skip
_REST = "idle"
"""The cause of what no other cause explains."""


def cells_that_became_zero(full: Reports, rest: Reports) -> Iterator[str]:
    """Columns of amounts that were not 0 with all records, and are 0 in all rows, or in rows with the same texts."""
    same_steps = full["steps"].scalars["steps_source"].value == rest["steps"].scalars["steps_source"].value
    for name, report in rest.items():
        if name in _STEPS_OR_RUN and not same_steps:
            continue
        for title, table in report.tables.items():
            before = full[name].tables[title]
            for column in sorted(_zeros(before, table) - KNOWN_ZEROS.get((name, title), frozenset())):
                yield f"{name}.{title}.{column}"


def _zeros(before: pa.Table, after: pa.Table) -> set[str]:
    was, now = _by_texts(before), _by_texts(after)
    found = set()
    for field in after.schema if after.num_rows else ():
        if not pa.types.is_integer(field.type) and not pa.types.is_floating(field.type):
            continue
        values = after[field.name].to_pylist()
        of_same_side = set(_sides(after)) <= set(_sides(before))
        if of_same_side and not any(value != 0 for value in values) and any(before[field.name].to_pylist()):
            found.add(field.name)
        if any(row[field.name] == 0 and was[key][field.name] for key, row in now.items() if key in was):
            found.add(field.name)
    return found


def _sides(table: pa.Table) -> list[str | None]:
    return table["host_or_device"].to_pylist() if "host_or_device" in table.column_names else []


def _by_texts(table: pa.Table) -> dict[tuple[Any, ...], Row]:
    """Rows by their texts and step numbers, without repeated ones."""
    names = [
        field.name
        for field in table.schema
        if pa.types.is_string(field.type)
        or pa.types.is_dictionary(field.type)
        or field.name in ("step", "group_id")
        or field.name.endswith("_id")
    ]
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in table.to_pylist():
        if row.get("cause") != _REST:
            found.setdefault(tuple(row[name] for name in names), []).append(row)
    return {key: rows[0] for key, rows in found.items() if len(rows) == 1}
