"""How often ops of GPUs ran, of which one execution may launch several kernels.

Kernels of one op that follow each other on a line are a run. A run is at least one execution; it is as many as the
least frequent of the names of its kernels occurs in it, so that an execution may launch a kernel of one name several
times. Where an op launches kernels of one name only, each counts as an execution.
"""

from __future__ import annotations

import numpy as np

from fastprof.derive.ops.gpu_ops import Numbers
from fastprof.derive.steps.links import first_of, numbered
from fastprof.schema.array_types import Int64s


def executions(line: Numbers, op: Numbers, name: Numbers, count: int) -> Int64s:
    """Of each of ``count`` ops. Beside the kernels, line after line, in order of time: their lines, their ops and their
    names, as numbers."""
    if not len(op):
        return np.zeros(count, np.int64)
    starts = np.flatnonzero(np.append(True, (op[1:] != op[:-1]) | (line[1:] != line[:-1])))
    lengths = np.diff(np.append(starts, len(op)))
    times = np.ones(len(starts), np.int64)
    longer = np.flatnonzero(lengths > 1)
    if len(longer):
        times[longer] = _least_frequent(np.repeat(lengths > 1, lengths), lengths[longer], name)
    return np.bincount(op[starts], times, count).astype(np.int64)


def _least_frequent(chosen: Numbers, lengths: Int64s, name: Numbers) -> Int64s:
    """Of each run how often its least frequent name occurs. ``chosen``: kernels of these runs."""
    run = np.repeat(np.arange(len(lengths)), lengths)
    pair, pairs = numbered([run, name[chosen].astype(np.int64)])
    times = np.bincount(pair, minlength=pairs)
    least = lengths.astype(np.int64).copy()
    np.minimum.at(least, run[first_of(pair, pairs)], times)
    return least
