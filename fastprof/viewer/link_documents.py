"""What lies over the tracks: steps as bands, flows between events, and counters at the width of a screen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from fastprof.schema.array_types import Int64s
from fastprof.viewer.host_facts import Band, Counter, Flows
from fastprof.viewer.query import LEAST, MOST, RequestError
from fastprof.viewer.snapshot import SeenHost, Snapshot
from fastprof.viewer.store import shortened
from fastprof.viewer.viewed_run import ViewedRun

MOST_FLOWS: Final = 10_000
MOST_WIDTH: Final = 16_384
_MOST_BANDS: Final = 100_000
FLOW_COLUMNS: Final = (
    *("from_host", "from_at", "from_track", "from_lane", "from_ps"),
    *("to_host", "to_at", "to_track", "to_lane", "to_ps", "kind"),
)


# ---- steps


def steps_document(run: ViewedRun) -> dict[str, Any]:
    """The steps of each host, and of each device that has steps of its own, in order of time."""
    bands: list[dict[str, Any]] = []
    more = 0
    seen = run.snapshot
    for host in seen.ready:
        for band in host.facts.bands if host.facts is not None else ():
            room = max(_MOST_BANDS - len(bands), 0)
            more += max(len(band.start_ps) - room, 0)
            bands += _steps(seen, host, band, room)
    return {"bands": bands, "more": more}


def _steps(seen: Snapshot, host: SeenHost, band: Band, room: int) -> Iterator[dict[str, Any]]:
    whole = band.process < 0
    columns = (band.start_ps, band.duration_ps, band.title, band.group)
    for start, duration, title, group in zip(*(column[:room].tolist() for column in columns), strict=True):
        yield {
            "name": shortened(band.titles[title]),
            "start_ps": str(host.to_session(start)),
            "duration_ps": str(duration),
            "host": host.name,
            "process": None if whole else seen.track_id(host, band.process),
            "track": None,
            "group": group,
        }


# ---- flows


def flows_document(seen: Snapshot, start_ps: int, end_ps: int, tracks: Int64s | None, limit: int) -> dict[str, Any]:
    """Flows within a range of time that end on these tracks, None: on any; of too many an even share."""
    found: dict[str, list[Any]] = {name: [] for name in FLOW_COLUMNS}
    parts = [(host, host.facts.flows, local) for host, local in seen.split(tracks) if host.facts is not None]
    chosen = [(host, flows, _flows_within(host, flows, start_ps, end_ps, local)) for host, flows, local in parts]
    total = sum(len(places) for *_, places in chosen)
    every, passed = max(-(-total // max(limit, 1)), 1), 0
    for host, flows, places in chosen:
        share = places[-passed % every :: every]
        passed += len(places)
        for place in share.tolist() if limit else ():
            _add_flow(found, seen, host, flows, place)
    return {"flows": found, "more": total - len(found["kind"])}


def _flows_within(host: SeenHost, flows: Flows, start_ps: int, end_ps: int, local: Int64s) -> Int64s:
    """The flows of a host that are seen, in the order of producers."""
    first, last = _within_64_bits(host.to_host(start_ps)), _within_64_bits(host.to_host(end_ps))
    seen = (np.minimum(flows.from_ps, flows.to_ps) < last) & (np.maximum(flows.from_ps, flows.to_ps) >= first)
    places = np.flatnonzero(seen)
    if len(local) < len(host.store.tracks):
        spans = _row_spans(host, local)
        for rows in (flows.producer, flows.consumer):
            places = places[np.searchsorted(spans, rows[places], side="right") % 2 == 1]
    return places


def _within_64_bits(time_ps: int) -> int:
    return max(LEAST, min(MOST, time_ps))


def _row_spans(host: SeenHost, local: Int64s) -> Int64s:
    """Where stretches of rows of the capture's events that are on these tracks begin and end, in turn."""
    records = host.store.raw.track_records
    mine = records[local[local < len(records)]]
    spans = np.stack([mine["row"].astype(np.int64), mine["row"].astype(np.int64) + mine["events"]], axis=1)
    return spans[np.argsort(spans[:, 0], kind="stable")].reshape(-1)


def _add_flow(found: dict[str, list[Any]], seen: Snapshot, host: SeenHost, flows: Flows, place: int) -> None:
    ends = (("from", flows.producer, flows.from_ps), ("to", flows.consumer, flows.to_ps))
    places = (host.store.place(int(rows[place])) for _, rows, _ in ends)
    ats = [at for at in places if at is not None]
    if len(ats) < len(ends):
        return
    for at, (side, _, times) in zip(ats, ends, strict=True):
        event = host.store.event(at)
        found[f"{side}_host"].append(host.name)
        found[f"{side}_at"].append(at)
        found[f"{side}_track"].append(seen.track_id(host, event.track))
        found[f"{side}_lane"].append(event.lane)
        found[f"{side}_ps"].append(str(host.to_session(int(times[place]))))
    found["kind"].append(flows.kind_name(place))


# ---- counters


def counters_document(
    run: ViewedRun, host_name: str | None, track: int, start_ps: int, end_ps: int, width: int
) -> dict[str, Any]:
    """A counter over a range of time, in at most ``width`` parts: when each begins, and its least, largest and last
    value. The value that holds when the range begins is shown from there."""
    seen = run.snapshot
    host, local = seen.place_of(track)
    if host_name is not None and host.name != host_name:
        raise RequestError(404, f"track {track} is not of host {host_name!r}")
    place = local - len(host.store.tracks)
    if not 0 <= place < len(host.counters):
        raise RequestError(404, f"track {track} is no counter")
    found = host.counters[place]
    first, last = _within_64_bits(host.to_host(start_ps)), _within_64_bits(host.to_host(end_ps))
    begin = max(int(np.searchsorted(found.time_ps, first, side="right")) - 1, 0)
    end = int(np.searchsorted(found.time_ps, last, side="left"))
    document = {"name": found.name, "unit": found.unit, **_at_width(found, host, begin, end, first, last, width)}
    document["most"] = _finite(found.value.max()) if len(found.value) else None
    document["least"] = _finite(found.value.min()) if len(found.value) else None
    return document


def _at_width(
    found: Counter, host: SeenHost, begin: int, end: int, first: int, last: int, width: int
) -> dict[str, Any]:
    times, values = found.time_ps[begin:end], found.value[begin:end]
    if len(times) > width:
        pixel = ((times.astype(np.float64) - first) * (width / max(last - first, 1))).astype(np.int64)
        fresh = np.flatnonzero(np.append(True, pixel[1:] != pixel[:-1]))
    else:
        fresh = np.arange(len(times))
    ends = np.append(fresh[1:], len(times)) - 1 if len(times) else fresh
    least = np.fmin.reduceat(values, fresh) if len(fresh) else values
    most = np.fmax.reduceat(values, fresh) if len(fresh) else values
    return {
        "t": [str(host.to_session(max(time, first))) for time in times[fresh].tolist()],
        "min": [_finite(value) for value in least.tolist()],
        "max": [_finite(value) for value in most.tolist()],
        "last": [_finite(value) for value in values[ends].tolist()],
    }


def _finite(value: float) -> float | None:
    """As JSON has it: null is no number, or infinite."""
    return float(value) if np.isfinite(value) else None
