"""Rows of a text table that are alike as one row: the same op in each layer of a model.

Alike are rows whose names differ by numbers only, whose other texts are equal, and whose values are near each other.
They become one row with the name of the first and the sums of what can be added up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import pattern_of

if TYPE_CHECKING:
    from fastprof.analyses.contract import Alike

_NUMBER = pattern_of(r"(?:(?<=[._/-])|(?<=layer)|(?<=block))\d+(?![^./:; )\]])")
"""What counts ops and layers: not ``128x64`` and ``bf16``, which say what a kernel does."""
_LAST_NUMBER = pattern_of(r"\.\d+\Z")  # the first of the ops fusion, fusion.1, fusion.2 has none
_NEAR = 10  # values differ by at most one part in this
_MOST_ROWS = 20_000  # rows after these, which are the smallest, stay single
_MOST_GROUPS = 8  # of one name: a row is compared with the last ones only
_COUNTS_END = 2**63

Kinds = Sequence[Callable[[Any], Any] | None]
"""By column, what makes two values equal; None: they are near each other."""


@dataclass(slots=True)
class _Group:
    first: Sequence[Any]
    key: Sequence[Any]
    sums: list[Any]
    size: int = 1


def joined(
    table: pa.Table, alike: Alike, order: str | None, compared: pa.Table | None = None
) -> tuple[pa.Table, list[int]]:
    """Return the table with one row for each group of similar rows, and the sizes of the groups. If the column
    ``order`` is added up and its largest values come first, so do the largest sums; else rows stay where their first
    one is. ``compared``: a table of the same rows whose columns decide what is similar; None: ``table`` itself."""
    groups = _groups(table, alike, table if compared is None else compared)
    sizes = [group.size for group in groups] + [1] * (table.num_rows - _MOST_ROWS)
    if max(sizes, default=1) == 1:
        return table, sizes
    if order in alike.summed:
        at = table.column_names.index(order)
        firsts = [group.first[at] or 0 for group in groups]
        if firsts == sorted(firsts, reverse=True):
            groups.sort(key=lambda group: -(group.sums[at] or 0))
    rows = [group.sums for group in groups]
    columns = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(table.schema)]
    head = pa.Table.from_arrays(columns, schema=table.schema)
    sizes[: len(groups)] = [group.size for group in groups]
    return pa.concat_tables([head, table.slice(_MOST_ROWS)]), sizes


def _groups(table: pa.Table, alike: Alike, compared: pa.Table) -> list[_Group]:
    kinds = [_kind(field, alike) for field in compared.schema]
    summed = [at for at, name in enumerate(table.column_names) if name in alike.summed]
    groups: list[_Group] = []
    open_groups: dict[tuple[Any, ...], list[_Group]] = {}
    rows, keys = _rows(table), _rows(compared)
    for row, known in zip(rows, keys, strict=True):
        key = tuple(kind(value) for kind, value in zip(kinds, known, strict=True) if kind is not None)
        like = open_groups.setdefault(key, [])
        near = (group for group in like[-_MOST_GROUPS:] if _are_near(kinds, group.key, known))
        if not any(_join(group, row, summed) for group in near):
            groups.append(_Group(row, known, list(row)))
            like.append(groups[-1])
    return groups


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.slice(0, _MOST_ROWS).columns), strict=True))


def _kind(field: pa.Field, alike: Alike) -> Callable[[Any], Any] | None:
    if field.name in alike.names:
        return _without_numbers
    if field.name in alike.summed or pa.types.is_floating(field.type) or (field.metadata or {}).get(b"unit"):
        return None
    return repr if pa.types.is_nested(field.type) else _same


def _without_numbers(name: str | None) -> str | None:
    return name and _NUMBER.sub("#", _LAST_NUMBER.sub("", name))


def _same(value: Any) -> Any:
    return value


def _are_near(kinds: Kinds, first: Sequence[Any], row: Sequence[Any]) -> bool:
    return all(kind is not None or _near(*pair) for kind, *pair in zip(kinds, first, row, strict=True))


def _join(group: _Group, row: Sequence[Any], summed: Sequence[int]) -> bool:
    """Add a row to a group if the sums can be written."""
    sums = [None if row[at] is None else group.sums[at] + row[at] for at in summed]
    if any(total is not None and abs(total) >= _COUNTS_END for total in sums):
        return False
    for at, total in zip(summed, sums, strict=True):
        group.sums[at] = total
    group.size += 1
    return True


def _near(one: float | None, other: float | None) -> bool:
    if one is None or other is None or not (isfinite(one) and isfinite(other)):
        return one is other
    return abs(one - other) * _NEAR <= abs(one)
