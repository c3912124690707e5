"""Lines of transfers between a TPU and its host: an op starts each, and another ends it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof._native.timeline_kernels import offloads
from fastprof.derive.ops.stat_values import stat_places
from fastprof.derive.timeline.derived_track import Arg, DerivedTrack
from fastprof.derive.timeline.plane_names import PlaneNames
from fastprof.derive.timeline.track_order import Process
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.tables.host_events import HostEvents

_TID: Final = 0xDEADBEEF + 8
_TEXTS: Final = (records.STR, records.REF)
_INTEGERS: Final = (records.INT64, records.UINT64)
_TRANSFERS: Final = tuple(
    f"{op}-{end}" for op in ("copy", "dynamic-slice", "dynamic-update-slice") for end in ("start", "done")
)
_HOST_MEMORY: Final = "S(5)"


class Offloads:
    """``key``: int32 by row of metadata, the number of the transfer that it starts or ends in ``titles``, -1: none.
    ``starts``: uint8 likewise, whether it starts it."""

    def __init__(self, events: HostEvents) -> None:
        self.events = events
        self.key = np.full(len(events.names), -1, np.int32)
        self.starts = np.zeros(len(events.names), np.uint8)
        titles: dict[str, int] = {}
        for row, (shown, text) in enumerate(zip(events.display_names, events.names, strict=True)):
            if shown and _HOST_MEMORY in text and any(part in shown for part in _TRANSFERS):
                self.key[row] = titles.setdefault(_title(shown), len(titles))
                self.starts[row] = "-start" in shown
        self.titles = list(titles)

    def of(self, process: Process, names: PlaneNames, rows: Int64s) -> list[DerivedTrack]:
        """A transfer lasts from the start of its first op to the end of its last, on the first row that is free.
        ``rows``: the events of the device, in order."""
        rows = rows[self.key[self.events.meta[rows]] >= 0]
        if not len(rows):
            return []
        meta = self.events.meta[rows]
        used, key = np.unique(self.key[meta], return_inverse=True)
        begin = self.events.start_ps[rows]
        end = begin + self.events.duration_ps[rows]
        first, last, row = self._paired(begin, end, key.astype(np.int32), meta, len(used))
        numbers = np.array([names.nameless(self.titles[one]) for one in used.tolist()], np.int64)
        found = []
        for number in range(int(row.max(initial=-1)) + 1):
            one, other = first[row == number], last[row == number]
            columns = (begin[one], end[other] - begin[one], numbers[key[one]], np.full(len(one), -1, np.int32))
            args = [
                Arg("_a", np.arange(len(one)), np.ones(len(one), np.int64)),
                self._of_metas("raw_bytes_accessed", meta[other]),
                self._of_metas("shape_with_layout", meta[one]),
            ]
            title = f"Host Offload Ops row {number}"
            found.append(DerivedTrack(process, _TID + number, title, names, *columns, args=args))
        return found

    def _paired(
        self, begin: Int64s, end: Int64s, key: Int32s, meta: Int32s, keys: int
    ) -> tuple[Int64s, Int64s, Int32s]:
        """Of each transfer, the places of its first and its last op, and its row."""
        many = len(begin)
        start_at, end_at, row = np.empty(many, np.int64), np.empty(many, np.int64), np.empty(many, np.int32)
        starts = np.ascontiguousarray(self.starts[meta])
        count = offloads(begin, end, np.ascontiguousarray(key), starts, keys, start_at, end_at, row)
        return start_at[:count], end_at[:count], row[:count]

    def _of_metas(self, stat: str, metas: npt.NDArray[Any]) -> Arg:
        """A stat of metadata as that of events."""
        found = self.events.meta_stat(stat)
        has, place = stat_places(found.rows, metas)
        rows = np.flatnonzero(has)
        kinds, values = found.kind[place], found.value[place]
        is_text = np.isin(kinds, _TEXTS)
        if is_text.any():
            return Arg(stat, rows[is_text], self.events.all_texts(values[is_text]))
        return Arg(stat, rows, np.where(np.isin(kinds, _INTEGERS), values, 0), kinds)


def _title(shown: str) -> str:
    at = shown.find("-start") if "-start" in shown else shown.find("-done")
    number = shown.rpartition(".")[2] if "." in shown else "0"
    return f"offload-{shown[:at]}.{number}"
