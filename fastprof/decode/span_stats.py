"""Stats outside events, those of planes and of event metadata: among them when a host was profiled and with what, and
files that other formats embed in an XSpace, such as a tfprof profile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native import records
from fastprof._native.xspace import Sink
from fastprof.decode.text_pools import TextTable
from fastprof.decode.xspace_capture import Capture, DeclaredStats
from fastprof.inputs.formats.contract import PROFILE_PLANE, PROFILE_STAT
from fastprof.schema.columns import Int32s, Int64s, Records
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.inputs.profile_columns import ProfileColumns


@dataclass(frozen=True, slots=True)
class StatTexts:
    """The texts of stat metadata, by row, as numbers in a table of texts.

    ``names``  what a stat is called: #ID where its part declares no name
    ``texts``  what a ref stands for: -1 where its part declares none
    """

    stats: DeclaredStats
    names: Int32s
    texts: Int32s


class CaptureTexts:
    """Texts of one capture's stat metadata, in a table that captures may share. Threads may share it."""

    def __init__(self, capture: Capture, table: TextTable) -> None:
        self.capture = capture
        self.table = table
        self._lock = threading.Lock()
        self._known = self._read(capture.stats, np.zeros(0, np.int32), np.zeros(0, np.int32))

    def now(self) -> StatTexts:
        """Return the texts of all stats that are declared by now. They never change."""
        if self._known.stats is not self.capture.stats:
            with self._lock:
                self._known = self._read(self.capture.stats, self._known.names, self._known.texts)
        return self._known

    def _read(self, stats: DeclaredStats, names: Int32s, texts: Int32s) -> StatTexts:
        """``names``, ``texts``: of the first rows, which have been read."""
        fresh = stats.metas[len(names) :]
        more = self.capture.intern(fresh["name_offset"], fresh["name_length"], b"XStatMetadata.name", self.table)
        named = more.copy()
        for row in np.flatnonzero(more < 0).tolist():
            named[row] = self.table.add(f"#{fresh['id'][row]}")
        return StatTexts(stats, np.concatenate([names, named]), np.concatenate([texts, more]))


@dataclass(frozen=True, slots=True)
class SpanStats:
    """Stats of a capture, one per row. ``stat`` and ``text`` are numbers in the table of texts, text -1 where there is
    none. ``bytes_at``: where bytes lie. ``span``: the number of the place where the stat was read."""

    capture: Capture
    stat_id: Int64s
    stat: Int32s
    kind: npt.NDArray[np.uint8]
    int_value: Int64s
    double_value: npt.NDArray[np.float64]
    text: Int32s
    bytes_at: Records
    span: npt.NDArray[np.intp]

    def first_rows(self, owners: Int64s, stat: int) -> npt.NDArray[np.intp]:
        """Return the row of the first value of a stat, or -1, of each owner that has it. ``owners``: of each row."""
        rows = np.flatnonzero((self.stat == stat) & (self.stat >= 0) & (self.kind != records.NONE))
        return rows[np.unique(owners[rows], return_index=True)[1]]

    def places_of_bytes(self, rows: npt.NDArray[np.intp]) -> dict[int, tuple[int, int]]:
        """Return offset and length in the file of each of the rows that holds bytes."""
        at = self.bytes_at[np.isin(self.bytes_at["row"], rows)]
        return {row: (offset, length) for row, _, offset, length in at.tolist()}

    def taken(self, rows: npt.NDArray[np.intp]) -> SpanStats:
        """These rows, in this order."""
        place = np.full(len(self.kind), -1, np.int64)
        place[rows] = np.arange(len(rows))
        at = self.bytes_at[place[self.bytes_at["row"]] >= 0].copy()
        at["row"] = place[at["row"]]
        return SpanStats(
            self.capture, self.stat_id[rows], self.stat[rows], self.kind[rows], self.int_value[rows],
            self.double_value[rows], self.text[rows], at, self.span[rows],
        )  # fmt: skip

    def payloads(self, rows: npt.NDArray[np.intp] | None = None) -> dict[int, bytes]:
        """Return the bytes of those of the rows that have such a value; None: of all."""
        at = self.bytes_at if rows is None else self.bytes_at[np.isin(self.bytes_at["row"], rows)]
        return dict(zip(at["row"].tolist(), self.capture.copies(at[["offset", "length"]].tolist()), strict=True))

    def values(self, texts: pa.Array) -> list[Any]:
        """Python values. uint64 is positive, a ref without text is the number that it holds, None is no value.
        ``texts``: those of the table."""
        payloads = self.payloads()
        columns = (self.kind, self.int_value, self.double_value, self.text)
        values: list[Any] = [None] * len(self.kind)
        strings: dict[int, str] = {}  # a long text may be the value of many stats
        for row, (kind, integer, double, text) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
            if kind in (records.STR, records.REF) and text >= 0:
                if text not in strings:
                    strings[text] = texts[text].as_py()
                values[row] = strings[text]
            elif kind in (records.INT64, records.REF):
                values[row] = integer
            elif kind == records.UINT64:
                values[row] = integer % 2**64
            elif kind == records.DOUBLE:
                values[row] = double
            elif row in payloads:
                values[row] = payloads[row]
        return values


