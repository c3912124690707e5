"""Events of several lines in the order in which XProf looks at them to derive lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from fastprof.derive.steps.device_steps import by_time
from fastprof.schema.array_types import Int64s
from fastprof.tables.host_events import HostEvents, Line


def rows_of(lines: Iterable[Line]) -> Int64s:
    """The rows of lines, one line after the other."""
    return np.concatenate([np.arange(line.first, line.last) for line in lines] or [np.zeros(0, np.int64)])


def in_time_order(events: HostEvents, rows: npt.NDArray[Any], duration_ps: Int64s | None = None) -> Int64s:
    """The rows by start, shorter first; equal ones in the order that std::sort leaves them in. ``duration_ps``: in
    place of those of the rows."""
    rows = np.asarray(rows, np.int64)
    duration = events.duration_ps[rows] if duration_ps is None else duration_ps
    ordered: Int64s = rows[by_time(events.start_ps[rows], duration)]
    return ordered
