"""Events with stats of any kind, as columns, and from there as the bytes of an XSpace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fastprof._native.line_events import line_events
from fastprof.schema.array_types import Int64s, UInt8s
from fastprof.schema.value_classes import dataclass

PS: int = 1000
"""Of a nanosecond."""


class Events:
    """Some events. Stats are added for all at once; an event has them in the order in which they were added.

    ``owner``: rows of events. ``name``: of the stat, one for all or one for each.
    """

    def __init__(self, names: Sequence[str], start_ns: Int64s, duration_ns: Int64s) -> None:
        self._names, self._start_ns, self._duration_ns = names, start_ns, duration_ns
        self._stats: list[tuple[Int64s, str | list[str], Int64s, bool]] = []
        self._texts: list[str] = []

    def add_integers(self, owner: Int64s, name: str | list[str], values: Int64s) -> None:
        self._stats.append((owner, name, values, False))

    def add_texts(self, owner: Int64s, name: str | list[str], values: Sequence[str]) -> None:
        first = len(self._texts)
        self._texts += values
        self._stats.append((owner, name, np.arange(first, len(self._texts)), True))

    def columns(self, names: dict[str, int], stats: dict[str, int], zero_ns: int) -> LineColumns:
        """``names``, ``stats``: ids of the plane, to which new ones are added."""
        ids = np.array([names.setdefault(name, len(names) + 1) for name in self._names], np.int64)
        owner = np.concatenate([one[0] for one in self._stats]) if self._stats else np.zeros(0, np.int64)
        order = np.argsort(owner, kind="stable")
        stat = np.concatenate([_stat_ids(one[1], len(one[0]), stats) for one in self._stats])
        value = np.concatenate([one[2] for one in self._stats])
        is_text = np.concatenate([np.full(len(one[0]), one[3], np.uint8) for one in self._stats])
        first = np.searchsorted(owner[order], np.arange(len(ids) + 1))
        encoded = [text.encode("utf-8", "replace") for text in self._texts]
        bounds = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(one) for one in encoded], out=bounds[1:])
        return LineColumns(
            ids, (self._start_ns - zero_ns) * PS, self._duration_ns * PS, first, stat[order], value[order],
            is_text[order], bounds, b"".join(encoded),
        )  # fmt: skip


def _stat_ids(name: str | list[str], count: int, stats: dict[str, int]) -> Int64s:
    if not count:
        return np.zeros(0, np.int64)
    if isinstance(name, str):
        return np.full(count, stats.setdefault(name, len(stats) + 1), np.int64)
    return np.array([stats.setdefault(one, len(stats) + 1) for one in name], np.int64)


@dataclass(frozen=True, slots=True)
class LineColumns:
    """What ``line_events`` writes."""

    ids: Int64s
    offset_ps: Int64s
    duration_ps: Int64s
    first_stat: Int64s
    stat_id: Int64s
    value: Int64s
    is_text: UInt8s
    text_at: Int64s
    texts: bytes

    @classmethod
    def of_integer(cls, ids: Int64s, offset_ps: Int64s, duration_ps: Int64s, stat: int, values: Int64s) -> LineColumns:
        """Of events with one stat each, an integer."""
        count = len(ids)
        return cls(
            ids, offset_ps, duration_ps, np.arange(count + 1), np.full(count, stat, np.int64), values,
            np.zeros(count, np.uint8), np.zeros(1, np.int64), b"",
        )  # fmt: skip

    def by_line(self, lines: Int64s) -> Iterator[tuple[int, LineColumns]]:
        """The events of each line; ``lines``: of each event."""
        order = np.argsort(lines, kind="stable")
        ends = np.searchsorted(lines[order], np.unique(lines), side="right").tolist()
        first = 0
        for last in ends:
            rows = order[first:last]
            yield int(lines[rows[0]]), self if len(rows) == len(lines) else self._taken(rows)
            first = last

    def _taken(self, rows: Int64s) -> LineColumns:
        counts = np.diff(self.first_stat)[rows]
        first = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(counts, out=first[1:])
        stats = np.repeat(self.first_stat[rows] - first[:-1], counts) + np.arange(first[-1])
        return LineColumns(
            self.ids[rows], self.offset_ps[rows], self.duration_ps[rows], first, self.stat_id[stats],
            self.value[stats], self.is_text[stats], self.text_at, self.texts,
        )  # fmt: skip

    def written(self) -> bytes:
        """Fields of an XLine."""
        return line_events(
            self.ids, self.offset_ps, self.duration_ps, self.first_stat, self.stat_id, self.value, self.is_text,
            self.text_at, self.texts,
        )  # fmt: skip
