"""One run that is being looked at: its hosts are made ready one after the other, in a thread of its own, once.

Stores and facts of a host are built, or opened from the cache. The events of the capture come first, decoded without
stats, so that they can be drawn soon; they are decoded once more, with stats, for what is derived. Which instruction
and op an event is an execution of is found when it is asked for.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import hashlib
import itertools
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from fastprof._version import __version__
from fastprof.decode.array_memory import adopt_thread
from fastprof.decode.plane_kinds import find_device_of_plane, is_gpu_plane
from fastprof.decode.single_event import METADATA, EventStats
from fastprof.decode.workers import HOSTS_READ, Progress
from fastprof.derive.devices.op_names import Framework, parse_op_name
from fastprof.errors import CaptureError, ChangedError, FastprofError
from fastprof.export.new_files import make_temporary_folder
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_clocks import make_host_clocks
from fastprof.tables.host_events import HOST_THREADS
from fastprof.tables.host_reader import read_host
from fastprof.tables.table_set import TableSet
from fastprof.viewer.cache_folder import CacheFolder
from fastprof.viewer.host_files import (
    FACTS_FORMAT,
    FACTS_VERSION,
    STORE_FORMAT,
    HostFacts,
    TrackInput,
    build_store,
    make_fact_columns,
    write_facts,
)
from fastprof.viewer.query import RequestError, name_internal_error
from fastprof.viewer.run_list import RunVersion, check_capture, make_capture_key
from fastprof.viewer.snapshot import BUILDING, FAILED, READY, HostView, Snapshot, count_id_bits
from fastprof.viewer.store import HostStore, Store
from fastprof.viewer.threads import Changes, ComputedOnce

if TYPE_CHECKING:
    from fastprof.derive.host import Host
    from fastprof.derive.ops.gpu_ops import GpuOp
    from fastprof.derive.timeline.derived_track import DerivedTimeline
    from fastprof.derive.timeline.host_timeline import HostTimeline
    from fastprof.hlo.module import HloModule
    from fastprof.hlo.programs import Program
    from fastprof.profile.profile import Profile
    from fastprof.schema.columns import Int32s


_TPU, _SPARSE_CORE = "/device:TPU:", " SparseCore "
_MODULES, _OPS = "XLA Modules", "XLA Ops"
_FRAMEWORK_OPS: Final = ("Framework Ops", "TensorFlow Ops")
_MOST_LETTERS: Final = 300
"""Letters of the words that rows are searched by: a part of a name matches as well."""
_KEPT_MODULES: Final = 8


@dataclass(frozen=True, slots=True)
class ViewedEvent:
    """Event of host ``number``: ``name`` as it is shown, ``long_name`` in full; ``row`` of its host, None if it is
    derived. ``line``: its track, by the title of all of its kind. ``gpu_programs``: see ``HostFacts``."""

    number: int
    plane: str
    line: str
    row: int | None
    name: str
    long_name: str
    stats: EventStats
    gpu_programs: frozenset[int] = frozenset()

    def stat(self, name: str, of: str | None = None) -> str | None:
        """Return the value of a stat, of the event before its metadata, or None if it is empty or missing."""
        return next(filter(None, self.stats.values(name, of)), None)


@dataclass(frozen=True, slots=True)
class _EventOp:
    """Op of an event. ``program``: an int64, else ``title``: a text that names it. ``search``, ``device``, ``host``:
    names of rows in the tables of op stats, of the framework's ops, of device ops and of host ops, or "".
    ``of_program``: those of the program, if it has any."""

    program: int | None = None
    title: str = ""
    instruction: str = ""
    name: str = ""
    category: str = ""
    search: str = ""
    device: str = ""
    host: str = ""
    of_program: bool = False


class EventOps:
    """Ops of the events of a session. What several events need is computed once, when the first of them needs it;
    events that need something else do not wait."""

    def __init__(self, tables: TableSet) -> None:
        self._tables = tables
        self._once: ComputedOnce[Hashable, Any] = ComputedOnce()
        self._modules: ComputedOnce[int, HloModule | None] = ComputedOnce(_KEPT_MODULES)

    def document(self, seen: ViewedEvent) -> dict[str, Any] | None:
        """Describe the op of an event as JSON takes it, or return None. ``hlo``: how the page of programs finds it,
        None if the capture does not have the program. ``op_stats``: what the tables of op stats are filtered by, None
        if it has no row there."""
        op = self._op(seen)
        if op is None:
            return None
        programs = self._programs(seen.number)
        program = _find_program(programs, op)
        number = op.program if program is None else program.id
        hlo = None
        if program is not None:  # the text that names the program among all, and the instruction if it has that
            titles = [known.title for known in programs.values()]
            text = program.title if titles.count(program.title) == 1 else str(program.id % 2**64)
            module = self._module(program) if op.instruction else None
            has = module is not None and int(module.find([op.instruction])[0]) >= 0
            hlo = {"module": text, "instruction": op.instruction if has else None}
        has_ops = op.of_program and program is not None and self._has_ops(seen, program.id)
        title = "" if program is None else program.title
        device = f"{title} {op.device}".strip() if op.device else title if has_ops else ""
        searches = {"search": op.search, "device_search": device, "host_search": op.host}
        return {
            "program_id": None if number is None else str(number % 2**64),
            "module": op.title or seen.stat("hlo_module") if program is None else program.title,
            "instruction": op.instruction or None,
            "name": op.name or None,
            "category": op.category or None,
            "hlo": hlo,
            "op_stats": {key: text[:_MOST_LETTERS] for key, text in searches.items() if text} or None,
        }

    def _op(self, seen: ViewedEvent) -> _EventOp | None:
        if seen.line == _MODULES:
            return _EventOp(_parse_program_id(seen.stat("program_id")), seen.long_name, of_program=True)
        if seen.row is None:
            return _find_derived_op(seen)
        if is_gpu_plane(seen.plane):
            return self._of_gpu(seen, seen.row) or _find_derived_op(seen)
        if seen.plane.startswith(_TPU):
            return _find_tpu_op(seen)
        return self._of_host(seen) if seen.plane == HOST_THREADS else None

    def _of_gpu(self, seen: ViewedEvent, row: int) -> _EventOp | None:
        places, ops = self._gpu_ops(seen.number)
        place = int(places[row]) if row < len(places) else -1
        if place < 0:
            return None
        op = ops[place]
        name = parse_op_name(op.provenance).name if op.provenance else ""
        return _EventOp(
            op.program_id or None,
            instruction=op.name if op.is_hlo else "",
            name=name,
            category=op.category,
            search=name or op.name,
            device=op.name,
        )

    def _of_host(self, seen: ViewedEvent) -> _EventOp | None:
        """Return the op that the name of the event names, else its stats: a stage of a pipeline, an op of a framework,
        an instruction."""
        instruction = (seen.stat("hlo_op") or "").rpartition("::")[2]
        program = _parse_program_id(seen.stat("program_id")) if instruction else None
        own, recorded = parse_op_name(seen.long_name), seen.stat("tf_op")
        name = ""
        if recorded:
            name = parse_op_name(recorded).name
        elif seen.stat("_ipl_stage_id") and seen.stat("_ipl_stage_cat"):
            name = seen.long_name
        elif own.framework is not Framework.UNKNOWN:
            name = own.name
        elif instruction and not self._has_devices(seen.number):
            name = seen.stat("hlo_op") or ""
        if not name and not instruction:
            return None
        title = seen.stat("hlo_module") or "" if instruction else ""
        return _EventOp(program, title, instruction, "" if name == instruction else name, search=name, host=name)

    # ---- what several events need

    def _programs(self, number: int) -> dict[int, Program]:
        """Return the programs of a host, by id."""
        name = self._tables.session.hosts[number]
        programs: dict[int, Program] = self._once.of(
            ("programs", number),
            lambda: {program.id: program for host, program in self._tables.programs() if host == name},
        )
        return programs

    def _module(self, program: Program) -> HloModule | None:
        """Return the module of a program, or None if it does not decode."""

        def read() -> HloModule | None:
            try:
                return program.read(self._tables.session.log)
            except CaptureError:
                return None

        return self._modules.of(id(program), read)  # the list of programs is kept

    def _gpu_ops(self, number: int) -> tuple[Int32s, list[GpuOp]]:
        ops: tuple[Int32s, list[GpuOp]] = self._once.of(
            ("gpu", number), lambda: _attribute_gpu_ops(self._tables, number)
        )
        return ops

    def _has_ops(self, seen: ViewedEvent, program: int) -> bool:
        """Return whether devices of the kind ran instructions of a program that op stats counts."""
        number = seen.number
        if is_gpu_plane(seen.plane):
            return program in seen.gpu_programs or any(op.program_id == program for op in self._gpu_ops(number)[1])
        return program in self._once.of(("tpu", number), lambda: _list_tpu_programs(self._tables, number))

    def _has_devices(self, number: int) -> bool:
        """Return whether the host has planes of GPUs or of TPUs."""
        planes = self._tables.session.captures[number].plane_keys
        return any(find_device_of_plane(name)[0] in ("GPU", "TPU") for name, _ in planes)


def _find_derived_op(seen: ViewedEvent) -> _EventOp | None:
    """Return the op of a derived event: lines of instructions name program and instruction, ``3/fusion.1``, those of
    ops the framework's op."""
    if seen.line == _OPS:
        program, _, instruction = seen.long_name.rpartition("/")
        return _EventOp(_parse_program_id(program), program, instruction or seen.name, device=instruction or seen.name)
    if seen.line in _FRAMEWORK_OPS:
        name = parse_op_name(seen.long_name).name
        return _EventOp(name=name, search=name)
    return None


