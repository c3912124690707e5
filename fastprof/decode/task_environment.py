"""When a host was profiled, and with what: the plane Task Environment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastprof._native import records
from fastprof.decode.span_stats import CaptureTexts, owned_spans, read_span_stats
from fastprof.decode.text_pools import TextTable
from fastprof.decode.xspace_capture import Capture

PLANE = "Task Environment"


@dataclass(frozen=True, slots=True)
class TaskEnvironment:
    """Unix nanoseconds, None if not recorded; and all stats of the plane, as text."""

    start_unix_ns: int | None
    stop_unix_ns: int | None
    stats: list[tuple[str, str]]


def read_task_environment(capture: Capture) -> TaskEnvironment:
    parts = [i for i, name in enumerate(capture.part_names) if name == PLANE]
    spans = capture.plane_stat_spans
    spans = spans[np.isin(spans["part"], parts)]
    if not len(spans):
        return TaskEnvironment(None, None, [])
    table = TextTable(capture.memory)
    stats = read_span_stats(CaptureTexts(capture, table), owned_spans(spans), spans["part"].copy())
    texts: list[str] = table.array().to_pylist()
    names = [texts[number] for number in stats.stat.tolist()]
    is_integer = np.isin(stats.kind, (records.INT64, records.UINT64))
    times: dict[str, int] = {}
    for row in np.flatnonzero(is_integer).tolist():
        times.setdefault(names[row], int(stats.int_value[row]))
    is_lost = (stats.kind == records.REF) & (stats.text < 0)
    values = [
        None if lost else value for value, lost in zip(stats.values(table.array()), is_lost.tolist(), strict=True)
    ]
    rows = [(name, _as_text(value)) for name, value in zip(names, values, strict=True)]
    return TaskEnvironment(times.get("profile_start_time"), times.get("profile_stop_time"), rows)


def _as_text(value: object) -> str:
    if value is None:
        return ""
    return f"<{len(value)} bytes>" if isinstance(value, bytes) else str(value)
