"""A session as the page sees it at one moment: hosts on one clock, their tracks under ids of the session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fastprof.schema.array_types import Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.viewer.host_facts import Counter, HostFacts
from fastprof.viewer.query import RequestError
from fastprof.viewer.store import HostStore, StoredEvent, TilePart

WAITING, BUILDING, READY, FAILED = "waiting", "building", "ready", "failed"
"""How far a host is: first its events, then what is derived of them."""


@dataclass(slots=True, eq=False)
class SeenHost:
    """How far a host is; in a snapshot as it was then. ``derived``: the state of all that is derived of its events.
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
        """Of a host whose events can be shown."""
        assert self.known is not None
        return self.known

    @property
    def counters(self) -> Sequence[Counter]:
        """Their tracks are numbered after those of events."""
        return () if self.facts is None else self.facts.counters

    def event(self, at: int) -> StoredEvent:
        """The event of that number in the store; RequestError: there is none."""
        if not 0 <= at < self.store.events:
            last = self.store.events - 1
            raise RequestError(404, f"host {self.name!r} has no event {at}: they are numbered up to {last}")
        return self.store.event(at)

    def to_session(self, time_ps: int) -> int:
        return time_ps + self.shift_ps

    def to_host(self, time_ps: int) -> int:
        """It may not fit 64 bits, and then is past all events of the host."""
        return time_ps - self.shift_ps


@dataclass(frozen=True, slots=True)
class Snapshot:
    """``key`` names all that tiles show; ``origin_ps``: the session's time 0, on the common clock of the hosts.
    ``id_bits``: an id of a track or process is the number of its host, times two to that power, plus its
    number there."""

    key: str
    hosts: tuple[SeenHost, ...]
    origin_ps: int
    span_ps: int
    id_bits: int

    def host(self, name: str | None) -> SeenHost:
        """The host of that name, or without one the only one; RequestError: it is not there, or not yet."""
        if name is None and len(self.hosts) > 1:
            raise RequestError(400, "the argument host is missing, and the session has several")
        found = next((host for host in self.hosts if name in (None, host.name)), None)
        if found is None:
            raise RequestError(404, f"the session has no host {name!r}")
        if found.known is None:
            raise RequestError(409, f"the events of host {found.name!r} cannot be shown yet")
        return found

    @property
    def is_whole(self) -> bool:
        """Whether nothing more is to come."""
        return all(host.derived in (READY, FAILED) for host in self.hosts)

    @property
    def ready(self) -> Iterator[SeenHost]:
        return (host for host in self.hosts if host.known is not None)

    def track_id(self, host: SeenHost, local: int) -> int:
        return (host.number << self.id_bits) + local

    def ref(self, host: SeenHost, at: int) -> dict[str, Any]:
        """An event as the page refers to it: where it lies, and its name. Times are of the session, as text."""
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

    def split(self, ids: Int64s | None) -> list[tuple[SeenHost, Int64s]]:
        """The tracks of each host by their numbers there; None: all. RequestError for one that is not there."""
        if ids is None:
            return [(host, np.arange(len(host.store.tracks))) for host in self.ready]
        numbers = ids >> self.id_bits
        cuts = np.flatnonzero(np.diff(numbers)) + 1
        found = []
        for share in np.split(ids, cuts) if len(ids) else ():
            number = int(share[0]) >> self.id_bits
            host = self.hosts[number] if number < len(self.hosts) else None
            local = share & ((1 << self.id_bits) - 1)
            if host is None or host.known is None or int(local[-1]) >= len(host.store.tracks) + len(host.counters):
                raise RequestError(404, f"the session has no track {int(share[-1])}")
            found.append((host, local))
        return found

    def tile_parts(self, ids: Int64s | None, lanes: int | None) -> list[TilePart]:
        """What tiles draw of these tracks, None: of all; ``lanes``: of each at most, None: all."""
        return [
            TilePart(host.store, local, local + self.track_id(host, 0), -host.shift_ps, lanes)
            for host, local in self.split(ids)
        ]

    def place_of(self, track: int) -> tuple[SeenHost, int]:
        """The host of a track, and its number there."""
        ((host, local),) = self.split(np.array([track]))
        return host, int(local[0])


def id_bits(hosts: int) -> int:
    """How many bits the tracks of a host take, if the ids of all fit 32."""
    return min(24, 32 - max(hosts - 1, 0).bit_length())
