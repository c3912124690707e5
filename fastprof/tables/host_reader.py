"""Reads one host: its events with the requested stats, or only its lines."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof import hlo
from fastprof._native import records
from fastprof.decode import metadata_tables
from fastprof.decode.index import Index, label
from fastprof.decode.nesting import int64s
from fastprof.decode.plane_kinds import device_of
from fastprof.decode.request import Request
from fastprof.decode.selection import Selection, Wanted
from fastprof.decode.task_environment import XPROF
from fastprof.errors import CaptureError
from fastprof.tables import op_metadata, range_counters
from fastprof.tables.event_stats import Stat
from fastprof.tables.host_events import CATEGORY, FIRST_DERIVED, HOST_THREADS, HostEvents, Line, Plane, Source
from fastprof.tables.launch_links import CORRELATION, EXTERNAL_IDS, link_launches
from fastprof.tables.range_counters import PROFILER_RANGE, add_range_counters
from fastprof.tables.table_set import TableSet

_TEXTS: Final = (records.STR, records.REF)
_MOST_ROWS: Final = 2**31 - 1
_LAST_DERIVED: Final = FIRST_DERIVED + 388
_OF_TPUS: Final = ("Framework Name Scope", "Framework Ops", "Source code")
_DERIVED: Final[dict[str | None, tuple[str, ...]]] = {
    "GPU": (*_OF_TPUS, "Steps", "Launch Stats", "XLA Modules", "XLA Ops", "Command Buffers"),
    "TPU": _OF_TPUS,
    "SPARSECORE": _OF_TPUS,
}
"""Lines that XProf derives, by kind of device. Behind the name of a GPU's stands the stream that it is made from."""


def read_host(
    tables: TableSet, number: int, planes: tuple[str, ...], stats: tuple[str, ...], metadata: tuple[str, ...]
) -> HostEvents:
    """The events of capture ``number`` of the selection, in planes that match any of the regular expressions (none: in
    all planes), with these stats of events and of event metadata. Raises CaptureError where the file is broken."""
    index = tables.session.index
    part = index.captures[number]
    if part.capture.declares(CATEGORY).any():
        metadata = tuple(dict.fromkeys((*metadata, CATEGORY)))
        planes = ()  # there, what devices ran names no op: what launched it does
    narrow = tables.selection.narrowed([part.capture.host], planes or None)
    of_xprof = part.environment.transcribed_from == XPROF
    of_ops = op_metadata.event_stats(metadata) if of_xprof else ()
    stats = tuple(dict.fromkeys((*_expanded(tables, number, stats), *of_ops)))
    wanted = Wanted(index, narrow)
    source = Source(part, metadata)
    source.arrows = lambda: tables.session.arrows()[number]
    _learn_lines(index, narrow, alone=len(index.captures) == 1 and not planes)
    if metadata:
        _read_metadata(source, tables, number)
    own_planes = _planes(tables, wanted, number)
    filtered = narrow.filters_events or part.capture.salvage
    times = ("start_ps", "duration_ps", "line_id") if filtered else ("start_ps", "duration_ps")
    decoder = tables.decoder(Request(times, picks=stats, metas=True), narrow)
    share = list(decoder.blocks())
    if sum(block.rows for block in share) > _MOST_ROWS:
        raise CaptureError(
            "the host has more than 2,147,483,647 events: choose fewer with planes, lines or a time range",
            path=part.capture.path,
        )
    decoded = decoder.decode(share)
    source.texts = decoded.texts
    _add_lines(index, wanted, own_planes, decoded.events.get("line_id"), of_xprof)
    start = decoded.events["start_ps"]
    columns: dict[str, Any] = {
        "meta": decoded.metas,
        "start_ps": int64s(start),
        "duration_ps": int64s(decoded.events["duration_ps"]),
        "stats": {name: Stat(*picked) for name, picked in zip(stats, decoded.picks, strict=True)},
    }
    events = HostEvents(tables.session.first + number, own_planes, columns, source)
    if CATEGORY in source.metadata_numbers and CORRELATION in stats:
        link_launches(events, lambda: _stats(tables, EXTERNAL_IDS, narrow))
    if PROFILER_RANGE in stats and part.capture.declares(PROFILER_RANGE).any():
        of_gpus = tables.selection.narrowed([part.capture.host], range_counters.PLANES)
        add_range_counters(events, _declared(tables, number), lambda names: _stats(tables, names, of_gpus))
    events = _timed(events, ~np.asarray(start.is_null())) if start.null_count else events
    return op_metadata.with_ops(events, source, metadata) if of_ops else events


def host_lines(tables: TableSet, number: int) -> HostEvents:
    """Capture ``number`` without its events: planes, and lines, whose ``first`` and ``last`` count the events that the
    capture has of them, those without a start too. Nothing is decoded."""
    index = tables.session.index
    part = index.captures[number]
    wanted = Wanted(index, tables.selection.narrowed([part.capture.host]))
    index.ensure_lines()
    planes = _planes(tables, wanted, number)
    _add_lines(index, wanted, planes, None, part.environment.transcribed_from == XPROF)
    none = np.zeros(0, np.int64)
    columns: dict[str, Any] = {"meta": np.zeros(0, np.int32), "start_ps": none, "duration_ps": none, "stats": {}}
    return HostEvents(number, planes, columns, Source(part, ()))


