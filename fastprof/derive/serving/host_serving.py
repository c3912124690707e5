"""The serving side of hosts and of a session, in columns: requests, batches and tensor moves with their times, and the
batching parameters that TensorFlow Serving publishes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field, fields, replace
from typing import Any, TypeVar

import numpy as np

from fastprof._native import records
from fastprof.derive.serving import PARAMETERS, breakdown, requests
from fastprof.derive.serving.breakdown import PARTS, OwnedSpans, StageMarks, TimedRequests
from fastprof.derive.serving.requests import (
    NO_MODEL,
    NONE,
    UNKNOWN,
    Batches,
    GroupLinks,
    NumberLinks,
    Pattern,
    Requests,
    ServingEvents,
    TensorMoves,
    find_earliest,
)
from fastprof.derive.steps.grouping import Groups
from fastprof.errors import CaptureError
from fastprof.schema.columns import ArrayRows, Int64s, Objects, number_values, sort_rows
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, join_stat
from fastprof.wording.patterns import compile_late

PLANE = "/host:tfstreamz"


@dataclass(frozen=True, slots=True)
class BatchingParameters:
    """Batching parameters, None if not published."""

    num_batch_threads: int | None = None
    batch_timeout_micros: int | None = None
    max_batch_size: int | None = None
    max_enqueued_batches: int | None = None
    allowed_batch_sizes: str | None = None


_FIELDS = {field.name for field in fields(BatchingParameters)}


def find_batching_parameters(events: HostEvents, models: Sequence[str]) -> dict[str, BatchingParameters]:
    """Find the parameters of each of the models that has any; ``resnet:3`` has those of ``resnet``."""
    row = _find_last_snapshot(events)
    if row is None:
        return {}
    published: dict[str, dict[str, Any]] = {}
    for stat_name in events.stats:
        name, label = stat_name.removeprefix(PARAMETERS).partition("{")[::2]
        model = _parse_model(label)
        if not stat_name.startswith(PARAMETERS) or name not in _FIELDS or model is None:
            continue
        value = _get_value(events, stat_name, row, text=name == "allowed_batch_sizes")
        if value is not None:
            published.setdefault(model, {})[name] = value
    return {
        model: BatchingParameters(**published[key]) for model in models if (key := _drop_version(model)) in published
    }


def _find_last_snapshot(events: HostEvents) -> int | None:
    """Return the second of the two snapshots, because the first may come before the parameters are set."""
    plane = events.plane_named(PLANE)
    if plane is None or not plane.lines or plane.lines[0].last - plane.lines[0].first != 2:
        return None
    return plane.lines[0].last - 1


def _parse_model(label: str) -> str | None:
    """Return the model of ``model_name=resnet, op_name=…}``, or None."""
    if "}" not in label:
        return None
    for pair in label[: label.rindex("}")].split(", "):
        key, equals, value = pair.partition("=")
        if key == "model_name" and equals and "=" not in value:
            return value
    return None


def _drop_version(model: str) -> str:
    name, colon, version = model.rpartition(":")
    return name if colon and version.lstrip("+-").isdecimal() else model


def _get_value(events: HostEvents, name: str, row: int, *, text: bool) -> int | str | None:
    kinds = (records.STR, records.REF) if text else (records.INT64, records.UINT64)
    stat = events.stat(name).of_kinds(kinds)
    at = np.flatnonzero(stat.rows == row)
    if not len(at):
        return None
    value = int(stat.value[at[0]])
    return events.text(value) if text else value


_PROGRAM = compile_late(r"\((\d{1,20})\)$", re.ASCII)


@dataclass(frozen=True, slots=True)
class BatchTimes(ArrayRows):
    """Times of batches. ``delay``: since the earliest of its requests began, 0 without requests; ``compute``: time on
    devices; ``on_tpus``: part of it on TPUs; ``programs``: ids of its programs, in order of time."""

    delay: Int64s
    compute: Int64s
    on_tpus: Int64s
    programs: Objects


@dataclass(frozen=True, slots=True)
class HostServing:
    """Serving side of a host. ``requests``: as recorded; ``timed``: until their last batch ends. Sources of their
    parts, by group: ``tpu``: time on TPUs; ``marks``: stages that were reached; ``links``: groups that led to
    others."""

    host: str
    models: list[str]
    requests: Requests
    timed: TimedRequests
    tpu: OwnedSpans
    marks: StageMarks
    links: GroupLinks
    batches: Batches
    batch_times: BatchTimes
    moves: TensorMoves
    parameters: dict[str, BatchingParameters]


def read_host_serving(host: str, events: HostEvents, groups: Groups) -> HostServing:
    """Read the serving side of a host, which has no requests if its threads recorded none. CaptureError: times do not
    fit 64 bits."""
    rows, links = ServingEvents(events, groups), GroupLinks.of(groups)
    recorded, batches, models = requests.find_requests(rows, links)
    for what, begin, end in (("requests", recorded.begin, recorded.end), ("batches", batches.begin, batches.end)):
        if ((end > begin) & (end - begin < 0)).any():
            raise CaptureError(f"{what} span more than 64 bits of picoseconds can count")
    tpu = breakdown.list_tpu_spans(rows)
    device = OwnedSpans.joined([tpu, breakdown.list_gpu_spans(rows)])
    marks = breakdown.list_stage_marks(rows)
    return HostServing(
        host,
        models,
        recorded,
        breakdown.time_requests(recorded, batches, device, breakdown.find_stamps(marks, links.count), links),
        tpu,
        marks,
        links,
        batches,
        _time_batches(rows, recorded, batches, (device, tpu), links),
        requests.find_tensors(rows, recorded, batches, links.count),
        find_batching_parameters(events, models),
    )


def _time_batches(
    rows: ServingEvents, requests: Requests, batches: Batches, devices: tuple[OwnedSpans, OwnedSpans], links: GroupLinks
) -> BatchTimes:
    count = len(batches)
    place, request = batches.requests.of_each(np.arange(count))
    earliest = find_earliest(requests.begin[request], place, count)
    delay = np.where(earliest != NONE, batches.begin - earliest, 0)
    batch_of_group = np.full(links.count, -1, np.int64)
    batch_of_group[batches.group] = np.arange(count)
    compute, on_tpus = (_sum_compute(spans, batch_of_group, count) for spans in devices)
    return BatchTimes(delay, compute, on_tpus, _list_program_ids(rows, batch_of_group, count))


def _sum_compute(spans: OwnedSpans, batch_of_group: Int64s, count: int) -> Int64s:
    owner = batch_of_group[spans.owner]
    mine = (owner >= 0) & (spans.end > spans.begin)
    compute_ps: Int64s = breakdown.flatten_spans(replace(spans[mine], owner=owner[mine]), count)[:, breakdown.COMPUTE]
    return compute_ps


def _list_program_ids(rows: ServingEvents, batch_of_group: Int64s, count: int) -> Objects:
    """Return ids of programs: the stat program_id, else the number that ends the name, as in ``jit_f(7)``."""
    programs = breakdown.list_programs(rows)
    batch = batch_of_group[rows.group[programs]]
    programs, batch = programs[batch >= 0], batch[batch >= 0]
    stat_rows, values = rows.events.ints("program_id")
    has, program = join_stat(programs, stat_rows, values)
    metas, place = number_values(rows.events.meta[programs])
    endings = [_PROGRAM.search(rows.events.names[meta]) for meta in metas.tolist()]
    named = [-1 if ending is None or int(ending[1]) >= 2**64 else int(ending[1]) for ending in endings]
    ids: list[dict[int, None]] = [{} for _ in range(count)]
    for at, own, number, kind in zip(batch.tolist(), has.tolist(), program.tolist(), place.tolist(), strict=True):
        known = number % 2**64 if own else named[kind]
        if known >= 0:
            ids[at][known] = None
    return np.fromiter(map(tuple, ids), object, count)


@dataclass(frozen=True, slots=True)
class Served(ArrayRows):
    """Requests or batches, shortest first. ``host``: number of the host; ``model``: place in the session's models,
    NO_MODEL or UNKNOWN; ``others``: groups of a request's batches, or of those that led to a batch."""

    host: Int64s
    model: Int64s
    id: Int64s
    begin: Int64s
    end: Int64s
    delay: Int64s
    others: NumberLinks = field(metadata={"none": NumberLinks.none()})

    @property
    def latency(self) -> Int64s:
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class RequestColumns(Served):
    """Requests. ``parts``: int64[n, 8], as breakdown.PARTS."""

    size: Int64s
    parts: Int64s = field(metadata={"none": np.zeros((0, len(PARTS)), np.int64)})


