"""Requests, batches and tensor moves of all hosts of a session, in columns, their models numbered together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fastprof.derive.serving.breakdown import Timed
from fastprof.derive.serving.of_host import HostServing
from fastprof.derive.serving.parameters import BatchingParameters
from fastprof.derive.serving.requests import NO_MODEL, UNKNOWN
from fastprof.derive.serving.tensors import Pattern
from fastprof.schema.array_types import Int64s


@dataclass(frozen=True, slots=True)
class RequestColumns:
    """A row a request, shortest first. ``host``: number of the host; ``model``: place in the session's models, NO_MODEL
    or UNKNOWN; ``parts``: int64[n, 8], as breakdown.PARTS; ``batch_bounds``, ``batch_ids``: its batches, those of row
    i from ``batch_bounds[i]`` on."""

    host: Int64s
    model: Int64s
    id: Int64s
    begin: Int64s
    end: Int64s
    delay: Int64s
    size: Int64s
    parts: Int64s
    batch_bounds: Int64s
    batch_ids: Int64s

    @property
    def latency(self) -> Int64s:
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class BatchColumns:
    """A row a batch, shortest first."""

    host: Int64s
    model: Int64s
    id: Int64s
    begin: Int64s
    end: Int64s
    delay: Int64s
    padding: Int64s
    padded_size: Int64s
    compute: Int64s
    on_tpus: Int64s
    request_bounds: Int64s
    request_ids: Int64s
    programs: list[tuple[int, ...]]

    @property
    def latency(self) -> Int64s:
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class MoveColumns:
    """A row a request or batch that moves tensors."""

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
    for host in kept:
        for pattern in host.moves.patterns:
            patterns.setdefault(pattern, len(patterns))
        parameters = host.parameters | parameters
    return Session(
        [host.host for host in kept],
        models,
        request_columns([host.timed for host in kept], kept, places),
        _batches(kept, places),
        _moves(kept, places, patterns),
        list(patterns),
        parameters,
    )


def numbered_models(kept: Sequence[HostServing]) -> tuple[list[str], list[Int64s]]:
    """The models of a session, and by host the place of each of its own among them; the last two are for UNKNOWN and
    NO_MODEL."""
    models: dict[str, int] = {}
    places = []
    for host in kept:
        numbers = [models.setdefault(model, len(models)) for model in host.requests.models]
        places.append(np.array([*numbers, UNKNOWN, NO_MODEL], np.int64))
    return list(models), places


def request_columns(timed: Sequence[Timed], kept: Sequence[HostServing], places: Sequence[Int64s]) -> RequestColumns:
    """The requests of all hosts. ``timed``: their times, by host; ``places``: of their models."""
    parts = [one.parts for one in timed]
    counts, ids = [], []
    for one, of_host in zip(timed, kept, strict=True):
        links = one.requests.batches
        counts.append(np.diff(links.bounds))
        ids.append(of_host.batches.group[links.others])
    host, count = _hosts([len(one.requests) for one in timed]), _joined(counts)
    begin, end = _joined([one.requests.begin for one in timed]), _joined([one.requests.end for one in timed])
    group = _joined([one.requests.group for one in timed])
    order = np.lexsort((group, host, begin, end - begin))
    bounds, batch_ids = _reordered(count, _joined(ids), order)
    return RequestColumns(
        host[order],
        _joined([place[one.requests.model] for one, place in zip(timed, places, strict=True)])[order],
        group[order],
        begin[order],
        end[order],
        _joined([one.delay for one in timed])[order],
        _joined([one.requests.size for one in timed])[order],
        np.concatenate([np.zeros((0, 8), np.int64), *parts])[order],
        bounds,
        batch_ids,
    )


def _batches(kept: Sequence[HostServing], places: Sequence[Int64s]) -> BatchColumns:
    batches, times = [host.batches for host in kept], [host.batch_times for host in kept]
    counts = [np.diff(one.related.bounds) for one in batches]
    host = _hosts([len(one) for one in batches])
    begin, end = _joined([one.begin for one in batches]), _joined([one.end for one in batches])
    group = _joined([one.group for one in batches])
    order = np.lexsort((group, host, begin, end - begin))
    bounds, request_ids = _reordered(_joined(counts), _joined([one.related.others for one in batches]), order)
    programs = [ids for one in times for ids in one.programs]
    return BatchColumns(
        host[order],
        _joined([place[_batch_models(one)] for one, place in zip(kept, places, strict=True)])[order],
        group[order],
        begin[order],
        end[order],
        _joined([one.delay for one in times])[order],
        _joined([one.padding for one in batches])[order],
        _joined([one.padded_size for one in batches])[order],
        _joined([one.compute for one in times])[order],
        _joined([one.on_tpus for one in times])[order],
        bounds,
        request_ids,
        [programs[i] for i in order.tolist()],
    )


def _batch_models(host: HostServing) -> Int64s:
    """The model of the first request of each batch; UNKNOWN where the first group that led to it is no request."""
    requests, first = host.timed.requests, host.batches.first_request
    place = np.minimum(np.searchsorted(np.sort(requests.group), first), max(len(requests) - 1, 0))
    order = np.argsort(requests.group)
    if not len(requests):
        return np.full(len(first), UNKNOWN, np.int64)
    request = order[place]
    return np.where(requests.group[request] == first, requests.model[request], UNKNOWN)


def _moves(kept: Sequence[HostServing], places: Sequence[Int64s], patterns: dict[Pattern, int]) -> MoveColumns:
    models, numbers = [], []
    for host, place in zip(kept, places, strict=True):
        of_owner = np.concatenate([host.timed.requests.model, _batch_models(host)])
        models.append(place[of_owner[host.moves.owner]])
        number = np.array([patterns[pattern] for pattern in host.moves.patterns], np.int64)
        numbers.append(number[host.moves.pattern])
    return MoveColumns(_joined(models), _joined(numbers), _joined([host.moves.time_ps for host in kept]))


def _joined(columns: Sequence[Int64s]) -> Int64s:
    return np.concatenate([np.zeros(0, np.int64), *columns])


def _hosts(counts: Sequence[int]) -> Int64s:
    return np.repeat(np.arange(len(counts)), counts)


def _reordered(count: Int64s, values: Int64s, order: Int64s) -> tuple[Int64s, Int64s]:
    """Lists of these lengths, one after the other in ``values``, in another order: bounds and values."""
    begin = np.cumsum(count) - count
    count, begin = count[order], begin[order]
    bounds = np.concatenate([[0], np.cumsum(count)])
    within = np.arange(int(bounds[-1])) - np.repeat(bounds[:-1], count)
    return bounds, values[np.repeat(begin, count) + within]
