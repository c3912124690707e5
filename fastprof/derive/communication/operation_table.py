"""The table of operations: how long each is on the way, how much of it is exposed, and how fast its bytes move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from fastprof.derive.communication.flights import NO_BYTES, Operation
from fastprof.derive.communication.host_communication import HostCommunication, OfOperations
from fastprof.derive.communication.kinds import KINDS, SCOPES
from fastprof.derive.communication.payload import NO_PAYLOAD, Payload, payload
from fastprof.derive.ops.tables import exact_sum, sums_by
from fastprof.schema.array_types import Float64s, Int64s
from fastprof.schema.arrow_columns import shares, texts
from fastprof.schema.column_kinds import Bytes, Count, Kind, Picoseconds, Share, Text
from fastprof.schema.tables import Column, Formula, TableSchema


def table_of(name: str, row: str, *columns: Column) -> TableSchema:
    """A column without a formula is the field of the rows that has its name, null where that is negative or NaN if the
    column may be null."""
    return TableSchema(name, row, tuple(one if one.of else _field(one) for one in columns), derived=True)


def _field(column: Column) -> Column:
    of = attrgetter(column.name)
    return replace(column, of=of, null=(lambda rows: ~(of(rows) >= 0)) if column.nullable else None)


def _text(of: Formula) -> Formula:
    """A text of each operation; "" is unknown."""
    return lambda rows: texts([of(one) or None for one in rows.each], rows.place)


_Rate = Kind(pa.float64(), "bytes/s")
KIND = Text("kind", "; ".join(kind.name for kind in KINDS),
            lambda rows: texts([kind.name for kind in KINDS], rows.kind))  # fmt: skip
SCOPE = Text("scope", ", ".join(SCOPES), lambda rows: texts([kind.scope for kind in KINDS], rows.kind))
OPERATIONS = table_of(
    "operations", "an op that communicates, over all devices, the most exposed first",
    Count("program_id", "program, uint64 as two's complement; 0: of none"),
    Text("name", "instruction; of an asynchronous one that which starts it; of GPUs without HLO the kernel or copy, "
         "with its framework op", lambda rows: texts([op.name for op, _ in rows.each], rows.place)),
    KIND,
    SCOPE,
    Text("framework_op", "op of the framework that it comes from; null: unknown",
         _text(lambda one: one[0].framework_op)),
    Count("device_count", "devices that ran it"),
    Count("occurrences", "how often, on all devices together", attrgetter("count")),
    Picoseconds("total_ps", "time on the way: of an asynchronous operation from the begin of the op that starts it to "
                "the end of the one that ends it, else of the op", attrgetter("time_ps")),
    Picoseconds("mean_ps", "total_ps / occurrences, rounded down",
                lambda rows: rows.time_ps // np.maximum(rows.count, 1)),
    Picoseconds("min_ps", "shortest"),
    Picoseconds("max_ps", "longest"),
    Picoseconds("wait_ps", "time in which devices stand at ops of it: on TPUs the op, or those that start and end it, "
                "are innermost; on GPUs total_ps"),
    Picoseconds("hidden_ps", "time on the way in which the device computes"),
    Picoseconds("exposed_ps", "time in which the device does not compute, and this is what it waits for"),
    Share("exposed_share", "exposed_ps / that of all operations; null: that is 0",
          lambda rows: shares(rows.exposed_ps, exact_sum(rows.exposed_ps))),
    Text("replica_groups", "devices that take part, as the HLO has them, or pairs of source and target; null: it has "
         "none, or is unknown", _text(lambda one: one[1].groups)),
    Count("group_size", "devices of the largest group; null: unknown, or all",
          lambda rows: [rows.each[row][1].size for row in rows.place.tolist()]),
    Bytes("payload_bytes", "bytes of an occurrence, without padding: the buffer of an all-reduce, what an all-gather "
          "gathers, what a reduce-scatter is given, what others send; of copies on GPUs the mean; null: unknown"),
    Bytes("moved_bytes", "bytes of all occurrences; null: unknown, or too many for 64 bits"),
    _Rate("algorithm_bytes_per_s", "moved_bytes / total_ps; null: unknown"),
    _Rate("bus_bytes_per_s", "the same times what passes the links of each of n devices for each byte: all-reduce "
          "2 (n - 1) / n; all-gather, reduce-scatter, all-to-all (n - 1) / n; others 1; null: unknown"),
    _Rate("best_bus_bytes_per_s", "the same of min_ps, which holds least waiting for others; null: unknown, or of "
          "several sizes"),
    Text("text", "instruction in full; null: unknown", _text(lambda one: one[0].text)),
)  # fmt: skip


def operations(kept: Sequence[HostCommunication]) -> pa.Table:
    """Over all devices, the most exposed first."""
    ops, place, by_device = _joined(kept)
    count = len(ops)
    if not count:
        return OPERATIONS.empty()
    sums = {name: sums_by(place, getattr(by_device, name), count) for name in _SUMMED}
    least, most = np.full(count, 2**63 - 1), np.zeros(count, np.int64)
    np.minimum.at(least, place, by_device.min_ps)
    np.maximum.at(most, place, by_device.max_ps)
    order = np.lexsort((-sums["time_ps"], -sums["exposed_ps"]))
    payloads = [payload(one.kind, one.text) if one.text else NO_PAYLOAD for one in ops]
    size, moved = _sizes(payloads, place, by_device, sums["count"])
    columns = sums | _rates(ops, payloads, size, moved, sums["time_ps"], least) | {
        "program_id": np.array([one.program_id for one in ops], np.int64),
        "kind": np.array([one.kind.number for one in ops]),
        "device_count": np.bincount(place, minlength=count),
        "min_ps": least,
        "max_ps": most,
        "payload_bytes": size,
        "moved_bytes": moved,
    }  # fmt: skip
    each = list(zip(ops, payloads, strict=True))
    in_order = {name: column[order] for name, column in columns.items()}
    return OPERATIONS.of(SimpleNamespace(each=each, place=order, **in_order))


_MOST_BYTES = 2**62
_SUMMED = ("count", "time_ps", "wait_ps", "hidden_ps", "exposed_ps")


def _joined(kept: Sequence[HostCommunication]) -> tuple[list[Operation], Int64s, OfOperations]:
    """The operations of all hosts, each once; what each device records of them, and the operation of each row."""
    places: dict[tuple[int, str, int], int] = {}
    ops: list[Operation] = []
    rows, parts = [np.zeros(0, np.int64)], []
    for host in kept:
        place = np.zeros(len(host.operations), np.int64)
        for number, one in enumerate(host.operations):
            key = (one.program_id, one.name, one.kind.number)
            place[number] = places.setdefault(key, len(ops))
            if place[number] == len(ops):
                ops.append(one)
        for device in host.devices:
            rows.append(place[device.operations.op])
            parts.append(device.operations)
    none = [np.zeros(0, np.int64)]
    names = OfOperations.__slots__
    by_device = OfOperations(*(np.concatenate([getattr(part, name) for part in parts] or none) for name in names))
    return _met(ops, np.concatenate(rows), by_device)


def _met(ops: list[Operation], place: Int64s, by_device: OfOperations) -> tuple[list[Operation], Int64s, OfOperations]:
    """Without those that nothing ran."""
    met, at = np.unique(place, return_inverse=True)
    return [ops[one] for one in met.tolist()], at.reshape(-1), by_device


def _sizes(payloads: Sequence[Payload], place: Int64s, by_device: OfOperations, count: Int64s) -> tuple[Int64s, Int64s]:
    """Bytes of an occurrence, and of all: as events record them, perhaps of several sizes, else as instructions
    have them. NO_BYTES: unknown."""
    unknown = np.bincount(place[by_device.bytes == NO_BYTES], minlength=len(count)) > 0
    moved = np.where(unknown, NO_BYTES, sums_by(place, by_device.bytes, len(count), "the bytes of copies"))
    each = np.array([NO_BYTES if one.bytes is None else min(one.bytes, _MOST_BYTES) for one in payloads], np.int64)
    most = np.where((each >= 0) & (each <= _MOST_BYTES // np.maximum(count, 1)), each * count, NO_BYTES)
    return np.where(unknown, each, moved // np.maximum(count, 1)), np.where(unknown, most, moved)


def _rates(
    ops: Sequence[Operation], payloads: Sequence[Payload], size: Int64s, moved: Int64s, time: Int64s, least: Int64s
) -> dict[str, Float64s]:
    """Bytes a second; NaN where unknown."""
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
