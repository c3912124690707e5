"""Lines that are derived of events by the names that these carry: runs of one name become one event, level by level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fastprof._native.timeline_kernels import DerivedLine
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.schema.value_classes import dataclass

Lists = tuple[Int64s, Int64s]
"""Offsets of lists of numbers, and their values."""


@dataclass(frozen=True, slots=True)
class Source:
    """The events that lines are derived from, in order. ``key``: int32, number of the lists of names; -1: none.
    ``scopes``: int32, the place of the ids of ranges in ``scope_lists``, -1: none; None: nobody has any."""

    start_ps: Int64s
    duration_ps: Int64s
    group: Int32s
    key: Int32s
    over_gaps: bool
    scopes: Int32s | None = None
    scope_lists: Lists | None = None

    def in_outermost(self) -> Source:
        """The same in the outermost of their ranges alone."""
        if self.scope_lists is None:
            return self
        offsets, values = self.scope_lists
        outermost = np.arange(len(offsets), dtype=np.int64), values[offsets[:-1]]
        return replace(self, scope_lists=outermost)


@dataclass(frozen=True, slots=True)
class Levels:
    """Derived events. ``closes``: by event of the source, whether all that was open ended there; ``deepest``: the
    derived event of its deepest level, -1: none."""

    start_ps: Int64s
    duration_ps: Int64s
    name: Int64s
    group: Int32s
    closes: npt.NDArray[np.uint8]
    deepest: Int64s


def lists_of(values: Sequence[Sequence[int]]) -> Lists:
    offsets = np.zeros(len(values) + 1, np.int64)
    offsets[1:] = np.cumsum([len(one) for one in values])
    return offsets, np.array([number for one in values for number in one], np.int64)


def singles(values: Int64s) -> Lists:
    """A list for each value, which has that one alone."""
    return np.arange(len(values) + 1, dtype=np.int64), np.ascontiguousarray(values)


def derive(
    source: Source,
    names: Lists,
    closed: npt.NDArray[np.uint8] | None = None,
    *,
    close: bool = False,
    scoped: bool = False,
) -> Levels:
    """The line of these names by key. ``closed``: where what events lie in ends, so that they end, too. ``close``:
    whether events end in an orderly way after the last one. ``scoped``: whether ids of ranges keep events apart."""
    scopes = source.scopes if scoped else None
    line = DerivedLine(
        source.start_ps, source.duration_ps, source.group, source.key, names,
        scopes, source.scope_lists if scopes is not None else None, closed, source.over_gaps, close,
    )  # fmt: skip
    count, many = line.count(), len(source.start_ps)
    found = Levels(
        np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int32),
        np.empty(many, np.uint8), np.empty(many, np.int64),
    )  # fmt: skip
    line.fill(found.start_ps, found.duration_ps, found.name, found.group, found.closes, found.deepest)
    return found
