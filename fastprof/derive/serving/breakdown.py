"""The time of a request by part: host, transfers and device, by the events of its groups.

A request's parts come from its own group and from those that it led to, its batches. Where parts overlap, time counts
for the one of highest rank: device compute, read from device, write to device, runtime, batch formation,
postprocessing, preprocessing. Idle is the time between the first part and the last in which there is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fastprof._native.step_kernels import EVENT_TYPES, step_time
from fastprof.derive.serving.requests import (
    NONE,
    PADDING,
    SCHEDULE,
    Batches,
    GroupLinks,
    NumberLinks,
    Requests,
    ServingEvents,
    find_earliest,
    find_latest,
)
from fastprof.derive.steps.step_database import EventType
from fastprof.schema.columns import ArrayRows, Int32s, Int64s, join_parts, number_values
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import Line, join_stat
from fastprof.wording.patterns import compile_late

READS = ("ReadHbm", "TransferD2HRequest")
WRITES = ("WriteHbm", "TransferH2DRequest", "TransferPreprocessedH2DRequest")
TO_DEVICE, FROM_DEVICE = "tpu::System::TransferToDevice=>IssueEvent", "tpu::System::TransferFromDevice=>IssueEvent"
EXECUTES = (
    "TPUPartitionedCallOp-ExecuteLocal",
    "TPUPartitionedCallOp-ExecuteRemote",
    "TPUPartitionedCallOp-InitializeVarOnTPU",
    "tpu::System::Execute",
)
LAUNCHES = ("DoEnqueueProgram", "DoEnqueueContinuationProgram")
CALLBACKS = ("CompleteCallbacks",)
MODULES_LINE = "XLA Modules"
_COPY = compile_late(r"(?:memcpy|copy)(?P<source>h|d|host|device)(?:to|2)(?P<target>h|d|host|device)\b", re.IGNORECASE)

COMPUTE = EventType.DEVICE_COMPUTE_32
_COPIES = {("h", "d"): EventType.HOST_TO_DEVICE, ("d", "h"): EventType.DEVICE_TO_HOST}
PARTS = (
    EventType.HOST_PREPROCESS,
    EventType.HOST_BATCH_FORMATION,
    EventType.HOST_RUNTIME,
    EventType.HOST_TO_DEVICE,
    COMPUTE,
    EventType.DEVICE_TO_HOST,
    EventType.HOST_POSTPROCESS,
    EventType.UNKNOWN_TIME,
)
"""Parts of a request, about in the order in which they happen, and last the idle time."""


@dataclass(frozen=True, slots=True)
class OwnedSpans(ArrayRows):
    """Spans of time, each of an owner: a group, or the place of a request. ``type``: as in steps/step_database.py."""

    owner: Int64s
    type: npt.NDArray[np.uint8]
    begin: Int64s
    end: Int64s

    @classmethod
    def of(cls, kind: int, owner: Int64s | Int32s, begin: Int64s, end: Int64s) -> OwnedSpans:
        return cls(owner.astype(np.int64), np.full(len(owner), kind, np.uint8), begin, end)


STAGES = {
    "schedule": SCHEDULE, "concat": PADDING, "execute": EXECUTES, "launch": LAUNCHES, "callback": CALLBACKS,
}  # fmt: skip
"""Events that mark the progress of a request."""

StageMarks = dict[str, tuple[Int64s, Int64s]]
"""Groups and starts of the events that mark each stage."""
Stamps = dict[str, Int64s]
"""Times when each stage was reached in each group, or NONE."""


class TimedRequests(NamedTuple):
    """Requests with their times. ``delay``: time until its first batch began, 0 without batches; ``parts``:
    int64[requests, 8] in ps, in the order of PARTS."""

    requests: Requests
    delay: Int64s
    parts: Int64s


def list_tpu_spans(rows: ServingEvents) -> OwnedSpans:
    """List transfers to and from TPUs, and programs on them, owned by their groups."""
    every = (
        (EventType.DEVICE_TO_HOST, rows.grouped(*READS)),
        (EventType.HOST_TO_DEVICE, rows.grouped(*WRITES)),
        (COMPUTE, list_programs(rows)),
    )
    return OwnedSpans.joined([
        *(OwnedSpans.of(kind, rows.group[chosen], rows.start(chosen), rows.end(chosen)) for kind, chosen in every),
        _list_transfers(rows, TO_DEVICE, EventType.HOST_TO_DEVICE),
        _list_transfers(rows, FROM_DEVICE, EventType.DEVICE_TO_HOST),
    ])  # fmt: skip


def list_gpu_spans(rows: ServingEvents) -> OwnedSpans:
    """List kernels and copies of GPUs, owned by their groups. Copies within a device count as compute."""
    events = rows.events
    own = _find_line_rows(rows, "GPU", lambda line: not line.is_derived)
    metas, place = number_values(events.meta[own])
    types = np.array([_get_gpu_event_type(events.names[meta]) for meta in metas.tolist()], np.uint8)
    return OwnedSpans(rows.group[own].astype(np.int64), types[place], rows.start(own), rows.end(own))


def _get_gpu_event_type(name: str) -> int:
    copy = _COPY.match(name)
    ends = (copy["source"][0].lower(), copy["target"][0].lower()) if copy else ("", "")
    return _COPIES.get(ends, COMPUTE)


def list_programs(rows: ServingEvents) -> Int64s:
    """Return the rows of grouped programs that ran on TPUs."""
    return _find_line_rows(rows, "TPU", lambda line: line.name == MODULES_LINE)


def _find_line_rows(rows: ServingEvents, kind: str, wanted: Callable[[Line], bool]) -> Int64s:
    """Return the grouped rows of device lines."""
    lines = [line for plane in rows.events.planes_of(kind) for line in plane.lines if wanted(line)]
    own = join_parts(np.arange(line.first, line.last) for line in lines)
    grouped: Int64s = own[rows.group[own] >= 0]
    return grouped


def _list_transfers(rows: ServingEvents, issue: str, kind: int) -> OwnedSpans:
    """List transfers from an issue event to the last event of the same ``_c`` that marks the end and began later."""
    issued, done = rows.grouped(issue), rows.grouped(f"{issue}=>Done")
    contexts = rows.events.ints("_c")
    has_issue, issue_id = join_stat(issued, *contexts)
    has_done, done_id = join_stat(done, *contexts)
    issued, issue_id = _find_last_of_each(issued[has_issue], issue_id[has_issue])
    done, done_id = done[has_done], done_id[has_done]
    has, at = join_stat(done_id, issue_id, np.arange(len(issue_id)))
    done, at = done[has], at[has]
    later = rows.start(issued[at]) < rows.start(done)
    done, at = _find_last_of_each(done[later], at[later])
    begun = issued[at]
    return OwnedSpans.of(kind, rows.group[begun], rows.start(begun), rows.end(done))


def _find_last_of_each(rows: Int64s, ids: Int64s) -> tuple[Int64s, Int64s]:
    distinct, last = np.unique(ids[::-1], return_index=True)
    return rows[::-1][last], distinct


def list_stage_marks(rows: ServingEvents) -> StageMarks:
    """List the grouped events that mark a stage: name by name, then in the order of the capture."""
    named = {stage: rows.grouped(*names) for stage, names in STAGES.items()}
    return {stage: (rows.group[at].astype(np.int64), rows.start(at)) for stage, at in named.items()}


def find_stamps(marks: StageMarks, count: int) -> Stamps:
    """Return the earliest of each stage in a group; of callbacks, the latest."""
    extreme = {"callback": find_latest}
    return {stage: extreme.get(stage, find_earliest)(start, group, count) for stage, (group, start) in marks.items()}


def time_requests(
    requests: Requests, batches: Batches, device: OwnedSpans, when: Stamps, links: GroupLinks
) -> TimedRequests:
    """Find the parts of each request, which lasts at least until its last batch ends."""
    place, batch = requests.batches.of_each(np.arange(len(requests)))
    first = find_earliest(batches.begin[batch], place, len(requests))
    last = find_latest(batches.end[batch], place, len(requests))
    requests, delay = extend_requests(requests, first, last)
    spans = list_parts(requests, device, when, links)
    return TimedRequests(requests, delay, sum_parts(spans[spans.end > spans.begin], len(requests)))


def extend_requests(requests: Requests, begin: Int64s, end: Int64s) -> tuple[Requests, Int64s]:
    """Extend requests until their batches end, and return how long each waits for them to begin. ``begin``, ``end``: of
    the batches of each request, or NONE."""
    delay = np.where(begin != NONE, begin - requests.begin, 0)
    return replace(requests, end=np.maximum(requests.end, end)), delay


def sum_parts(spans: OwnedSpans, count: int) -> Int64s:
    """Return int64[requests, 8] in ps, in the order of PARTS."""
    times: Int64s = flatten_spans(spans, count)[:, list(PARTS)]
    return times


def list_parts(requests: Requests, device: OwnedSpans, when: Stamps, links: GroupLinks) -> OwnedSpans:
    """List the spans that requests are made of, owned by the requests; some have no length."""
    # A request has its own group and those that it led to.
    parent, led = links.children.of_each(requests.group)
    own = np.arange(len(requests))
    sources, request = np.concatenate([requests.group, led]), np.concatenate([own, parent])
    owners = NumberLinks.of(sources, request, links.count)
    place, owner = owners.of_each(device.owner)
    spans = replace(device[place], owner=owner)
    count = len(requests)
    execute, launch = when["execute"][sources], when["launch"][sources]
    ran = (execute != NONE) & (launch != NONE)
    first_execute = find_earliest(execute, request, count)
    callback = find_latest(when["callback"][sources], request, count)
    compute = spans.type == COMPUTE
    callback = np.where(callback != NONE, callback, find_latest(spans.end[compute], spans.owner[compute], count))
    schedule = find_earliest(when["schedule"][sources], request, count)
    concat = find_earliest(when["concat"][sources], request, count)
    all_of = np.arange(count)
    return OwnedSpans.joined([
        spans,
        _make_spans(EventType.HOST_RUNTIME, request[ran], execute[ran], launch[ran]),
        _make_spans(EventType.HOST_PREPROCESS, all_of, requests.begin, first_execute),
        _make_spans(EventType.HOST_POSTPROCESS, all_of, callback, requests.end),
        _make_spans(EventType.HOST_BATCH_FORMATION, all_of, schedule, concat),
    ])  # fmt: skip


def _make_spans(kind: int, owner: Int64s, begin: Int64s, end: Int64s) -> OwnedSpans:
    """Make spans where both ends are known. They have no length if the ends are the wrong way round."""
    known = (begin != NONE) & (end != NONE)
    begin, end = begin[known], end[known]
    return OwnedSpans.of(kind, owner[known], begin, np.maximum(begin, end))


def flatten_spans(spans: OwnedSpans, count: int) -> Int64s:
    """Return the time of each owner by type, int64[count, 18]; no time counts twice."""
    totals = np.zeros((count, EVENT_TYPES), np.int64)
    seen = np.zeros((count, EVENT_TYPES), np.uint8)
    if count:
        duration = spans.end - spans.begin
        step_time(spans.owner.astype(np.int32), spans.type, spans.begin, duration, None, None, totals, None, seen)
    return totals
