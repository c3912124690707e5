"""The tables of communication: each column, and how it is computed from the host states. Also the tables of hosts that
meet (their clocks, and who makes whom wait) and of links between devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from fastprof.derive.communication.blame import Blame
from fastprof.derive.communication.clocks import Clocks
from fastprof.derive.communication.collectives import NO_PAYLOAD, parse_payload
from fastprof.derive.communication.communication_sums import (
    HostStepSums,
    MergedOperations,
    OperationSums,
    StepNumbers,
    measure_if_hidden,
    unpack_spans,
)
from fastprof.derive.communication.device_links import HostDeviceNames, list_links, measure_rates
from fastprof.derive.communication.flights import NO_BYTES, WHAT, SpanSums
from fastprof.derive.communication.host_communication import CommunicatingDevice, HostCommunication
from fastprof.derive.communication.meetings import Meetings
from fastprof.derive.devices.communication_kinds import BETWEEN_DEVICES, KINDS, SCOPES, WITH_HOST, WITHIN_DEVICE
from fastprof.schema.columns import (
    Int64s,
    find_first_rows,
    join_parts,
    number_keys,
    sort_rows,
    sum_by,
    sum_exactly,
)
from fastprof.schema.tables import (
    Bytes,
    Column,
    Count,
    Flag,
    Formula,
    Kind,
    Number,
    Picoseconds,
    Share,
    TableSchema,
    Text,
    divide_or_null,
    encode_texts,
    explain_nulls,
)
from fastprof.wording.quantities import count_noun

_MET_HOST: Final = Text("host", "host, named after its capture file", lambda rows: encode_texts(rows.names, rows.host))
_PART: Final = Count("part", "number of the part: hosts that met in collectives, directly or through others; clocks of "
                     "different parts are not compared", lambda rows: rows.part)  # fmt: skip


def _make_clock_column(kind: Kind, name: str, description: str) -> Column:
    """Make a column of clocks, null if the clock is not known."""
    return kind(name, f"{description}; null: the clock is unknown", lambda rows: getattr(rows, name),
                lambda rows: ~rows.known)  # fmt: skip


_CLOCKS: Final = TableSchema(
    "clocks",
    "a host that met others in collectives, and the offset of its clock from the reference host of its part. Offsets "
    "come from the ends of collectives: no host finishes before the last one has begun, and all finish at nearly the "
    "same time",
    (
        _MET_HOST,
        _PART,
        Text("reference", "host whose clock the others of the part are compared with",
             lambda rows: encode_texts(rows.names, rows.reference)),
        _make_clock_column(Picoseconds, "offset_ps",
                           "offset that converts the host's times to the reference clock when added, at at_ps"),
        _make_clock_column(Picoseconds, "at_ps", "time on the host's clock in the middle of its part's meetings"),
        _make_clock_column(Number, "drift_ppm",
                           "rate at which the host's clock gains on the reference clock, in millionths; 0: too small "
                           "to measure, or too few meetings"),
        _make_clock_column(Picoseconds, "error_ps",
                           "standard error of the offset, at the host's least certain meeting; bound_ps if there are "
                           "fewer than 8 meetings. A constant delay of a host cannot be seen and is not included"),
        Picoseconds("bound_ps", "largest possible error of the offset, because no host finishes before the last one "
                    "has begun, plus three residual_ps; null: no such meetings, or the clock is unknown",
                    lambda rows: rows.bound_ps, lambda rows: ~rows.known | (rows.bound_ps < 0)),
        Count("meetings", "meetings of the host with other hosts, in collectives that nothing else hides, or for whose "
              "end it waited",
              lambda rows: rows.meetings),
        _make_clock_column(Picoseconds, "residual_ps", "standard deviation of the host's collective ends from the fit"),
        Count("violated", "contradictory meetings: this host left before another one arrived, by more than three "
              "residual_ps, or by any time if there are fewer than 8 meetings. If more than 1 % of a part's meetings "
              "are contradictory, its hosts number collectives differently, and no clock of the part is "
              "known", lambda rows: rows.violated),
        Count("step_shift", "shift of the host's step numbers that makes its collectives match those of other hosts",
              lambda rows: rows.step_shift),
        Picoseconds("ntp_error_ps", "clock error of the host if its recorded start time were used instead; null: "
                    "that is not recorded, or the clock is unknown", lambda rows: rows.ntp_error_ps),
    ),
    derived=True,
)  # fmt: skip
_BLAME: Final = TableSchema(
    "blame",
    "a host that met others in collectives, longest delay of other hosts first",
    (
        _MET_HOST,
        _PART,
        Count("meetings", "meetings of the host with other hosts", lambda rows: rows.meetings),
        Count("last_count", "meetings at which the host arrived last", lambda rows: rows.last_count),
        Picoseconds("waited_ps", "time that the host waited for the last host, summed over meetings",
                    lambda rows: rows.waited_ps),
        Picoseconds("caused_alone_ps", "wait time of other hosts that would be saved if this host arrived together "
                    "with the next to last one", lambda rows: rows.caused_alone_ps),
        Picoseconds("on_path_ps", "work of the host on the critical path: time between its collectives while the "
                    "path passes through it", lambda rows: rows.on_path_ps),
        Picoseconds("excess_ps", "part of on_path_ps beyond the median of the other hosts at each meeting: the delay "
                    "that the host causes, directly or through other hosts. The saving is smaller if other hosts are "
                    "late too",
                    lambda rows: rows.excess_ps),
        Share("excess_share", "excess_ps / time of the critical path of the part", lambda rows: divide_or_null(
            rows.excess_ps, rows.path_ps)),
        Picoseconds("saved_ps", "upper bound of the time saved if the host works no longer than the median, each "
                    "time until the next to last host arrives", lambda rows: rows.saved_ps),
        Count("steps", "steps in which the host has an excess on the path", lambda rows: rows.steps),
    ),
    derived=True,
)  # fmt: skip
_HOST_STEPS: Final = TableSchema(
    "host_steps",
    "a step of a host that met others in collectives",
    (
        Count("step", "step number, as in meetings; null: meetings outside of steps", lambda rows: rows.step,
              lambda rows: rows.step < 0),
        _MET_HOST,
        Count("meetings", "meetings of the host in the step", lambda rows: rows.meetings),
        Picoseconds("work_ps", "work of the host: time between collectives, and compute during collectives",
                    lambda rows: rows.work_ps),
        Picoseconds("waited_ps", "time that the host waited for the last host, summed over meetings",
                    lambda rows: rows.waited_ps),
        Picoseconds("beyond_ps", "work_ps beyond the median of the hosts in the step; 0: it is below",
                    lambda rows: rows.beyond_ps),
    ),
    derived=True,
)  # fmt: skip
CLOCK_TABLES: Final = {table.name: table for table in (_CLOCKS, _BLAME, _HOST_STEPS)}


def make_clocks(names: Sequence[str], seen: Clocks | None, starts_unix_ns: Sequence[int | None]) -> pa.Table:
    """Make a row for each host that met another one."""
    if seen is None:
        return _CLOCKS.empty()
    host = np.flatnonzero(seen.fit.part >= 0)
    errors = seen.ntp_error_ps(starts_unix_ns)
    return _CLOCKS.of(SimpleNamespace(
        names=names,
        host=host,
        **{name: getattr(seen.fit, name)[host] for name in
           ("part", "reference", "offset_ps", "at_ps", "error_ps", "bound_ps", "residual_ps")},
        drift_ppm=seen.fit.drift[host] * 1e6,
        known=seen.known[host],
        meetings=seen.meetings[host],
        violated=seen.violated[host],
        step_shift=seen.shift[host],
        ntp_error_ps=[errors[number] for number in host.tolist()],
    ))  # fmt: skip


def make_blame(names: Sequence[str], seen: Clocks | None, blame: Blame | None) -> pa.Table:
    if seen is None or blame is None:
        return _BLAME.empty()
    host = np.flatnonzero(blame.meetings)
    host = host[sort_rows(-blame.excess_ps[host], -blame.on_path_ps[host])]
    path = np.zeros(max(seen.parts, 1), np.int64)
    for walked in blame.paths:
        path[walked.part] = walked.time_ps
    columns = ("meetings", "last_count", "waited_ps", "caused_alone_ps", "on_path_ps", "excess_ps", "saved_ps", "steps")
    return _BLAME.of(SimpleNamespace(
        names=names,
        host=host,
        part=seen.fit.part[host],
        path_ps=path[seen.fit.part[host]],
        **{name: getattr(blame, name)[host] for name in columns},
    ))  # fmt: skip


def make_host_steps(
    names: Sequence[str], blame: Blame | None, step: Int64s, numbers: Callable[[Int64s], Int64s]
) -> pa.Table:
    """Make the table. ``step``: step of each meeting; ``numbers``: maps steps to the numbers that users see."""
    if blame is None or not len(blame.rows):
        return _HOST_STEPS.empty()
    rows = blame.rows
    cell, count = number_keys([step[rows.meeting], rows.host])
    first = find_first_rows(cell, count)
    host, of = rows.host[first], step[rows.meeting[first]]
    work = sum_by(cell, np.maximum(blame.work, 0), count)
    order = sort_rows(of, work)
    many = np.unique(of[order], return_index=True, return_counts=True)
    usual = work[order][many[1] + (many[2] - 1) // 2]
    beyond = np.maximum(work - usual[np.searchsorted(many[0], of)], 0)
    shown = sort_rows(of, host)
    return _HOST_STEPS.of(SimpleNamespace(
        names=names,
        host=host[shown],
        step=numbers(of[shown]),
        meetings=np.bincount(cell, minlength=count)[shown],
        work_ps=work[shown],
        waited_ps=sum_by(cell, blame.wait, count)[shown],
        beyond_ps=beyond[shown],
    ))  # fmt: skip


_Rate: Final = Kind(pa.float64(), "bytes/s")


def _make_end_column(name: str, description: str, of_end: Formula) -> Column:
    return Text(
        name, description, lambda rows: encode_texts([of_end(end) for end in rows.ends], getattr(rows, name[:6]))
    )


def _make_known_column(kind: Kind, name: str, description: str) -> Column:
    """Make a column that is null if the value is negative or NaN."""
    return kind(name, description, lambda rows: getattr(rows, name), lambda rows: ~(getattr(rows, name) >= 0))


LINKS: Final = TableSchema(
    "links",
    "a device that sends to another device, by a kind of communication, slowest first. Only kinds whose devices are "
    "recorded: collective-permute, send and recv, copies between devices. The route between the two devices is not "
    "recorded and may pass through other devices",
    (
        _make_end_column("source",
                         "device that sends, as host: device; core N: the TPU core of this number in the system, and "
             "rank N: a rank of the program, which is not captured or has several devices", lambda end: end[0]),
        _make_end_column("target", "device that receives, written like source", lambda end: end[0]),
        _make_end_column("source_host", "source host; null: not captured", lambda end: end[1]),
        _make_end_column("target_host", "target host; null: not captured", lambda end: end[1]),
        Text("kind", "kind of communication: collective-permute; send and recv; copy between devices",
             lambda rows: encode_texts([kind.title for kind in KINDS], rows.kind)),
        Text("measured_by", "end that recorded the figures: target, if that is captured and records them, else source",
             lambda rows: encode_texts(["source", "target"], rows.by_target)),
        Count("occurrences", "operations that sent from source to target", lambda rows: rows.occurrences),
        _make_known_column(Bytes, "bytes", "bytes that these operations sent; null: unknown for one of them"),
        Picoseconds("time_ps", "time in flight of these operations on the device that measured_by names, summed. It "
                               "includes waiting for the other device. For a permute, it also includes the device's "
                               "own send, because all devices run the permute at once", lambda rows: rows.time_ps),
        _make_known_column(_Rate, "bytes_per_s",
                           "bytes / time_ps; null: bytes are unknown, or the operations took no time"),
        _make_known_column(_Rate, "best_bytes_per_s",
                           "bytes / time of the fastest operation, which waited least; null: its bytes are "
               "unknown, or it took no time. For instructions, the shortest execution of each counts"),
    ),
    derived=True,
)  # fmt: skip


def make_links(kept: Sequence[HostCommunication]) -> pa.Table:
    hosts = [HostDeviceNames(host.host, [device.plane for device in host.devices]) for host in kept]
    links = list_links(hosts, [host.links for host in kept])
    ends: list[tuple[str, Any]] = [
        (f"{hosts[host].name}: {name}" if host >= 0 else name, hosts[host].name if host >= 0 else None)
        for host, name in links.ends
    ]
    return LINKS.of(SimpleNamespace(
        **(links._asdict() | {"ends": ends}),
        bytes_per_s=measure_rates(links.bytes, links.time_ps),
        best_bytes_per_s=measure_rates(links.best_bytes, links.best_ps),
    ))  # fmt: skip


def list_link_remarks(kept: Sequence[HostCommunication]) -> Iterator[tuple[str, str]]:
    """Yield severity and text of remarks on transfers whose devices are unknown, and on links that were left out."""
    unknown, left_out = sum(host.links.unknown for host in kept), sum(host.links.left_out for host in kept)
    if unknown:
        many = count_noun(unknown, "permute, send, recv or copy", "permutes, sends, recvs and copies")
        text = (
            f"The devices that {many} connect are unknown, so the table links leaves them out: it needs device pairs "
            f"in the instruction and the device assignment of its program, or a rank or GPU recorded in the event."
        )
        yield "info", text
    if left_out:
        yield "info", f"Links are many: the table has the slowest of each host, and lacks {left_out:,} others."


def sum_column(table: pa.Table, column: str) -> int:
    """Return the sum of integers without nulls; that of several devices may exceed 64 bits."""
    return sum(np.asarray(table[column]).tolist())


def _make_schema(name: str, row: str, *columns: Column) -> TableSchema:
    """Make a table schema. A column without a formula is the field of the rows that has its name; if it may be null,
    negative numbers and NaN are null."""
    return TableSchema(
        name, row, tuple(column if column.of else _fill_formula(column) for column in columns), derived=True
    )


def _fill_formula(column: Column) -> Column:
    of = attrgetter(column.name)
    return replace(column, of=of, null=(lambda rows: ~(of(rows) >= 0)) if column.nullable else None)


# ---- devices


Devices = Sequence[tuple[str, CommunicatingDevice]]
"""Devices of all hosts, each with the name of its host, in the order of their numbers."""


def list_devices(kept: Sequence[HostCommunication]) -> Devices:
    return [(host.host, device) for host in kept for device in host.devices]


def _make_device_formula(of: Callable[[str, CommunicatingDevice], str]) -> Formula:
    return lambda rows: encode_texts([of(host, device) for host, device in rows.devices], rows.device)


def _make_exposed_formula(scope: str) -> Formula:
    return lambda rows: rows.exposed_in[scope]


_HOST = Text("host", "host, named after its capture file", _make_device_formula(lambda host, _: host))
_DEVICE = Text("device", "device plane: a TensorCore, a SparseCore or a GPU",
               _make_device_formula(lambda _, device: device.plane))  # fmt: skip
_CORE = Text("core_name", "device name as in the steps analysis, host:ordinal; for a GPU, its plane",
             _make_device_formula(lambda _, device: device.name))  # fmt: skip
_SPARSE = Flag("sparse_core", "whether the device is a SparseCore",
               lambda rows: np.array([device.sparse for _, device in rows.devices])[rows.device])  # fmt: skip
_KIND = Text("kind", "kind of communication: " + "; ".join(kind.title for kind in KINDS),
             lambda rows: encode_texts([kind.title for kind in KINDS], rows.kind))  # fmt: skip
_SCOPE = Text("scope", "where the data move: " + ", ".join(SCOPES),
              lambda rows: encode_texts([kind.scope for kind in KINDS], rows.kind))  # fmt: skip
_STEP = Count("step", "step number, as in the steps analysis; null: not in a step that all hosts have")


def _make_split_columns(span: str) -> tuple[Column, ...]:
    """Make columns for the time of a device over ``span``, and what it was spent on."""
    return (
        Picoseconds("duration_ps", f"time of {span} = compute_ps + exposed_ps + idle_ps"),
        Picoseconds("compute_ps", "time in which the device computes: on TPUs, the innermost op of the op line does "
                                  "not communicate; on GPUs, at least one stream runs a kernel that neither "
                                  "communicates nor copies"),
        Picoseconds("communication_ps", "time in which communication is in flight = hidden_ps + exposed_ps"),
        Picoseconds("hidden_ps", "time in which communication is in flight while the device computes"),
        Picoseconds("exposed_ps", "time in which communication is in flight while the device does not compute"),
        Picoseconds("idle_ps", "time in which no communication is in flight and the device does not compute"),
        Share("exposed_share", "exposed_ps / duration_ps; null: the duration is 0",
              lambda rows: divide_or_null(rows.exposed_ps, rows.duration_ps)),
        Share("hidden_share", "hidden_ps / communication_ps; null: no communication",
              lambda rows: divide_or_null(rows.hidden_ps, rows.communication_ps)),
        Picoseconds("exposed_between_devices_ps", "exposed_ps of communication between devices",
                    _make_exposed_formula(BETWEEN_DEVICES)),
        Picoseconds("exposed_with_host_ps", "exposed_ps of communication with the host",
                    _make_exposed_formula(WITH_HOST)),
        Picoseconds("exposed_within_device_ps", "exposed_ps of communication within the device",
                    _make_exposed_formula(WITHIN_DEVICE)),
        Picoseconds("if_hidden_ps", "duration_ps if all communication were hidden: duration_ps - exposed_ps, but at "
                    "least communication_ps", measure_if_hidden),
    )  # fmt: skip


_STEPS = _make_schema(
    "steps", "a step on a device; without steps, everything that the device recorded",
    _STEP,
    Text("name", "step name; null: the row is everything that the device recorded",
         lambda rows: encode_texts(rows.names, np.arange(len(rows.names)))),
    _HOST,
    _DEVICE,
    _CORE,
    _SPARSE,
    Flag("complete", "whether the step is entirely in the capture, as far as known"),
    Picoseconds("start_ps", "step start, on the clock of the device's ops", attrgetter("begin_ps")),
    *_make_split_columns("the step on the device (on TPUs as in the steps analysis, on GPUs by the events of each "
                         "GPU)"),
)  # fmt: skip
_DEVICES = _make_schema(
    "devices", "a device, with everything that it recorded",
    _HOST,
    _DEVICE,
    _CORE,
    _SPARSE,
    Count("step_count", "steps of the device", lambda rows: [device.step_count for _, device in rows.devices]),
    *_make_split_columns("the capture, from the device's first to its last op"),
)  # fmt: skip


class LateStepSums:
    """Step sums of all devices, which are unpacked from the host states each time a table is made of them."""

    def __init__(self, kept: Sequence[HostCommunication], numbers: Sequence[StepNumbers], devices: Devices) -> None:
        self.devices = devices
        self._hosts = [
            (host.steps, steps, len(host.devices))
            for host, steps in zip(kept, numbers, strict=True)
            if host.steps is not None
        ]

    def unpack(self) -> Iterator[tuple[HostStepSums, Int64s, Int64s]]:
        """Yield the spans of each host, the numbers of their devices, and those of their steps."""
        first = 0
        for kept, numbers, count in self._hosts:
            spans = unpack_spans(kept)
            yield spans, first + spans.device, numbers.of(spans.group)
            first += count


def make_steps(every: LateStepSums) -> pa.Table:
    parts = list(every.unpack())
    return _STEPS.of(_join_rows(
        every.devices,
        join_parts(device for _, device, _ in parts),
        [spans.sums for spans, _, _ in parts],
        step=join_parts(step for _, _, step in parts),
        names=[name for spans, _, _ in parts for name in spans.names],
        complete=np.concatenate([np.zeros(0, np.bool_), *(spans.complete for spans, _, _ in parts)]),
    ))  # fmt: skip


def make_devices(kept: Sequence[HostCommunication], each: Devices) -> pa.Table:
    return _DEVICES.of(_join_rows(each, np.arange(len(each)), [host.whole for host in kept]))


def _join_rows(devices: Devices, device: Int64s, sums: Sequence[SpanSums], **rest: Any) -> Any:
    """Join the spans of all hosts, so that tables are built once, not once a host."""
    exposed_in = {}
    for scope in SCOPES:
        chosen = ((host_sums, _IN_SCOPE[scope][host_sums.kinds]) for host_sums in sums)
        exposed_in[scope] = join_parts(
            np.asarray(host_sums.kind_exposed_ps[:, kinds].sum(axis=1)) for host_sums, kinds in chosen
        )
    return SimpleNamespace(
        devices=devices,
        device=device,
        exposed_in=exposed_in,
        **{name: join_parts(getattr(host_sums, name) for host_sums in sums) for name in _FIGURES},
        **rest,
    )


_FIGURES: Final = (
    "begin_ps", "duration_ps", "compute_ps", "communication_ps", "hidden_ps", "exposed_ps", "idle_ps",
)  # fmt: skip


_IN_SCOPE: Final = {scope: np.array([kind.scope == scope for kind in KINDS]) for scope in SCOPES}


# ---- kinds


def _make_kind_columns(span: str) -> tuple[Column, ...]:
    return (
        Picoseconds("time_ps", f"time of {span} in which the kind is in flight"),
        Picoseconds("hidden_ps", f"time of {span} in which the kind is in flight while the device computes"),
        Picoseconds("exposed_ps", f"time of {span} in which the device does not compute and waits for this kind: the "
                    f"kind of the device's current op, else the first kind in flight, in the order in which "
                    "the column kind lists kinds. The exposed_ps of all kinds add up to the exposed time"),
    )  # fmt: skip


_KINDS = _make_schema(
    "kinds", "a kind of communication, over all devices and everything that they recorded",
    _KIND,
    _SCOPE,
    Count("device_count", "devices with this kind"),
    Count("occurrences", "operations of this kind, counted on each device"),
    *_make_kind_columns("all devices together"),
    Share("exposed_share", "exposed_ps / time that all devices recorded; null: that time is 0",
          lambda rows: divide_or_null(rows.exposed_ps, rows.recorded)),
    Bytes("moved_bytes", "bytes that the operations of this kind moved; null: unknown for one of the operations"),
)  # fmt: skip
_STEP_KINDS = _make_schema(
    "step_kinds", "a kind of communication in a step on a device, with the steps of the steps table",
    _STEP, _HOST, _DEVICE, _KIND, _SCOPE, *_make_kind_columns("the step"),
)  # fmt: skip


def make_step_kinds(every: LateStepSums) -> pa.Table:
    """Make a row for each kind of communication in each span."""
    of: dict[str, list[Int64s]] = {name: [] for name in _OF_KIND}
    for spans, device, step in every.unpack():
        sums = spans.sums
        row, kind = at = np.nonzero(sums.kind_ps)
        values = (step[row], device[row], sums.kinds[kind], sums.kind_ps[at], sums.kind_hidden_ps[at],
                  sums.kind_exposed_ps[at])  # fmt: skip
        for parts, column in zip(of.values(), values, strict=True):
            parts.append(column)
    columns = {name: join_parts(parts) for name, parts in of.items()}
    return _STEP_KINDS.of(SimpleNamespace(devices=every.devices, **columns))


_OF_KIND: Final = ("step", "device", "kind", "time_ps", "hidden_ps", "exposed_ps")


def make_kinds(kept: Sequence[HostCommunication], operations: pa.Table) -> pa.Table:
    """Make a row for each kind, the most exposed first."""
    count = len(KINDS)
    wholes = [host.whole for host in kept]
    seen = np.bincount(join_parts(host.whole.kinds[np.nonzero(host.has_kind)[1]] for host in kept), minlength=count)
    of_device = join_parts(np.tile(whole.kinds, len(whole.begin_ps)) for whole in wholes)
    time, hidden, exposed = (
        sum_by(of_device, join_parts(getattr(whole, name).ravel() for whole in wholes), count, WHAT)
        for name in ("kind_ps", "kind_hidden_ps", "kind_exposed_ps")
    )
    recorded = sum(duration for whole in wholes for duration in whole.duration_ps.tolist())  # maybe more than 64 bits
    place = {kind.title: kind.number for kind in KINDS}
    kind = np.array([place[name] for name in operations["kind"].to_pylist()], np.int64)
    sizes: list[int | None] = operations["moved_bytes"].to_pylist()
    unknown = np.bincount(kind[[size is None for size in sizes]], minlength=count) > 0
    moved = sum_by(kind, np.array([size or 0 for size in sizes], np.int64), count, "the bytes of communication")
    done = sum_by(kind, np.asarray(operations["occurrences"]), count)
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


def _make_text_formula(of: Formula) -> Formula:
    """Make the formula of a text of each operation; "" is unknown."""
    return lambda rows: encode_texts([of(operation) or None for operation in rows.each], rows.place)


_OPERATIONS = _make_schema(
    "operations", "an op that communicates, over all devices, most exposed time first",
    Count("program_id", "program id, uint64 as two's complement; 0: no program"),
    Text("name", "name of the instruction (the starting one of an asynchronous operation); on GPUs without programs, "
         "of the kernel or copy, with its framework op",
         lambda rows: encode_texts([op.name for op, _ in rows.each], rows.place)),
    _KIND,
    _SCOPE,
    Text("framework_op", "framework op that the instruction comes from; null: unknown",
         _make_text_formula(lambda operation: operation[0].framework_op)),
    Count("device_count", "devices that ran the op"),
    Count("occurrences", "executions of the op, on all devices", attrgetter("count")),
    Picoseconds("total_ps", "time in flight: for an asynchronous operation from the start of its first op to the end "
                "of its last op, else the duration of the op", attrgetter("time_ps")),
    Picoseconds("mean_ps", "total_ps / occurrences, rounded down",
                lambda rows: rows.time_ps // np.maximum(rows.count, 1)),
    Picoseconds("min_ps", "shortest in-flight time of an execution"),
    Picoseconds("max_ps", "longest in-flight time of an execution"),
    Picoseconds("wait_ps", "time in which the op is the device's current op: on TPUs, the op or its start or end op "
                "is the innermost op; on GPUs, total_ps"),
    Picoseconds("hidden_ps", "time in flight during which the device computes"),
    Picoseconds("exposed_ps", "time in which the device does not compute and waits for this op"),
    Share("exposed_share", "exposed_ps / exposed_ps of all operations; null: nothing is exposed",
          lambda rows: divide_or_null(rows.exposed_ps, sum_exactly(rows.exposed_ps))),
    Text("replica_groups", "participating devices, as the program lists them, or source-target pairs; null: no such "
         "list, or unknown", _make_text_formula(lambda operation: operation[1].groups)),
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
    Text("text", "full instruction text; null: unknown", _make_text_formula(lambda op: op[0].text)),
)  # fmt: skip


def make_operations(ran: OperationSums, every: MergedOperations) -> pa.Table:
    """Make a row for each operation, summed over all devices, the most exposed first. ``ran``: sums over all hosts, by
    places in ``every``."""
    if not len(ran.op):
        return _OPERATIONS.empty()
    ops = [every.every[number] for number in ran.op.tolist()]
    sums = {name: getattr(ran, name).astype(np.int64) for name in OperationSums.__slots__}
    order = sort_rows(-sums["exposed_ps"], -sums["time_ps"])
    payloads = [parse_payload(op.kind, op.text) if op.text else NO_PAYLOAD for op in ops]
    recorded = zip(payloads, ops, strict=True)
    payloads = [replace(shape, size=op.group_size) if op.group_size else shape for shape, op in recorded]
    # bytes as recorded by events, maybe of several sizes, else by instructions
    recorded_bytes, count = sums.pop("bytes"), np.maximum(sums["count"], 1)
    sizes = (payload.bytes for payload in payloads)
    size = np.array([NO_BYTES if each is None else min(each, _MOST_BYTES) for each in sizes], np.int64)
    moved = np.where((size >= 0) & (size <= _MOST_BYTES // count), size * sums["count"], NO_BYTES)
    is_unknown = recorded_bytes == NO_BYTES
    size = np.where(is_unknown, size, recorded_bytes // count)
    moved = np.where(is_unknown, moved, recorded_bytes)
    factors = [payload.bus_factor(op.kind) for payload, op in zip(payloads, ops, strict=True)]
    factor = np.array([np.nan if known is None else known for known in factors])
    is_sized, least = np.array([payload.bytes is not None for payload in payloads], np.bool_), sums["min_ps"]
    with np.errstate(divide="ignore", invalid="ignore"):
        best = np.where((size < 0) | (least <= 0) | ~is_sized, np.nan, size / least * 1e12)
    rate = measure_rates(moved, sums["time_ps"])
    columns = sums | {
        "algorithm_bytes_per_s": rate,
        "bus_bytes_per_s": rate * factor,
        "best_bus_bytes_per_s": best * factor,
        "program_id": np.array([op.program_id for op in ops], np.int64),
        "kind": np.array([op.kind.number for op in ops]),
        "device_count": sums["devices"],
        "payload_bytes": size,
        "moved_bytes": moved,
    }  # fmt: skip
    in_order = {name: column[order] for name, column in columns.items()}
    return _OPERATIONS.of(SimpleNamespace(each=list(zip(ops, payloads, strict=True)), place=order, **in_order))


_MOST_BYTES = 2**62


# ---- meetings


def _make_op_formula(of: Formula) -> Formula:
    return lambda rows: encode_texts([of(operation) for operation in rows.operations], rows.op)


_MEETINGS = _make_schema(
    "meetings", "a collective operation in which several devices took part together",
    _STEP,
    Count("number", "number of the execution of the op in the step, or in the capture if it has no steps: from 0, or "
          "up to -1, the last one, if captures of devices start at different times"),
    Count("program_id", "id of the op's program, uint64 as two's complement",
          lambda rows: np.array([operation.program_id for operation in rows.operations], np.int64)[rows.op]),
    Text("name", "op name, as in operations", _make_op_formula(lambda op: op.name)),
    Text("kind", _KIND.description, _make_op_formula(lambda op: op.kind.title)),
    Count("host_count", "hosts with devices that took part"),
    Count("device_count", "captured devices that took part"),
    Text("first_device", "device that started first, as host: device; null: devices are on several hosts whose "
         "clocks do not show the order", lambda rows: encode_texts(rows.names, rows.first)),
    Text("last_device", "device that started last, as host: device; if the clocks of several hosts do not show it, "
         "the device with the shortest duration; null: unknown", lambda rows: encode_texts(rows.names, rows.last)),
    Picoseconds("skew_ps", "time between the first and the last start, on the host's clock, or for several hosts on "
                "the reference clock; null: the clocks do not show which device was last"),
    Picoseconds("shortest_ps", "shortest time of any device: what the operation takes when all devices have arrived"),
    Picoseconds("longest_ps", "longest time of any device"),
    Picoseconds("wait_ps", "sum over devices of the time beyond shortest_ps, spent waiting for the last device; null: "
                "the operation is asynchronous, so it may end late for other reasons"),
)  # fmt: skip
_NO_LAST: Final = "no meeting of the device shows which one was last"
_NO_WAIT: Final = "all meetings of the device are asynchronous"
_NO_CAUSE: Final = f"{_NO_LAST}, or {_NO_WAIT}"
_STRAGGLERS = _make_schema(
    "stragglers", "a device that took part in meetings, longest wait of other devices first",
    _HOST,
    _DEVICE,
    _CORE,
    Count("meetings", "meetings in which the device took part; a meeting is a collective operation of several devices"),
    Count("last_count", f"meetings in which the device was last; null: {_NO_LAST}"),
    Picoseconds("late_ps", "delay of this device's start after the first device's start, summed over meetings; null: "
                "meetings span several hosts"),
    Picoseconds("waited_ps", "time that the device waited for others: its time beyond shortest_ps, summed over "
                f"meetings; null: {_NO_WAIT}"),
    Picoseconds("caused_ps", f"time that others waited in meetings in which this device was last; null: {_NO_CAUSE}"),
)  # fmt: skip
TABLES: Final = {
    table.name: table for table in (_STEPS, _DEVICES, _KINDS, _STEP_KINDS, _OPERATIONS, _MEETINGS, _STRAGGLERS)
}


def make_meetings(devices: Devices, meetings: Meetings, step: Int64s) -> pa.Table:
    """Make a row for each meeting. ``step``: the number of the step of each meeting, or -1."""
    names = [*(f"{host}: {device.plane}" for host, device in devices), None]
    return _MEETINGS.of(SimpleNamespace(names=names, **vars(meetings) | {"step": step}))


def make_stragglers(devices: Devices, meetings: Meetings) -> pa.Table:
    """Make a row for each device that took part, those that others wait for most first."""
    attended, count = meetings.attendance, len(devices)
    came = meetings.last >= 0
    caused = sum_by(meetings.last[came], np.maximum(meetings.wait_ps[came], 0), count)
    last = np.bincount(meetings.last[came], minlength=count)
    rows = np.flatnonzero(attended.meetings)
    rows = rows[sort_rows(-caused[rows], -last[rows])]
    stragglers = _STRAGGLERS.of(SimpleNamespace(
        devices=devices, device=rows, meetings=attended.meetings[rows],
        last_count=np.where(attended.shows_last, last, -1)[rows],
        late_ps=attended.late_ps[rows],
        waited_ps=np.where(attended.shows_wait, attended.waited_ps, -1)[rows],
        caused_ps=np.where(attended.shows_cause, caused, -1)[rows],
    ))  # fmt: skip
    return explain_nulls(stragglers, {"last_count": _NO_LAST, "waited_ps": _NO_WAIT, "caused_ps": _NO_CAUSE})
