"""One run that is being looked at: its hosts are made ready one after the other, in a thread of its own, once."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from fastprof.decode.workers import HOSTS_READ, Progress
from fastprof.errors import ChangedError, FastprofError
from fastprof.tables.host_clocks import host_clocks
from fastprof.viewer.building import DerivedHost, derived_facts, derived_store, raw_store
from fastprof.viewer.cache_folder import CacheFolder
from fastprof.viewer.event_op import EventOps
from fastprof.viewer.query import RequestError
from fastprof.viewer.run_version import RunVersion
from fastprof.viewer.snapshot import BUILDING, READY, SeenHost, Snapshot, id_bits
from fastprof.viewer.snapshot import FAILED as FAILED
from fastprof.viewer.store import HostStore
from fastprof.viewer.threads import Changes

if TYPE_CHECKING:
    from fastprof.profile.profile import Profile

_KEPT_KEYS = 64
_FIRST_PICTURE_S = 0.1
"""Derived tracks begin after this time, so that pages that wait for the first picture have it at once."""
_FEW_FILES = 64
"""To look at them takes less than a tenth of what a tile takes."""
_NUMBERS = itertools.count()


class GivenUpError(Exception):
    """The server ends: what is being built is given up."""


class ViewedRun:
    """``profile``: the run, opened once; threads that build, read events and compute reports share it. ``snapshot``:
    what can be shown of it now. ``version``: names the files that all answers come from. Raises ChangedError if these
    have changed since the profile was opened."""

    def __init__(self, profile: Profile, cache: CacheFolder | None, stopping: threading.Event, name: str = "") -> None:
        self.name = name
        self.profile = profile
        self.tables = profile.table_set
        self.session = self.tables.session
        self._cache = cache
        self._stopping = stopping
        self._left = False
        self._pause_s = 0.0
        self.identity = f"run {next(_NUMBERS)}"
        """Distinguishes this run, and this version of it, from others that are or were open."""
        self.empty_reports: dict[str, str] = {}
        """Why reports of the entire run have no rows, of those computed so far."""
        self._analysed: dict[int, tuple[int, int]] = {}
        self._files = RunVersion(self.session)
        self.version = self._files.name
        self._replaced: str | None = None
        self._checked_s = time.monotonic()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.ops = EventOps(self.tables)
        self.hosts = [SeenHost(number, name) for number, name in enumerate(self.session.hosts)]
        environments = [part.environment for part in self.session.index.captures]
        self.starts_unix_ns = [one.start_unix_ns for one in environments]
        self.offsets_ps = host_clocks(self.starts_unix_ns).offsets_ps
        self._issued: dict[str, Snapshot] = {}
        self.changes = Changes()
        self.snapshot = self._look()

    @cached_property
    def declared_empty(self) -> dict[str, str | None]:
        """Why pages have nothing to show, as far as the captures declare it."""
        from fastprof.viewer.analysis_list import empty_pages  # late: it imports all analyses

        return empty_pages(self.session)

    @property
    def analysed(self) -> tuple[int, int]:
        """How many hosts the reports that are being computed have read, and of how many; the last to end counts."""
        return min(self._analysed.copy().values(), default=(0, 0))

    @contextlib.contextmanager
    def analysing(self) -> Iterator[None]:
        """The calling thread computes a report."""
        thread = threading.get_ident()

        def report(stage: str, done: int, total: int) -> None:
            if stage == HOSTS_READ:
                self._analysed[thread] = done, total

        try:
            with self.session.workers.reporting(report):
                yield
        finally:
            self._analysed.pop(thread, None)

    def start(self) -> None:
        """Begins to build, unless that has been begun."""
        with self._lock:
            if self._thread is None:
                self._pause_s = _FIRST_PICTURE_S
                self._thread = threading.Thread(target=self.build, name="fastprof-viewer", daemon=True)
                self._thread.start()

    def wait_for_end(self, seconds: float) -> None:
        """Waits until nothing is being built any more, at most this long."""
        if self._thread is not None:
            self._thread.join(seconds)

    def leave(self) -> None:
        """Nobody looks at the run any more: what is being built of it is given up."""
        self._left = True
        self.changes.happened()

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to come: all is there, or the server ends."""
        return self.snapshot.is_whole or self._left or self._stopping.is_set()

    def replaced(self, within_s: float = 0.0) -> str | None:
        """Why this version is gone, in a sentence; None: its files are as they were. Once it is gone it never comes
        back. If the files are many, they are not looked at again within ``within_s`` seconds."""
        due = self._files.count <= _FEW_FILES or time.monotonic() - self._checked_s >= within_s
        if self._replaced is None and due:
            try:
                self._files.check()
            except ChangedError as error:
                self._replaced = f"the capture {error.path} changed after this page was loaded; reload the page"
                self.leave()
            self._checked_s = time.monotonic()
        return self._replaced

    def issued(self, key: str) -> Snapshot:
        """The snapshot of a key. RequestError 409: it has not come to that yet since it was opened."""
        found = self._issued.get(key)
        if found is None:
            raise RequestError(409, "the run was opened again and is not as far yet: load its timeline again")
        return found

    # ---- building

    def build(self) -> None:
        """All stages of all hosts. Once: it is what ``start`` has a thread do."""
        try:
            for stage in (self._show, self._derive):
                for host in self.hosts:
                    if host.state != FAILED:
                        self._stage(stage, host)
                if stage == self._show:
                    with contextlib.suppress(FastprofError, OSError, MemoryError):  # a view that needs it says so
                        self.profile.prepare_tfprof()
        except GivenUpError:
            return

    def _stage(self, stage: Callable[[SeenHost], None], host: SeenHost) -> None:
        """A stage of a host; a fault is an error of the host, and the others go on."""
        try:
            stage(host)
        except GivenUpError:
            raise
        except (FastprofError, OSError, MemoryError, OverflowError) as error:
            host.error = str(error) or type(error).__name__
        except Exception as error:  # noqa: BLE001  nobody waits for the thread's error
            host.error = f"internal error: {type(error).__name__}: {error}"
        if host.error is not None:
            host.state, host.derived = FAILED if host.known is None else host.state, FAILED
        self._show_more()
        _give_back_memory()

    def _show(self, host: SeenHost) -> None:
        host.state = BUILDING
        self._show_more()
        raw = raw_store(self.tables, host.number, self._cache, self._progress(host))
        host.known = HostStore(raw)
        host.state, host.progress = READY, 1.0

    def _derive(self, host: SeenHost) -> None:
        late = DerivedHost(self.tables, host.number, self._pause)
        progress = self._progress(host)
        derived = derived_store(late, self._cache, progress)
        host.facts = derived_facts(late, self._cache, progress)
        host.known = HostStore(host.store.raw, derived)
        host.derived = READY

    def _pause(self) -> None:
        self._stopping.wait(self._pause_s)
        self._pause_s = 0.0

    def _progress(self, host: SeenHost) -> Progress:
        def report(_stage: str, done: int, total: int) -> None:
            if self._left or self._stopping.is_set():
                raise GivenUpError
            host.progress = done / total if total else 1.0

        return report

    # ---- what is there

    def _show_more(self) -> None:
        self.snapshot = self._look()
        self.changes.happened()

    def _look(self) -> Snapshot:
        offsets = self.offsets_ps
        shown = [host for host in self.hosts if host.known is not None and host.store.events]
        origin = min((host.store.first_ps + offsets[host.number] for host in shown), default=0)
        ends = [host.store.last_ps + offsets[host.number] for host in shown]
        hosts = tuple(replace(host, shift_ps=offsets[host.number] - origin) for host in self.hosts)
        span = max(ends, default=origin) - origin
        found = Snapshot(self._key(), hosts, origin, span, id_bits(len(hosts)))
        self._issued[found.key] = found
        while len(self._issued) > _KEPT_KEYS:
            del self._issued[next(iter(self._issued))]
        return found

    def _key(self) -> str:
        stages = [(host.known is not None, host.facts is not None, host.state, host.derived) for host in self.hosts]
        return f"{self.version}-{hashlib.blake2b(repr(stages).encode(), digest_size=4).hexdigest()}"


def _give_back_memory() -> None:
    """What was freed goes back to the system, which the allocator would keep for the next host: a server stays up."""
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):  # a system that has no such call
        ctypes.CDLL(None).malloc_trim(0)
