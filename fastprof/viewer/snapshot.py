"""Session as the page sees it at one time: hosts on one clock, their tracks under ids of the session, and the hits of a
search, sorted once by time, duration or track. A list has the first ``MOST`` hits, so its memory is bounded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.schema.columns import Bools, Int64s, sort_rows
from fastprof.schema.value_classes import dataclass
from fastprof.viewer.host_files import Counter, HostFacts
from fastprof.viewer.query import RequestError
from fastprof.viewer.store import HostStore, StoredEvent, TilePart

WAITING, BUILDING, READY, FAILED = "waiting", "building", "ready", "failed"
"""Progress of a host: first its events, then what is derived of them."""


@dataclass(slots=True, eq=False)
class HostView:
    """State of a host; in a snapshot as it was then. ``derived``: the state of all that is derived of its events.
    ``known``: its store, None until its events can be shown. ``facts``: what is derived of it, None until it is.
    ``shift_ps``: what added to times of the host makes times of the session."""

    number: int
    name: str
    state: str = WAITING
    derived: str = BUILDING
    progress: float = 0.0
    error: str | None = None
    known: HostStore | None = None
    facts: HostFacts | None = None
    shift_ps: int = 0

    @property
    def store(self) -> HostStore:
        """Store of a host whose events can be shown."""
        assert self.known is not None
        return self.known

    @property
    def counters(self) -> Sequence[Counter]:
        """Counters, whose tracks are numbered after those of events."""
        return () if self.facts is None else self.facts.counters

    def event(self, at: int) -> StoredEvent:
        """Return the event of that number in the store. RequestError: there is none."""
        if not 0 <= at < self.store.events:
            last = self.store.events - 1
            raise RequestError(404, f"host {self.name!r} has no event {at}: they are numbered up to {last}")
        return self.store.event(at)

    def to_session(self, time_ps: int) -> int:
        return time_ps + self.shift_ps

    def to_host(self, time_ps: int) -> int:
        """Convert a time of the session, which may not fit 64 bits then, and is past all events of the host."""
        return time_ps - self.shift_ps


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Session at one time. ``key`` names all that tiles show; ``origin_ps``: the session's time 0, on the common clock
    of the hosts. ``id_bits``: an id of a track or process is the number of its host, times two to that power, plus its
    number there."""

    key: str
    hosts: tuple[HostView, ...]
    origin_ps: int
    span_ps: int
    id_bits: int

    def host(self, name: str | None) -> HostView:
        """Return the host of that name, or without one the only one. RequestError: it is not there, or not yet."""
        if name is None and len(self.hosts) > 1:
            raise RequestError(400, "the argument host is missing, and the session has several hosts")
        chosen = next((host for host in self.hosts if name in (None, host.name)), None)
        if chosen is None:
            raise RequestError(404, f"the session has no host {name!r}")
        if chosen.known is None:
            raise RequestError(409, f"the events of host {chosen.name!r} cannot be shown yet")
        return chosen

    @property
    def is_whole(self) -> bool:
        """Return whether nothing more is to come."""
        return all(host.derived in (READY, FAILED) for host in self.hosts)

    @property
    def ready(self) -> Iterator[HostView]:
        return (host for host in self.hosts if host.known is not None)

    def track_id(self, host: HostView, local: int) -> int:
        return (host.number << self.id_bits) + local

    def ref(self, host: HostView, at: int) -> dict[str, Any]:
        """Return an event as the page refers to it: where it lies, and its name. Times are of the session, as
        strings."""
        event = host.event(at)
        return {
            "host": host.name,
            "at": at,
            "track": self.track_id(host, event.track),
            "lane": event.lane,
            "name": host.store.short_name(event.name),
            "start_ps": str(host.to_session(event.start_ps)),
            "duration_ps": str(event.duration_ps),
        }

    def split(self, ids: Int64s | None) -> list[tuple[HostView, Int64s]]:
        """Return the tracks of each host by their numbers there; all tracks for None. RequestError: one is not
        there."""
        if ids is None:
            return [(host, np.arange(len(host.store.tracks))) for host in self.ready]
        numbers = ids >> self.id_bits
        cuts = np.flatnonzero(np.diff(numbers)) + 1
        parts = []
        for share in np.split(ids, cuts) if len(ids) else ():
            number = int(share[0]) >> self.id_bits
            host = self.hosts[number] if number < len(self.hosts) else None
            local = share & ((1 << self.id_bits) - 1)
            if host is None or host.known is None or int(local[-1]) >= len(host.store.tracks) + len(host.counters):
                raise RequestError(404, f"the session has no track {int(share[-1])}")
            parts.append((host, local))
        return parts

    def tile_parts(self, ids: Int64s | None, lanes: range | None) -> list[TilePart]:
        """Return the parts of tiles of these tracks (None for all). ``lanes``: lanes of each track, None for all."""
        return [
            TilePart(host.store, local, local + self.track_id(host, 0), -host.shift_ps, lanes)
            for host, local in self.split(ids)
        ]

    def place_of(self, track: int) -> tuple[HostView, int]:
        """Return the host of a track, and its number there."""
        ((host, local),) = self.split(np.array([track]))
        return host, int(local[0])


