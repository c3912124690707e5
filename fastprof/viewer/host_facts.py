"""What is derived of a host besides tracks: flows, groups, steps, counters, and what derived events tell of themselves.

It is computed once and kept in the cache as columns (fact_file.py), so that the next time nothing is decoded for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.schema.array_types import Int32s, Int64s
from fastprof.viewer.fact_file import Column, FactFile

if TYPE_CHECKING:
    from fastprof.derive.host import Host
    from fastprof.derive.timeline.counter_tracks import Series
    from fastprof.derive.timeline.derived_track import DerivedTimeline
    from fastprof.derive.timeline.step_bands import StepBand
    from fastprof.tables.table_set import TableSet


VERSION: Final = 2
"""Grows when other facts are computed: those of before are computed again."""
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
        from fastprof.derive.timeline.flow_ends import KINDS  # late: the first picture does not wait for it

        return str(KINDS[int(self.kind[place])])


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
    """The facts of a host, read from their file as they are asked for."""

    def __init__(self, file: FactFile) -> None:
        self._file = file

    @cached_property
    def flows(self) -> Flows:
        return Flows(*(self._file.numbers(f"flow.{name}") for name in Flows.__dataclass_fields__))

    def group(self, row: int) -> int:
        """The number of the group of an event of the capture, -1: none."""
        groups = self._file.numbers("group")
        return int(groups[row]) if row < len(groups) else -1

    @cached_property
    def group_names(self) -> dict[int, str]:
        """What groups are called, by number."""
        return dict(zip(self._file.numbers("named.group").tolist(), self._file.texts("named.name"), strict=True))

    @cached_property
    def step_names(self) -> dict[int, str]:
        """What events are called that trace viewers call by the name of their step, by row."""
        return dict(zip(self._file.numbers("called.row").tolist(), self._file.texts("called.name"), strict=True))

    @cached_property
    def counters(self) -> list[Counter]:
        file = self._file
        ends, processes = file.numbers("counter.end").tolist(), file.numbers("counter.process").tolist()
        times, values = file.numbers("counter.time_ps"), file.numbers("counter.value")
        found, first = [], 0
        labels = zip(file.texts("counter.name"), file.texts("counter.unit"), processes, ends, strict=True)
        for name, unit, process, end in labels:
            found.append(Counter(process, name, unit, times[first:end], values[first:end]))
            first = end
        return found

    @cached_property
    def bands(self) -> list[Band]:
        file = self._file
        titles = file.texts("band.titles")
        columns = [file.numbers(f"band.{name}") for name in ("start_ps", "duration_ps", "group", "title")]
        found, first = [], 0
        pairs = zip(file.numbers("band.process").tolist(), file.numbers("band.end").tolist(), strict=True)
        for process, end in pairs:
            start, duration, group, title = (column[first:end] for column in columns)
            found.append(Band(process, start, duration, group, title, titles))
            first = end
        return found

    def derived(self, row: int) -> tuple[int, int, list[tuple[str, str]]]:
        """Of a derived event: its group, the name behind the one displayed (both -1: none), and what it tells."""
        file = self._file
        group, name = int(file.numbers("derived.group")[row]), int(file.numbers("derived.long_name")[row])
        rows, values = file.numbers("arg.row"), file.numbers("arg.value")
        told, first = [], 0
        for label, end in zip(file.texts("arg.name"), file.numbers("arg.end").tolist(), strict=True):
            place = first + int(np.searchsorted(rows[first:end], row))
            if place < end and rows[place] == row:
                told.append((label, self._arg_text(int(values[place]))))
            first = end
        return group, name, told

    def _arg_text(self, number: int) -> str:
        return str(self._file.column("arg.texts")[number].as_py())


# ---- making them


def fact_columns(tables: TableSet, number: int, host: Host, derived: DerivedTimeline) -> dict[str, Column]:
    """The facts of host ``number``, which was read with ``derived_lines.NEEDS``, as columns of a file."""
    from fastprof.derive.timeline.counter_tracks import counter_tracks
    from fastprof.derive.timeline.event_groups import group_ids, name_overrides
    from fastprof.derive.timeline.step_bands import step_bands
    from fastprof.derive.timeline.track_order import processes_of

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
        **_counter_columns(counter_tracks(tables, number, processes_of(host.raw))),
        **_band_columns(step_bands(host)),
        **_derived_columns(derived),
    }


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


def facts_in(path: Path) -> HostFacts:
    """ValueError: the file is no such file."""
    return HostFacts(FactFile(path))
