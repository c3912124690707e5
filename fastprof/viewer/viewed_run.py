"""One run that is being looked at: its hosts are made ready one after the other, in a thread of its own, once."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import itertools
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from fastprof._version import __version__
from fastprof.decode.workers import Progress
from fastprof.errors import FastprofError
from fastprof.viewer.building import DerivedHost, derived_facts, derived_store, raw_store
from fastprof.viewer.cache_folder import CacheFolder, source_key
from fastprof.viewer.host_facts import VERSION as FACTS_VERSION
from fastprof.viewer.host_facts import HostFacts
from fastprof.viewer.request_error import RequestError
from fastprof.viewer.snapshot import BUILDING, READY, WAITING, SeenHost, Snapshot, clock_offsets, id_bits
from fastprof.viewer.snapshot import FAILED as FAILED
from fastprof.viewer.store import HostStore
from fastprof.viewer.store_file import FORMAT as STORE_FORMAT
from fastprof.viewer.threads import Changes

if TYPE_CHECKING:
    from fastprof.profile.profile import Profile

_KEPT_KEYS = 64
_FIRST_PICTURE_S = 0.1
"""Derived tracks are begun after so long, so that pages that wait for the first picture have it at once."""
_NUMBERS = itertools.count()


class GivenUpError(Exception):
    """The server ends: what is being built is given up."""


@dataclass(slots=True)
class HostState:
    """How far a host is. ``derived``: what is computed of its events, after they can be shown."""

    number: int
    name: str
    state: str = WAITING
    derived: str = BUILDING
    progress: float = 0.0
    error: str | None = None
    store: HostStore | None = None
    facts: HostFacts | None = None


class ViewedRun:
    """``profile``: the run, opened once; threads that build, read events and compute reports share it. ``snapshot``:
    what can be shown of it now."""

    def __init__(self, profile: Profile, cache: CacheFolder | None, stopping: threading.Event) -> None:
        self.profile = profile
        self.tables = profile.table_set
        self.session = self.tables.session
        self._cache = cache
        self._stopping = stopping
        self._left = False
        self._pause_s = 0.0
        self._identity = f"run {next(_NUMBERS)}"
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.hosts = [HostState(number, name) for number, name in enumerate(self.session.hosts)]
        environments = [part.environment for part in self.session.index.captures]
        self.starts_unix_ns = [one.start_unix_ns for one in environments]
        self.offsets_ps = clock_offsets(self.starts_unix_ns)
        self._sources = self._source_keys()
        self._issued: dict[str, Snapshot] = {}
        self.changes = Changes()
        self.snapshot = self._look()

    def start(self) -> None:
        """Begins to build, unless that has been begun."""
        with self._lock:
            if self._thread is None:
                self._pause_s = _FIRST_PICTURE_S
                self._thread = threading.Thread(target=self.build, name="fastprof-viewer", daemon=True)
                self._thread.start()

    def wait_for_end(self, seconds: float) -> None:
        """Waits until nothing is being built any more, so long at most."""
        if self._thread is not None:
            self._thread.join(seconds)

    def leave(self) -> None:
        """Nobody looks at the run any more: what is being built of it is given up."""
        self._left = True
        self.changes.happened()

    @property
    def identity(self) -> str:
        """Tells this run from others that are or were open."""
        return self._identity

    @property
    def is_over(self) -> bool:
        """Whether nobody is to wait for more: all is there, or the server ends."""
        return self.snapshot.is_whole or self._left or self._stopping.is_set()

    def issued(self, key: str) -> Snapshot:
        """The snapshot of a key. RequestError 410: it was another session's."""
        found = self._issued.get(key)
        if found is None:
            raise RequestError(410, "what is shown has changed: the timeline is to be loaded anew")
        return found

    # ---- building

    def build(self) -> None:
        """All stages of all hosts. Once: it is what ``start`` has a thread do."""
        try:
            for stage in (self._show, self._derive):
                for host in self.hosts:
                    if host.state != FAILED:
                        self._stage(stage, host)
        except GivenUpError:
            return

    def _stage(self, stage: Callable[[HostState], None], host: HostState) -> None:
        """A stage of a host; a fault of the capture is told of the host, and the others go on."""
        try:
            stage(host)
        except GivenUpError:
            raise
        except (FastprofError, OSError, MemoryError, OverflowError) as error:
            host.error = str(error) or type(error).__name__
            if host.store is None:
                host.state = FAILED
            host.derived = FAILED
        except Exception as error:  # noqa: BLE001  a thread has nobody else to tell
            host.error = f"internal error: {type(error).__name__}: {error}"
            if host.store is None:
                host.state = FAILED
            host.derived = FAILED
        self._show_more()
        _give_back_memory()

    def _show(self, host: HostState) -> None:
        host.state = BUILDING
        self._show_more()
        raw = raw_store(self.tables, host.number, self._cache, self._progress(host))
        host.store = HostStore(raw)
        host.state, host.progress = READY, 1.0

    def _derive(self, host: HostState) -> None:
        assert host.store is not None
        late = DerivedHost(self.tables, host.number, self._pause)
        progress = self._progress(host)
        derived = derived_store(late, self._cache, progress)
        host.facts = derived_facts(late, self._cache, progress)
        host.store = HostStore(host.store.raw, derived)
        host.derived = READY

    def _pause(self) -> None:
        self._stopping.wait(self._pause_s)
        self._pause_s = 0.0

    def _progress(self, host: HostState) -> Progress:
        def tell(_stage: str, done: int, total: int) -> None:
            if self._left or self._stopping.is_set():
                raise GivenUpError
            host.progress = done / total if total else 1.0

        return tell

    # ---- what is there

    def _show_more(self) -> None:
        self.snapshot = self._look()
        self.changes.happened()

    def _look(self) -> Snapshot:
        stores = [(host.store, self.offsets_ps[host.number]) for host in self.hosts if host.store is not None]
        starts = [store.first_ps + offset for store, offset in stores if store.events]
        ends = [store.last_ps + offset for store, offset in stores if store.events]
        origin = min(starts, default=0)
        hosts = tuple(
            SeenHost(
                host.number,
                host.name,
                host.state,
                host.derived,
                host.error,
                host.store,
                host.facts,
                self.offsets_ps[host.number] - origin,
            )
            for host in self.hosts
        )
        span = max(ends, default=origin) - origin
        found = Snapshot(self._key(), hosts, origin, span, id_bits(len(hosts)))
        self._issued[found.key] = found
        while len(self._issued) > _KEPT_KEYS:
            del self._issued[next(iter(self._issued))]
        return found

    def _key(self) -> str:
        stages = [(host.store is not None, host.facts is not None, host.state, host.derived) for host in self.hosts]
        return hashlib.blake2b(repr((self._sources, stages)).encode(), digest_size=10).hexdigest()

    def _source_keys(self) -> tuple[str, ...]:
        """What all that is shown comes from: equal for equal files, so that browsers may keep tiles for good."""
        versions = (__version__, STORE_FORMAT, FACTS_VERSION)
        found = [source_key(one.path, *versions, one.host, one.salvage) for one in self.session.captures]
        return tuple(one or f"{self._identity} {os.urandom(8).hex()}" for one in found)


def _give_back_memory() -> None:
    """What was freed goes back to the system, which the allocator would keep for the next host: a server stays up."""
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):  # a system that has no such call
        ctypes.CDLL(None).malloc_trim(0)