def read_span_stats(texts: CaptureTexts, spans: Records, parts: Int64s) -> SpanStats:
    """Read stats at given places; ``parts[i]`` is the part whose names span i uses. Texts go into the table. To
    salvage, what does not decode is left out."""
    capture, table = texts.capture, texts.table
    capture.source.check_unchanged()
    unknown = capture.xspace.unknown_in_spans(spans, parts)
    capture.declare(np.frombuffer(unknown, records.UNKNOWN_STAT))
    known = texts.now()
    count = len(spans)
    base = len(table)
    columns: dict[str, Any] = {
        "stat": np.zeros(count, np.int32),
        "kind": np.zeros(count, np.uint8),
        "int_value": np.zeros(count, np.int64),
        "double_value": np.zeros(count, np.float64),
        "text": np.full(count, -1, np.int32),
    }
    stat_id = np.zeros(count, np.int64)
    lookups = {"stat_names": known.names, "stat_texts": known.texts}
    sink = Sink(capture.memory, columns, lookups, text_base=base, want_stats=True)
    known.stats.xspace.fill_spans(spans, parts, stat_id, sink)
    capture.log.add_faults(sink.faults(), capture.path)
    take_own_texts(columns["text"], sink, base, table)
    bytes_at = np.frombuffer(sink.bytes_at(), records.BYTES_AT)
    stat_id = capture.stat_ids_of(stat_id, parts)
    stats = SpanStats(capture, stat_id, bytes_at=bytes_at, span=np.arange(count), **columns)
    return stats.taken(np.flatnonzero(stats.kind != records.LOST_REF)) if capture.salvage else stats


def read_metadata_stats(texts: CaptureTexts, of: int | None = None) -> tuple[Records, SpanStats]:
    """Stats of the event metadata of a capture (``of``: of this row alone): where they lie, with the row of metadata as
    their owner, and what they are."""
    capture = texts.capture
    spans = np.frombuffer(capture.xspace.meta_stats(), records.OWNED_SPAN)
    if of is not None:
        spans = np.ascontiguousarray(spans[spans["owner"] == of])
    parts = np.ascontiguousarray(capture.metas["part"][spans["owner"]])
    stats = read_span_stats(texts, spans, parts)
    return spans[stats.span], stats


def take_own_texts(numbers: npt.NDArray[np.int32], sink: Sink, base: int, table: TextTable) -> None:
    """Replace the sink's numbers of its own texts, from ``base`` on, by theirs in the table."""
    offsets, data = sink.texts()
    if len(offsets) <= 8:
        return
    mapped = table.add_all(offsets, data)
    own = numbers >= base
    numbers[own] = mapped[numbers[own] - base]


def own_spans(spans: Records) -> Records:
    """Spans of a part as spans that say their owner, the part."""
    owned = np.zeros(len(spans), records.OWNED_SPAN)
    owned["offset"], owned["length"], owned["owner"] = spans["offset"], spans["length"], spans["part"]
    return owned


