"""When a host was profiled, and with what: the plane Task Environment."""

from __future__ import annotations

import numpy as np

from fastprof._native import records
from fastprof.decode.span_stats import CaptureTexts, owned_spans, read_span_stats
from fastprof.decode.text_pools import TextTable
from fastprof.decode.xspace_capture import Capture
from fastprof.schema.array_types import Int64s
from fastprof.schema.value_classes import dataclass

PLANE = "Task Environment"
TRANSCRIBED_ID = 2**31 - 1
"""The id of the plane if a scribe of another format made it. A process of a trace may be called so, but has another."""
KINETO = "Kineto JSON"
"""Traces of PyTorch's profiler, as ``transcribed_from``."""
XPROF = "XProf JSON"
"""Traces of XProf, likewise."""
TIMELINE = "TensorFlow 1 JSON"
"""Timelines of TensorFlow 1, likewise."""
RUN_METADATA = "TensorFlow 1 RunMetadata"
EVENT_FILE = "TensorFlow 1 event file"
"""RunMetadata by itself, and in event files."""
TFPROF = "TensorFlow 1 profile"
"""Profiles of tfprof, likewise."""
_LATEST = 2**63 - 1
_MOST_SLACK_PS = 10**6
_TRANSCRIBED = "transcribed_from"
"""A stat that scribes of other formats write. Files that `fastprof convert` has written have it, too."""
_OWN = ("zero_ns", "slack_ps", _TRANSCRIBED, "profile_start_time", "profile_stop_time")


@dataclass(frozen=True, slots=True)
class TaskEnvironment:
    """Unix nanoseconds, None if not recorded, or not of 64 bits; and all stats of the plane, as text.

    ``transcribed_from``: the format that the capture was transcribed from, now or before it was saved; else None.
    ``zero_ns``: what times of all lines count from then; None if it was always an XSpace.
    ``slack_ps``: what an event may end later than the event that it lies in, as times were rounded.
    """

    start_unix_ns: int | None
    stop_unix_ns: int | None
    stats: list[tuple[str, str]]
    zero_ns: int | None = None
    transcribed_from: str | None = None
    slack_ps: int = 0


def read_task_environment(capture: Capture) -> TaskEnvironment:
    rows, times = _recorded(capture)
    start, stop = (_unix_ns(capture, name, times.get(name)) for name in ("profile_start_time", "profile_stop_time"))
    source = next((value for name, value in rows if name == _TRANSCRIBED), None)
    if source is None:
        return TaskEnvironment(start, stop, rows)
    others = [row for row in rows if row[0] not in _OWN]
    slack_ps = min(max(times.get("slack_ps", 0), 0), _MOST_SLACK_PS)
    return TaskEnvironment(start, stop, others, times.get("zero_ns"), source, slack_ps)


def recorded_environment(capture: Capture) -> dict[str, str]:
    """The stats of the plane, as text."""
    return dict(_recorded(capture)[0])


def parts_of(capture: Capture) -> Int64s:
    """The parts of the file that make up the plane."""
    parts = np.flatnonzero(np.array([name == PLANE for name in capture.part_names], bool))
    made = parts[capture.parts["id"][parts] == TRANSCRIBED_ID]
    return made if len(made) else parts


def _recorded(capture: Capture) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """The stats of the plane as text, and those that are integers."""
    spans = capture.plane_stat_spans
    spans = spans[np.isin(spans["part"], parts_of(capture))]
    if not len(spans):
        return [], {}
    table = TextTable(capture.memory)
    stats = read_span_stats(CaptureTexts(capture, table), owned_spans(spans), spans["part"].copy())
    texts: list[str] = table.array().to_pylist()
    names = [texts[number] for number in stats.stat.tolist()]
    is_integer = np.isin(stats.kind, (records.INT64, records.UINT64))
    times: dict[str, int] = {}
    for row in np.flatnonzero(is_integer).tolist():
        unsigned = stats.kind[row] == records.UINT64
        times.setdefault(names[row], int(stats.int_value[row]) % 2**64 if unsigned else int(stats.int_value[row]))
    is_lost = (stats.kind == records.REF) & (stats.text < 0)
    values = [
        None if lost else value for value, lost in zip(stats.values(table.array()), is_lost.tolist(), strict=True)
    ]
    return [(name, _as_text(value)) for name, value in zip(names, values, strict=True)], times


def _unix_ns(capture: Capture, name: str, value: int | None) -> int | None:
    """The value if it is a time; else None, with a row in import_log."""
    if value is None or 0 <= value <= _LATEST:
        return value
    text = f"{name} of the host is {value}, which is not a Unix time in nanoseconds of 64 bits: it is unknown"
    capture.log.add_faults([("time_overflow", text, f"{PLANE}.{name}", 1, 0)], capture.path)
    return None


def _as_text(value: object) -> str:
    if value is None:
        return ""
    return f"<{len(value)} bytes>" if isinstance(value, bytes) else str(value)
