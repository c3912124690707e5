"""Gaps: device time by kind, and what the program did while devices did not compute.

Definitions: docs/analyses/gaps.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from fastprof.analyses.contract import (
    AnalysisReport,
    Known,
    LazyTables,
    Notice,
    Opening,
    ScalarSpec,
    Section,
    has_rows,
    make_scalars,
)
from fastprof.derive.causes.cause_names import CAUSE_LABELS, CAUSES, GAP_CAUSES
from fastprof.derive.causes.gaps import find_host_gaps
from fastprof.derive.causes.time_by_cause import (
    CAUSE_NAMES,
    Budget,
    CauseTimes,
    HostBudget,
    LargestGaps,
    SessionBudget,
    make_host_budget,
    merge_rows,
)
from fastprof.derive.communication import host_communication
from fastprof.derive.communication.host_communication import list_device_spans
from fastprof.derive.devices import run_environment
from fastprof.derive.devices.device_events import NothingRan
from fastprof.derive.host import CPU_ONLY, Host
from fastprof.derive.ops import record_checks
from fastprof.derive.ops.device_time import COMPUTE, IDLE, KINDS
from fastprof.derive.steps import host_steps
from fastprof.derive.steps.event_origin import STATS as ORIGIN_STATS
from fastprof.derive.steps.host_causes import is_computing_op
from fastprof.derive.steps.step_alignment import SessionSteps, find_session_steps
from fastprof.derive.steps.step_database import StepDatabase
from fastprof.derive.steps.step_source import AUTO, STEPS_FROM
from fastprof.schema.columns import number_distinct_rows, sort_rows, sum_by
from fastprof.schema.tables import (
    Count,
    Formula,
    Need,
    Picoseconds,
    Share,
    String,
    TableSchema,
    Text,
    divide_or_null,
    encode_texts,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.needs import Needs, unite_needs
from fastprof.wording.quantities import count_noun, format_time

NAME = "gaps"
OF_ALL_THREADS = True
READS = unite_needs([
    Host.GROUPING,
    Needs(stats=host_steps.STATS, metadata_stats=host_steps.METADATA_STATS),
    Needs(stats=host_communication.EVENT_STATS, metadata_stats=host_communication.METADATA_STATS),
    Needs(stats=ORIGIN_STATS),
])  # fmt: skip
AFTER = ("steps",)
REMEDY = "Profile while the program runs on its devices."
ONE_BY_ONE = True


@dataclass(frozen=True, slots=True)
class Params:
    top: int = field(default=50, metadata={"help": "how many of the longest gaps to list", "min": 0, "alone": True})
    steps_from: str = field(default=AUTO, metadata=STEPS_FROM)


_LABELS: Final = {"cause": CAUSE_LABELS}
_CAUSE_TEXTS: Final = "one of: " + ", ".join(GAP_CAUSES)
_HOST = Text("host", "host, named after its capture file", lambda rows: encode_texts(rows.hosts, rows.host))
_DEVICE = Text("device", "device: a TensorCore, a GPU, or CPU for the host threads that run its ops",
               lambda rows: encode_texts(rows.names, rows.name))  # fmt: skip
_KIND = Text("kind", "what the device does: " + ", ".join(KINDS), lambda rows: encode_texts(KINDS, rows.kind))
_CAUSE = Text(
    "cause",
    f"{_CAUSE_TEXTS}; null: the device computes for training",
    lambda rows: encode_texts(CAUSE_NAMES, rows.cause),
)
_STEP = Count("step", "step number, as in the steps analysis; null: in no step, or in a step that not all hosts "
              "have", null=lambda rows: rows.step < 0)  # fmt: skip
_EVENT = String("event", "host event that explains most of the time, or the device's transfer or queued work; null: "
                "none is recorded", lambda rows: list(rows.event))  # fmt: skip


_WITHOUT_LOST: Final = "without time whose records are lost"
_KNOWN: Final = f"(window_ps {_WITHOUT_LOST})"
_LOST: Final = GAP_CAUSES.index("lost_records")


def _make_kind_formula(place: int) -> Formula:
    return lambda rows: rows.kind_ps[:, place]


_TABLES = (
    TableSchema("devices", "a device that ran anything", (
        _HOST,
        _DEVICE,
        Picoseconds("window_ps", "run time: from the first to the last device work, host work for devices or step "
                    "marker of the host; if steps are chosen, their time; sum of the next five columns"),
        *(Picoseconds(f"{kind}_ps", f"time of kind {kind}", _make_kind_formula(place)) for place,
          kind in enumerate(KINDS)),
        Share("compute_share", f"compute_ps / {_KNOWN}",
              lambda rows: divide_or_null(rows.kind_ps[:, COMPUTE], rows.window_ps - rows.lost_ps)),
        Share("idle_share", f"idle_ps / window_ps, both {_WITHOUT_LOST}",
              lambda rows: divide_or_null(rows.kind_ps[:, IDLE] - rows.lost_ps, rows.window_ps - rows.lost_ps)),
    ), derived=True),
    TableSchema("by_cause", "a cause of time in which a device does not compute for training", (
        _HOST,
        _DEVICE,
        _CAUSE,
        _KIND,
        Picoseconds("time_ps", "time of the device"),
        Share("share", "time_ps / window_ps of the device", lambda rows: divide_or_null(rows.time_ps, rows.window_ps)),
        Count("count", "number of uninterrupted intervals"),
        Picoseconds("longest_ps", "duration of the longest interval"),
        Picoseconds("longest_start_ps", "start of the longest interval, from the start of the host's capture"),
        _EVENT,
    ), derived=True),
    TableSchema("by_step", "a cause of time of a device in a step, or outside all steps", (
        _HOST,
        _DEVICE,
        _STEP,
        _CAUSE,
        _KIND,
        Picoseconds("time_ps", "time of the device"),
        Share("share", "time_ps / time of the step on the device",
              lambda rows: divide_or_null(rows.time_ps, rows.window_ps)),
        _EVENT,
    ), derived=True),
    TableSchema("gaps", "one of the longest intervals without compute on a device, with one cause", (
        _HOST,
        _DEVICE,
        _STEP,
        Picoseconds("start_ps", "start, from the start of the host's capture"),
        Picoseconds("duration_ps", "duration"),
        _KIND,
        _CAUSE,
        _EVENT,
        String("thread", "thread or stream of that event; null: no event explains it",
               lambda rows: list(rows.thread)),
        String("before_op", "last device work before the gap; null: none", lambda rows: list(rows.before_op)),
        String("after_op", "first device work after the gap; null: none", lambda rows: list(rows.after_op)),
    ), derived=True),
)  # fmt: skip
TABLES = {table.name: table for table in _TABLES}
_RAN = Need("used_device_count", NothingRan("no event of a device is recorded"))
SCALARS = {
    "device_count": ScalarSpec(None, run_environment.IN_WORDS),
    "used_device_count": ScalarSpec(None, "number of these devices that ran anything, copies included"),
    "unused_device_count": ScalarSpec(None, "device_count - used_device_count: devices that ran nothing; "
                                      "they are in no table"),
    "window_ps": ScalarSpec("ps", "run time summed over devices: for each, from the first to the last device work, "
                            "host work for devices or step marker of its host; window_ps of diagnosis is a mean over "
                            "devices", need=_RAN),
    "busy_ps": ScalarSpec("ps", "window_ps - idle_ps", need=_RAN),
    **{f"{kind}_ps": ScalarSpec("ps", f"time of kind {kind}, summed over devices", need=_RAN) for kind in KINDS},
    "compute_share": ScalarSpec("share", f"compute_ps / {_KNOWN}", "compute share of known device time"),
    "idle_share": ScalarSpec("share", f"idle_ps / window_ps, both {_WITHOUT_LOST}", "idle share of known device time"),
    "largest_cause": ScalarSpec(None, "cause with the most time, summed over all devices"),
    "largest_cause_ps": ScalarSpec("ps", "time of this cause, summed over devices", "its time"),
    "largest_cause_share": ScalarSpec("share", "largest_cause_ps / window_ps", "its share of device time"),
    "largest_cause_meaning": ScalarSpec(None, "what that cause is", "it is"),
    "between_steps_ps": ScalarSpec("ps", "time outside of steps, summed over devices: before the first, after the "
                                   "last, or where step numbers jump. A step lasts until the next one begins; "
                                   "between_steps_ps of the analysis steps counts from the end of each step",
                                   "outside of steps, summed over devices", need=_RAN),
}  # fmt: skip
OPENING = Opening(
    (
        "Devices compute for {compute_share} of their time. The largest other cause takes {largest_cause_share}. "
        "{largest_cause_meaning}.",
        "Devices compute for {compute_share} of their time.",
    ),
    ("compute_share", "idle_share", "largest_cause", "largest_cause_share", "device_count", "between_steps_ps"),
)

SECTIONS = (
    Section("Gaps", scalars=tuple(SCALARS), words={"largest_cause": CAUSE_LABELS}),
    Section("Causes", "by_cause", ("device", "cause", "time_ps", "share", "event", "kind", "count", "longest_ps"),
            "share", 24, shown=has_rows("by_cause"), by_worth=True, words=_LABELS),
    Section("Devices", "devices", ("device", "window_ps", *(f"{kind}_ps" for kind in KINDS), "idle_share"),
            "idle_share", 16, shown=has_rows("devices")),
    Section("Longest gaps", "gaps", ("device", "duration_ps", "cause", "event", "start_ps", "step", "after_op", "kind",
            "before_op", "thread"), rows=12, shown=has_rows("gaps"), by_worth=True, words=_LABELS),
    Section("Steps", "by_step", ("device", "step", "cause", "time_ps", "share", "event", "kind"), "share", 20,
            by_worth=True, words=_LABELS,
            shown=lambda report: report.tables["by_step"]["step"].null_count < report.tables["by_step"].num_rows),
)  # fmt: skip


def of_host(host: Host, params: Params, *, neighbours: bool = True) -> HostBudget:
    every = host.entire
    events, records = every.events, record_checks.check_records(every.raw)
    lost = record_checks.find_relevant_losses(every.raw)
    spans = every.thread_spans if lost is None else []  # threads that launch are not the device
    if every.hardware != CPU_ONLY:
        spans = list_device_spans(events, every.modules, every.forest, every.workers, is_computing_op)
    groups, causes = every.groups_from(params.steps_from), every.causes_from(params.steps_from)
    periods = every.periods_from(params.steps_from)
    foremost = every.foremost_from(params.steps_from)
    gaps = find_host_gaps(events, groups, periods, spans, causes, foremost, None if lost is None else lost.times_ps)
    chosen = None if host is every else np.unique(host.groups_from(params.steps_from).group_id)
    budget = make_host_budget(events, gaps, params.top, chosen, neighbours=neighbours)
    return replace(budget, records=records)


def of_host_for_others(host: Host, params: Params) -> HostBudget:
    return of_host(host, params, neighbours=False).for_others()  # only the table of gaps names them


def run(kept: Sequence[HostBudget], params: Params, after: Mapping[str, AnalysisReport]) -> AnalysisReport:
    database = after["steps"].detail_as(SessionSteps).database
    every = SessionBudget.of(kept, partial(find_session_steps, database))
    causes, count = every.causes, len(every.devices)
    cell = causes.device.astype(np.int64) * len(KINDS) + causes.kind
    kind_ps = sum_by(cell, causes.time_ps, count * len(KINDS)).reshape(count, len(KINDS))
    window_ps = kind_ps.sum(axis=1)
    devices = SimpleNamespace(
        hosts=every.hosts, host=every.host_of, names=every.devices, name=np.arange(count), kind_ps=kind_ps,
        window_ps=window_ps, lost_ps=sum_by(causes.device, causes.time_ps * (causes.cause == _LOST), count),
    )  # fmt: skip
    lost = causes[causes.cause < len(GAP_CAUSES)]
    lost = lost[sort_rows(lost.device, -lost.time_ps)]
    tables = LazyTables({
        "devices": TABLES["devices"].of(devices),
        "by_cause": TABLES["by_cause"].of(_name_rows(every, lost, window_ps=window_ps[lost.device])),
        "by_step": partial(_build_step_table, every, database),
        "gaps": partial(_build_gaps_table, every, database, params.top),
    })  # fmt: skip
    figures = make_scalars(SCALARS, _compute_values(every))
    return AnalysisReport(NAME, tables, figures, tuple(_list_notices(every)), after, every)


# ---- rows


def _name_rows(every: SessionBudget, rows: Budget | CauseTimes | LargestGaps, **columns: Any) -> SimpleNamespace:
    """Add the names of hosts and devices to rows, for the columns of their tables."""
    own = {column.name: getattr(rows, column.name) for column in fields(rows)}
    names = {"hosts": every.hosts, "host": every.host_of[rows.device], "names": every.devices, "name": rows.device}
    return SimpleNamespace(**own | names | columns)


def _build_step_table(every: SessionBudget, database: StepDatabase) -> pa.Table:
    """Return causes by device and step, the time between steps last, longest first; no rows if the host states are for
    other analyses."""
    if not every.has_events:
        return TABLES["by_step"].empty()
    rows, events = merge_rows(every.budget(), every.events())
    first, group = number_distinct_rows([rows.device, rows.step])
    of_step = sum_by(group, rows.time_ps, len(first))[group]
    order = sort_rows(rows.device, rows.step < 0, rows.step, -rows.time_ps)
    number = database.numbers_of(rows.step[order])
    named = _name_rows(every, rows[order], event=events[order], window_ps=of_step[order], step=number)
    return TABLES["by_step"].of(named)


def _build_gaps_table(every: SessionBudget, database: StepDatabase, most: int) -> pa.Table:
    rows = every.largest(most)
    return TABLES["gaps"].of(_name_rows(every, rows, step=database.numbers_of(rows.step)))


# ---- figures


def _compute_values(every: SessionBudget) -> dict[str, Known]:
    causes = every.causes
    by_kind = sum_by(causes.kind, causes.time_ps, len(KINDS)).tolist()
    by_cause = sum_by(causes.cause, causes.time_ps, len(CAUSE_NAMES))[: len(GAP_CAUSES)].tolist()
    window = sum(by_kind)
    known_ps, most = window - by_cause[_LOST], max(range(len(GAP_CAUSES)), key=by_cause.__getitem__)
    nothing = (None, every.why_unknown or "no device work is recorded")
    lost: Known = by_cause[most] if by_cause[most] else (None, "devices compute all the time" if window else nothing[1])
    if every.why_unknown and not window:
        return dict.fromkeys(SCALARS, nothing) | {"device_count": every.count}
    return {
        "device_count": every.count,
        "used_device_count": every.used,
        "unused_device_count": every.count - every.used,
        "window_ps": window,
        "busy_ps": window - by_kind[IDLE],
        **{f"{kind}_ps": by_kind[place] for place, kind in enumerate(KINDS)},
        "compute_share": by_kind[COMPUTE] / known_ps if known_ps else nothing,
        "idle_share": (by_kind[IDLE] - by_cause[_LOST]) / known_ps if known_ps else nothing,
        "largest_cause": GAP_CAUSES[most] if by_cause[most] else lost,
        "largest_cause_ps": lost,
        "largest_cause_share": by_cause[most] / window if by_cause[most] else lost,
        "largest_cause_meaning": CAUSES[GAP_CAUSES[most]].rstrip(".") if by_cause[most] else lost,
        "between_steps_ps": every.between_steps_ps,
    }


def _list_notices(every: SessionBudget) -> Iterator[Notice]:
    if not every.devices:
        ran = "No device work is recorded: neither devices nor host threads have ops."
        yield Notice("info", NothingRan(ran))
    lost = sum_by(every.causes.cause, every.causes.time_ps, len(CAUSE_NAMES))[_LOST]
    if lost:
        yield Notice(
            "warning",
            f"For {format_time(int(lost))} of idle time, summed over devices, records of launched work are lost, so "
            f"devices may have been busy.",
        )
    if every.devices and (unused := every.count - every.used):
        ran = count_noun(unused, "device of the capture ran nothing", "devices of the capture ran nothing")
        yield Notice("info", f"{ran} and {'is' if unused == 1 else 'are'} left out.")
    unexplained = int(every.causes.time_ps[every.causes.cause == GAP_CAUSES.index("idle")].sum())
    if every.waiting_ps:
        yield Notice(
            "info",
            f"For {format_time(every.waiting_ps)} of idle time, summed over devices, the host waits for devices "
            f"without records: work may be missing from the capture.",
        )
    if unexplained > every.waiting_ps:
        yield Notice(
            "info",
            f"For {format_time(unexplained - every.waiting_ps)} of idle time, summed over devices, no host thread "
            f"has events. The Python tracer and annotations would show the program's activity at these times.",
        )
