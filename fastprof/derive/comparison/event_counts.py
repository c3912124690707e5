"""Events of one step by name, as HolisticTraceAnalysis counts them for its comparison of two traces, and ops by
arguments, as TraceLens does."""

from __future__ import annotations

from typing import Final

import numpy as np

from fastprof.derive.devices.op_names import is_kineto
from fastprof.derive.host import Host
from fastprof.derive.ops.device_ops import READS
from fastprof.derive.ops.torch_calls import OpsAround
from fastprof.errors import UsageError
from fastprof.schema.columns import join_values, number_distinct_rows, number_values, sum_by
from fastprof.tables.host_reader import read_host
from fastprof.tables.needs import unite_needs
from fastprof.tables.table_set import TableSet
from fastprof.wording.patterns import compile_late

OP_ARGUMENTS: Final = ("Input type", "Input Dims", "Input Strides", "Concrete Inputs")
"""Arguments of an op that separate calls of one name, as PyTorch's profiler records them."""
DEVICES: Final = ("all", "cpu", "gpu")
_MARKER: Final = compile_late(r".*#(\d{1,18})")
_STREAM: Final = "stream"
_NOT_COUNTED: Final = ("", "trace", "Trace", "cpu_instant_event")
"""Categories of records that are not events with a duration: counters, the extent of the trace, instants."""


def count_step_events(tables: TableSet, step: int | None, device: str) -> dict[str, tuple[int, int]]:
    """Return count and total duration in ps of the events of a step, by name, on the first host. ``step``: number of
    the step; None: the first one. ``device``: one of DEVICES; events with a stream are of the GPU. UsageError: no such
    step."""
    events = read_host(tables, 0, (), (*Host.GROUPING.stats, _STREAM), Host.GROUPING.metadata_stats)
    groups = Host(events, tables.session.workers).groups
    ids = np.unique(groups.group_id[groups.group_id >= 0])
    markers = zip(map(_MARKER.fullmatch, groups.names_of(ids)), ids.tolist(), strict=True)
    numbers = {int(marker[1]): group for marker, group in markers if marker is not None}
    wanted = min(numbers, default=-1) if step is None else step
    if wanted not in numbers:
        there = ", ".join(map(str, sorted(numbers))) or "none"
        raise UsageError(f"no step{'' if step is None else f' {step}'}; steps: {there}")
    counted = groups.group_id == numbers[wanted]
    counted &= ~np.isin(np.array(events.categories), _NOT_COUNTED)[events.meta]
    if device != DEVICES[0]:
        has_stream = np.zeros(len(events), np.bool_)
        if _STREAM in events.stats:
            at, streams = events.ints(_STREAM)
            has_stream[at] = streams != -1
        counted &= has_stream == (device == "gpu")
    rows = np.flatnonzero(counted)
    numbers_of = events.meta[rows] % len(events.names)
    counts = np.bincount(numbers_of, minlength=len(events.names))
    times = sum_by(numbers_of, events.duration_ps[rows], len(events.names))
    return {events.names[name]: (int(counts[name]), int(times[name])) for name in np.flatnonzero(counts).tolist()}


def sum_launching_ops(tables: TableSet) -> dict[tuple[str, ...], tuple[int, int]]:
    """Return calls of PyTorch's ops that launch kernels themselves, and the time of these kernels in ps, by name and
    OP_ARGUMENTS, over all hosts. UsageError: the run lacks a GPU, PyTorch's events, or shapes."""
    sums: dict[tuple[str, ...], tuple[int, int]] = {}
    has_shapes = False
    needs = unite_needs([Host.GROUPING, READS])
    stats = (*needs.stats, *needs.stats_with_gpus, *OP_ARGUMENTS)
    for number in range(len(tables.session.hosts)):
        events = read_host(tables, number, (), tuple(dict.fromkeys(stats)), needs.metadata_stats)
        lines = [line for gpu in events.planes_of("GPU") for line in gpu.lines if not line.is_derived]
        if not lines or not is_kineto(events):
            continue
        kernels = np.concatenate([np.arange(line.first, line.last) for line in lines])
        ops = OpsAround(events).launching(kernels)
        kernels, ops = kernels[ops >= 0], ops[ops >= 0]
        calls, call = number_values(ops)
        columns = [join_values(*events.texts(name), calls) for name in OP_ARGUMENTS]
        has_shapes |= any(bool((column >= 0).any()) for column in columns)
        first, kind = number_distinct_rows([*columns, events.meta[calls].astype(np.int64)])
        counts = np.bincount(kind, minlength=len(first)).tolist()
        times = sum_by(kind[call], events.duration_ps[kernels], len(first)).tolist()
        for at, count, time in zip(first.tolist(), counts, times, strict=True):
            texts = (events.text(int(column[at])) if column[at] >= 0 else "" for column in columns)
            key = (events.names[events.meta[calls[at]]], *texts)
            known = sums.get(key, (0, 0))
            sums[key] = known[0] + count, known[1] + time
    if not has_shapes:
        raise UsageError("no op with shapes launches kernels: record PyTorch on a GPU with record_shapes=True")
    return sums
