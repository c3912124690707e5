"""The time of PyTorch's ops on GPUs by pass of training: that in which the call is that launched a kernel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from fastprof.derive.devices.kineto_categories import is_kineto
from fastprof.derive.ops.autograd import pass_of_calls
from fastprof.derive.ops.gpu import op_events
from fastprof.derive.ops.gpu_ops import op_lines
from fastprof.derive.ops.launches import launches
from fastprof.derive.ops.line_times import line_times
from fastprof.derive.ops.tables import sums_by
from fastprof.derive.ops.tree.name_scopes import PASSES, UNKNOWN, PassTimes
from fastprof.schema.array_types import Int64s

if TYPE_CHECKING:
    from fastprof.derive.ops.device_ops import OpHost


def torch_passes(host: OpHost) -> PassTimes:
    """Return the time of each op of PyTorch on the host's GPUs by pass."""
    times: dict[tuple[int, str], Int64s] = {}
    if not host.raw.planes_of("GPU") or not is_kineto(host.raw):
        return times
    events = host.events
    passed, found = pass_of_calls(events), op_events(events, host.modules)
    for plane in events.planes_of("GPU"):
        spans = line_times(events, op_lines(plane))
        op = found.op[spans.rows].astype(np.int64)
        call = launches(events, spans.rows.astype(np.int64)).row
        codes = np.where(call >= 0, passed[call], UNKNOWN)
        count = len(PASSES)
        sums = sums_by(op * count + codes, spans.self_ps, count * len(found.ops)).reshape(-1, count)
        for number in np.unique(op).tolist():
            _add(times, (found.ops[number].program_id, found.ops[number].name), sums[number])
    return times


def sum_passes(hosts: Iterable[PassTimes]) -> PassTimes:
    """Return the sums over hosts."""
    every: dict[tuple[int, str], Int64s] = {}
    for times in hosts:
        for key, sums in times.items():
            _add(every, key, sums)
    return every


def _add(times: dict[tuple[int, str], Int64s], key: tuple[int, str], sums: Int64s) -> None:
    times[key] = times[key] + sums if key in times else sums
