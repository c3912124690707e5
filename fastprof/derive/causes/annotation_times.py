"""Annotations of users: how long each lasts, what the devices of its host do meanwhile, and their tables.

    thread     |----- train 3 ---------------------|
                 |-load-|      |-- evaluate --|
    device     ====       =========   =====     ====

PyTorch's profiler also records for each stream the time from the first kernel that an annotation of a thread launches
to the last.

    thread     |-- forward --|
    stream 7        |------ forward -----|
                kernel  kernel      kernel
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastprof.decode.nesting import nest_events, number_lines
from fastprof.derive.causes.gaps import RUN_WINDOW_WORDS, measure_clock_lead
from fastprof.derive.devices.op_names import GPU_ANNOTATIONS, find_host_framework, has_category
from fastprof.derive.devices.run_environment import CPU
from fastprof.derive.ops.device_time import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    DeviceSpans,
    divide_device_time,
    find_extent_of_spans,
)
from fastprof.derive.ops.op_table import compute_span, measure_deviations
from fastprof.derive.ops.scope_trees import UNSCOPED
from fastprof.derive.steps import event_origin
from fastprof.derive.steps.event_origin import Origin, find_event_origins
from fastprof.derive.steps.step_alignment import find_session_steps
from fastprof.derive.steps.step_database import StepDatabase
from fastprof.schema.columns import (
    Bools,
    DisjointSpans,
    Int32s,
    Int64s,
    add_durations,
    measure_covered_time,
    merge_spans,
    number_distinct_rows,
    number_values,
    sort_rows,
    sum_by,
    sum_exactly,
    summarize_by,
)
from fastprof.schema.tables import Column, Count, ObjectRows, Picoseconds, Share, String, TableSchema, Text
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import find_lines

if TYPE_CHECKING:
    from fastprof.derive.host import Host
    from fastprof.tables.host_events import HostEvents


KINDS: Final = ("compute", "communication", "copy")
_CODES: Final = (COMPUTE, COMMUNICATION, COPY)


@dataclass(frozen=True, slots=True)
class DeviceKinds:
    """``spans``: device spans of each of KINDS."""

    name: str
    stretches: tuple[DisjointSpans, ...]


def find_device_kinds(events: HostEvents, ran: Sequence[DeviceSpans]) -> list[DeviceKinds]:
    """Return the spans by kind of work of each device that ran anything. CaptureError: its times exceed 64 bits."""
    device_kinds = []
    for spans in ran:
        bounds = find_extent_of_spans([spans])
        if bounds is not None:
            time = divide_device_time(events.host, spans, *bounds)
            lead = measure_clock_lead(events, time)
            start = time.start_ps if lead is None else time.start_ps + lead
            chosen = [time.kind == code for code in _CODES]
            kinds = tuple(merge_spans(start[is_kind], time.duration_ps[is_kind]) for is_kind in chosen)
            device_kinds.append(DeviceKinds(spans.name, kinds))
    return device_kinds


_GPU_DURATIONS: Final = "the durations of annotations on GPUs"


@dataclass(frozen=True, slots=True)
class GpuAnnotation:
    """An annotation on a GPU. ``device``: its plane; ``streams``: how many run it; times are of its ``count``
    durations."""

    host: str
    device: str
    name: str
    streams: int
    count: int
    total_ps: int
    min_ps: int
    max_ps: int
    stdev_ps: int | None

    @property
    def mean_ps(self) -> int:
        return self.total_ps // self.count


def find_gpu_annotations(
    events: HostEvents, group_id: Int32s | None = None, steps: Int64s | None = None
) -> list[GpuAnnotation]:
    """Return the annotations on the GPUs of a host, the longest of each GPU first. With ``steps``, groups of events,
    only annotations that begin with work of these steps. ``group_id``: of each event. CaptureError: 64 bits cannot
    count their times."""
    planes = events.planes_of("GPU")
    known = has_category(events, GPU_ANNOTATIONS)
    lines = [line for plane in planes for line in plane.lines if line.last > line.first]
    rows = np.concatenate([np.zeros(0, np.int64), *(np.arange(line.first, line.last) for line in lines)])
    stream = np.repeat(np.arange(len(lines)), [line.last - line.first for line in lines])
    chosen = known[events.meta[rows]]
    if group_id is not None and steps is not None:
        chosen[chosen] = np.isin(_find_work_groups(events, group_id, rows[chosen], known), steps)
    rows, stream = rows[chosen], stream[chosen]
    plane = np.array([line.plane.number for line in lines], np.int64)[stream]
    first, row = number_distinct_rows([plane, events.meta[rows]])
    duration = np.maximum(events.duration_ps[rows], 0)
    sums = summarize_by(row, duration, len(first), _GPU_DURATIONS)
    streams = np.bincount(row[number_distinct_rows([row, stream])[0]], minlength=len(first))
    names = [(events.planes[device].name, events.names[meta]) for device, meta in zip(
        plane[first].tolist(), events.meta[rows[first]].tolist(), strict=True,
    )]  # fmt: skip
    columns = zip(names, streams.tolist(), sums.tolist(), measure_deviations(row, duration, sums), strict=True)
    annotations = [
        GpuAnnotation(events.host, device, name, on, count, total, shortest, longest, deviation)
        for (device, name), on, (count, total, shortest, longest), deviation in columns
    ]
    order = {device_spans.name: place for place, device_spans in enumerate(planes)}
    return sorted(annotations, key=lambda row: (order[row.device], -row.total_ps, row.name))


def _find_work_groups(events: HostEvents, group_id: Int32s, rows: Int64s, known: Bools) -> Int32s:
    """Return the group of the work that each annotation begins with, the first that its GPU starts from then on, or -1
    if there is none. Annotations themselves have no group, because nothing launches them."""
    work_group = np.full(len(rows), -1, np.int32)
    for plane in events.planes_of("GPU"):
        work = np.arange(plane.first, plane.last)
        work = work[(group_id[work] >= 0) & ~known[events.meta[work]]]
        work = work[np.argsort(events.start_ps[work], kind="stable")]
        here = (rows >= plane.first) & (rows < plane.last)
        at = np.searchsorted(events.start_ps[work], events.start_ps[rows[here]])
        work_group[here] = np.append(group_id[work], np.int32(-1))[at]
    return work_group


GPU_ANNOTATIONS_TABLE: Final = TableSchema("gpu_annotations", "an annotation on a GPU, longest first", (
    Text("host", "GPU host"),
    Text("device", "GPU plane"),
    Text("name", "annotation name"),
    Count("streams", "streams that run it"),
    Count("count", "number of times that a stream runs it"),
    Picoseconds("total_ps", "sum of its durations on streams, each from its first kernel to its last"),
    Picoseconds("mean_ps", "total_ps / count, rounded down"),
    Picoseconds("min_ps", "shortest duration"),
    Picoseconds("max_ps", "longest duration"),
    Picoseconds("stdev_ps", "standard deviation (sample) of its durations, rounded down; null: it ran once"),
), derived=True)  # fmt: skip


def make_gpu_annotations_table(hosts: Sequence[Sequence[GpuAnnotation]]) -> pa.Table:
    return GPU_ANNOTATIONS_TABLE.of(ObjectRows([row for host in hosts for row in host]))


STATS: Final = event_origin.STATS
NO_STEP: Final = -1
UNKNOWN: Final = -1
_DURATIONS: Final = "the durations of annotations"


@dataclass(frozen=True, slots=True, eq=False)
class AnnotationTimes:
    """A row an annotation, or an annotation in a step. ``total_ps``: the time during which it lasts, summed over
    threads; ``self_ps``: less annotations in it; ``elapsed_ps``: during which it lasts on any thread, ``run_ps``: in
    the run. ``stdev_ps``: of its durations, UNKNOWN: there is one. ``device_ps``: [rows, kinds], of ``elapsed_ps`` the
    time of each kind, summed over devices."""

    name: Int64s
    group: Int64s
    count: Int64s
    total_ps: Int64s
    self_ps: Int64s
    sum_ps: Int64s
    min_ps: Int64s
    max_ps: Int64s
    stdev_ps: Int64s
    first_ps: Int64s
    elapsed_ps: Int64s
    run_ps: Int64s
    device_ps: Int64s
    threads: Int64s


@dataclass(frozen=True, slots=True, eq=False)
class HostAnnotations:
    """Annotations of a host. ``names``: annotation names; ``threads``: the first thread of each. ``whole``: times by
    name; ``by_step``: by name and group of a step, or NO_STEP if there is none. ``on_gpus``: GPU annotations, if they
    are recorded. ``on_threads``: whether threads stand for all its ``devices``. ``window_ps``: length of its run.
    ``framework``: see derive.devices.framework."""

    host: str
    names: list[str]
    threads: list[str]
    whole: AnnotationTimes
    by_step: AnnotationTimes
    on_gpus: list[GpuAnnotation]
    devices: int
    on_threads: bool
    window_ps: int
    framework: str


@dataclass(frozen=True, slots=True, eq=False)
class _AnnotationEvents:
    """The annotations of a host: n events in the order of their rows."""

    rows: Int32s
    thread: Int64s
    name: Int64s
    group: Int64s
    start_ps: Int64s
    duration_ps: Int64s
    self_ps: Int64s


def find_host_annotations(
    host: Host,
    group_id: Int32s,
    steps: Int64s,
    ran: Sequence[DeviceSpans],
    run: tuple[int, int],
    on_gpus: list[GpuAnnotation],
) -> HostAnnotations:
    """Find the annotations of a host. ``group_id``: group of each event; ``steps``: groups that are steps; ``ran``:
    device spans, in all steps; ``run``: its begin and end, see find_run_window; ``on_gpus``: GPU annotations.
    CaptureError: its times exceed 64 bits."""
    events = host.raw
    seen, names, first_thread = _find_annotations(host, group_id, steps)
    devices = find_device_kinds(host.entire.raw, ran) if len(seen.rows) else []
    return HostAnnotations(
        events.host,
        names,
        first_thread,
        _sum_annotations(seen, np.full(len(seen.rows), NO_STEP, np.int64), devices, run),
        _sum_annotations(seen, seen.group, devices, run),
        on_gpus,
        len(devices),
        all(device.name == CPU for device in devices),
        compute_span(events.host, "of the run", *run),
        find_host_framework(events),
    )


def _find_annotations(host: Host, group_id: Int32s, steps: Int64s) -> tuple[_AnnotationEvents, list[str], list[str]]:
    events = host.raw
    origins = find_event_origins(events)
    rows = np.flatnonzero(origins.of(Origin.USER)).astype(np.int32)
    lines = [line for line in origins.lines if line.last > line.first]
    titles = [line.name for line in lines]
    thread = find_lines(lines, rows)
    start, duration = events.start_ps[rows], np.maximum(events.duration_ps[rows], 0)
    beside = np.zeros(len(events), np.uint8)
    at, values = events.ints("_a")
    beside[at[values != 0]] = 1
    counts = np.bincount(thread, minlength=max(len(lines), 1)).astype(np.int64)
    of_lines = number_lines(counts, np.cumsum(counts) - counts)
    beside = np.ascontiguousarray(beside[rows])
    _, _, self_ps = nest_events(start, duration, beside, of_lines, host.workers, events.slack_ps)
    numbers: dict[str, int] = {}
    metas, place = number_values(events.meta[rows])
    number_of = np.array([numbers.setdefault(events.names[meta], len(numbers)) for meta in metas.tolist()], np.int64)
    name = number_of[place.reshape(-1)] if len(rows) else np.zeros(0, np.int64)
    first = np.full(len(numbers), len(rows), np.int64)
    np.minimum.at(first, name, np.arange(len(rows)))
    group = group_id[rows].astype(np.int64)
    group = np.where(np.isin(group, steps), group, NO_STEP)
    seen = _AnnotationEvents(rows, thread, name, group, start, duration, self_ps)
    return seen, list(numbers), [titles[thread[row]] for row in first.tolist()]


def _sum_annotations(
    seen: _AnnotationEvents, group: Int64s, devices: list[DeviceKinds], run: tuple[int, int]
) -> AnnotationTimes:
    order = sort_rows(seen.name, group)
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (np.diff(seen.name[order]) != 0) | (np.diff(group[order]) != 0)
    row = np.empty(len(order), np.int64)
    row[order] = np.cumsum(fresh) - 1
    heads = order[fresh]
    count = len(heads)

    def summed(values: Int64s, of: Int64s = row) -> Int64s:
        return sum_by(of, values, count, _DURATIONS)

    ends = add_durations(seen.start_ps, seen.duration_ps)
    threads = int(seen.thread.max(initial=0)) + 1
    owner, (begins, until) = merge_spans_by_key(row * threads + seen.thread, seen.start_ps, ends)
    total = summed(until - begins, owner // threads)
    pairs = np.unique(row * threads + seen.thread)
    owner, (begins, until) = merge_spans_by_key(row, seen.start_ps, ends)
    elapsed = summed(until - begins, owner)
    in_run = summed(np.clip(until, *run) - np.clip(begins, *run), owner)
    sum_exactly([int(elapsed.max(initial=0)) * len(devices)], _DURATIONS)  # the largest sum
    device = np.zeros((count, len(KINDS)), np.int64)
    for kinds in devices:
        for kind, stretches in enumerate(kinds.stretches):
            device[:, kind] += summed(measure_covered_time(stretches, begins, until - begins), owner)
    durations = summarize_by(row, seen.duration_ps, count, _DURATIONS)
    deviations = measure_deviations(row, seen.duration_ps, durations)
    first = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(first, row, seen.start_ps)
    return AnnotationTimes(
        seen.name[heads],
        group[heads],
        durations["count"],
        total,
        summed(seen.self_ps),
        durations["total"],
        durations["minimum"],
        durations["maximum"],
        np.array([UNKNOWN if deviation is None else deviation for deviation in deviations], np.int64),
        first,
        elapsed,
        in_run,
        device,
        np.bincount(pairs // threads, minlength=count).astype(np.int64),
    )


def merge_spans_by_key(key: Int64s, start: Int64s, end: Int64s) -> tuple[Int64s, DisjointSpans]:
    """Return the union of the spans of each key: the key of each merged span, and its begins and ends."""
    order = sort_rows(key, start)
    key, start, end = key[order], start[order], end[order]
    n = len(order)
    by_end = np.argsort(end, kind="stable")
    rank = np.empty(n, np.int64)
    rank[by_end] = np.arange(n)
    number = np.cumsum(np.append(0, np.diff(key) != 0)) if n else np.zeros(0, np.int64)
    reach = end[by_end][np.maximum.accumulate(number * n + rank) % n] if n else end
    fresh = np.ones(n, np.bool_)
    fresh[1:] = (np.diff(key) != 0) | (start[1:] > reach[:-1])
    first = np.flatnonzero(fresh)
    last = np.append(first[1:], n) - 1 if n else first
    return key[first], (start[first], reach[last])


_NO_DEVICE: Final = "null: no device of the host ran anything"


@dataclass(frozen=True, slots=True)
class AnnotationRows:
    """Rows of a host. ``step``: step of each row, or NO_STEP."""

    host: HostAnnotations
    times: AnnotationTimes
    step: Int64s

    def __len__(self) -> int:
        return len(self.times.name)

    @property
    def idle_ps(self) -> Int64s:
        idle: Int64s = self.times.elapsed_ps * self.host.devices - self.times.device_ps.sum(axis=1)
        return idle

    @property
    def no_devices(self) -> Bools:
        return np.full(len(self), self.host.devices == 0)

    def lacks(self, kind: int) -> Bools:
        """Return whether nothing would show that devices do this kind of work: none ran anything, or threads are the
        device and record none of it."""
        on_threads = self.host.on_threads and not self.host.whole.device_ps[:, kind].any()
        return self.no_devices | (on_threads and KINDS[kind] != "compute")


def _get_time(name: str) -> Any:
    return lambda rows: getattr(rows.times, name)


def _make_kind_column(kind: str) -> Column:
    number = KINDS.index(kind)
    what = "communicate or wait for communication" if kind == "communication" else f"{kind}"
    of_threads = "" if kind == "compute" else ", or host threads act as the device and record none of it"
    return Picoseconds(
        f"device_{kind}_ps",
        f"part of elapsed_ps in which devices {what}, summed over devices; {_NO_DEVICE}{of_threads}",
        lambda rows: rows.times.device_ps[:, number],
        lambda rows: rows.lacks(number),
    )


_HOST: Final = Text("host", "host of the threads", lambda rows: [rows.host.host] * len(rows))
_NAME: Final = Text(
    "name", "annotation name", lambda rows: [rows.host.names[number] for number in rows.times.name.tolist()]
)
_TIME_COLUMNS: Final = (
    Count("threads", "threads on which it occurs", _get_time("threads")),
    Count("count", "number of occurrences", _get_time("count")),
    Picoseconds("total_ps", "time in which the annotation is open, summed over threads; nested annotations of the "
                "same name count once",
                _get_time("total_ps")),
    Picoseconds("self_ps", "sum of its durations without nested annotations", _get_time("self_ps")),
    Share("share", f"share of the host's run that elapsed_ps covers. The run extends "
          f"{RUN_WINDOW_WORDS}", lambda rows: rows.times.run_ps / max(rows.host.window_ps, 1)),
    Picoseconds("mean_ps", "mean duration, rounded down", lambda rows: rows.times.sum_ps // rows.times.count),
    Picoseconds("min_ps", "shortest duration", _get_time("min_ps")),
    Picoseconds("max_ps", "longest duration", _get_time("max_ps")),
    Picoseconds("stdev_ps", "standard deviation (sample) of its durations, rounded down; null: it occurs once",
                _get_time("stdev_ps"), lambda rows: rows.times.stdev_ps == UNKNOWN),
    Picoseconds("elapsed_ps", "time in which the annotation is open on any thread", _get_time("elapsed_ps")),
    *(_make_kind_column(kind) for kind in KINDS),
    Picoseconds("device_idle_ps", f"elapsed_ps * devices of the host, minus the three times above; {_NO_DEVICE}",
                lambda rows: rows.idle_ps, lambda rows: rows.no_devices),
    Share("hidden_share", "share of elapsed_ps in which devices compute, mean over devices; null: no device "
          "of the host ran anything, or it takes no time",
          lambda rows: rows.times.device_ps[:, 0] / np.maximum(rows.times.elapsed_ps * rows.host.devices, 1),
          lambda rows: rows.no_devices | (rows.times.elapsed_ps == 0)),
)  # fmt: skip
_ANNOTATIONS = TableSchema(
    "annotations", "an annotation of a host, longest first", (_HOST, _NAME, *_TIME_COLUMNS), derived=True
)
_STEPS = TableSchema(
    "steps",
    "an annotation of a host in a step, ordered by step, then by first event",
    (
        _HOST,
        Count("step", "step number; null: outside all steps", lambda rows: rows.step,
              lambda rows: rows.step == NO_STEP),
        _NAME,
        *_TIME_COLUMNS,
    ),
    derived=True,
)  # fmt: skip
_SCOPES = TableSchema(
    "scopes",
    "a named program scope, from op names; rows are tree nodes in preorder, siblings largest first",
    (
        Count("node", "row number"),
        Count("parent", "node of the enclosing scope; null: the scope is at the top"),
        Count("depth", "scopes around it"),
        Text("name", "scope name"),
        String("path", "names of the enclosing scopes and of the scope itself"),
        Count("ops", "different ops in it"),
        Count("occurrences", "executions of these ops"),
        Picoseconds("device_ps", "self time of these ops on all devices"),
        Share("share", "device_ps / self time of all ops"),
    ),
    derived=True,
)
TABLES: Final = {table.name: table for table in (_ANNOTATIONS, _STEPS, GPU_ANNOTATIONS_TABLE, _SCOPES)}


def make_annotations_table(hosts: Sequence[HostAnnotations]) -> pa.Table:
    parts = []
    for host in hosts:
        order = sort_rows(-host.whole.total_ps, host.whole.first_ps)
        whole = _take_rows(host.whole, order)
        parts.append(AnnotationRows(host, whole, np.full(len(order), NO_STEP, np.int64)))
    return _ANNOTATIONS.of_parts(parts)


def make_annotation_steps_table(hosts: Sequence[HostAnnotations], database: StepDatabase) -> pa.Table:
    return _STEPS.of_parts(_list_by_step(hosts, database))


def _list_by_step(hosts: Sequence[HostAnnotations], database: StepDatabase) -> Iterator[AnnotationRows]:
    for place, host in enumerate(hosts):
        step = find_session_steps(database, place, host.by_step.group)
        order = sort_rows(step == NO_STEP, step, host.by_step.first_ps)
        yield AnnotationRows(host, _take_rows(host.by_step, order), database.numbers_of(step[order]))


def _take_rows(times: AnnotationTimes, order: Int64s) -> AnnotationTimes:
    return AnnotationTimes(*(getattr(times, name)[order] for name in AnnotationTimes.__slots__))


def make_scopes_table(scopes: pa.Table) -> pa.Table:
    """Make the table of scopes from that of the op profile, without ops and without ops that have no scope."""
    path = pc.cast(scopes["path"], pa.string())
    inside = pc.and_(pc.greater(scopes["children"], 0), pc.greater(scopes["depth"], 0))
    keep = np.asarray(pc.and_(inside, pc.invert(pc.starts_with(path, UNSCOPED))))
    chosen = np.flatnonzero(keep)
    number = np.cumsum(keep) - 1
    above = np.asarray(pc.fill_null(scopes["parent"], 0))[chosen]
    top = np.asarray(scopes["depth"])[chosen] == 1
    own = scopes.take(chosen)
    total = int(scopes["self_ps"][0].as_py() or 0) if scopes.num_rows else 0
    device = np.asarray(pc.fill_null(own["self_ps"], 0))
    columns = {
        "node": pa.array(np.arange(len(chosen))),
        "parent": pa.array(number[above], pa.int64(), mask=top),
        "depth": pa.array(np.asarray(own["depth"]).astype(np.int64) - 1),
        "name": own["name"],
        "path": pc.cast(own["path"], pa.string()),
        "ops": own["ops"],
        "occurrences": own["occurrences"],
        "device_ps": own["self_ps"],
        "share": pa.array(device / max(total, 1)),
    }
    return pa.table({name: columns[name] for name in _SCOPES.names()}).cast(_SCOPES.arrow())
