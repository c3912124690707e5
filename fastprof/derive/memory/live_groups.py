"""What is alive at a moment, ops of like names together: the layers of a model, the replicas of a step."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastprof._native.grouping import key_numbers
from fastprof.derive.memory.live_set import SOURCES, LiveRows
from fastprof.derive.memory.sites import Sites
from fastprof.derive.steps.links import first_of
from fastprof.schema.array_types import Int32s, Int64s

_NUMBER = re.compile(r"(?<![A-Z0-9])[0-9]+(?![0-9A-Za-z])", re.ASCII)
"""A number at the end of a word: that of layer_12 and layer12, none of those in Conv2D and ConcatV2."""


@dataclass(frozen=True, slots=True, eq=False)
class LiveGroups:
    """Rows ordered by allocator, largest total first. ``names``: of ops, numbers in them replaced; the other texts
    likewise, each with the place of a row's among them, -1: not known. ``op_count``: ops of the group, ``count``: its
    allocations, 0: not distinguished. ``total_bytes``, ``requested_bytes``: -1: not known."""

    allocator: Int32s
    names: list[str | None]
    name: Int32s
    regions: list[str | None]
    region: Int32s
    data_types: list[str | None]
    data_type: Int32s
    op_count: Int64s
    count: Int64s
    total_bytes: Int64s
    requested_bytes: Int64s
    source: npt.NDArray[np.uint8]


def wasted_bytes(rows: LiveRows) -> Int64s:
    """What each row takes beyond what was asked for; -1: one of the two is not known, or makes no sense."""
    known = (rows.count > 0) & (rows.requested_bytes >= 0) & (rows.total_bytes >= 0)
    known &= rows.requested_bytes <= rows.allocation_bytes
    wasted = rows.total_bytes - np.where(known, rows.requested_bytes, 0) * rows.count
    return np.where(known, wasted, -1).astype(np.int64)


def live_groups(rows: LiveRows, sites: Sites) -> LiveGroups:
    """The rows by op, region, data type and how they are known."""
    there, place = np.unique(rows.site, return_inverse=True)
    numbers = there[there >= 0]
    known = numbers.tolist()
    names, name = _numbered([_alike(sites.names.op_name[site]) for site in known])
    regions, region = _numbered([sites.names.region_type[site] for site in known])
    types, data_type = _numbered([sites.names.data_type[site] for site in known])
    none = np.full(len(there) - len(known), -1, np.int32)
    name, region, data_type = (np.concatenate([none, column])[place] for column in (name, region, data_type))
    op = np.concatenate([none, sites.op_number[numbers]])[place]
    number = np.empty(len(rows), np.int32)
    whole = (rows.allocator.astype(np.int64) * len(SOURCES) + rows.source) * (len(regions) + 1) + region + 1
    groups = key_numbers([whole, name.astype(np.int64), data_type.astype(np.int64)], number)
    first = first_of(number, groups)
    wasted = wasted_bytes(rows)
    total = _sums(np.where(rows.total_bytes >= 0, rows.total_bytes, 0), number, groups)
    lacks = np.bincount(number[rows.total_bytes < 0], minlength=groups) > 0
    unasked = np.bincount(number[wasted < 0], minlength=groups) > 0
    requested = total - _sums(np.maximum(wasted, 0), number, groups)
    order = np.lexsort((first, -total, rows.allocator[first]))
    at = first[order]
    return LiveGroups(
        allocator=rows.allocator[at],
        names=names,
        name=name[at],
        regions=regions,
        region=region[at],
        data_types=types,
        data_type=data_type[at],
        op_count=_op_counts(number, op, groups)[order],
        count=_sums(rows.count, number, groups)[order],
        total_bytes=np.where(lacks, -1, total)[order],
        requested_bytes=np.where(lacks | unasked, -1, requested)[order],
        source=rows.source[at],
    )


def _alike(name: str | None) -> str | None:
    return None if name is None else _NUMBER.sub("*", name)


def _numbered(texts: Sequence[str | None]) -> tuple[list[str | None], Int32s]:
    """The distinct texts, and the place of each; None has none."""
    place: dict[str, int] = {}
    number = [-1 if text is None else place.setdefault(text, len(place)) for text in texts]
    return list(place), np.array(number, np.int32)


def _sums(values: Int64s, number: Int32s, count: int) -> Int64s:
    """By group. What is alive on an allocator adds up in 64 bits, as live_sets has seen."""
    found = np.zeros(count, np.int64)
    np.add.at(found, number, values)
    return found


def _op_counts(number: Int32s, op: Int32s, count: int) -> Int64s:
    """How many distinct ops each group has."""
    known = op >= 0
    pairs = np.unique(number[known].astype(np.int64) << 32 | op[known])
    return np.bincount(pairs >> 32, minlength=count)


def wasted_by_allocator(rows: LiveRows, count: int) -> tuple[Int64s, npt.NDArray[np.bool_]]:
    """What its rows take beyond the requested size, and whether any of them records it."""
    wasted = wasted_bytes(rows)
    known = wasted >= 0
    return _sums(wasted[known], rows.allocator[known], count), np.bincount(rows.allocator[known], minlength=count) > 0
