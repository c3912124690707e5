"""What there is to show of a run: its hosts, processes and tracks, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastprof.viewer.snapshot import SeenHost, Snapshot
from fastprof.viewer.store import NAME_LETTERS
from fastprof.viewer.viewed_run import ViewedRun

_TRACK = ("id", "name", "tid", "sort", "lanes", "events", "derived", "kind")
"""A track as the page has it. ``sort``: the order of the tracks of a process; counters come last."""
_LAST = 2**32
"""As an order: after the ids of all threads and streams."""


def timeline_document(run: ViewedRun) -> dict[str, Any]:
    """As JSON takes it: how far each host is, and its processes with their tracks."""
    seen = run.snapshot
    return {
        "key": seen.key,
        "state": "ready" if seen.is_whole else "building",
        "origin_ps": str(seen.origin_ps),
        "span_ps": str(seen.span_ps),
        "run_ps": _run(seen),
        "hosts": [
            {
                "host": host.name,
                "state": host.state,
                "derived": host.derived,
                "progress": round(run.hosts[host.number].progress, 3),
                "error": host.error,
                "offset_ps": str(run.offsets_ps[host.number]),
                "start_unix_ns": None if start_unix_ns is None else str(start_unix_ns),
                **_counts(host),
            }
            for host, start_unix_ns in zip(seen.hosts, run.starts_unix_ns, strict=True)
        ],
        "processes": [one for host in seen.ready for one in _processes(seen, host)],
    }


def _run(seen: Snapshot) -> list[str] | None:
    """Begin and end of what there is to see first, from the origin of the session; None: all of it."""
    hosts = [host for host in seen.ready if host.store.events]
    if not any(host.store.about.get("run") for host in hosts):
        return None
    runs = [host.store.about.get("run") or (host.store.first_ps, host.store.last_ps) for host in hosts]
    begin = min(host.to_session(first) for host, (first, _) in zip(hosts, runs, strict=True))
    end = max(host.to_session(last) for host, (_, last) in zip(hosts, runs, strict=True))
    return [str(begin), str(end)]


def _counts(host: SeenHost) -> dict[str, int]:
    """``events``: as ``info`` counts them, those without a start as well; ``untimed_events``: the latter, which no
    track shows."""
    if host.known is None:
        return {"events": 0, "derived_events": 0, "untimed_events": 0}
    recorded, untimed = len(host.store.raw), int(host.store.about["untimed"])
    return {
        "events": recorded + untimed,
        "derived_events": host.store.events - recorded,
        "untimed_events": untimed,
    }


def _processes(seen: Snapshot, host: SeenHost) -> Iterator[dict[str, Any]]:
    """The processes of a host with their tracks, in the order in which they are shown."""
    tracks: dict[int, list[tuple[Any, ...]]] = {}
    for track in host.store.tracks:
        about, id = track.about, seen.track_id(host, track.number)
        kind = "events" if about["kind"] == "counter" else about["kind"]  # a counter of them is a track of its own
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
