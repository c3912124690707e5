"""Values of counters: what the stats of the events of counter lines say."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof._native.xprof_events import NamedValues
from fastprof.decode.request import Decoded, Request
from fastprof.derive.timeline.track_order import COUNTER_LINE
from fastprof.schema.array_types import Int64s
from fastprof.xprof.trace.event_values import HIDDEN_STATS, STATS, dictionary_indices, int64_values
from fastprof.xprof.trace.trace_host import Texts, TraceHost, arrow_texts

_PERCENT_AND_RATES: Final = ("(util %)", " (MB/sec)")
"""Ends of names of stats that XProf shows with two decimals."""
_AS_IT_IS, _TWO_DECIMALS = 0, 1
_SHOWN: Final = (records.INT64, records.UINT64, records.DOUBLE, records.STR, records.REF)


class CounterPoints:
    """The values of all counters of a host; read when the first is asked for."""

    def __init__(self, trace: TraceHost) -> None:
        lines = [line for line in trace.raw.lines if line.name == COUNTER_LINE]
        parts = [np.arange(line.first, line.last) for line in lines]
        self._rows: Int64s = np.concatenate(parts or [np.zeros(0, np.int64)])
        self._read(trace, [line.line_id for line in lines])

    def _read(self, trace: TraceHost, line_ids: list[int]) -> None:
        tables = trace.tables
        selection = tables.selection.narrowed([trace.raw.host], lines=f"^{COUNTER_LINE}$")
        decoder = tables.decoder(Request(("event_id", "line_id", "start_ps"), STATS), selection)
        decoded = decoder.decode(list(decoder.blocks()), stage=None)
        timed = np.asarray(decoded.events["start_ps"].is_valid())
        mine = np.flatnonzero(timed & np.isin(np.asarray(decoded.events["line_id"]), line_ids))
        self._take(decoded, [name or "" for name in decoder.stat_names.to_pylist()], mine)

    def _take(self, decoded: Decoded, names: list[str], mine: npt.NDArray[np.intp]) -> None:
        """The values of these events, without those of stats that are not shown."""
        stats = decoded.stats
        stat, kind = dictionary_indices(stats["stat"]), dictionary_indices(stats["kind"]).view(np.uint8)
        shown = np.array([*(name not in HIDDEN_STATS for name in names), True], np.bool_)[stat]
        keep = np.flatnonzero(shown & np.isin(kind, _SHOWN))
        event_id, events = int64_values(stats["event_id"])[keep], int64_values(decoded.events["event_id"])[mine]
        self._first = np.searchsorted(event_id, events)
        self._last = np.searchsorted(event_id, events, side="right")
        self._stat, self._kind, self._names = stat[keep], kind[keep], names
        rounded = [name.endswith(_PERCENT_AND_RATES) for name in names]
        self._decimals = np.array([*(_TWO_DECIMALS if one else _AS_IT_IS for one in rounded), _AS_IT_IS], np.int32)
        real = np.frombuffer(stats["double_value"].buffers()[1] or b"", np.float64)[keep]
        self._value = np.where(
            self._kind == records.DOUBLE, real.view(np.int64), int64_values(stats["int_value"])[keep]
        )
        self._text = dictionary_indices(stats["str_value"])[keep].astype(np.int32)
        self._texts: Texts = arrow_texts(decoded.texts)

    def of_rows(self, rows: Int64s) -> tuple[str, NamedValues]:
        """The name of the first stat of the first of these rows of counters, and the values of each."""
        place = np.searchsorted(self._rows, rows)
        first, count = self._first[place], (self._last - self._first)[place]
        bounds = np.append(0, np.cumsum(count))
        at = np.arange(bounds[-1]) + np.repeat(first - bounds[:-1], count)
        name = self._name(int(self._stat[first[0]])) if len(rows) and count[0] else ""
        key = self._decimals[self._stat[at]]
        return name, NamedValues(bounds, key, self._kind[at], self._value[at], None, self._text[at], self._texts)

    def _name(self, stat: int) -> str:
        return self._names[stat] if stat >= 0 else ""
