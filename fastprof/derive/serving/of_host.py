"""What is kept of one host: its requests and batches with their times, in columns."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from fastprof.derive.serving import breakdown, parameters, requests, tensors
from fastprof.derive.serving.breakdown import Spans, StageMarks, Timed
from fastprof.derive.serving.host_rows import NONE, HostRows, least
from fastprof.derive.serving.parameters import BatchingParameters
from fastprof.derive.serving.requests import Batches, GroupLinks, Requests
from fastprof.derive.serving.tensors import TensorMoves
from fastprof.derive.steps.grouping import Groups
from fastprof.errors import CaptureError
from fastprof.schema.array_rows import ArrayRows
from fastprof.schema.array_types import Int64s, Objects
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, beside
from fastprof.wording.patterns import pattern_of

_PROGRAM = pattern_of(r"\((\d{1,20})\)$", re.ASCII)


@dataclass(frozen=True, slots=True)
class BatchTimes(ArrayRows):
    """Beside the batches. ``delay``: since the earliest of its requests began, 0 without requests; ``compute``: time on
    devices, ``on_tpus`` of it; ``programs``: ids of the programs that it ran, in order of time."""

    delay: Int64s
    compute: Int64s
    on_tpus: Int64s
    programs: Objects


@dataclass(frozen=True, slots=True)
class HostServing:
    """``requests``: as recorded; ``timed``: until their last batch ends. ``tpu``, ``marks`` and ``links``: what their
    parts were found from, by group: time on TPUs, stages that were reached, and groups that led to others."""

    host: str
    models: list[str]
    requests: Requests
    timed: Timed
    tpu: Spans
    marks: StageMarks
    links: GroupLinks
    batches: Batches
    batch_times: BatchTimes
    moves: TensorMoves
    parameters: dict[str, BatchingParameters]


def serving_of_host(host: str, events: HostEvents, groups: Groups) -> HostServing:
    """The serving side of a host; without requests where its threads recorded none. CaptureError: times that 64 bits
    cannot count."""
    rows, links = HostRows(events, groups), GroupLinks.of(groups)
    found, batches, models = requests.find(rows, links)
    for what, begin, end in (("requests", found.begin, found.end), ("batches", batches.begin, batches.end)):
        if ((end > begin) & (end - begin < 0)).any():
            raise CaptureError(f"{what} span more than 64 bits of picoseconds can count")
    tpu = breakdown.tpu_spans(rows)
    device = Spans.joined([tpu, breakdown.gpu_spans(rows)])
    marks = breakdown.stage_marks(rows)
    return HostServing(
        host,
        models,
        found,
        breakdown.timed(found, batches, device, breakdown.stamps(marks, links.count), links),
        tpu,
        marks,
        links,
        batches,
        _batch_times(rows, found, batches, (device, tpu), links),
        tensors.find(rows, found, batches, links.count),
        parameters.find(events, models),
    )


def _batch_times(
    rows: HostRows, found: Requests, batches: Batches, devices: tuple[Spans, Spans], links: GroupLinks
) -> BatchTimes:
    count = len(batches)
    place, request = batches.requests.of_each(np.arange(count))
    earliest = least(found.begin[request], place, count)
    delay = np.where(earliest != NONE, batches.begin - earliest, 0)
    batch_of_group = np.full(links.count, -1, np.int64)
    batch_of_group[batches.group] = np.arange(count)
    compute, on_tpus = (_compute(spans, batch_of_group, count) for spans in devices)
    return BatchTimes(delay, compute, on_tpus, _programs(rows, batch_of_group, count))


def _compute(spans: Spans, batch_of_group: Int64s, count: int) -> Int64s:
    owner = batch_of_group[spans.owner]
    mine = (owner >= 0) & (spans.end > spans.begin)
    found: Int64s = breakdown.flattened(replace(spans[mine], owner=owner[mine]), count)[:, breakdown.COMPUTE]
    return found


def _programs(rows: HostRows, batch_of_group: Int64s, count: int) -> Objects:
    """Ids of programs: the stat program_id, else the number that ends the name, as in ``jit_f(7)``."""
    found = breakdown.modules(rows)
    batch = batch_of_group[rows.group[found]]
    found, batch = found[batch >= 0], batch[batch >= 0]
    stat_rows, values = rows.events.ints("program_id")
    has, program = beside(found, stat_rows, values)
    metas, place = np.unique(rows.events.meta[found], return_inverse=True)
    endings = [_PROGRAM.search(rows.events.names[meta]) for meta in metas.tolist()]
    named = [-1 if ending is None or int(ending[1]) >= 2**64 else int(ending[1]) for ending in endings]
    ids: list[dict[int, None]] = [{} for _ in range(count)]
    for at, own, number, kind in zip(batch.tolist(), has.tolist(), program.tolist(), place.tolist(), strict=True):
        known = number % 2**64 if own else named[kind]
        if known >= 0:
            ids[at][known] = None
    return np.fromiter(map(tuple, ids), object, count)
