"""Flights of the collectives that host threads run, on the device that waits for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from fastprof.derive.communication.flights import NO_BYTES, CoreActivity, Flights, Operation, Operations
from fastprof.derive.communication.kernel_kinds import kind_of_call
from fastprof.derive.devices.communication_kinds import Kind
from fastprof.derive.devices.kineto_categories import ARGUMENTS
from fastprof.derive.ops.stat_values import distinct_rows, stat_beside
from fastprof.derive.ops.torch_arguments import Call, argument_bytes
from fastprof.schema.array_types import Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.tables.host_events import HostEvents

_KEEPS_SIZE: Final = (Kind.ALL_REDUCE, Kind.ALL_TO_ALL, Kind.BROADCAST, Kind.REDUCE, Kind.SEND_RECV)
"""Kinds whose payload is what the call is given."""


def with_host_collectives(
    events: HostEvents, activity: CoreActivity, rows: Int64s, operations: Operations
) -> CoreActivity:
    """Add collectives of the host to what its only device did."""
    names = {meta: events.names[meta] for meta in np.unique(events.meta[rows]).tolist()}
    kinds = {meta: kind_of_call(name) for meta, name in names.items()}
    ops = {meta: operations.number(Operation(0, name, kinds[meta], "", "")) for meta, name in names.items()}
    op = np.array([ops[meta] for meta in events.meta[rows].tolist()], np.int32)
    start, duration = events.start_ps[rows], np.maximum(events.duration_ps[rows], 0)
    end = ends_of(start, duration)
    aloft, done = np.ones(len(rows), np.bool_), np.zeros(len(rows), np.int64)
    more = Flights(op, start, end, start, end, duration, aloft, _bytes(events, rows), done)
    both = (np.concatenate([getattr(one, name) for one in (activity.flights, more)]) for name in Flights.__slots__)
    begin_ps, end_ps = min(activity.begin_ps, int(start.min())), max(activity.end_ps, int(end.max()))
    return replace(activity, flights=Flights(*both), begin_ps=begin_ps, end_ps=end_ps)


def _bytes(events: HostEvents, rows: Int64s) -> Int64s:
    """Return the bytes of each collective by the shapes of its arguments; NO_BYTES if these are not recorded."""
    columns = [stat_beside(*events.texts(name), rows) for name in ARGUMENTS[:3]]
    first, place = distinct_rows([*columns, events.meta[rows].astype(np.int64)])
    found = []
    for at in first.tolist():
        name = events.names[events.meta[rows[at]]]
        dims, old, types = (int(column[at]) for column in columns)
        shapes, kinds = (events.text(one) if one >= 0 else "" for one in (max(dims, old), types))
        size = argument_bytes(Call(name, shapes, kinds, "")) if kind_of_call(name) in _KEEPS_SIZE else 0
        found.append(size or NO_BYTES)
    return np.array(found, np.int64)[place]
