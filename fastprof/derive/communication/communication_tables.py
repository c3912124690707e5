"""The tables of communication: each column, and how it follows from what was kept of all hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from fastprof.derive.communication.flights import NO_BYTES, WHAT, Operation, Sums
from fastprof.derive.communication.host_communication import Device, HostCommunication
from fastprof.derive.communication.meetings import Meetings
from fastprof.derive.communication.operation_sums import Merged, OfOperations
from fastprof.derive.communication.payload import NO_PAYLOAD, Payload, payload
from fastprof.derive.communication.step_numbers import StepNumbers
from fastprof.derive.communication.step_sums import Spans, if_hidden, spans_of
from fastprof.derive.devices.communication_kinds import BETWEEN_DEVICES, KINDS, SCOPES, WITH_HOST, WITHIN_DEVICE
from fastprof.derive.ops.tables import exact_sum, sums_by
from fastprof.schema.array_types import Float64s, Int64s
from fastprof.schema.arrow_columns import shares, texts
from fastprof.schema.column_kinds import Bytes, Count, Flag, Kind, Picoseconds, Share, Text
from fastprof.schema.tables import Column, Formula, TableSchema


def total_of(table: pa.Table, column: str) -> int:
    """The sum of integers without nulls; that of several devices may exceed 64 bits."""
    return sum(np.asarray(table[column]).tolist())


def _table_of(name: str, row: str, *columns: Column) -> TableSchema:
    """A column without a formula is the field of the rows that has its name; if it may be null, negative numbers and
    NaN are."""
    return TableSchema(name, row, tuple(one if one.of else _field(one) for one in columns), derived=True)


def _field(column: Column) -> Column:
    of = attrgetter(column.name)
    return replace(column, of=of, null=(lambda rows: ~(of(rows) >= 0)) if column.nullable else None)


# ---- devices


Devices = Sequence[tuple[str, Device]]
"""Of all hosts, each with the name of its host, in the order of their numbers."""


def devices_of(kept: Sequence[HostCommunication]) -> Devices:
    return [(host.host, device) for host in kept for device in host.devices]


def _of_device(of: Callable[[str, Device], str]) -> Formula:
    return lambda rows: texts([of(host, device) for host, device in rows.devices], rows.device)


def _exposed(scope: str) -> Formula:
    return lambda rows: rows.exposed_in[scope]


_HOST = Text("host", "host, named after the file of its capture", _of_device(lambda host, _: host))
_DEVICE = Text("device", "plane of the device: a TensorCore, a SparseCore or a GPU",
               _of_device(lambda _, device: device.plane))  # fmt: skip
_CORE = Text("core_name", "name of the device as in the analysis steps, host:ordinal; of a GPU, its plane",
             _of_device(lambda _, device: device.name))  # fmt: skip
_SPARSE = Flag("sparse_core", "whether the device is a SparseCore",
               lambda rows: np.array([device.sparse for _, device in rows.devices])[rows.device])  # fmt: skip
_KIND = Text("kind", "kind of communication: " + "; ".join(kind.title for kind in KINDS),
             lambda rows: texts([kind.title for kind in KINDS], rows.kind))  # fmt: skip
_SCOPE = Text("scope", "where the data move: " + ", ".join(SCOPES),
              lambda rows: texts([kind.scope for kind in KINDS], rows.kind))  # fmt: skip
_STEP = Count("step", "number of the step, as in the analysis steps; null: not in a step that all hosts have")


def _split(span: str) -> tuple[Column, ...]:
    """Time of a device over ``span``, and what it was spent on."""
    return (
        Picoseconds("duration_ps", f"time of {span} = compute_ps + exposed_ps + idle_ps"),
        Picoseconds("compute_ps", "time in which the device computes: on TPUs the innermost op of the op line does not "
                    "communicate; on GPUs a kernel that neither communicates nor copies runs on any stream"),
        Picoseconds("communication_ps", "time in which communication is in flight = hidden_ps + exposed_ps"),
        Picoseconds("hidden_ps", "time in which communication is in flight while the device computes"),
        Picoseconds("exposed_ps", "time in which communication is in flight while the device does not compute"),
        Picoseconds("idle_ps", "time in which no communication is in flight and the device does not compute"),
        Share("exposed_share", "exposed_ps / duration_ps; null: the duration is 0",
              lambda rows: shares(rows.exposed_ps, rows.duration_ps)),
        Share("hidden_share", "hidden_ps / communication_ps; null: no communication",
              lambda rows: shares(rows.hidden_ps, rows.communication_ps)),
        Picoseconds("exposed_between_devices_ps", "exposed_ps of communication between devices",
                    _exposed(BETWEEN_DEVICES)),
        Picoseconds("exposed_with_host_ps", "exposed_ps of communication with the host", _exposed(WITH_HOST)),
        Picoseconds("exposed_within_device_ps", "exposed_ps of communication within the device",
                    _exposed(WITHIN_DEVICE)),
        Picoseconds("if_hidden_ps", "duration_ps if all communication were hidden: duration_ps - exposed_ps, but at "
                    "least communication_ps", if_hidden),
    )  # fmt: skip


_STEPS = _table_of(
    "steps", "a step on a device; without steps, everything that the device recorded",
    _STEP,
    Text("name", "name of the step; null: the row is everything that the device recorded",
         lambda rows: texts(rows.names, np.arange(len(rows.names)))),
    _HOST,
    _DEVICE,
    _CORE,
    _SPARSE,
    Flag("complete", "whether the step is entirely in the capture, as far as known"),
    Picoseconds("start_ps", "start of the step, on the clock of the device's ops", attrgetter("begin_ps")),
    *_split("the step on the device (on TPUs as in the analysis steps, on GPUs by the events of each GPU)"),
)  # fmt: skip
_DEVICES = _table_of(
    "devices", "a device, with everything that it recorded",
    _HOST,
    _DEVICE,
    _CORE,
    _SPARSE,
    Count("step_count", "steps of the device", lambda rows: [device.step_count for _, device in rows.devices]),
    *_split("the capture, from the device's first to its last op"),
)  # fmt: skip


class StepSpans:
    """The steps of the devices of all hosts, taken out of what hosts kept when a table is made of them."""

    def __init__(self, kept: Sequence[HostCommunication], numbers: Sequence[StepNumbers], devices: Devices) -> None:
        self.devices = devices
        self._hosts = [
            (one.steps, steps, len(one.devices))
            for one, steps in zip(kept, numbers, strict=True)
            if one.steps is not None
        ]

    def taken_out(self) -> Iterator[tuple[Spans, Int64s, Int64s]]:
        """Of each host the spans, the numbers of their devices, and of their steps."""
        first = 0
        for kept, numbers, count in self._hosts:
            found = spans_of(kept)
            yield found, first + found.device, numbers.of(found.group)
            first += count


def steps(every: StepSpans) -> pa.Table:
    parts = list(every.taken_out())
    return _STEPS.of(_rows(
        every.devices,
        _concatenated(device for _, device, _ in parts),
        [spans.sums for spans, _, _ in parts],
        step=_concatenated(step for _, _, step in parts),
        names=[name for spans, _, _ in parts for name in spans.names],
        complete=np.concatenate([np.zeros(0, np.bool_), *(spans.complete for spans, _, _ in parts)]),
    ))  # fmt: skip


def devices(kept: Sequence[HostCommunication], each: Devices) -> pa.Table:
    return _DEVICES.of(_rows(each, np.arange(len(each)), [one.whole for one in kept]))


def _rows(devices: Devices, device: Int64s, sums: Sequence[Sums], **rest: Any) -> Any:
    """Spans of all hosts together: tables are built once, not once a host."""
    return SimpleNamespace(
        devices=devices,
        device=device,
        exposed_in={scope: _concatenated(_exposed_in(scope, one) for one in sums) for scope in SCOPES},
        **{name: _concatenated(getattr(one, name) for one in sums) for name in _FIGURES},
        **rest,
    )


_FIGURES: Final = (
    "begin_ps", "duration_ps", "compute_ps", "communication_ps", "hidden_ps", "exposed_ps", "idle_ps",
)  # fmt: skip


def _exposed_in(scope: str, sums: Sums) -> Int64s:
    return np.asarray(sums.kind_exposed_ps[:, _IN_SCOPE[scope][sums.kinds]].sum(axis=1))


_IN_SCOPE: Final = {scope: np.array([kind.scope == scope for kind in KINDS]) for scope in SCOPES}


# ---- kinds


def _of_kind(span: str) -> tuple[Column, ...]:
    return (
        Picoseconds("time_ps", f"time of {span} in which the kind is in flight"),
        Picoseconds("hidden_ps", f"time of {span} in which the kind is in flight while the device computes"),
        Picoseconds("exposed_ps", f"time of {span} in which the device does not compute and waits for this kind: the "
                    "kind of the op at which the device stands, else the first kind in flight, in the order in which "
                    "the column kind lists kinds. The exposed_ps of all kinds add up to the exposed time"),
    )  # fmt: skip


_KINDS = _table_of(
    "kinds", "a kind of communication, over all devices and everything that they recorded",
    _KIND,
    _SCOPE,
    Count("device_count", "devices with this kind"),
    Count("occurrences", "operations of this kind, counted on each device"),
    *_of_kind("all devices together"),
    Share("exposed_share", "exposed_ps / time that all devices recorded; null: that time is 0",
          lambda rows: shares(rows.exposed_ps, rows.recorded)),
    Bytes("moved_bytes", "bytes that the operations of this kind moved; null: unknown for one of the operations"),
)  # fmt: skip
_STEP_KINDS = _table_of(
    "step_kinds", "a kind of communication in a step on a device, with the steps of the table steps",
    _STEP, _HOST, _DEVICE, _KIND, _SCOPE, *_of_kind("the step"),
)  # fmt: skip


def step_kinds(every: StepSpans) -> pa.Table:
    """The kinds of communication in each span."""
    of: dict[str, list[Int64s]] = {name: [] for name in _OF_KIND}
    for spans, device, step in every.taken_out():
        sums = spans.sums
        row, kind = at = np.nonzero(sums.kind_ps)
        columns = (step[row], device[row], sums.kinds[kind], sums.kind_ps[at], sums.kind_hidden_ps[at],
                   sums.kind_exposed_ps[at])  # fmt: skip
        for parts, column in zip(of.values(), columns, strict=True):
            parts.append(column)
    found = {name: _concatenated(parts) for name, parts in of.items()}
    return _STEP_KINDS.of(SimpleNamespace(devices=every.devices, **found))


_OF_KIND: Final = ("step", "device", "kind", "time_ps", "hidden_ps", "exposed_ps")


def kinds(kept: Sequence[HostCommunication], operations: pa.Table) -> pa.Table:
    """By kind, the most exposed first."""
    count = len(KINDS)
    wholes = [one.whole for one in kept]
    seen = np.bincount(_concatenated(one.whole.kinds[np.nonzero(one.has_kind)[1]] for one in kept), minlength=count)
    of_device = _concatenated(np.tile(one.kinds, len(one.begin_ps)) for one in wholes)
    time, hidden, exposed = (
        sums_by(of_device, _concatenated(getattr(one, name).ravel() for one in wholes), count, WHAT)
        for name in ("kind_ps", "kind_hidden_ps", "kind_exposed_ps")
    )
    recorded = sum(duration for one in wholes for duration in one.duration_ps.tolist())  # maybe more than 64 bits
    place = {kind.title: kind.number for kind in KINDS}
    kind = np.array([place[name] for name in operations["kind"].to_pylist()], np.int64)
    sizes: list[int | None] = operations["moved_bytes"].to_pylist()
    unknown = np.bincount(kind[[size is None for size in sizes]], minlength=count) > 0
    moved = sums_by(kind, np.array([size or 0 for size in sizes], np.int64), count, "the bytes of communication")
    done = sums_by(kind, np.asarray(operations["occurrences"]), count)
    rows = np.flatnonzero((seen > 0) | (done > 0))
    rows = rows[np.argsort(-exposed[rows], kind="stable")]
    return _KINDS.of(SimpleNamespace(
        kind=rows,
        device_count=seen[rows],
        occurrences=done[rows],
        time_ps=time[rows],
        hidden_ps=hidden[rows],
        exposed_ps=exposed[rows],
        recorded=recorded,
        moved_bytes=np.where(unknown, -1, moved)[rows],
    ))  # fmt: skip


# ---- operations


def _text(of: Formula) -> Formula:
    """A text of each operation; "" is unknown."""
    return lambda rows: texts([of(one) or None for one in rows.each], rows.place)


_Rate = Kind(pa.float64(), "bytes/s")
_OPERATIONS = _table_of(
    "operations", "an op that communicates, over all devices, most exposed time first",
    Count("program_id", "id of the program, uint64 as two's complement; 0: no program"),
    Text("name", "name of the instruction, of an asynchronous operation the one that starts it; on GPUs without "
         "programs the kernel or copy, with its framework op",
         lambda rows: texts([op.name for op, _ in rows.each], rows.place)),
    _KIND,
    _SCOPE,
    Text("framework_op", "framework op that the instruction comes from; null: unknown",
         _text(lambda one: one[0].framework_op)),
    Count("device_count", "devices that ran the op"),
    Count("occurrences", "executions of the op, on all devices", attrgetter("count")),
    Picoseconds("total_ps", "time in flight: for an asynchronous operation from the start of its first op to the end "
                "of its last op, else the duration of the op", attrgetter("time_ps")),
    Picoseconds("mean_ps", "total_ps / occurrences, rounded down",
                lambda rows: rows.time_ps // np.maximum(rows.count, 1)),
    Picoseconds("min_ps", "shortest time in flight of an execution"),
    Picoseconds("max_ps", "longest time in flight of an execution"),
    Picoseconds("wait_ps", "time in which devices stand at the op: on TPUs the op, or one that starts or ends it, is "
                "the innermost op; on GPUs total_ps"),
    Picoseconds("hidden_ps", "time in flight during which the device computes"),
    Picoseconds("exposed_ps", "time in which the device does not compute and waits for this op"),
    Share("exposed_share", "exposed_ps / exposed_ps of all operations; null: nothing is exposed",
          lambda rows: shares(rows.exposed_ps, exact_sum(rows.exposed_ps))),
    Text("replica_groups", "devices that take part, as the program lists them, or pairs of source and target; null: no "
         "such list, or unknown", _text(lambda one: one[1].groups)),
    Count("group_size", "devices of the largest group; null: unknown, or all devices",
          lambda rows: [rows.each[row][1].size for row in rows.place.tolist()]),
    Bytes("payload_bytes", "bytes of an execution, without padding: the buffer of an all-reduce, the result of an "
          "all-gather, the operand of a reduce-scatter, the data that others send; for copies on GPUs the mean; null: "
          "unknown"),
    Bytes("moved_bytes", "bytes of all executions; null: unknown, or too many for 64 bits"),
    _Rate("algorithm_bytes_per_s", "algorithm bandwidth: moved_bytes / total_ps; null: moved_bytes is unknown"),
    _Rate("bus_bytes_per_s", "bus bandwidth: algorithm_bytes_per_s times the bytes that pass the links of each of n "
          "devices per byte: 2 (n - 1) / n for all-reduce, (n - 1) / n for all-gather, reduce-scatter and all-to-all, "
          "1 for others; null: bytes or n are unknown"),
    _Rate("best_bus_bytes_per_s", "bus bandwidth of the shortest execution, which waited least; null: bytes or n are "
          "unknown, or executions differ in size"),
    Text("text", "full text of the instruction; null: unknown", _text(lambda one: one[0].text)),
)  # fmt: skip


def operations(ran: OfOperations, every: Merged) -> pa.Table:
    """Over all devices, the most exposed first. ``ran``: of those of all hosts, which are ``every``."""
    if not len(ran.op):
        return _OPERATIONS.empty()
    ops = [every.every[one] for one in ran.op.tolist()]
    sums = {name: getattr(ran, name).astype(np.int64) for name in OfOperations.__slots__}
    order = np.lexsort((-sums["time_ps"], -sums["exposed_ps"]))
    payloads = [payload(one.kind, one.text) if one.text else NO_PAYLOAD for one in ops]
    payloads = [
        replace(shape, size=one.group_size) if one.group_size else shape
        for shape, one in zip(payloads, ops, strict=True)
    ]
    size, moved = _sizes(payloads, sums.pop("bytes"), sums["count"])
    columns = sums | _rates(ops, payloads, size, moved, sums["time_ps"], sums["min_ps"]) | {
        "program_id": np.array([one.program_id for one in ops], np.int64),
        "kind": np.array([one.kind.number for one in ops]),
        "device_count": sums["devices"],
        "payload_bytes": size,
        "moved_bytes": moved,
    }  # fmt: skip
    in_order = {name: column[order] for name, column in columns.items()}
    return _OPERATIONS.of(SimpleNamespace(each=list(zip(ops, payloads, strict=True)), place=order, **in_order))


_MOST_BYTES = 2**62


def _sizes(payloads: Sequence[Payload], recorded: Int64s, count: Int64s) -> tuple[Int64s, Int64s]:
    """Bytes of an occurrence, and of all: as ``recorded`` by events, maybe of several sizes, else by instructions.
    NO_BYTES: unknown."""
    unknown = recorded == NO_BYTES
    each = np.array([NO_BYTES if one.bytes is None else min(one.bytes, _MOST_BYTES) for one in payloads], np.int64)
    most = np.where((each >= 0) & (each <= _MOST_BYTES // np.maximum(count, 1)), each * count, NO_BYTES)
    return np.where(unknown, each, recorded // np.maximum(count, 1)), np.where(unknown, most, recorded)


def _rates(
    ops: Sequence[Operation], payloads: Sequence[Payload], size: Int64s, moved: Int64s, time: Int64s, least: Int64s
) -> dict[str, Float64s]:
    """Bytes per second; NaN: unknown."""
    factors = [one.bus_factor(op.kind) for one, op in zip(payloads, ops, strict=True)]
    factor = np.array([np.nan if one is None else one for one in factors])
    known = np.array([one.bytes is not None for one in payloads], np.bool_)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where((moved < 0) | (time <= 0), np.nan, moved / time * 1e12)
        best = np.where((size < 0) | (least <= 0) | ~known, np.nan, size / least * 1e12)
    return {
        "algorithm_bytes_per_s": rate,
        "bus_bytes_per_s": rate * factor,
        "best_bus_bytes_per_s": best * factor,
    }


# ---- meetings


def _of_op(of: Formula) -> Formula:
    return lambda rows: texts([of(one) for one in rows.operations], rows.op)


_MEETINGS = _table_of(
    "meetings", "a collective operation in which several devices took part together",
    _STEP,
    Count("number", "number of the execution of the op in the step, or in the capture if it has no steps: from 0, or "
          "up to -1, the last one, if captures of devices start at different times"),
    Count("program_id", "id of the op's program, uint64 as two's complement",
          lambda rows: np.array([one.program_id for one in rows.operations], np.int64)[rows.op]),
    Text("name", "name of the op, as in operations", _of_op(lambda one: one.name)),
    Text("kind", _KIND.description, _of_op(lambda one: one.kind.title)),
    Count("host_count", "hosts with devices that took part"),
    Count("device_count", "captured devices that took part"),
    Text("first_device", "device that started first, as host: device; null: of several hosts whose clocks do not show "
         "it", lambda rows: texts(rows.names, rows.first)),
    Text("last_device", "device that started last, as host: device; of several hosts whose clocks do not show it the "
         "device that took the shortest; null: unknown", lambda rows: texts(rows.names, rows.last)),
    Picoseconds("skew_ps", "time between the starts of the first and the last device, on the clock of their host, or "
                "of several hosts on that of their reference; null: their clocks do not show who was last"),
    Picoseconds("shortest_ps", "shortest time of any device: what the operation takes when all devices have arrived"),
    Picoseconds("longest_ps", "longest time of any device"),
    Picoseconds("wait_ps", "sum over devices of the time beyond shortest_ps, spent waiting for the last device; null: "
                "the operation is asynchronous, so it may end late for other reasons"),
)  # fmt: skip
_STRAGGLERS = _table_of(
    "stragglers", "a device that took part in meetings, the one that others waited for most first",
    _HOST,
    _DEVICE,
    _CORE,
    Count("meetings", "meetings in which the device took part; a meeting is a collective operation of several devices"),
    Count("last_count", "meetings in which the device was last"),
    Picoseconds("late_ps", "time from the start of the first device to the start of this one, summed over meetings; "
                "null: meetings are of several hosts"),
    Picoseconds("waited_ps", "time that the device waited for others: its time beyond shortest_ps, summed over "
                "meetings"),
    Picoseconds("caused_ps", "time that others waited in meetings in which this device was last"),
)  # fmt: skip
TABLES: Final = {
    table.name: table for table in (_STEPS, _DEVICES, _KINDS, _STEP_KINDS, _OPERATIONS, _MEETINGS, _STRAGGLERS)
}


def meetings(devices: Devices, found: Meetings, step: Int64s) -> pa.Table:
    """``step``: the number of the step of each meeting, -1: none."""
    names = [*(f"{host}: {device.plane}" for host, device in devices), None]
    return _MEETINGS.of(SimpleNamespace(names=names, **vars(found) | {"step": step}))


def stragglers(devices: Devices, found: Meetings) -> pa.Table:
    """The devices that took part, those that others wait for most first."""
    attended, count = found.attendance, len(devices)
    came_last = found.last >= 0
    caused = sums_by(found.last[came_last], np.maximum(found.wait_ps[came_last], 0), count)
    last = np.bincount(found.last[came_last], minlength=count)
    rows = np.flatnonzero(attended.meetings)
    rows = rows[np.lexsort((-last[rows], -caused[rows]))]
    return _STRAGGLERS.of(SimpleNamespace(
        devices=devices,
        device=rows,
        meetings=attended.meetings[rows],
        last_count=last[rows],
        late_ps=attended.late_ps[rows],
        waited_ps=attended.waited_ps[rows],
        caused_ps=caused[rows],
    ))  # fmt: skip


def _concatenated(parts: Iterable[Int64s]) -> Int64s:
    return np.concatenate([np.zeros(0, np.int64), *parts])
