"""The table of operations: how long each is on the way, how much of it is exposed, and how fast its bytes move."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.derive.communication.communication_schemas import TABLES
from fastprof.derive.communication.communication_tables import made, share
from fastprof.derive.communication.flights import NO_BYTES, Operation
from fastprof.derive.communication.host_communication import HostCommunication, OfOperations
from fastprof.derive.communication.payload import NO_PAYLOAD, Payload, payload
from fastprof.derive.ops.tables import exact_sum, sums_by
from fastprof.schema.array_types import Int64s
from fastprof.schema.arrow_columns import texts


def operations(kept: Sequence[HostCommunication]) -> pa.Table:
    """Over all devices, the most exposed first."""
    ops, place, by_device = _joined(kept)
    count = len(ops)
    if not count:
        return TABLES["operations"].arrow().empty_table()
    sums = {name: sums_by(place, getattr(by_device, name), count) for name in _SUMMED}
    least, most = np.full(count, 2**63 - 1), np.zeros(count, np.int64)
    np.minimum.at(least, place, by_device.min_ps)
    np.maximum.at(most, place, by_device.max_ps)
    order = np.lexsort((-sums["time_ps"], -sums["exposed_ps"]))
    payloads = [payload(one.kind, one.text) if one.text else NO_PAYLOAD for one in ops]
    size, moved = _sizes(payloads, place, by_device, sums["count"])
    columns = {
        "program_id": np.array([one.program_id for one in ops], np.int64),
        "device_count": np.bincount(place, minlength=count),
        "occurrences": sums["count"],
        "total_ps": sums["time_ps"],
        "mean_ps": sums["time_ps"] // np.maximum(sums["count"], 1),
        "min_ps": least,
        "max_ps": most,
        **{name: sums[name] for name in ("wait_ps", "hidden_ps", "exposed_ps")},
    }
    rates = _rates(ops, payloads, size, moved, sums["time_ps"], least)
    return made("operations", {
        **{name: column[order] for name, column in columns.items()},
        "exposed_share": share(sums["exposed_ps"][order], exact_sum(sums["exposed_ps"])),
        **_texts(ops, payloads, order),
        "group_size": pa.array([payloads[row].size for row in order.tolist()], pa.int64()),
        "payload_bytes": pa.array(size[order], mask=size[order] < 0),
        "moved_bytes": pa.array(moved[order], mask=moved[order] < 0),
        **{name: pa.array(rate[order], from_pandas=True) for name, rate in rates.items()},
    })  # fmt: skip


_MOST_BYTES = 2**62
_SUMMED = ("count", "time_ps", "wait_ps", "hidden_ps", "exposed_ps")


def _texts(ops: Sequence[Operation], payloads: Sequence[Payload], order: npt.NDArray[np.intp]) -> dict[str, pa.Array]:
    return {
        "name": texts([one.name for one in ops], order),
        "kind": texts([one.kind.name for one in ops], order),
        "scope": texts([one.kind.scope for one in ops], order),
        "framework_op": texts([one.framework_op or None for one in ops], order),
        "replica_groups": texts([one.groups or None for one in payloads], order),
        "text": texts([one.text or None for one in ops], order),
    }


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
) -> dict[str, npt.NDArray[np.float64]]:
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
