"""Kernel sequences of PyTorch op calls, and the delays until the first kernel of a call starts::

host   |-- aten::linear ------|
         |-- aten::addmm ---|
              |launch|
       | op   |               |  op delay: the op's own preparation
              | launch delay  |
GPU                           |==sgemm==|==bias==|        sequence of both ops: sgemm -> bias
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Final

import numpy as np

from fastprof.derive.devices.op_names import is_kineto
from fastprof.derive.ops.stream_events import StreamEvents
from fastprof.derive.ops.torch_calls import OpsAround
from fastprof.schema.columns import (
    Int64s,
    expand_ranges,
    find_equal,
    find_runs,
    number_distinct_rows,
    sort_rows,
    sum_by,
)
from fastprof.tables.host_events import HostEvents

_BETWEEN: Final = " -> "


def sum_kernel_sequences(events: HostEvents, every: StreamEvents, longest: int) -> Iterator[SimpleNamespace]:
    """Yield sums of calls by op and kernel sequence, without calls that launch more than ``longest`` kernels."""
    if not is_kineto(events) or not len(every):
        return
    mine = every[np.argsort(every.start_ps, kind="stable")]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(events.names))}
    number_of = np.array([numbers[name] for name in events.names], np.int64)
    names = list(numbers)
    call, first, count, kernel = _list_calls(events, mine, longest)
    name = number_of[events.meta[mine.row[kernel]]]
    group_first, group = number_distinct_rows([number_of[events.meta[call]], *_number_windows(name, first, count)])
    kernel_ps = sum_by(np.repeat(group, count), (mine.end_ps - mine.start_ps)[kernel], len(group_first))
    op_ps = sum_by(group, np.maximum(events.duration_ps[call], 0), len(group_first))
    known = mine.call[kernel[first]] >= 0
    launched = mine[kernel[first[known]]]
    delays = [
        sum_by(group[known], delay, len(group_first)).tolist()
        for delay in (launched.call_ps - events.start_ps[call[known]], launched.start_ps - launched.call_ps)
    ]
    launches = np.bincount(group[known], minlength=len(group_first)).tolist()
    times = np.bincount(group, minlength=len(group_first)).tolist()
    for place, at in enumerate(group_first.tolist()):
        of_op, of_launch = (delay[place] // launches[place] if launches[place] else None for delay in delays)
        kernels = name[first[at] : first[at] + count[at]].tolist()
        yield SimpleNamespace(
            host=events.host, op=events.names[events.meta[call[at]]],
            kernels=_BETWEEN.join(names[number] for number in kernels), kernel_count=len(kernels), count=times[place],
            kernel_ps=int(kernel_ps[place]), op_ps=int(op_ps[place]), mean_op_delay_ps=of_op,
            mean_launch_delay_ps=of_launch,
        )  # fmt: skip


def _list_calls(events: HostEvents, mine: StreamEvents, longest: int) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Return the op calls that launched at most ``longest`` of these kernels, nested ops included: row of each call,
    where its kernels begin in the last column, and their number; the last column is the kernels in order. An op that
    only calls itself, as older versions of PyTorch record it, is one call."""
    around = OpsAround(events)
    kernel, call = np.arange(len(mine)), around.launching(mine.row)
    pairs = [np.zeros((2, 0), np.int64)]
    while len(kernel):
        kernel, call = kernel[call >= 0], call[call >= 0]
        pairs.append(np.stack([kernel, call]))
        call = around.op_of(call)
    kernel, call = np.concatenate(pairs, axis=1)
    order = sort_rows(call, kernel)
    kernel, call = kernel[order], call[order]
    first = find_runs(call)
    count = np.diff(np.append(first, len(call)))
    call = call[first]
    above = around.op_of(call)
    has, outer = find_equal(call, above)
    repeats = has & (count[outer] == count) & (events.meta[above] == events.meta[call])
    chosen = ~repeats & (count <= longest)
    owner, place = expand_ranges(first[chosen], count[chosen])
    return call[chosen], find_runs(owner), count[chosen], kernel[place]


def _number_windows(values: Int64s, first: Int64s, count: Int64s) -> list[Int64s]:
    """Return columns that are equal for windows of equal values, and for no others: the length, and the numbers of the
    two parts that cover the window. A part is as long as the largest power of 2 that fits."""
    parts = np.zeros((2, len(first)), np.int64)
    size = 1
    while True:
        chosen = (count >= size) & (count < 2 * size)
        parts[0, chosen], parts[1, chosen] = values[first[chosen]], values[(first + count - size)[chosen]]
        if not (count >= 2 * size).any():
            return [count, *parts]
        after = np.append(values[size:], np.full(min(size, len(values)), -1))
        values = number_distinct_rows([values, after])[1].astype(np.int64)
        size *= 2
