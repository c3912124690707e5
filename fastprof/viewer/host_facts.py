"""What is derived of a host besides tracks: flows, groups, steps, counters, and the values of derived events.

It is computed once and kept in the cache, a file of columns of different lengths, so that the next time nothing is
decoded for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.schema.array_types import Int32s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.viewer.sealed_file import content_size

if TYPE_CHECKING:
    from fastprof.derive.host import Host
    from fastprof.derive.timeline.counter_tracks import Series
    from fastprof.derive.timeline.derived_track import DerivedTimeline
    from fastprof.derive.timeline.step_bands import StepBand
    from fastprof.tables.table_set import TableSet

Column = npt.NDArray[Any] | list[str]

FORMAT: Final = b"1"
VERSION: Final = 6
"""Grows when other facts are computed: older ones are computed again."""
_FORMAT_KEY: Final = b"fastprof.facts"
_NO_PROCESS: Final = -1


@dataclass(frozen=True, slots=True)
class Flows:
    """Rows of the host's events, in pairs. ``from_ps``: the end of the producer, ``to_ps``: start of the consumer."""

    producer: Int32s
    consumer: Int32s
    kind: npt.NDArray[np.uint8]
    from_ps: Int64s
    to_ps: Int64s

    def __len__(self) -> int:
        return len(self.producer)

    def kind_name(self, place: int) -> str:
        from fastprof.derive.timeline.flow_ends import SHOWN_KINDS  # late: the first picture does not wait for it

        return str(SHOWN_KINDS[int(self.kind[place])])


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter of a process, by its number on the host. ``time_ps`` ascends."""

    process: int
    name: str
    unit: str
    time_ps: Int64s
    value: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Band:
    """Steps of a process, -1: of the host, in order of time. ``title``: places in ``titles``."""

    process: int
    start_ps: Int64s
    duration_ps: Int64s
    group: Int32s
    title: Int32s
    titles: Sequence[str]


class HostFacts:
    """The facts of a host, read from their file when they are needed. ValueError: it is no such file, or one of another
    version."""

    def __init__(self, path: Path) -> None:
        try:
            file = pa.memory_map(str(path))
            reader = pa.ipc.open_file(pa.BufferReader(file.read_buffer(content_size(path))))
            if (reader.schema.metadata or {}).get(_FORMAT_KEY) != FORMAT:
                raise ValueError("facts of another version")
            batch = reader.get_batch(0)
        except pa.ArrowException as error:
            raise ValueError(f"no facts: {error}") from None
        self._columns = {name: batch.column(i).flatten() for i, name in enumerate(batch.schema.names)}

    def _numbers(self, name: str) -> npt.NDArray[Any]:
        found: npt.NDArray[Any] = np.asarray(self._columns[name])
        return found

    def _texts(self, name: str) -> list[str]:
        found: list[str] = self._columns[name].to_pylist()
        return found

    def _spans(self, name: str) -> Iterator[slice]:
        """The rows of each part, from where the parts end."""
        first = 0
        for end in self._numbers(name).tolist():
            yield slice(first, end)
            first = end

    @cached_property
    def flows(self) -> Flows:
        return Flows(*(self._numbers(f"flow.{name}") for name in Flows.__dataclass_fields__))

    def group(self, row: int) -> int:
        """The number of the group of an event of the capture, -1: none."""
        groups = self._numbers("group")
        return int(groups[row]) if row < len(groups) else -1

    @cached_property
    def group_names(self) -> dict[int, str]:
        """Names of groups, by number."""
        return dict(zip(self._numbers("named.group").tolist(), self._texts("named.name"), strict=True))

    @cached_property
    def step_names(self) -> dict[int, str]:
        """Names of steps, by the row of the event that trace viewers show under this name."""
        return dict(zip(self._numbers("called.row").tolist(), self._texts("called.name"), strict=True))

    @cached_property
    def gpu_programs(self) -> frozenset[int]:
        """The ids of programs with instructions that events of GPUs name themselves, as int64."""
        return frozenset(self._numbers("gpu.program").tolist())

    @cached_property
    def counters(self) -> list[Counter]:
        times, values = self._numbers("counter.time_ps"), self._numbers("counter.value")
        labels = (self._numbers("counter.process").tolist(), self._texts("counter.name"), self._texts("counter.unit"))
        parts = zip(*labels, self._spans("counter.end"), strict=True)
        return [Counter(process, name, unit, times[rows], values[rows]) for process, name, unit, rows in parts]

    @cached_property
    def bands(self) -> list[Band]:
        titles = self._texts("band.titles")
        columns = {name: self._numbers(f"band.{name}") for name in ("start_ps", "duration_ps", "group", "title")}
        parts = zip(self._numbers("band.process").tolist(), self._spans("band.end"), strict=True)
        return [
            Band(process, titles=titles, **{name: column[rows] for name, column in columns.items()})
            for process, rows in parts
        ]

    def derived(self, row: int) -> tuple[int, int, list[tuple[str, str]]]:
        """Of a derived event: its group, the name behind the one displayed (both -1: none), and its values by name."""
        group, name = int(self._numbers("derived.group")[row]), int(self._numbers("derived.long_name")[row])
        rows, values, texts = self._numbers("arg.row"), self._numbers("arg.value"), self._columns["arg.texts"]
        found = []
        for label, part in zip(self._texts("arg.name"), self._spans("arg.end"), strict=True):
            place = part.start + int(np.searchsorted(rows[part], row))
            if place < part.stop and rows[place] == row:
                found.append((label, str(texts[int(values[place])].as_py())))
        return group, name, found


# ---- making them


def write_facts(path: Path, columns: Mapping[str, Column]) -> None:
    """Numbers as NumPy columns, texts as lists. The file is an Arrow IPC file of one row of lists."""
    arrays = {name: _as_row(column) for name, column in columns.items()}
    schema = pa.schema([(name, array.type) for name, array in arrays.items()], {_FORMAT_KEY: FORMAT})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(list(arrays.values()), schema=schema))


def _as_row(column: Column) -> pa.Array:
    if isinstance(column, list):
        values = pa.array([text.encode("utf-8", "replace") for text in column], pa.large_binary())
        values = values.cast(pa.large_string())
    else:
        values = pa.array(column)
    return pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)


def fact_columns(tables: TableSet, number: int, host: Host, derived: DerivedTimeline) -> dict[str, Column]:
    """The facts of host ``number``, read with ``derived_lines.NEEDS``, as columns of a file."""
    from fastprof.derive.timeline.counter_tracks import counter_tracks
    from fastprof.derive.timeline.event_groups import group_ids, name_overrides
    from fastprof.derive.timeline.step_bands import step_bands
    from fastprof.derive.timeline.stream_counters import stream_counters
    from fastprof.derive.timeline.track_order import processes_of

    processes = processes_of(host.raw)
    group = group_ids(host)
    there = np.zeros(int(group.max(initial=-1)) + 2, np.bool_)
    there[group] = True  # without one: the last place
    numbers = np.flatnonzero(there[:-1])
    rows, names = name_overrides(host)
    return {
        **_flow_columns(host),
        "group": group,
        "named.group": numbers,
        "named.name": host.groups.names_of(numbers),
        "called.row": rows,
        "called.name": names,
        "gpu.program": _gpu_programs(host),
        **_counter_columns([*counter_tracks(tables, number, processes), *stream_counters(host.raw, processes)]),
        **_band_columns(step_bands(host)),
        **_derived_columns(derived),
    }


def _gpu_programs(host: Host) -> Int64s:
    if not host.raw.planes_of("GPU"):
        return np.zeros(0, np.int64)
    from fastprof.derive.ops.gpu_ops import named_programs

    return np.array(named_programs(host.raw, host.modules), np.int64)


def _flow_columns(host: Host) -> dict[str, Column]:
    from fastprof.derive.timeline.flows import flows

    events, pairs = host.raw, flows(host)
    ends = events.start_ps[pairs.producer] + np.maximum(events.duration_ps[pairs.producer], 0)
    starts = events.start_ps[pairs.consumer]
    found = Flows(pairs.producer, pairs.consumer, pairs.kind, ends, starts)
    return {f"flow.{name}": getattr(found, name) for name in Flows.__dataclass_fields__}


def _counter_columns(series: Sequence[Series]) -> dict[str, Column]:
    return {
        "counter.process": np.array([one.process.number for one in series], np.int32),
        "counter.name": [one.name for one in series],
        "counter.unit": [one.unit for one in series],
        "counter.end": _ends(len(one) for one in series),
        "counter.time_ps": _joined((one.time_ps for one in series), np.int64),
        "counter.value": _joined((one.value for one in series), np.float64),
    }


def _band_columns(bands: Sequence[StepBand]) -> dict[str, Column]:
    before = _ends(len(one.names) for one in bands) - np.array([len(one.names) for one in bands], np.int64)
    titles = (one.name.astype(np.int32) + np.int32(first) for one, first in zip(bands, before, strict=True))
    return {
        "band.process": np.array(
            [_NO_PROCESS if one.process is None else one.process.number for one in bands], np.int32
        ),
        "band.end": _ends(len(one) for one in bands),
        "band.start_ps": _joined((one.start_ps for one in bands), np.int64),
        "band.duration_ps": _joined((one.duration_ps for one in bands), np.int64),
        "band.group": _joined((one.group for one in bands), np.int32),
        "band.title": _joined(titles, np.int32),
        "band.titles": [name for one in bands for name in one.names],
    }


def _derived_columns(derived: DerivedTimeline) -> dict[str, Column]:
    number: dict[str, int] = {}
    values = [[number.setdefault(str(value), len(number)) for value in _plain(arg.values)] for arg in derived.args]
    return {
        "derived.group": derived.group,
        "derived.long_name": derived.long_name,
        "arg.name": [arg.name for arg in derived.args],
        "arg.end": _ends(len(arg.rows) for arg in derived.args),
        "arg.row": _joined((arg.rows for arg in derived.args), np.int64),
        "arg.value": _joined((np.array(one, np.int64) for one in values), np.int64),
        "arg.texts": list(number),
    }


def _plain(values: Any) -> list[Any]:
    found: list[Any] = values.tolist() if isinstance(values, np.ndarray) else list(values)
    return found


def _ends(lengths: Iterable[int]) -> Int64s:
    return np.cumsum(np.array(list(lengths), np.int64), dtype=np.int64)


def _joined(parts: Iterable[npt.NDArray[Any]], kind: type[np.generic]) -> npt.NDArray[Any]:
    return np.concatenate([np.zeros(0, kind), *(part.astype(kind, copy=False) for part in parts)])
