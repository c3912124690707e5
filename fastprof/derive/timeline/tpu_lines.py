"""Lines that XProf derives for a core of a TPU: scopes, ops and source lines, and transfers to and from its host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from fastprof._native import records
from fastprof.derive.host import Host
from fastprof.derive.ops.stat_values import stat_beside
from fastprof.derive.timeline.derived_track import DerivedTrack, in_time_order, rows_of
from fastprof.derive.timeline.event_groups import shown_groups
from fastprof.derive.timeline.level_lines import Lists, Source, derive, lists_of
from fastprof.derive.timeline.merged_steps import merged_steps
from fastprof.derive.timeline.offload_lines import Offloads
from fastprof.derive.timeline.plane_names import PlaneNames, number_of_op, scopes_of
from fastprof.derive.timeline.track_order import Process
from fastprof.schema.array_types import Bools, Int64s

_SCOPES_TID, _OPS_TID, _SOURCE_TID = (0xDEADBEEF + offset for offset in (2, 3, 7))
_TEXTS: Final = (records.STR, records.REF)
_INTEGERS: Final = (records.INT64, records.UINT64)


class TpuLines:
    """Derives the lines of the TPUs of a host, one plane after the other."""

    def __init__(self, host: Host) -> None:
        self.events = host.raw
        self.group_id = shown_groups(host)
        self.offloads = Offloads(host.raw)
        self._is_async = self._asynchronous()
        self._of_meta = {stat: self._texts_of_metas(stat) for stat in ("tf_op", "source")}
        steps = merged_steps(host)
        self._removed = np.zeros(len(host.raw), bool)
        self._removed[steps.removed] = True
        self._duration_ps = host.raw.duration_ps
        if len(steps.rows):
            self._duration_ps = host.raw.duration_ps.copy()
            self._duration_ps[steps.rows] = steps.duration_ps

    def of(self, process: Process, names: PlaneNames) -> list[DerivedTrack]:
        rows = rows_of(process.plane.lines)
        rows = rows[~self._removed[rows]]
        rows = in_time_order(self.events, rows, self._duration_ps[rows])
        rows = rows[~self._is_async[rows]]
        return self._levels(process, names, rows) + self.offloads.of(process, names, rows)

    def _asynchronous(self) -> Bools:
        """By row, events that say that they are, or whose metadata do."""
        found = self.events.meta_stat("_a").of_kinds(_INTEGERS)
        of_meta = np.zeros(len(self.events.names), bool)
        of_meta[found.rows] = found.value != 0
        is_async: Bools = of_meta[self.events.meta]
        rows, value = self.events.ints("_a")
        is_async[rows] = value != 0
        return is_async

    def _levels(self, process: Process, names: PlaneNames, rows: Int64s) -> list[DerivedTrack]:
        def of_ops(texts: list[str]) -> tuple[Lists, ...]:
            scopes = [names.numbers(scopes_of(text)) for text in texts]
            return lists_of(scopes), lists_of([[number_of_op(names, text)] if text else [] for text in texts])

        def of_sources(texts: list[str]) -> tuple[Lists, ...]:
            return (lists_of([names.numbers([text] if text else []) for text in texts]),)

        ops, (scope_lists, op_lists) = self._lists_of_stat(rows, "tf_op", of_ops)
        sources, (source_lists,) = self._lists_of_stat(rows, "source", of_sources)
        scopes = derive(ops, scope_lists, close=True)
        found = [
            (_SCOPES_TID, "Framework Name Scope", scopes),
            (_OPS_TID, "Framework Ops", derive(ops, op_lists, scopes.closes)),
            (_SOURCE_TID, "Source code", derive(sources, source_lists)),
        ]
        return [
            DerivedTrack(process, tid, title, names, one.start_ps, one.duration_ps, one.name, one.group)
            for tid, title, one in found
        ]

    def _lists_of_stat(
        self, rows: Int64s, stat: str, lists: Callable[[list[str]], tuple[Lists, ...]]
    ) -> tuple[Source, tuple[Lists, ...]]:
        """The events that have a text, themselves or by their metadata, and the lists of names made of the texts."""
        own = stat_beside(*self.events.texts(stat), rows)
        number = np.where(own >= 0, own, self._of_meta[stat][self.events.meta[rows]])
        rows, number = rows[number >= 0], number[number >= 0]
        used, key = np.unique(number, return_inverse=True)
        times = (self.events.start_ps[rows], self.events.duration_ps[rows])
        source = Source(*times, self.group_id[rows], key.astype(np.int32), False)
        return source, lists(self.events.all_texts(used))

    def _texts_of_metas(self, stat: str) -> Int64s:
        """The number of the text of each row of metadata, -1: none."""
        found = self.events.meta_stat(stat).of_kinds(_TEXTS)
        numbers = np.full(len(self.events.names), -1, np.int64)
        numbers[found.rows] = found.value
        return numbers
