"""Ops of several cores, devices or hosts as one table, and by framework op, as XProf adds them up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fastprof.derive.devices.op_names import parse
from fastprof.derive.ops import combine, framework
from fastprof.derive.ops.combine import is_distinct, keyed_rows, merged_memory
from fastprof.derive.ops.tables import Ops, OpTable


def combined(parts: Sequence[Ops]) -> Ops:
    """The ops of all parts. What some parts record of where an op's bytes went is all that is known of it, and of its
    children those count that the first part with any has."""
    parts = [part for part in parts if part.parts]
    if len(parts) == 1 and is_distinct(parts[0].table):
        return parts[0]
    tables = [part.table for part in parts]
    memory = merged_memory(tables, keyed_rows(tables)[0], others_to_hbm=False)
    found = combine.combined(_with_first_children(parts))
    return replace(found, table=replace(found.table, memory=memory))


def _with_first_children(parts: Sequence[Ops]) -> list[Ops]:
    seen: set[tuple[int, str]] = set()
    found = []
    for part in parts:
        if part.children is not None and part.parent is not None:
            parents = [(int(part.table.program_id[row]), part.table.name[row]) for row in part.parent.tolist()]
            rows = np.array([row for row, parent in enumerate(parents) if parent not in seen], np.int64)
            seen.update(parents)
            part = replace(part, children=part.children.take(rows), parent=part.parent[rows])
        found.append(part)
    return found


def by_framework_op(table: OpTable) -> OpTable:
    """A row for each framework op, which ran as often as the most frequent of its device ops."""
    found = framework.by_framework_op(table)
    place = {name: row for row, name in enumerate(found.name)}
    most = np.zeros(len(found), np.int64)
    np.maximum.at(most, [place[name] for name in _names(table)], table.occurrences)
    return replace(found, occurrences=most)


def last_is_eager(table: OpTable) -> dict[str, bool]:
    """By framework op: whether the last of its device ops is eager."""
    return dict(zip(_names(table), table.is_eager.tolist(), strict=True))


def _names(table: OpTable) -> list[str]:
    """The framework op of each device op; one without provenance stands for itself."""
    return [
        parse(provenance).name if provenance else name
        for name, provenance in zip(table.name, table.provenance, strict=True)
    ]