TASK_ENVIRONMENT = "Task Environment"
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
"""A stat that scribes of other formats write. Files that `fastprof export xspace` has written have it, too."""
_ENVIRONMENT_STAT = 700
"""Bytes of memory that a stat of the plane takes, at most, while it is read."""
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
    rows, times = _read_environment_stats(capture)
    start, stop = (
        _check_unix_ns(capture, name, times.get(name)) for name in ("profile_start_time", "profile_stop_time")
    )
    source = next((value for name, value in rows if name == _TRANSCRIBED), None)
    if source is None:
        return TaskEnvironment(start, stop, rows)
    others = [row for row in rows if row[0] not in _OWN]
    slack_ps = min(max(times.get("slack_ps", 0), 0), _MOST_SLACK_PS)
    return TaskEnvironment(start, stop, others, times.get("zero_ns"), source, slack_ps)


def read_recorded_environment(capture: Capture) -> dict[str, str]:
    """Return the stats of the plane, as text."""
    return dict(_read_environment_stats(capture)[0])


def list_environment_parts(capture: Capture) -> Int64s:
    """Return the parts of the file that make up the plane."""
    parts = np.flatnonzero(np.array([name == TASK_ENVIRONMENT for name in capture.part_names], bool))
    made = parts[capture.parts["id"][parts] == TRANSCRIBED_ID]
    return made if len(made) else parts


def _read_environment_stats(capture: Capture) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """Return the stats of the plane as text, and those that are integers."""
    spans = capture.plane_stat_spans
    spans = spans[np.isin(spans["part"], list_environment_parts(capture))]
    spans = spans[: capture.hold(_ENVIRONMENT_STAT, spans["offset"], "XPlane.stats")]
    if not len(spans):
        return [], {}
    table = TextTable(capture.memory)
    stats = read_span_stats(CaptureTexts(capture, table), own_spans(spans), spans["part"].copy())
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
    return [(name, _decode_text(value)) for name, value in zip(names, values, strict=True)], times


def _check_unix_ns(capture: Capture, name: str, value: int | None) -> int | None:
    """Return the value if it is a time; else None, with a row in import_log."""
    if value is None or 0 <= value <= _LATEST:
        return value
    text = f"{name} of the host is {value}, which is not a Unix time in nanoseconds of 64 bits: it is unknown"
    capture.log.add_faults([("time_overflow", text, f"{TASK_ENVIRONMENT}.{name}", 1, 0)], capture.path)
    return None


def _decode_text(value: object) -> str:
    if value is None:
        return ""
    return f"<{len(value)} bytes>" if isinstance(value, bytes) else str(value)


def read_embedded_file(capture: Capture, plane: str, stat: str) -> Iterator[bytes]:
    """Yield the pieces that a plane of this name has, in the order of the file. CaptureError, ChangedError."""
    parts = [number for number, name in enumerate(capture.part_names) if name == plane]
    spans = np.frombuffer(capture.xspace.meta_stats(), records.OWNED_SPAN)
    of = capture.metas["part"][spans["owner"]] if parts else np.zeros(len(spans), np.int64)
    chosen = np.isin(of, parts)
    spans, of = np.ascontiguousarray(spans[chosen]), np.ascontiguousarray(of[chosen])
    if not len(spans):
        return
    table = TextTable(capture.memory)
    stats = read_span_stats(CaptureTexts(capture, table), spans, of)
    rows = np.flatnonzero(stats.stat == table.find(stat))
    for offset, length in stats.places_of_bytes(rows).values():
        yield capture.source.read(offset, length)


def has_tfprof_profile(capture: Capture) -> bool:
    """Return whether it was made of a profile of tfprof."""
    return PROFILE_PLANE in capture.part_names


def read_tfprof_profile(capture: Capture) -> ProfileColumns | None:
    """None: it carries none. CaptureError: the profile is damaged."""
    if not has_tfprof_profile(capture):
        return None
    if capture.source.profile is not None:
        return capture.source.profile
    pieces = list(read_embedded_file(capture, PROFILE_PLANE, PROFILE_STAT))
    if not pieces:
        return None
    from fastprof.inputs.profile_columns import ProfileColumns  # few captures have one

    return ProfileColumns(b"".join(pieces), tolerant=capture.salvage)