@dataclass(frozen=True, slots=True)
class BatchColumns(Served):
    padding: Int64s
    padded_size: Int64s
    compute: Int64s
    on_tpus: Int64s
    programs: Objects  # tuples of ids


@dataclass(frozen=True, slots=True)
class MoveColumns(ArrayRows):
    """Requests and batches that move tensors."""

    model: Int64s
    pattern: Int64s
    time_ps: Int64s


@dataclass(frozen=True, slots=True)
class SessionServing:
    """``has_device_work``: whether the work of any request or batch on a device is recorded."""

    hosts: list[str]
    models: list[str]
    requests: RequestColumns
    batches: BatchColumns
    moves: MoveColumns
    patterns: list[Pattern]
    parameters: dict[str, BatchingParameters]
    has_device_work: bool


def combine_hosts_serving(kept: Sequence[HostServing]) -> SessionServing:
    """Combine all hosts. If two hosts publish batching parameters of one model, those of the first count."""
    models, places = number_models(kept)
    patterns: dict[Pattern, int] = {}
    parameters: dict[str, BatchingParameters] = {}
    batches, moves = [], []
    for number, (host, place) in enumerate(zip(kept, places, strict=True)):
        parameters = host.parameters | parameters
        batch_model = _find_batch_models(host)
        batches.append(_join_batches(number, host, place[batch_model]))
        pattern = [patterns.setdefault(pattern, len(patterns)) for pattern in host.moves.patterns]
        model = place[np.concatenate([host.timed.requests.model, batch_model])[host.moves.owner]]
        moves.append(MoveColumns(model, np.array(pattern, np.int64)[host.moves.pattern], host.moves.time_ps))
    requests, every_batch = join_requests([host.timed for host in kept], kept, places), BatchColumns.joined(batches)
    on_device = requests.parts[:, breakdown.PARTS.index(breakdown.COMPUTE)].any() or every_batch.compute.any()
    return SessionServing(
        [host.host for host in kept],
        models,
        requests,
        _sort_shortest_first(every_batch),
        MoveColumns.joined(moves),
        list(patterns),
        parameters,
        bool(on_device),
    )


