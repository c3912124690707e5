"""The table flows: which recorded event led to which, as traces in JSON say it with events of phase s, t and f.

s ──► t ──► f      one flow, two arrows: from s to t, and from t to f
s ──► t    s ──►   an id that is used again is another flow

The newer form has no events for ends: slices of one ``bind_id`` say whether something flows out of them and into them.

out ──► in ──      one flow, three arrows: from the end of each that something flows out of to the start of those
 '────► both ──► in    that it flows into later, up to the next that something flows out of
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.decode.flow_records import BOTH, IN, OUT, FlowRecords, flow_records
from fastprof.decode.import_log import ImportLog
from fastprof.decode.index import CaptureIndex, Index
from fastprof.decode.text_pools import index_dtype
from fastprof.errors import CaptureError
from fastprof.schema.array_types import Int32s, Int64s, Records
from fastprof.schema.column_kinds import Count, Kind, Picoseconds, String, Text
from fastprof.schema.tables import TableSchema
from fastprof.schema.value_classes import dataclass
from fastprof.tables.flow_binding import Slices, bound, ends_of

_LineId: Final = Kind(pa.int32())
FLOWS: Final = TableSchema("flows", "an arrow of a flow, from an event to one that it led to", (
    Text("host", "host, named after the file of its capture"),
    Count("flow", "number of the flow: arrows of one chain have the same"),
    Text("name", "name of the flow"),
    Text("category", "category of the flow, such as ac2g (PyTorch: from launch to kernel), fwdbwd (from forward to "
         "backward op) or DataFlow (TensorFlow 1); null: not recorded"),
    String("id", "id that the ends share in the trace; null: not recorded"),
    Count("from_event_id", "event that the arrow begins at; null: none is at this end of a later arrow of a chain"),
    Count("to_event_id", "event that the arrow ends at; null: no event is at this end, though it is recorded"),
    Picoseconds("from_ps", "time of the first end, from the start of profiling on its host"),
    Picoseconds("to_ps", "time of the other end, from the start of profiling on its host"),
    _LineId("from_line_id", "line of the first end; null: its thread has no events"),
    _LineId("to_line_id", "line of the other end; null: its thread has no events"),
), derived=True)  # fmt: skip

_FAR_NS: Final = 9223372036854775
_SMALL: Final = ord("a") - ord("A")
Chosen = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Arrows:
    """Arrows of one host. Ids of events and lines: -1 is null; ``name`` and ``category``: places in ``texts``, too."""

    flow: Int64s
    name: Int32s
    category: Int32s
    texts: list[str]
    id: list[str | None]
    from_event_id: Int64s
    to_event_id: Int64s
    from_ps: Int64s
    to_ps: Int64s
    from_line_id: Int32s
    to_line_id: Int32s

    def chosen(self, rows: Chosen) -> Arrows:
        numbers = {name: getattr(self, name)[rows] for name in (*_NUMBERS, "name", "category")}
        ids = [self.id[row] for row in np.flatnonzero(rows).tolist()]
        return Arrows(texts=self.texts, id=ids, **numbers)


_NUMBERS: Final = ("flow", "from_event_id", "to_event_id", "from_ps", "to_ps", "from_line_id", "to_line_id")


def flow_records_of(part: CaptureIndex, log: ImportLog) -> list[FlowRecords]:
    """The ends of flows that a capture records: only those of other formats do. CaptureError: they are damaged, which
    is a row of import_log where faults are salvaged."""
    if part.environment.transcribed_from is None:
        return []
    try:
        return flow_records(part.capture)
    except CaptureError as fault:
        if not part.capture.salvage:
            raise
        log.add("data_loss", "damaged_flows", fault.message, fault.path, offset=fault.offset)
        return []


def arrows_of(index: Index, number: int, parts: list[FlowRecords], first: int) -> list[Arrows]:
    """The arrows of capture ``number``, with a row of import_log for what has none. ``first``: number of its first end
    among those of the session."""
    found: list[Arrows] = []
    unmatched = 0
    of_events = [np.isin(part.ends["phase"], (IN, OUT, BOTH)) for part in parts]
    slices = Slices(index, number, named=any(rows.any() for rows in of_events)) if parts else None
    for part, is_event in zip(parts, of_events, strict=True):
        assert slices is not None
        for rows, match in ((np.flatnonzero(~is_event), _matched), (np.flatnonzero(is_event), _linked)):
            if len(rows):
                arrows, alone = match(replace(part, ends=part.ends[rows]), slices, first + rows)
                found.append(arrows)
                unmatched += alone
        first += len(part.ends)
    if unmatched:
        text = "ends of flows have no other end, or flows begin at no event: they are not in the table flows"
        index.log.add("info", "unmatched_flow", text, index.captures[number].capture.path, unmatched)
    return found


def _times(ends: Records, zero_ns: int) -> tuple[Int64s, Chosen]:
    """The times of ends as events have them, and whether they are near enough to have one."""
    is_near = np.abs(ends["ns"].astype(np.float64) - zero_ns) < _FAR_NS
    return np.where(is_near, (ends["ns"] - zero_ns) * 1000 + ends["ps"], 0), is_near


def _matched(part: FlowRecords, slices: Slices, numbers: Int64s) -> tuple[Arrows, int]:
    """The arrows between ends of one key, which follow each other in time; and the number of ends without others, and
    of flows that begin at no event. ``numbers``: of the ends in the session."""
    ends = part.ends
    phase = np.where(ends["phase"] < ord("a"), ends["phase"] + _SMALL, ends["phase"])
    ps, is_near = _times(ends, slices.zero_ns)
    event, line = bound(part, phase, ps, slices)
    order, chain = _chains(part, phase, np.flatnonzero(is_near))
    heads = np.flatnonzero(np.diff(chain, prepend=-1))
    begins = phase[order[heads]] == ord("s")
    finished = np.cumsum(phase[order] == ord("f")) - (phase[order] == ord("f"))
    is_end = begins[chain] & (finished == finished[heads][chain])
    size = np.bincount(chain[is_end], minlength=len(heads))
    is_bound = event[order[heads]] >= 0
    rows, of = order[is_end & ((size > 1) & is_bound)[chain]], chain[is_end & ((size > 1) & is_bound)[chain]]
    linked = of[1:] == of[:-1]
    start, stop, flow = rows[:-1][linked], rows[1:][linked], order[heads[of[1:][linked]]]
    by_flow = np.argsort(flow, kind="stable")
    start, stop, flow = start[by_flow], stop[by_flow], flow[by_flow]
    arrows = Arrows(
        numbers[flow], ends["name"][flow], ends["category"][flow], part.texts, part.id_texts(flow), event[start],
        event[stop], ps[start], ps[stop], line[start], line[stop],
    )  # fmt: skip
    return arrows, len(ends) - int(is_end.sum()) + int((size == 1).sum()) + int(((size > 1) & ~is_bound).sum())


def _chains(part: FlowRecords, phase: npt.NDArray[np.int32], rows: Int64s) -> tuple[Int64s, Int64s]:
    """These ends in order of category, name, id and time, and the number of the chain of each: s begins another."""
    ends = part.ends[rows]
    order = np.lexsort((ends["ps"], ends["ns"], ends["id"], ends["id_kind"], ends["name"], ends["category"]))
    ends = ends[order]
    fresh = phase[rows[order]] == ord("s")
    for name in ("id", "id_kind", "name", "category"):
        fresh[1:] |= ends[name][1:] != ends[name][:-1]
    fresh[:1] = True
    return rows[order], np.cumsum(fresh) - 1


def _linked(part: FlowRecords, slices: Slices, numbers: Int64s) -> tuple[Arrows, int]:
    """The same of slices with a ``bind_id``, in the order of their starts. One that nothing flows into begins another
    flow."""
    ends = part.ends
    ps, is_near = _times(ends, slices.zero_ns)
    event, line = slices.events_at(part, ps)
    rows = np.flatnonzero(is_near)
    order = rows[np.lexsort(tuple(ends[name][rows] for name in ("ps", "ns", "id", "id_kind")))]
    phase, place = ends["phase"][order], np.arange(len(order))
    is_other = np.zeros(len(order), bool)
    for name in ("id", "id_kind"):
        is_other[1:] |= np.diff(ends[name][order]) != 0
    is_other[:1] = True
    head = np.maximum.accumulate(np.where(is_other | (phase == OUT), place, 0))
    gives, takes = np.isin(phase, (OUT, BOTH)), np.isin(phase, (IN, BOTH))
    before = np.append(-1, np.maximum.accumulate(np.where(gives, place, -1)))[:-1]
    takes_something = takes & (before >= np.maximum.accumulate(np.where(is_other, place, 0)))
    consumer = np.flatnonzero(takes_something)
    producer = before[consumer]
    alone = len(ends) - len(rows) + int((takes & ~takes_something).sum()) + int(gives.sum()) - len(np.unique(producer))
    known = event[order[producer]] >= 0
    consumer, producer = consumer[known], producer[known]
    start, stop, flow = order[producer], order[consumer], order[head[producer]]
    return Arrows(
        numbers[flow], ends["name"][flow], ends["category"][flow], part.texts, part.id_texts(flow), event[start],
        event[stop], ends_of(ps[start], ends["duration_ps"][start]), ps[stop], line[start], line[stop],
    ), alone  # fmt: skip


def flows_table(hosts: list[tuple[str, Arrows]]) -> dict[str, pa.Array]:
    """The columns of the table."""
    counts = [len(arrows.flow) for _, arrows in hosts]
    texts = [text for _, arrows in hosts for text in arrows.texts]
    before = np.cumsum([0, *(len(arrows.texts) for _, arrows in hosts)])
    columns: dict[str, pa.Array] = {
        "host": _texts([host for host, _ in hosts], np.repeat(np.arange(len(hosts)), counts))
    }
    for name in ("name", "category"):
        places = [getattr(arrows, name) for _, arrows in hosts]
        at = [np.where(place < 0, -1, place + offset) for place, offset in zip(places, before, strict=False)]
        columns[name] = _texts(texts, np.concatenate([np.zeros(0, np.int64), *at]))
    columns["id"] = pa.array([text for _, arrows in hosts for text in arrows.id], pa.string())
    for name in _NUMBERS:
        values = np.concatenate([np.zeros(0, np.int64), *(getattr(arrows, name) for _, arrows in hosts)])
        kind = FLOWS[name].type
        columns[name] = pa.array(values, kind, mask=values < 0 if name.endswith("_id") else None)
    return {name: columns[name] for name in FLOWS.names()}


def _texts(values: list[str], at: npt.NDArray[Any]) -> pa.DictionaryArray:
    """``values[at[i]]`` in row i, -1: null; each text once, with indices as narrow as fit."""
    used, place = np.unique(at[at >= 0], return_inverse=True)
    distinct: dict[str, int] = {}
    number = np.array([distinct.setdefault(values[one], len(distinct)) for one in used.tolist()], np.int64)
    rows = np.zeros(len(at), index_dtype(len(distinct)))
    rows[at >= 0] = number[place.reshape(-1)] if len(number) else 0
    return pa.DictionaryArray.from_arrays(pa.array(rows, mask=at < 0), pa.array(list(distinct), pa.string()))