def _find_tpu_op(seen: ViewedEvent) -> _EventOp | None:
    """Return the op of a TPU event. Op stats counts events of op lines whose metadata have a program and a symbol."""
    from fastprof.derive.devices.device_events import OP_LINES

    of_metadata = partial(seen.stat, of=METADATA)
    program = _parse_program_id(of_metadata("program_id"))
    if program is None:
        return None
    provenance = of_metadata("tf_op")
    name = parse_op_name(provenance).name if provenance else ""
    counted = seen.line in OP_LINES and _SPARSE_CORE not in seen.plane and of_metadata("symbol_id") not in (None, "0")
    return _EventOp(
        program,
        instruction=seen.stat("hlo_op") or seen.name,
        name=name,
        category=seen.stat("hlo_category") or "",
        search=(name or seen.name) if counted else "",
        device=seen.name if counted else "",
    )


def _parse_program_id(text: str | None) -> int | None:
    """Parse a program id as captures have it, the bits of a uint64 as an int64."""
    if not text or not text.removeprefix("-").isascii() or not text.removeprefix("-").isdigit() or len(text) > 20:
        return None
    number = int(text) % 2**64
    return number if number < 2**63 else number - 2**64


def _find_program(programs: dict[int, Program], op: _EventOp) -> Program | None:
    """Find the program by id, else by title or by the name of the module, if only one has it."""
    if op.program is not None:
        return programs.get(op.program)
    if not op.title:
        return None
    titled = [program for program in programs.values() if program.title == op.title]
    named = titled or [program for program in programs.values() if program.title.rpartition("(")[0] == op.title]
    return named[0] if len(named) == 1 else None


