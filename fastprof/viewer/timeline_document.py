"""What there is to show of a run: its hosts, processes and tracks, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fastprof.viewer.host_facts import Counter
from fastprof.viewer.snapshot import NAME_LETTERS, SeenHost, Snapshot
from fastprof.viewer.store import StoredTrack
from fastprof.viewer.viewed_run import ViewedRun


@dataclass(frozen=True, slots=True)
class _Track:
    """As the page has it, by column. ``sort``: by which tracks of a process are ordered; counters come first."""

    id: int
    name: str
    tid: int | None
    sort: int
    lanes: int
    events: int
    derived: int
    kind: str


def timeline_document(run: ViewedRun) -> dict[str, Any]:
    """As JSON takes it: how far each host is, and its processes with their tracks."""
    seen = run.snapshot
    return {
        "key": seen.key,
        "state": "ready" if seen.is_whole else "building",
        "origin_ps": str(seen.origin_ps),
        "span_ps": str(seen.span_ps),
        "hosts": [
            {
                "host": host.name,
                "state": host.state,
                "derived": host.derived,
                "progress": round(run.hosts[host.number].progress, 3),
                "error": host.error,
                "offset_ps": str(run.offsets_ps[host.number]),
                "start_unix_ns": _text(run.starts_unix_ns[host.number]),
                "events": 0 if host.known is None else host.store.events,
            }
            for host in seen.hosts
        ],
        "processes": [one for host in seen.ready for one in _processes(seen, host)],
    }


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _processes(seen: Snapshot, host: SeenHost) -> Iterator[dict[str, Any]]:
    """The processes of a host with their tracks, in the order in which they are shown."""
    tracks: dict[int, list[_Track]] = {}
    for track in host.store.tracks:
        tracks.setdefault(track.about["process"], []).append(_track(seen, host, track))
    for number, counter in enumerate(host.facts.counters if host.facts is not None else (), len(host.store.tracks)):
        tracks.setdefault(counter.process, []).append(_counter(seen.track_id(host, number), counter))
    for number, about in enumerate(host.store.about["processes"]):
        mine = sorted(tracks.get(number, ()), key=lambda track: (track.sort, track.id))
        if not mine:
            continue
        yield {
            "id": seen.track_id(host, number),
            "host": host.name,
            "pid": about["pid"],
            "name": about["name"],
            "kind": about["kind"],
            "sort": about["sort"],
            "shown": about.get("shown", True),
            "tracks": {name: [getattr(track, name) for track in mine] for name in _Track.__dataclass_fields__},
        }


def _track(seen: Snapshot, host: SeenHost, track: StoredTrack) -> _Track:
    about = track.about
    kind = "events" if about["kind"] == "counter" else about["kind"]  # a counter of them is a track of its own
    return _Track(
        seen.track_id(host, track.number),
        about["name"][:NAME_LETTERS],
        about["tid"],
        about["sort"],
        track.lanes,
        track.events,
        int(track.derived),
        kind,
    )


def _counter(id: int, counter: Counter) -> _Track:
    return _Track(id, counter.name[:NAME_LETTERS], None, -1, 1, len(counter.time_ps), 1, "counter")