def _timed(events: HostEvents, has_start: npt.NDArray[np.bool_]) -> HostEvents:
    timed = events.subset(has_start)
    pairs = zip(events.lines, timed.lines, strict=True)
    lacking = {before.line_id: (before.last - before.first) - (line.last - line.first) for before, line in pairs}
    timed.untimed = {line_id: count for line_id, count in lacking.items() if count}
    return timed


def _learn_lines(index: Index, selection: Selection, alone: bool) -> None:
    """Reads the headers of all lines, which number them. If a single host is read entirely, its events are indexed
    with them: a second look is saved."""
    if alone and not selection.planes and not selection.lines:
        index.ensure(records.STATS if index.captures[0].capture.salvage else records.EVENTS)
    else:
        index.ensure_lines()


def _expanded(tables: TableSet, number: int, stats: tuple[str, ...]) -> tuple[str, ...]:
    """A name that ends in * stands for all stats of the capture that begin so."""
    begins = tuple(name.removesuffix("*") for name in stats if name.endswith("*"))
    plain = tuple(name for name in stats if not name.endswith("*"))
    if not begins:
        return plain
    return plain + tuple(name for name in _declared(tables, number) if name.startswith(begins) and name not in plain)


def _declared(tables: TableSet, number: int) -> list[str]:
    """The names of all stats of a capture."""
    names = tables.session.index.names
    numbers = sorted(set(names.texts[number].now().names.tolist()))
    texts = names.stats.array()  # after the numbers: other threads may declare stats meanwhile
    return [texts[text].as_py() for text in numbers]


def _stats(tables: TableSet, names: tuple[str, ...], selection: Selection) -> list[Stat]:
    """These stats of the selected events."""
    return [Stat(*picked) for picked in tables.decode(Request(picks=names), selection).picks]


def _add_lines(index: Index, wanted: Wanted, planes: list[Plane], line_id: pa.Array | None, of_xprof: bool) -> None:
    """Gives the planes their lines, with the rows of each. ``line_id``: the line of each row; None: all events of the
    lines are there. ``of_xprof``: they are of a trace of XProf."""
    by_id = {plane.plane_id: plane for plane in planes}
    chosen = np.flatnonzero(wanted.lines())
    titles = [index.line_display_names[line] for line in chosen.tolist()]
    names = label([index.line_names[line] for line in chosen.tolist()], titles)
    if line_id is None:
        lasts = np.cumsum(index.lines["event_count"][chosen])
        firsts = lasts - index.lines["event_count"][chosen]
    else:
        firsts = np.searchsorted(np.asarray(line_id), chosen)
        lasts = np.searchsorted(np.asarray(line_id), chosen, side="right")
    for number, (line, first, last) in enumerate(zip(chosen.tolist(), firsts.tolist(), lasts.tolist(), strict=True)):
        header = index.lines[line]
        plane = by_id[int(header["plane_id"])]
        base_ps, shown = int(header["base_ps"]), int(header["display_id"])
        name = names[number]
        plane.lines.append(
            Line(
                number, line, int(header["xline_id"]), name, plane, first, last, base_ps, shown, titles[number],
                int(header["first_event_id"]), int(header["event_count"]),
                _is_derived(int(header["xline_id"]), name, plane, of_xprof),
            )
        )  # fmt: skip


def _is_derived(xline_id: int, name: str, plane: Plane, of_xprof: bool) -> bool:
    """XProf gives lines that it derives of GPUs new ids in its traces, so that only their names remain."""
    if FIRST_DERIVED <= xline_id & 0xFFFFFFFF <= _LAST_DERIVED:
        return True
    return of_xprof and name.partition(" - from #")[0] in _DERIVED.get(plane.kind, ())


def _planes(tables: TableSet, wanted: Wanted, number: int) -> list[Plane]:
    index = tables.session.index
    part = index.captures[number]
    chosen = wanted.planes()
    planes: list[Plane] = []
    for i, (name, xplane_id) in enumerate(part.capture.plane_keys):
        if chosen[part.plane_base + i]:
            kind, ordinal = device_of(name)
            if kind == "CPU" and name != HOST_THREADS:
                kind = None
            planes.append(Plane(len(planes), part.plane_base + i, name, kind, ordinal, xplane_id))
    by_id = {plane.plane_id: plane for plane in planes}
    for plane_id, stat, value in metadata_tables.plane_stat_values(index, chosen):
        by_id[plane_id].stats.setdefault(stat, value)
    return planes


def _read_metadata(source: Source, tables: TableSet, number: int) -> None:
    """Stats of event metadata: of several of one name, the first counts."""
    names = tables.session.index.names
    owner, stats = tables.session.metadata_stats(number)
    if set(hlo.METADATA_STATS) <= set(source.metadata_numbers):
        source.programs = tables.session.programs(number, (owner, stats))
    for name in source.metadata_numbers:
        rows = stats.first_rows(owner, names.stats.find(name))
        kind = stats.kind[rows].copy()
        value = np.where(kind == records.DOUBLE, stats.double_value[rows].view(np.int64), stats.int_value[rows])
        is_text = np.isin(kind, _TEXTS)
        value = np.where(is_text, stats.text[rows], value)
        kind[is_text & (stats.text[rows] < 0)] = records.NONE
        source.meta_stats[name] = Stat(owner[rows].astype(np.int32), kind, value.astype(np.int64))
        rows = rows[kind == records.BYTES]
        places = stats.places_of_bytes(rows)
        source.meta_places[name] = {int(owner[row]): places[row] for row in rows.tolist()}