def _attribute_gpu_ops(tables: TableSet, number: int) -> tuple[Int32s, list[GpuOp]]:
    """Return the place of the op of each row of the host's events, or -1, and the ops."""
    from fastprof import hlo
    from fastprof.derive.ops import gpu_attribution
    from fastprof.derive.ops.device_ops import GPU_STATS
    from fastprof.derive.steps.event_graph import STATS
    from fastprof.hlo.programs import Modules

    stats = tuple(dict.fromkeys((*STATS, *GPU_STATS)))
    try:
        events = read_host(tables, number, (), stats, hlo.METADATA_STATS)
        ops = gpu_attribution.find_op_events(events, Modules(events.programs, events.capture.log))
    except CaptureError:  # op stats reports it; the event has its details without an op
        return np.zeros(0, np.int32), []
    return ops.op, ops.ops


def _list_tpu_programs(tables: TableSet, number: int) -> set[int]:
    """Return the ids of programs whose instructions TPUs ran."""
    from fastprof.derive.devices.device_events import list_op_events
    from fastprof.derive.ops import tpu_cores

    try:
        events = read_host(tables, number, tpu_cores.PLANES, tpu_cores.EVENT_STATS, tpu_cores.METADATA_STATS)
        op_tables = [
            tpu_cores.build_tpu_op_table(events, list_op_events(events, plane), 0)[0]
            for plane in events.planes_of("TPU")
        ]
    except CaptureError:
        return set()
    return {program for table in op_tables for program in table.program_id.tolist()}


T = TypeVar("T")
Make = Callable[[Path], None]
_DERIVATION: Final = 5
"""Number that grows when other tracks are derived, raw ones are named or ordered otherwise, or more of a host is
stored: older stores are made again."""
_STORE_VERSION: Final = (__version__, STORE_FORMAT, _DERIVATION)


def open_raw_store(
    tables: TableSet, number: int, cache: CacheFolder | None = None, progress: Progress | None = None
) -> Store:
    """Open the store of the events of host ``number``, all of them. Raises what reading a capture raises."""

    def make(path: Path) -> None:
        from fastprof.derive.host import Host
        from fastprof.derive.timeline.host_timeline import find_run_range, make_raw_timeline

        workers = tables.session.workers
        with workers.reporting(progress):
            events = read_host(tables, number, (), (), ())
            timeline = make_raw_timeline(Host(events, workers))
            about = {
                "processes": _list_processes(timeline),
                "untimed": sum(events.untimed.values()),
                "run": find_run_range(events),
            }
            _write_store(path, timeline, tables, about)

    return _open_cached(tables, number, ("raw", *_STORE_VERSION), cache, make, Store)


