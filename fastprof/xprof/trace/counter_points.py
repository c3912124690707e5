"""Values of counters: what the stats of the events of counter lines, and of their metadata, say."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native import records
from fastprof._native.xprof_events import NamedValues
from fastprof.decode.request import Decoded, Request
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.tables.host_events import COUNTER_LINE
from fastprof.xprof.trace.event_values import HIDDEN_STATS, STATS, dictionary_indices, int64_values
from fastprof.xprof.trace.trace_host import Texts, TraceHost, arrow_texts

_PERCENT_AND_RATES: Final = ("(util %)", " (MB/sec)")
"""Ends of names of stats that XProf shows with two decimals."""
_AS_IT_IS, _TWO_DECIMALS = 0, 1
_SHOWN: Final = (records.INT64, records.UINT64, records.DOUBLE, records.STR, records.REF)
_HIDDEN: Final = HIDDEN_STATS | {"group_id", "flow", "_a"}
_LONG_NAME: Final = "long_name"
_Columns = tuple[npt.NDArray[Any], ...]
"""By value: the number of its event, that of the name of its stat, kind, bits of the number, number of the text."""


class CounterPoints:
    """The values of all counters of a host; read when the first is asked for."""

    def __init__(self, trace: TraceHost) -> None:
        self._trace = trace
        lines = [line for line in trace.raw.lines if line.name == COUNTER_LINE]
        parts = [np.arange(line.first, line.last) for line in lines]
        self._rows: Int64s = np.concatenate(parts or [np.zeros(0, np.int64)])
        self._read([line.line_id for line in lines])

    def _read(self, line_ids: list[int]) -> None:
        """Of an event come its full name if another is displayed, the stats of its metadata, then its own."""
        tables = self._trace.tables
        selection = tables.selection.narrowed([self._trace.raw.host], lines=f"^{COUNTER_LINE}$")
        decoder = tables.decoder(Request(("event_id", "line_id", "start_ps"), STATS), selection)
        decoded = decoder.decode(list(decoder.blocks()), stage=None)
        timed = np.asarray(decoded.events["start_ps"].is_valid())
        mine = np.flatnonzero(timed & np.isin(np.asarray(decoded.events["line_id"]), line_ids))
        self._names = [name or "" for name in decoder.stat_names.to_pylist()]
        own = _of_events(decoded, mine)
        self._pools: list[Any] = [decoded.texts]
        self._take([*self._of_metadata(), own])
        self._texts: Texts = arrow_texts(pa.concat_arrays([one.cast(pa.large_string()) for one in self._pools]))

    def _of_metadata(self) -> tuple[_Columns, _Columns]:
        """Full names, and the stats of metadata."""
        trace = self._trace
        metas, which = np.unique(trace.raw.meta[self._rows], return_inverse=True)
        owner, stats = trace.tables.session.metadata_stats(trace.number)
        having = np.flatnonzero(np.isin(owner, metas[metas >= 0]))
        having = having[np.argsort(owner[having], kind="stable")]
        first, last = (np.searchsorted(owner[having], metas, side) for side in ("left", "right"))
        at, one = _spread((last - first)[which], first[which])
        one = having[one]
        used, number = np.unique(stats.stat[one], return_inverse=True)
        pool = trace.tables.session.index.names.stats.array()
        stat = np.where(used >= 0, len(self._names) + np.arange(len(used)), -1)[number]
        self._names += [pool[name].as_py() if name >= 0 else "" for name in used.tolist()]
        value = np.where(stats.kind == records.DOUBLE, stats.double_value.view(np.int64), stats.int_value)
        text = self._add_texts(pool) + stats.text[one]
        return self._long_names(metas, which), (at, stat, stats.kind[one], value[one], text)

    def _long_names(self, metas: Int32s, which: npt.NDArray[np.intp]) -> _Columns:
        raw, shown = self._trace.raw, self._trace.display_names
        long = [raw.names[meta] if meta >= 0 and shown[meta] else "" for meta in metas.tolist()]
        at = np.flatnonzero(np.array([bool(name) for name in long], np.bool_)[which])
        stat, nothing = np.full(len(at), len(self._names), np.int64), np.zeros(len(at), np.int64)
        self._names.append(_LONG_NAME)
        text = self._add_texts(pa.array(long, pa.large_string())) + which[at]
        return at, stat, np.full(len(at), records.STR, np.uint8), nothing, text

    def _add_texts(self, texts: Any) -> int:
        """The number that the first of these texts gets."""
        self._pools.append(texts)
        return sum(map(len, self._pools[:-1]))

    def _take(self, parts: list[_Columns]) -> None:
        """The values by event, in the order of the parts, without those of stats that are not shown."""
        row, stat, kind, value, text = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        shown = np.array([*(name not in _HIDDEN for name in self._names), True], np.bool_)[stat]
        keep = np.flatnonzero(shown & np.isin(kind, _SHOWN))
        keep = keep[np.argsort(row[keep], kind="stable")]
        self._bounds: Int64s = np.searchsorted(row[keep], np.arange(len(self._rows) + 1)).astype(np.int64)
        self._stat, self._kind, self._value = stat[keep], kind[keep].astype(np.uint8), value[keep].astype(np.int64)
        self._text: Int32s = text[keep].astype(np.int32)
        rounded = [name.endswith(_PERCENT_AND_RATES) for name in self._names]
        self._decimals = np.array([*(_TWO_DECIMALS if one else _AS_IT_IS for one in rounded), _AS_IT_IS], np.int32)

    def of_rows(self, rows: Int64s) -> tuple[str, NamedValues]:
        """The name of the first stat of the first of these rows of counters, and the values of each."""
        place = np.searchsorted(self._rows, rows)
        first, count = self._bounds[place], self._bounds[place + 1] - self._bounds[place]
        bounds = np.append(0, np.cumsum(count))
        _, at = _spread(count, first)
        name = self._name(int(self._stat[first[0]])) if len(rows) and count[0] else ""
        key = self._decimals[self._stat[at]]
        return name, NamedValues(bounds, key, self._kind[at], self._value[at], None, self._text[at], self._texts)

    def _name(self, stat: int) -> str:
        return self._names[stat] if stat >= 0 else ""


def _spread(count: npt.NDArray[Any], first: npt.NDArray[Any]) -> tuple[Int64s, Int64s]:
    """The rows of ranges that begin at ``first``, one after the other, and the number of the range of each."""
    of_range = np.repeat(np.arange(len(count)), count)
    begins = np.cumsum(count) - count
    return of_range, np.arange(len(of_range)) + (first - begins)[of_range]


def _of_events(decoded: Decoded, mine: npt.NDArray[np.intp]) -> _Columns:
    stats = decoded.stats
    event_id, events = int64_values(stats["event_id"]), int64_values(decoded.events["event_id"])[mine]
    at = np.searchsorted(events, event_id)
    keep = np.flatnonzero(np.append(events, -1)[at] == event_id)
    kind = dictionary_indices(stats["kind"]).view(np.uint8)[keep]
    real = np.frombuffer(stats["double_value"].buffers()[1] or b"", np.float64)[keep]
    value = np.where(kind == records.DOUBLE, real.view(np.int64), int64_values(stats["int_value"])[keep])
    return at[keep], dictionary_indices(stats["stat"])[keep], kind, value, dictionary_indices(stats["str_value"])[keep]
