"""The hosts of tf.data as XProf's tool reads them: iterators by id, pipelines by the id of their root.

Captures that name the same host are taken together; of equal ids, the first one counts. All is kept in columns, because
each call of a capture may be a pipeline and have an iterator of its own; objects are made while they are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from html import escape
from typing import NamedTuple

import numpy as np

from fastprof.derive.steps.links import numbered
from fastprof.schema.array_types import Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.xprof.pipelines_as_xprof import XprofReading

_SOME_ITERATORS = 1 << 12
"""Iterators that are objects at once: neighbouring calls meet the same ones."""


class Meta(NamedTuple):
    """What the tool knows of an iterator; ``shown`` is its short name as HTML, ``parent`` a cell."""

    name: str
    long_name: str
    shown: str
    parent: dict[str, object]


def _meta(name: str, long_name: str, parent_id: int) -> Meta:
    return Meta(name, long_name, escape(name, quote=False), {"v": str(parent_id or "")})


_NO_ITERATOR = _meta("", "", 0)


class Answered(NamedTuple):
    """A capture as the tool reads it. By call: the id of the iterator that it waits for longest by its self time, and
    that time in ps; 0 and 0 where it waits for none."""

    reading: XprofReading
    bottleneck_id: Int64s
    bottleneck_ps: Int64s


class Part(NamedTuple):
    """A pipeline in one capture: its calls are rows ``first`` to ``last``, slowest first."""

    host: Answered
    first: int
    last: int


class Pipeline:
    """An input pipeline of a host, with its parts in the order of captures."""

    def __init__(self, host: TfHost, name: str, parts: Sequence[Part]) -> None:
        self.host = host
        self.name = name
        self.parts = parts

    @cached_property
    def latencies_ps(self) -> list[int]:
        """Of the calls in the last capture that names the host."""
        first, last = self.parts[-1].first, self.parts[-1].last
        latencies: list[int] = self.parts[-1].host.reading.duration_ps[first:last].tolist()
        return latencies

    @property
    def bottleneck(self) -> tuple[Meta, int]:
        """Of its slowest call: what is known of the bottleneck, and its self time in ps."""
        host, call, _ = self.parts[0]
        return self.host.iterator(int(host.bottleneck_id[call])), int(host.bottleneck_ps[call])


class TfHost:
    """A host, of the captures that name it. By pipeline, in the order in which captures name them: ``is_device``, and
    ``longest_ps``, the duration of the slowest call in the last capture that has it."""

    def __init__(self, name: str, captures: Sequence[Answered]) -> None:
        self.name = name
        self._captures = captures
        readings = [one.reading for one in captures]
        ids = [one.iterators.iterator_id for one in readings]
        self._ids, self._row_of_id = np.unique(np.concatenate(ids), return_index=True)
        self._first_iterator = _begins([len(one) for one in ids])
        self._first_pipeline = _begins([len(one.pipelines) for one in readings])
        roots = [of[one.pipelines.root] for of, one in zip(ids, readings, strict=True)]
        number, self._count = numbered([np.concatenate(roots)])
        self._parts = np.argsort(number, kind="stable")  # pipelines of captures, by pipeline of the host
        self._first_part = np.searchsorted(number[self._parts], np.arange(self._count + 1))
        first, last = self._parts[self._first_part[:-1]], self._parts[self._first_part[1:] - 1]
        self.is_device = np.concatenate([one.pipelines.is_device for one in readings])[first]
        self.longest_ps = np.concatenate([_longest(one) for one in readings])[last]
        self.iterator = lru_cache(_SOME_ITERATORS)(self._iterator)

    def __len__(self) -> int:
        return self._count

    def pipeline(self, number: int) -> Pipeline:
        rows = self._parts[self._first_part[number] : self._first_part[number + 1]].tolist()
        places = [_place(self._first_pipeline, row) for row in rows]
        capture, row = places[0]
        name = self._captures[capture].reading.pipelines.name[row]
        return Pipeline(self, name, [self._part(capture, row) for capture, row in places])

    def _part(self, capture: int, row: int) -> Part:
        answered = self._captures[capture]
        first = answered.reading.pipelines.first
        return Part(answered, int(first[row]), int(first[row + 1]))

    def _iterator(self, id: int) -> Meta:
        """What is known of the iterator of this id."""
        at = int(np.searchsorted(self._ids, id))
        if at == len(self._ids) or self._ids[at] != id:
            return _NO_ITERATOR
        capture, row = _place(self._first_iterator, int(self._row_of_id[at]))
        known = self._captures[capture].reading.iterators
        return _meta(known.name[row], known.long_name[row], int(known.parent_id[row]))


@dataclass(frozen=True, slots=True, eq=False)
class Pipelines:
    """Pipelines of several hosts: the number of the host of each, its row there, and its ``longest_ps``. Objects are
    made one by one."""

    hosts: Sequence[TfHost]
    host: Int64s
    row: Int64s
    longest_ps: Int64s

    def __iter__(self) -> Iterator[Pipeline]:
        for host, row in zip(self.host, self.row, strict=True):
            yield self.hosts[int(host)].pipeline(int(row))

    def slowest(self) -> Pipelines:
        """Those that no device calls, slowest first."""
        on_device = np.concatenate([np.zeros(0, np.bool_), *(host.is_device for host in self.hosts)])
        rows = np.flatnonzero(~on_device)
        rows = rows[np.argsort(~self.longest_ps[rows], kind="stable")]
        return Pipelines(self.hosts, self.host[rows], self.row[rows], self.longest_ps[rows])


def all_pipelines(hosts: Sequence[TfHost]) -> Pipelines:
    counts = [len(host) for host in hosts]
    host = np.repeat(np.arange(len(hosts)), counts)
    row = np.arange(len(host)) - np.repeat(_begins(counts)[:-1], counts)
    return Pipelines(hosts, host, row, np.concatenate([np.zeros(0, np.int64), *(one.longest_ps for one in hosts)]))


def _begins(counts: Sequence[int]) -> Int64s:
    """Where each of these stretches begins, and where the last one ends."""
    return np.cumsum([0, *counts])


def _place(begins: Int64s, row: int) -> tuple[int, int]:
    """The stretch of a row, and the row there."""
    stretch = int(np.searchsorted(begins, row, side="right")) - 1
    return stretch, row - int(begins[stretch])


def _longest(reading: XprofReading) -> Int64s:
    """Duration of the slowest call of each pipeline; every pipeline has calls."""
    if not len(reading.pipelines):
        return np.zeros(0, np.int64)
    longest: Int64s = np.maximum.reduceat(reading.duration_ps, reading.pipelines.first[:-1])
    return longest