class DerivedHost:
    """Host ``number`` with the stats that tracks and facts are derived from. It is read when it is first needed, after
    ``pause``: not at all if the cache has all that is made of it."""

    def __init__(self, tables: TableSet, number: int, pause: Callable[[], object] = lambda: None) -> None:
        self.tables = tables
        self.number = number
        self._pause = pause

    @cached_property
    def host(self) -> Host:
        from fastprof.derive.host import Host
        from fastprof.derive.timeline.derived_lines import NEEDS

        self._pause()
        events = read_host(self.tables, self.number, NEEDS.planes, NEEDS.stats, NEEDS.metadata_stats)
        return Host(events, self.tables.session.workers)

    @cached_property
    def timeline(self) -> DerivedTimeline:
        from fastprof.derive.timeline.derived_lines import derive_timeline

        return derive_timeline(self.host)


def open_derived_store(of: DerivedHost, cache: CacheFolder | None = None, progress: Progress | None = None) -> Store:
    """Open the store of the events of tracks that are derived from others, as XProf derives them; there may be none."""

    def make(path: Path) -> None:
        with of.tables.session.workers.reporting(progress):
            _write_store(path, of.timeline, of.tables, {"processes": _list_processes(of.timeline)})

    return _open_cached(of.tables, of.number, ("derived", *_STORE_VERSION), cache, make, Store)


def open_derived_facts(
    of: DerivedHost, cache: CacheFolder | None = None, progress: Progress | None = None
) -> HostFacts:
    """Open the facts of a host: what is derived from it besides tracks."""

    def make(path: Path) -> None:
        with of.tables.session.workers.reporting(progress):
            write_facts(path, make_fact_columns(of.tables, of.number, of.host, of.timeline))

    return _open_cached(of.tables, of.number, ("facts", FACTS_FORMAT, FACTS_VERSION), cache, make, HostFacts)


def _write_store(path: Path, timeline: HostTimeline, tables: TableSet, about: dict[str, Any]) -> None:
    tracks = [
        TrackInput(
            timeline.start_ps[track.first : track.last],
            timeline.duration_ps[track.first : track.last],
            timeline.name[track.first : track.last],
            track.first,
            {
                "process": track.process.number,
                "name": track.name,
                "tid": track.tid,
                "sort": track.tid,
                "kind": track.kind,
                "line": None if track.line is None else track.line.number,
            },
        )
        for track in timeline.tracks
    ]
    build_store(path, tracks, timeline.names, about, tables.session.workers)


def _list_processes(timeline: HostTimeline) -> list[dict[str, Any]]:
    return [
        {
            "pid": process.pid,
            "name": process.name,
            "sort": process.pid,
            "shown": process.shown,
            "plane": process.plane.name,
            "kind": process.plane.kind,
        }
        for process in timeline.processes
    ]


def _open_cached(
    tables: TableSet,
    number: int,
    what: tuple[object, ...],
    cache: CacheFolder | None,
    make: Make,
    read: Callable[[Path], T],
) -> T:
    """Return what ``read`` reads from a file of the cache, which ``make`` writes. Without a cache, and for a stream,
    the file is gone as soon as it is open. ChangedError: the capture changed; nothing made of it is stored."""
    capture = tables.session.captures[number]

    def made(path: Path) -> None:
        make(path)
        check_capture(capture)

    if cache is None:
        with make_temporary_folder("fastprof-viewer") as folder:
            made(folder / "made")
            return read(folder / "made")
    key = make_capture_key(capture, *what, number, capture.host, capture.salvage, str(tables.selection))
    return cache.opened(key, made, read)


_KEPT_KEYS = 64
_FIRST_PICTURE_S = 0.1
"""Time before derived tracks begin, so that pages that wait for the first picture have it at once."""
_FEW_FILES = 64
"""Files that can be checked in less than a tenth of the time that a tile takes."""
_NUMBERS = itertools.count()


class GivenUpError(Exception):
    """Raised when the server ends: what is being built is given up."""


