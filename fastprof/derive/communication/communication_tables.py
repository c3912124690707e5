"""The tables of communication, made of what was kept of all hosts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.derive.communication.communication_schemas import TABLES
from fastprof.derive.communication.host_communication import Device, HostCommunication
from fastprof.derive.communication.kinds import KINDS, SCOPES
from fastprof.derive.communication.meetings import Groups, Meetings, devices_of
from fastprof.derive.communication.overlap import WHAT, Sums
from fastprof.derive.ops.tables import sums_by
from fastprof.schema.array_types import Int64s
from fastprof.schema.arrow_columns import texts

Columns = Mapping[str, Any]
_KIND_NAMES = [kind.name for kind in KINDS]
_KIND_SCOPES = [kind.scope for kind in KINDS]
_SCOPE_COLUMNS = ("exposed_between_devices_ps", "exposed_with_host_ps", "exposed_within_device_ps")


def made(name: str, columns: Columns) -> pa.Table:
    """A table of the schema of its name."""
    schema = TABLES[name].arrow()
    return pa.Table.from_arrays([_array(columns[field.name], field.type) for field in schema], schema=schema)


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values, kind)


def joined(name: str, parts: Iterable[Columns]) -> pa.Table:
    tables = [made(name, columns) for columns in parts]
    if not tables:
        return TABLES[name].arrow().empty_table()
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def share(part: npt.NDArray[Any], whole: npt.NDArray[Any] | int) -> pa.Array:
    """Null where the whole is 0."""
    wholes = np.broadcast_to(np.asarray(float(whole) if isinstance(whole, int) else whole), part.shape)
    return pa.array(np.divide(part, wholes, out=np.zeros(len(part)), where=wholes != 0), mask=wholes == 0)


def known(values: Int64s) -> pa.Array:
    """Null where they are negative."""
    return pa.array(values, mask=values < 0)


def _same(text: str, count: int) -> pa.Array:
    return texts([text], np.zeros(count, np.intp))


def total_of(table: pa.Table, column: str) -> int:
    """Of integers without nulls; of several devices it may take more than 64 bits."""
    return sum(np.asarray(table[column]).tolist())


# ---- time


def if_hidden(sums: Sums) -> Int64s:
    least: Int64s = np.maximum(sums.duration_ps - sums.exposed_ps, sums.communication_ps)
    return least


def _split(sums: Sums) -> Columns:
    scope_of_kind = np.array([SCOPES.index(KINDS[kind].scope) for kind in sums.kinds.tolist()], np.int64)
    by_scope = [sums.kind_exposed_ps[:, scope_of_kind == scope].sum(axis=1) for scope in range(len(SCOPES))]
    return {
        "duration_ps": sums.duration_ps,
        "compute_ps": sums.compute_ps,
        "communication_ps": sums.communication_ps,
        "hidden_ps": sums.hidden_ps,
        "exposed_ps": sums.exposed_ps,
        "idle_ps": sums.idle_ps,
        "exposed_share": share(sums.exposed_ps, sums.duration_ps),
        "hidden_share": share(sums.hidden_ps, sums.communication_ps),
        **dict(zip(_SCOPE_COLUMNS, by_scope, strict=True)),
        "if_hidden_ps": if_hidden(sums),
    }


def _spans(device: Device) -> tuple[Sums, Int64s, npt.NDArray[np.bool_]]:
    """The steps of a device, or all that it recorded; their groups, -1: no step, and whether they are complete."""
    if len(device.group):
        return device.steps, device.group, device.complete
    return device.whole, np.full(1, -1, np.int64), np.ones(1, np.bool_)


def _numbers(group: Int64s, step_of: Mapping[int, int]) -> Int64s:
    return np.array([step_of.get(one, -1) for one in group.tolist()], np.int64)


def numbered_steps(kept: Sequence[HostCommunication], groups: Groups) -> tuple[Int64s, Sums]:
    """All steps on all devices that have a number in the session: these, and their sums, which have no kinds."""
    parts = [
        (_numbers(device.group, groups[place]), device.steps)
        for place, host in enumerate(kept)
        for device in host.devices
    ]
    none = np.zeros(0, np.int64)
    step = np.concatenate([none, *(number for number, _ in parts)])
    known = step >= 0
    begin, duration, compute, communication, exposed = (
        np.concatenate([none, *(getattr(sums, name) for _, sums in parts)])[known]
        for name in ("begin_ps", "duration_ps", "compute_ps", "communication_ps", "exposed_ps")
    )
    of_kinds = np.zeros((len(begin), 0), np.int64)
    return step[known], Sums(none, begin, duration, compute, communication, exposed, of_kinds, of_kinds, of_kinds)


def steps(kept: Sequence[HostCommunication], groups: Groups, names: Sequence[Mapping[int, str]]) -> pa.Table:
    """``names``: of steps, by group."""

    def columns(place: int, host: HostCommunication, device: Device) -> Columns:
        sums, group, complete = _spans(device)
        count = len(group)
        return {
            "step": known(_numbers(group, groups[place])),
            "name": texts([names[place].get(one) for one in group.tolist()], np.arange(count)),
            "host": _same(host.host, count),
            "device": _same(device.plane, count),
            "core_name": _same(device.name, count),
            "sparse_core": np.full(count, device.sparse),
            "complete": complete,
            "start_ps": sums.begin_ps,
            **_split(sums),
        }

    each = [(place, host, device) for place, host in enumerate(kept) for device in host.devices]
    return joined("steps", (columns(*one) for one in each))


def devices(kept: Sequence[HostCommunication]) -> pa.Table:
    return joined(
        "devices",
        (
            {
                "host": _same(host.host, 1),
                "device": _same(device.plane, 1),
                "core_name": _same(device.name, 1),
                "sparse_core": np.full(1, device.sparse),
                "step_count": np.full(1, len(device.group)),
                **_split(device.whole),
            }
            for host, device in devices_of(kept)
        ),
    )


def step_kinds(kept: Sequence[HostCommunication], groups: Groups) -> pa.Table:
    def columns(place: int, host: HostCommunication, device: Device) -> Columns:
        sums, group, _ = _spans(device)
        row, kind = np.nonzero(sums.kind_ps)
        return {
            "step": known(_numbers(group, groups[place])[row]),
            "host": _same(host.host, len(row)),
            "device": _same(device.plane, len(row)),
            "kind": texts(_KIND_NAMES, sums.kinds[kind]),
            "scope": texts(_KIND_SCOPES, sums.kinds[kind]),
            "time_ps": sums.kind_ps[row, kind],
            "hidden_ps": sums.kind_hidden_ps[row, kind],
            "exposed_ps": sums.kind_exposed_ps[row, kind],
        }

    each = [(place, host, device) for place, host in enumerate(kept) for device in host.devices]
    return joined("step_kinds", (columns(*one) for one in each))


def kinds(kept: Sequence[HostCommunication], operations: pa.Table) -> pa.Table:
    """By kind, the most exposed first."""
    count = len(KINDS)
    wholes = [device.whole for _, device in devices_of(kept)]
    of_device = np.concatenate([np.zeros(0, np.int64), *(one.kinds for one in wholes)])
    seen = np.bincount(of_device, minlength=count)
    time, hidden, exposed = (
        sums_by(
            of_device, np.concatenate([np.zeros(0, np.int64), *(getattr(one, name)[0] for one in wholes)]), count, WHAT
        )
        for name in ("kind_ps", "kind_hidden_ps", "kind_exposed_ps")
    )
    recorded = sum(int(one.duration_ps[0]) for one in wholes)  # which may take more than 64 bits
    place = {name: number for number, name in enumerate(_KIND_NAMES)}
    kind = np.array([place[name] for name in operations["kind"].to_pylist()], np.int64)
    sizes: list[int | None] = operations["moved_bytes"].to_pylist()
    unknown = np.bincount(kind[[size is None for size in sizes]], minlength=count) > 0
    moved = sums_by(kind, np.array([size or 0 for size in sizes], np.int64), count, "the bytes of communication")
    done = sums_by(kind, np.asarray(operations["occurrences"]), count)
    rows = np.flatnonzero((seen > 0) | (done > 0))
    rows = rows[np.argsort(-exposed[rows], kind="stable")]
    return made("kinds", {
        "kind": texts(_KIND_NAMES, rows),
        "scope": texts(_KIND_SCOPES, rows),
        "device_count": seen[rows],
        "occurrences": done[rows],
        "time_ps": time[rows],
        "hidden_ps": hidden[rows],
        "exposed_ps": exposed[rows],
        "exposed_share": share(exposed[rows], recorded),
        "moved_bytes": pa.array(moved[rows], mask=unknown[rows]),
    })  # fmt: skip


# ---- meetings


def meetings(kept: Sequence[HostCommunication], found: Meetings) -> pa.Table:
    names = [f"{host.host}: {device.plane}" for host, device in devices_of(kept)] + [None]
    ops = found.operations
    return made("meetings", {
        "step": known(found.step),
        "number": found.number,
        "program_id": np.array([one.program_id for one in ops], np.int64)[found.op] if ops else found.op,
        "name": texts([one.name for one in ops], found.op),
        "kind": texts([one.kind.name for one in ops], found.op),
        "host_count": found.host_count,
        "device_count": found.device_count,
        "first_device": texts(names, found.first),
        "last_device": texts(names, found.last),
        "skew_ps": known(found.skew_ps),
        "shortest_ps": found.shortest_ps,
        "longest_ps": found.longest_ps,
        "wait_ps": known(found.wait_ps),
    })  # fmt: skip


def stragglers(kept: Sequence[HostCommunication], found: Meetings) -> pa.Table:
    """The devices that took part, those that others wait for most first."""
    each, attendance = devices_of(kept), found.attendance
    count = len(each)
    attended = np.bincount(attendance.device, minlength=count)
    late = sums_by(attendance.device, np.maximum(attendance.late_ps, 0), count)
    unknown = np.bincount(attendance.device[attendance.late_ps < 0], minlength=count) > 0
    waited = sums_by(attendance.device, attendance.waited_ps, count)
    came_last = found.last >= 0
    caused = sums_by(found.last[came_last], np.maximum(found.wait_ps[came_last], 0), count)
    last = np.bincount(found.last[came_last], minlength=count)
    rows = np.flatnonzero(attended)
    rows = rows[np.lexsort((-last[rows], -caused[rows]))]
    return made("stragglers", {
        "host": texts([host.host for host, _ in each], rows),
        "device": texts([device.plane for _, device in each], rows),
        "core_name": texts([device.name for _, device in each], rows),
        "meetings": attended[rows],
        "last_count": last[rows],
        "late_ps": pa.array(late[rows], mask=unknown[rows]),
        "waited_ps": waited[rows],
        "caused_ps": caused[rows],
    })  # fmt: skip


@dataclass(frozen=True, slots=True)
class StepCosts:
    """Means over steps, rounded down. ``time_ps``, ``if_hidden_ps``: of the device with the largest."""

    count: int
    time_ps: int
    exposed_ps: int
    if_hidden_ps: int

    @property
    def gain(self) -> float:
        return 1 - self.if_hidden_ps / self.time_ps if self.time_ps else 0.0


def step_costs(kept: Sequence[HostCommunication], groups: Groups) -> StepCosts | None:
    """Of the steps that have a number in the session. None: there are none."""
    step, sums = numbered_steps(kept, groups)
    if not len(step):
        return None
    distinct, place = np.unique(step, return_inverse=True)
    count = len(distinct)
    return StepCosts(
        count,
        _mean(_most(sums.duration_ps, place, count)),
        _mean(sums.exposed_ps),
        _mean(_most(if_hidden(sums), place, count)),
    )


def _most(values: Int64s, place: Int64s, count: int) -> Int64s:
    most = np.zeros(count, np.int64)
    np.maximum.at(most, place, values)
    return most


def _mean(values: Int64s) -> int:
    return int(sum(values.tolist()) // len(values))