def number_models(kept: Sequence[HostServing]) -> tuple[list[str], list[Int64s]]:
    """Return the models of a session, and by host the place of each of its own among them; the last two are for UNKNOWN
    and NO_MODEL."""
    models: dict[str, int] = {}
    places = []
    for host in kept:
        numbers = [models.setdefault(model, len(models)) for model in host.models]
        places.append(np.array([*numbers, UNKNOWN, NO_MODEL], np.int64))
    return list(models), places


def join_requests(
    timed: Sequence[TimedRequests], kept: Sequence[HostServing], places: Sequence[Int64s]
) -> RequestColumns:
    """Join the requests of all hosts. ``timed``: their times, by host; ``places``: of their models."""
    parts = []
    for number, (host, place, (rows, delay, times)) in enumerate(zip(kept, places, timed, strict=True)):
        batches = NumberLinks(rows.batches.bounds, host.batches.group[rows.batches.others])
        at, model = np.full(len(rows), number), place[rows.model]
        parts.append(RequestColumns(at, model, rows.group, rows.begin, rows.end, delay, batches, rows.size, times))
    return _sort_shortest_first(RequestColumns.joined(parts))


def _join_batches(number: int, host: HostServing, model: Int64s) -> BatchColumns:
    rows, times = host.batches, host.batch_times
    return BatchColumns(
        np.full(len(rows), number),
        model,
        rows.group,
        rows.begin,
        rows.end,
        times.delay,
        rows.related,
        rows.padding,
        rows.padded_size,
        times.compute,
        times.on_tpus,
        times.programs,
    )


_AnyServed = TypeVar("_AnyServed", bound=Served)


def _sort_shortest_first(rows: _AnyServed) -> _AnyServed:
    return rows[sort_rows(rows.latency, rows.begin, rows.host, rows.id)]


def _find_batch_models(host: HostServing) -> Int64s:
    """Return the model of the first request of each batch, or UNKNOWN if the first group that led to it is not a
    request."""
    requests, first = host.timed.requests, host.batches.first_request
    order = np.argsort(requests.group)
    is_request, model = join_stat(first, requests.group[order], requests.model[order])
    return np.where(is_request, model, UNKNOWN)