def count_id_bits(hosts: int) -> int:
    """Return how many bits the tracks of a host take, if the ids of all fit 32."""
    return min(24, 32 - max(hosts - 1, 0).bit_length())


START, DURATION, TRACK = "start", "duration", "track"
ORDERS: Final = (START, DURATION, TRACK)
MOST_HITS: Final = 1 << 20
"""Most hits that a list has."""

Keys = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class HitList:
    """Hits of a search. ``host``, ``at``: the hits in order. ``total``: how many there are; these are the first."""

    host: Int64s
    at: Int64s
    total: int

    def __len__(self) -> int:
        return len(self.at)


def make_hit_list(hosts: Sequence[HostView], wanted: Mapping[int, Bools], order: str, down: bool) -> HitList:
    """Return the first ``MOST_HITS`` hits of these hosts; ``wanted`` is by number of the host. Equal ones are in the
    order of host, track, lane and start, whether ``down`` or not."""
    first_hits = _FirstHits(MOST_HITS)
    for host in hosts:
        for at, start, duration in host.store.named(wanted[host.number]):
            if order == START:  # times of a session are from 0 to 2**64
                key: Keys = start.view(np.uint64) + np.uint64(host.shift_ps % 2**64)
            elif order == DURATION:
                key = duration.view(np.uint64) ^ np.uint64(2**63)
            else:
                key = np.zeros(len(start), np.uint64)
            first_hits.add(~key if down else key, np.full(len(at), host.number, np.int64), at)
    host_number, at = first_hits.sorted()
    return HitList(host_number, at, first_hits.total)


class _FirstHits:
    """First ``most`` of the rows that are added; never more than twice as many and a part in memory at once."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.total = 0
        self._rows: tuple[npt.NDArray[Any], ...] = (
            np.zeros(0, np.uint64),
            np.zeros(0, np.int64),
            np.zeros(0, np.int64),
        )
        self._last: np.uint64 | None = None

    def add(self, key: Keys, host: Int64s, at: Int64s) -> None:
        self.total += len(key)
        part: tuple[npt.NDArray[Any], ...] = (key, host, at)
        if self._last is not None:
            part = tuple(column[key <= self._last] for column in part)
        self._rows = tuple(np.concatenate(pair) for pair in zip(self._rows, part, strict=True))
        if len(self._rows[0]) > 2 * self.most:
            self._cut()

    def _cut(self) -> None:
        order = sort_rows(*self._rows)[: self.most]
        self._rows = tuple(column[order] for column in self._rows)
        if len(order) == self.most:
            self._last = self._rows[0][-1]

    def sorted(self) -> tuple[Int64s, Int64s]:
        self._cut()
        return self._rows[1], self._rows[2]
