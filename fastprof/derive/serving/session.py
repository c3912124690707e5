"""Requests, batches and tensor moves of all hosts of a session, in columns, their models numbered together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TypeVar

import numpy as np

from fastprof.derive.serving.breakdown import PARTS, Timed
from fastprof.derive.serving.host_rows import Links
from fastprof.derive.serving.of_host import HostServing
from fastprof.derive.serving.parameters import BatchingParameters
from fastprof.derive.serving.requests import NO_MODEL, UNKNOWN
from fastprof.derive.serving.tensors import Pattern
from fastprof.schema.array_rows import ArrayRows
from fastprof.schema.array_types import Int64s, Objects
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import beside


@dataclass(frozen=True, slots=True)
class Served(ArrayRows):
    """Requests or batches, shortest first. ``host``: number of the host; ``model``: place in the session's models,
    NO_MODEL or UNKNOWN; ``others``: groups of a request's batches, or of those that led to a batch."""

    host: Int64s
    model: Int64s
    id: Int64s
    begin: Int64s
    end: Int64s
    delay: Int64s
    others: Links = field(metadata={"none": Links.none()})

    @property
    def latency(self) -> Int64s:
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class RequestColumns(Served):
    """``parts``: int64[n, 8], as breakdown.PARTS."""

    size: Int64s
    parts: Int64s = field(metadata={"none": np.zeros((0, len(PARTS)), np.int64)})


@dataclass(frozen=True, slots=True)
class BatchColumns(Served):
    padding: Int64s
    padded_size: Int64s
    compute: Int64s
    on_tpus: Int64s
    programs: Objects  # tuples of ids


@dataclass(frozen=True, slots=True)
class MoveColumns(ArrayRows):
    """Requests and batches that move tensors."""

    model: Int64s
    pattern: Int64s
    time_ps: Int64s


@dataclass(frozen=True, slots=True)
class Session:
    hosts: list[str]
    models: list[str]
    requests: RequestColumns
    batches: BatchColumns
    moves: MoveColumns
    patterns: list[Pattern]
    parameters: dict[str, BatchingParameters]


def combined(kept: Sequence[HostServing]) -> Session:
    """All hosts together. What two hosts publish of the batching of one model is that of the first."""
    models, places = numbered_models(kept)
    patterns: dict[Pattern, int] = {}
    parameters: dict[str, BatchingParameters] = {}
    batches, moves = [], []
    for number, (host, place) in enumerate(zip(kept, places, strict=True)):
        parameters = host.parameters | parameters
        batch_model = _batch_models(host)
        batches.append(_batches(number, host, place[batch_model]))
        pattern = [patterns.setdefault(pattern, len(patterns)) for pattern in host.moves.patterns]
        model = place[np.concatenate([host.timed.requests.model, batch_model])[host.moves.owner]]
        moves.append(MoveColumns(model, np.array(pattern, np.int64)[host.moves.pattern], host.moves.time_ps))
    return Session(
        [host.host for host in kept],
        models,
        request_columns([host.timed for host in kept], kept, places),
        _shortest_first(BatchColumns.joined(batches)),
        MoveColumns.joined(moves),
        list(patterns),
        parameters,
    )


def numbered_models(kept: Sequence[HostServing]) -> tuple[list[str], list[Int64s]]:
    """The models of a session, and by host the place of each of its own among them; the last two are for UNKNOWN and
    NO_MODEL."""
    models: dict[str, int] = {}
    places = []
    for host in kept:
        numbers = [models.setdefault(model, len(models)) for model in host.models]
        places.append(np.array([*numbers, UNKNOWN, NO_MODEL], np.int64))
    return list(models), places


def request_columns(timed: Sequence[Timed], kept: Sequence[HostServing], places: Sequence[Int64s]) -> RequestColumns:
    """The requests of all hosts. ``timed``: their times, by host; ``places``: of their models."""
    parts = []
    for number, (host, place, (rows, delay, times)) in enumerate(zip(kept, places, timed, strict=True)):
        batches = Links(rows.batches.bounds, host.batches.group[rows.batches.others])
        at, model = np.full(len(rows), number), place[rows.model]
        parts.append(RequestColumns(at, model, rows.group, rows.begin, rows.end, delay, batches, rows.size, times))
    return _shortest_first(RequestColumns.joined(parts))


def _batches(number: int, host: HostServing, model: Int64s) -> BatchColumns:
    rows, times = host.batches, host.batch_times
    return BatchColumns(
        np.full(len(rows), number),
        model,
        rows.group,
        rows.begin,
        rows.end,
        times.delay,
        rows.related,
        rows.padding,
        rows.padded_size,
        times.compute,
        times.on_tpus,
        times.programs,
    )


_AnyServed = TypeVar("_AnyServed", bound=Served)


def _shortest_first(rows: _AnyServed) -> _AnyServed:
    return rows[np.lexsort((rows.id, rows.host, rows.begin, rows.latency))]


def _batch_models(host: HostServing) -> Int64s:
    """The model of the first request of each batch; UNKNOWN: the first group that led to it is not a request."""
    requests, first = host.timed.requests, host.batches.first_request
    order = np.argsort(requests.group)
    is_request, model = beside(first, requests.group[order], requests.model[order])
    return np.where(is_request, model, UNKNOWN)
