"""When a host was profiled, and with what: the plane Task Environment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastprof._native import records
from fastprof.decode.span_stats import CaptureTexts, SpanStats, owned_spans, read_span_stats
from fastprof.decode.text_pools import TextTable
from fastprof.decode.xspace_capture import Capture

PLANE = "Task Environment"


@dataclass(frozen=True, slots=True)
class TaskEnvironment:
    """Unix nanoseconds, None where the capture does not say; and all stats of the plane, as text."""

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
    lengths = dict(zip(stats.bytes_at["row"].tolist(), stats.bytes_at["length"].tolist(), strict=True))
    rows = [(name, _as_text(stats, row, texts, lengths)) for row, name in enumerate(names)]
    return TaskEnvironment(
        _integer(stats, names, "profile_start_time"), _integer(stats, names, "profile_stop_time"), rows
    )


def _integer(stats: SpanStats, names: list[str], wanted: str) -> int | None:
    for row, name in enumerate(names):
        if name == wanted and stats.kind[row] in (records.INT64, records.UINT64):
            return int(stats.int_value[row])
    return None


def _as_text(stats: SpanStats, row: int, texts: list[str], lengths: dict[int, int]) -> str:
    kind = stats.kind[row]
    if kind == records.UINT64:
        return str(int(stats.int_value[row]) % 2**64)
    if kind == records.INT64:
        return str(int(stats.int_value[row]))
    if kind == records.DOUBLE:
        return repr(float(stats.double_value[row]))
    if kind == records.BYTES:
        return f"<{lengths[row]} bytes>"
    return texts[stats.text[row]] if stats.text[row] >= 0 else ""
