"""Documents of the timeline: hosts, processes and tracks in the order shown; steps as bands, flows and counters over
them; and a timeline of reduced detail for a saved report."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from fastprof._native import lod
from fastprof.schema.columns import Int64s, find_runs, reduce_runs
from fastprof.schema.value_classes import dataclass
from fastprof.viewer.host_files import Flows
from fastprof.viewer.query import LEAST, MOST, RequestError
from fastprof.viewer.snapshot import HostView, Snapshot
from fastprof.viewer.store import NAME_LETTERS, cut_name
from fastprof.viewer.viewed_run import ViewedRun

_TRACK = ("id", "name", "tid", "sort", "lanes", "events", "derived", "kind")
"""Fields of a track as the page has it. ``sort``: the order of the tracks of a process; counters come last."""
_LAST = 2**32
"""Order after the ids of all threads and streams."""


def make_timeline_document(run: ViewedRun, first: int = 0, most: int = MOST) -> dict[str, Any]:
    """Return the state of each host, and its processes with their tracks, for JSON: ``most`` tracks from number
    ``first`` on, in the order of processes."""
    seen = run.snapshot
    shown, passed, last = [], 0, first + most
    listed = run.listed
    if listed is None or listed[0] is not seen:  # the page asks for parts one after another
        run.listed = listed = (seen, [process for host in seen.ready for process in _list_processes(seen, host)])
    for process in listed[1]:
        rows = slice(max(first - passed, 0), max(last - passed, 0))
        tracks = {name: column[rows] for name, column in process["tracks"].items()}
        passed += len(process["tracks"]["id"])
        shown += [process | {"tracks": tracks}] if tracks["id"] else []
    runs = []  # what is shown first: what ran under PyTorch's profiler, else the steps, once they are known
    for host in seen.ready:
        if host.store.events and (span := host.store.about.get("run") or (host.facts and host.facts.step_range)):
            runs.append([host.to_session(time) for time in span])
    run_ps = [str(min(begin for begin, _ in runs)), str(max(end for _, end in runs))] if runs else None
    return {
        "key": seen.key,
        "state": "ready" if seen.is_whole else "building",
        "origin_ps": str(seen.origin_ps),
        "span_ps": str(seen.span_ps),
        "run_ps": run_ps,
        "hosts": [
            {
                "host": host.name,
                "state": host.state,
                "derived": host.derived,
                "progress": round(run.hosts[host.number].progress, 3),
                "error": host.error,
                "offset_ps": str(run.offsets_ps[host.number]),
                "start_unix_ns": None if start_unix_ns is None else str(start_unix_ns),
                **_count_events(host),
            }
            for host, start_unix_ns in zip(seen.hosts, run.starts_unix_ns, strict=True)
        ],
        "processes": shown,
        "more_tracks": max(passed - last, 0),
    }


def _count_events(host: HostView) -> dict[str, int]:
    """Count events. ``events``: as ``info`` counts them, those without a start as well; ``untimed_events``: the latter,
    which no track shows."""
    if host.known is None:
        return {"events": 0, "derived_events": 0, "untimed_events": 0}
    recorded, untimed = len(host.store.raw), int(host.store.about["untimed"])
    return {
        "events": recorded + untimed,
        "derived_events": host.store.events - recorded,
        "untimed_events": untimed,
    }


def _list_processes(seen: Snapshot, host: HostView) -> Iterator[dict[str, Any]]:
    """Yield the processes of a host with their tracks, in the order in which they are shown."""
    tracks: dict[int, list[tuple[Any, ...]]] = {}
    for track in host.store.tracks:
        about, id = track.about, seen.track_id(host, track.number)
        kind = "samples" if about["kind"] == "counter" else about["kind"]  # a counter of them is a track of its own
        shown = (about["name"][:NAME_LETTERS], about["tid"], about["sort"])
        row = (id, *shown, track.lanes, track.events, int(track.derived), kind)
        tracks.setdefault(about["process"], []).append(row)
    for number, counter in enumerate(host.counters, len(host.store.tracks)):
        shown = (counter.name[:NAME_LETTERS], None, _LAST)
        row = (seen.track_id(host, number), *shown, 1, len(counter.time_ps), 1, "counter")
        tracks.setdefault(counter.process, []).append(row)
    for number, about in enumerate(host.store.about["processes"]):
        rows = sorted(tracks.get(number, ()), key=lambda row: (row[_TRACK.index("sort")], row[0]))
        if not rows:
            continue
        yield {
            "id": seen.track_id(host, number),
            "host": host.name,
            "pid": about["pid"],
            "name": about["name"],
            "kind": about["kind"],
            "sort": about["sort"],
            "shown": about.get("shown", True),
            "tracks": {name: list(column) for name, column in zip(_TRACK, zip(*rows, strict=True), strict=True)},
        }


MOST_FLOWS: Final = 10_000
MOST_WIDTH: Final = 16_384
MOST_BANDS: Final = 100_000
FLOW_COLUMNS: Final = (
    *("from_host", "from_at", "from_track", "from_lane", "from_ps"),
    *("to_host", "to_at", "to_track", "to_lane", "to_ps", "kind"),
)


# ---- steps


def make_steps_document(run: ViewedRun, first: int = 0, most: int = MOST_BANDS) -> dict[str, Any]:
    """Return the steps of each host, and of each device that has steps of its own, in order of time: ``most`` from
    number ``first`` on, and how many follow."""
    bands: list[dict[str, Any]] = []
    passed = 0
    seen = run.snapshot
    for host in seen.ready:
        for band in host.facts.bands if host.facts is not None else ():
            begin = max(first - passed, 0)
            rows = slice(begin, begin + most - len(bands))
            columns = (column[rows].tolist() for column in (band.start_ps, band.duration_ps, band.title, band.group))
            process = None if band.process < 0 else seen.track_id(host, band.process)
            for start, duration, title, group in zip(*columns, strict=True):
                bands.append({
                    "name": cut_name(band.titles[title]),
                    "start_ps": str(host.to_session(start)),
                    "duration_ps": str(duration),
                    "host": host.name,
                    "process": process,
                    "track": None,
                    "group": group,
                })  # fmt: skip
            passed += len(band.start_ps)
    return {"bands": bands, "more": max(passed - first - len(bands), 0)}


# ---- flows


def make_flows_document(
    seen: Snapshot, start_ps: int, end_ps: int, tracks: Int64s | None, limit: int
) -> dict[str, Any]:
    """Return flows within a range of time that end on these tracks (None for any); if they are too many, an even
    share."""
    columns: dict[str, list[Any]] = {name: [] for name in FLOW_COLUMNS}
    parts = [(host, host.facts.flows, local) for host, local in seen.split(tracks) if host.facts is not None]
    chosen = [(host, flows, _find_flows(host, flows, start_ps, end_ps, local)) for host, flows, local in parts]
    total = sum(len(places) for *_, places in chosen)
    every, passed = max(-(-total // max(limit, 1)), 1), 0
    for host, flows, places in chosen:
        share = places[-passed % every :: every]
        passed += len(places)
        for place in share.tolist() if limit else ():
            _add_flow(columns, seen, host, flows, place)
    return {"flows": columns, "more": total - len(columns["kind"])}


def _find_flows(host: HostView, flows: Flows, start_ps: int, end_ps: int, local: Int64s) -> Int64s:
    """Return the flows of a host that are seen, in the order of producers."""
    first, last = _limit_time(host.to_host(start_ps)), _limit_time(host.to_host(end_ps))
    seen = (np.minimum(flows.from_ps, flows.to_ps) < last) & (np.maximum(flows.from_ps, flows.to_ps) >= first)
    places = np.flatnonzero(seen)
    if len(local) < len(host.store.tracks):
        records = host.store.raw.track_records
        mine = records[local[local < len(records)]]
        spans = np.stack([mine["row"].astype(np.int64), mine["row"].astype(np.int64) + mine["events"]], axis=1)
        spans = spans[np.argsort(spans[:, 0], kind="stable")].reshape(-1)  # begin and end of these rows, in turn
        for rows in (flows.producer, flows.consumer):
            places = places[np.searchsorted(spans, rows[places], side="right") % 2 == 1]
    return places


def _limit_time(time_ps: int) -> int:
    return max(LEAST, min(MOST, time_ps))


def _add_flow(columns: dict[str, list[Any]], seen: Snapshot, host: HostView, flows: Flows, place: int) -> None:
    ends = (("from", flows.producer, flows.from_ps), ("to", flows.consumer, flows.to_ps))
    places = (host.store.place(int(rows[place])) for _, rows, _ in ends)
    ats = [at for at in places if at is not None]
    if len(ats) < len(ends):
        return
    for at, (side, _, times) in zip(ats, ends, strict=True):
        event = host.store.event(at)
        columns[f"{side}_host"].append(host.name)
        columns[f"{side}_at"].append(at)
        columns[f"{side}_track"].append(seen.track_id(host, event.track))
        columns[f"{side}_lane"].append(event.lane)
        columns[f"{side}_ps"].append(str(host.to_session(int(times[place]))))
    columns["kind"].append(flows.kind_name(place))


# ---- counters


def make_counter_document(
    run: ViewedRun, host_name: str | None, track: int, start_ps: int, end_ps: int, width: int
) -> dict[str, Any]:
    """Return a counter over a range of time, in at most ``width`` parts: when each begins, and its least, largest and
    last value. The value that holds when the range begins is shown from there."""
    seen = run.snapshot
    host, local = seen.place_of(track)
    if host_name is not None and host.name != host_name:
        raise RequestError(404, f"track {track} is not of host {host_name!r}")
    place = local - len(host.store.tracks)
    if not 0 <= place < len(host.counters):
        raise RequestError(404, f"track {track} is no counter")
    counter = host.counters[place]
    first, last = _limit_time(host.to_host(start_ps)), _limit_time(host.to_host(end_ps))
    begin = max(int(np.searchsorted(counter.time_ps, first, side="right")) - 1, 0)
    end = int(np.searchsorted(counter.time_ps, last, side="left"))
    times, values = counter.time_ps[begin:end], counter.value[begin:end]
    fresh = np.arange(len(times))
    if len(times) > width:
        fresh = find_runs(((times.astype(np.float64) - first) * (width / max(last - first, 1))).astype(np.int64))
    ends = np.append(fresh[1:], len(times)) - 1 if len(times) else fresh
    return {
        "name": counter.name,
        "unit": counter.unit,
        "t": [str(host.to_session(max(time, first))) for time in times[fresh].tolist()],
        "min": [_drop_infinite(value) for value in reduce_runs(np.fmin, values, fresh).tolist()],
        "max": [_drop_infinite(value) for value in reduce_runs(np.fmax, values, fresh).tolist()],
        "last": [_drop_infinite(value) for value in values[ends].tolist()],
        "most": _drop_infinite(counter.value.max()) if len(counter.value) else None,
        "least": _drop_infinite(counter.value.min()) if len(counter.value) else None,
    }


def _drop_infinite(value: float) -> float | None:
    """Return a number as JSON has it: None for NaN and infinities."""
    return float(value) if np.isfinite(value) else None


_SAVED_TILE_BITS: Final = 10
_BETWEEN_LEVELS: Final = 2
_LANES: Final = (None, 64, 8, 1)
_COUNTER_WIDTH: Final = 1_500
_HEAD = struct.Struct("<8I")


@dataclass(frozen=True, slots=True)
class SavedTimeline:
    """Timeline in a file. ``documents``: what the page asks a server for, by name; ``tiles``: by level a tile of the
    whole session; ``exact``: whether the finest has every event by itself."""

    documents: dict[str, Any]
    tiles: dict[int, bytes]
    exact: bool


def make_saved_timeline(run: ViewedRun, hosts: list[str], most_slices: int) -> SavedTimeline:
    """Make the timeline of these hosts of a run that is built; all levels together have about ``most_slices``
    slices."""
    seen = run.snapshot
    tiles = _make_tiles(seen, most_slices)
    finest = tiles[min(tiles)]
    document = make_timeline_document(run)
    document["hosts"] = [host for host in document["hosts"] if host["host"] in hosts]
    span, counters = int(document["span_ps"]), {}
    for process in document["processes"]:
        tracks = process["tracks"]
        for track, kind in zip(tracks["id"], tracks["kind"], strict=True):
            if kind == "counter":
                counters[str(track)] = make_counter_document(run, process["host"], track, 0, span, _COUNTER_WIDTH)
    documents = {
        "timeline": document,
        "levels": {"levels": sorted(tiles)},
        "names": _list_names(seen, tiles.values()),
        "steps": make_steps_document(run),
        "counters": counters,
    }
    events = sum(host.store.events for host in seen.ready)
    return SavedTimeline(documents, tiles, _count_slices(finest) == events)


def _make_tiles(seen: Snapshot, most_slices: int) -> dict[int, bytes]:
    """Return levels from the coarsest, with one tile for the session, to the finest for which there is room; at least
    one."""
    coarsest = max(0, max(seen.span_ps, 1).bit_length() - _SAVED_TILE_BITS)  # one tile covers the session
    for lanes in _LANES:  # the most lanes of each track for which there is room
        if _count_slices(_make_whole_tile(seen, coarsest, lanes)) <= most_slices:
            break
    else:
        coarsest = min(coarsest + _SAVED_TILE_BITS, lod.COARSEST)  # too many tracks
    tiles: dict[int, bytes] = {}
    room = most_slices
    for level in range(coarsest, -1, -_BETWEEN_LEVELS):
        tile = _make_whole_tile(seen, level, lanes)
        room -= _count_slices(tile)
        if tiles and room < 0:
            break
        tiles[level] = tile
        # every event is a slice: finer levels would be equal
        if int(_read_column(tile, 1, np.uint32).max(initial=1)) <= 1:
            break
    return tiles


def _make_whole_tile(seen: Snapshot, level: int, lanes: int | None) -> bytes:
    """Return a tile of a level that holds the whole session, however many buckets that are."""
    drawn = lod.Tile()
    for part in seen.tile_parts(None, None if lanes is None else range(lanes)):
        part.store.draw(drawn, part, level, part.origin_ps, part.origin_ps + seen.span_ps)
    return drawn.packed(level, 0)


def _count_slices(tile: bytes) -> int:
    return int(_HEAD.unpack_from(tile)[3])


def _read_column(tile: bytes, number: int, dtype: type[np.generic]) -> Any:
    """Return a column of 32 bits of the slices: busy, count, name, at."""
    _, _, rows, slices, *_ = _HEAD.unpack_from(tile)
    body = -(-(_HEAD.size + 12 * rows) // 8) * 8
    return np.frombuffer(tile, dtype, slices, body + 16 * slices + 4 * number * slices)


def _list_names(seen: Snapshot, tiles: Any) -> dict[str, dict[str, str]]:
    """Return the names of all slices by host and number."""
    numbers_of_hosts: dict[int, set[int]] = {}
    for tile in tiles:
        _, _, rows, _, *_ = _HEAD.unpack_from(tile)
        tracks = np.frombuffer(tile, np.uint32, rows, _HEAD.size)
        ends = np.frombuffer(tile, np.uint32, rows, _HEAD.size + 8 * rows).astype(np.int64)
        hosts = np.repeat(tracks >> seen.id_bits, np.diff(ends, prepend=0))
        names = _read_column(tile, 2, np.uint32)
        for number in np.unique(hosts).tolist():
            numbers_of_hosts.setdefault(number, set()).update(np.unique(names[hosts == number]).tolist())
    by_host = {seen.hosts[number]: sorted(names) for number, names in numbers_of_hosts.items()}
    return {host.name: {str(name): host.store.short_name(name) for name in names} for host, names in by_host.items()}