class ViewedRun:
    """Run that is shown. ``profile``: the run, opened once; threads that build, read events and compute reports share
    it. ``snapshot``: what can be shown of it now. ``version``: names the files that all answers come from. Raises
    ChangedError if these have changed since the profile was opened."""

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
        """Name that distinguishes this run, and this version of it, from others that are or were open."""
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
        self.hosts = [HostView(number, name) for number, name in enumerate(self.session.hosts)]
        environments = [part.environment for part in self.session.index.captures]
        self.starts_unix_ns = [environment.start_unix_ns for environment in environments]
        self.offsets_ps = make_host_clocks(self.starts_unix_ns).offsets_ps
        self._issued: dict[str, Snapshot] = {}
        self.listed: tuple[Snapshot, list[dict[str, Any]]] | None = None
        """Snapshot of the latest track list, and its processes with their tracks, as JSON documents."""
        self.changes = Changes()
        self.snapshot = self._look()

    @cached_property
    def declared_empty(self) -> dict[str, str | None]:
        """Why pages have nothing to show, as far as the captures declare it."""
        from fastprof.viewer.analysis_list import explain_empty_pages  # late: it imports all analyses

        return explain_empty_pages(self.session)

    @property
    def analysed(self) -> tuple[int, int]:
        """Number of hosts that the reports in progress have read, and the total; the last to end counts."""
        return min(self._analysed.copy().values(), default=(0, 0))

    @contextlib.contextmanager
    def analysing(self) -> Iterator[None]:
        """Count the hosts that the calling thread reads for a report."""
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
        """Begin to build, unless that has been begun."""
        with self._lock:
            if self._thread is None:
                self._pause_s = _FIRST_PICTURE_S
                self._thread = threading.Thread(target=self.build, name="fastprof-viewer", daemon=True)
                self._thread.start()

    def wait_for_end(self, seconds: float) -> None:
        """Wait until nothing is being built any more, at most this long."""
        if self._thread is not None:
            self._thread.join(seconds)

    def leave(self) -> None:
        """Give up what is being built, because nobody looks at the run any more."""
        self._left = True
        self.changes.happened()

    @property
    def is_over(self) -> bool:
        """Return whether nothing more is to come: all is there, or the server ends."""
        return self.snapshot.is_whole or self._left or self._stopping.is_set()

    def replaced(self, within_s: float = 0.0) -> str | None:
        """Return why this version is gone, in a sentence, or None if its files are as they were. Once it is gone it
        never comes back. If the files are many, they are not checked again within ``within_s`` seconds."""
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
        """Return the snapshot of a key. RequestError 409: it has not come to that yet since it was opened."""
        snapshot = self._issued.get(key)
        if snapshot is None:
            raise RequestError(409, "the run was reopened and is still being prepared: load its timeline again")
        return snapshot

    # ---- building

    def build(self) -> None:
        """Build all stages of all hosts, once, in the thread of ``start``."""
        adopt_thread()
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

    def _stage(self, stage: Callable[[HostView], None], host: HostView) -> None:
        """Run a stage of a host; a fault is an error of the host, and the others go on."""
        try:
            stage(host)
        except GivenUpError:
            raise
        except (FastprofError, OSError, MemoryError, OverflowError) as error:
            host.error = str(error) or type(error).__name__
        except Exception as error:  # noqa: BLE001  nobody waits for the thread's error
            host.error = name_internal_error(error)
        if host.error is not None:
            host.state, host.derived = FAILED if host.known is None else host.state, FAILED
        self._show_more()
        give_back_memory()

    def _show(self, host: HostView) -> None:
        host.state = BUILDING
        self._show_more()
        raw = open_raw_store(self.tables, host.number, self._cache, self._progress(host))
        host.known = HostStore(raw)
        host.state, host.progress = READY, 1.0

    def _derive(self, host: HostView) -> None:
        late = DerivedHost(self.tables, host.number, self._pause)
        progress = self._progress(host)
        derived = open_derived_store(late, self._cache, progress)
        host.facts = open_derived_facts(late, self._cache, progress)
        host.known = HostStore(host.store.raw, derived)
        host.derived = READY

    def _pause(self) -> None:
        self._stopping.wait(self._pause_s)
        self._pause_s = 0.0

    def _progress(self, host: HostView) -> Progress:
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
        stages = [(host.known is not None, host.facts is not None, host.state, host.derived) for host in self.hosts]
        key = f"{self.version}-{hashlib.blake2b(repr(stages).encode(), digest_size=4).hexdigest()}"
        snapshot = Snapshot(key, hosts, origin, span, count_id_bits(len(hosts)))
        self._issued[snapshot.key] = snapshot
        while len(self._issued) > _KEPT_KEYS:
            del self._issued[next(iter(self._issued))]
        return snapshot


def give_back_memory() -> None:
    """Return freed memory to the system, which the allocator would keep for the next host: a server stays up. Hosts are
    in cycles of references, so these are collected first."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):  # a system that has no such call
        ctypes.CDLL(None).malloc_trim(0)
