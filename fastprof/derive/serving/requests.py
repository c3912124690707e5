"""Requests and batches of a host: their event groups, models, begin and end, and the tensors they move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof.derive.serving import BATCHES, REQUESTS, SERVER_REQUEST, SERVER_ROOT, USER_ROOT
from fastprof.derive.steps.event_graph import CODES
from fastprof.derive.steps.grouping import Groups
from fastprof.schema.columns import (
    ArrayRows,
    Int64s,
    count_bounds,
    expand_ranges,
    find_least_by,
    find_most_by,
    find_runs,
    join_parts,
    number_sorted_rows,
    number_values,
    sort_rows,
    sum_by,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS, HostEvents, join_stat

AnyInts = npt.NDArray[Any]
NONE = int(np.iinfo(np.int64).min)
"""Missing time or number."""


class ServingEvents:
    """Events of the threads of a host. Rows are those of ``events``."""

    def __init__(self, events: HostEvents, groups: Groups) -> None:
        plane = events.plane_named(HOST_THREADS)
        self.events = events
        self.first, self.last = (plane.first, plane.last) if plane is not None else (0, 0)
        self.group = groups.group_id
        self._types = groups.types[self.first : self.last]
        self._present = CODES.keys() & set(events.names)
        self._rows: dict[str, Int64s] = {}

    def all(self, *names: str) -> Int64s:
        """Return the rows of these types, type by type."""
        for name in names:
            if name not in self._rows:
                here = np.flatnonzero(self._types == CODES[name]) if name in self._present else np.zeros(0, np.int64)
                self._rows[name] = here + self.first
        return join_parts(self._rows[name] for name in names)

    def grouped(self, *names: str) -> Int64s:
        """Return the rows of these types that are in a group."""
        rows = self.all(*names)
        return rows[self.group[rows] >= 0]

    def start(self, rows: Int64s) -> Int64s:
        return self.events.start_ps[rows]

    def end(self, rows: Int64s) -> Int64s:
        """Return the ends, which are not before the start, and not beyond 64 bits."""
        start, duration = self.events.start_ps[rows], np.maximum(self.events.duration_ps[rows], 0)
        end: Int64s = start + np.minimum(duration, np.iinfo(np.int64).max - np.maximum(start, 0))
        return end


@dataclass(frozen=True, slots=True)
class NumberLinks(ArrayRows):
    """Pairs of numbers: those that go with number i are ``others[bounds[i]:bounds[i + 1]]``."""

    bounds: Int64s = field(metadata={"none": np.zeros(1, np.int64)})
    others: Int64s

    @classmethod
    def of(cls, numbers: AnyInts, others: AnyInts, count: int) -> NumberLinks:
        """Link numbers below ``count``. Others ascend, and equal pairs count once."""
        order = sort_rows(numbers, others)
        numbers, others = numbers[order].astype(np.int64), others[order].astype(np.int64)
        first = find_runs(numbers, others)
        return cls(count_bounds(np.bincount(numbers[first], minlength=count)), others[first])

    @classmethod
    def joined(cls, parts: Sequence[NumberLinks]) -> NumberLinks:
        counts = [np.diff(part.bounds) for part in parts]
        return cls(count_bounds(np.concatenate(counts)), np.concatenate([part.others for part in parts]))

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, numbers: Any) -> NumberLinks:
        count = np.diff(self.bounds)[numbers]
        return NumberLinks(count_bounds(count), self.of_each(np.arange(len(self))[numbers])[1])

    def of_each(self, numbers: Int64s) -> tuple[Int64s, Int64s]:
        """Return the place in ``numbers`` and the other number of each pair of these numbers."""
        first = self.bounds[numbers]
        place, rows = expand_ranges(first, self.bounds[numbers + 1] - first)
        return place, self.others[rows]

    def first(self, numbers: Int64s) -> Int64s:
        """Return the least other number of each of the numbers, or -1."""
        begin = self.bounds[numbers]
        has = self.bounds[numbers + 1] > begin
        padded = np.append(self.others, -1)
        return np.where(has, padded[np.where(has, begin, len(self.others))], -1)


def find_earliest(times: Int64s, at: AnyInts, count: int) -> Int64s:
    """Return the earliest of the times at each place, or NONE. Times that are NONE do not count."""
    known = times != NONE
    return find_least_by(at[known], times[known], count, NONE)


def find_latest(times: Int64s, at: AnyInts, count: int) -> Int64s:
    """Return the latest of the times at each place, or NONE."""
    return find_most_by(at, times, count, NONE)


PADDING = ("ConcatInputTensors", "OrbaxServing::ConcatInputBuffers", "MergeInputTensors", "BrainSessionRun")
SCHEDULE = ("ScheduleWithSplit", "ScheduleWithoutSplit", "ScheduleWithEagerSplit", "ASBSQueue::Schedule")
MODEL_RUNS = ("SessionRun", "TfrtModelRun", "ServingModelRun")

NO_MODEL, UNKNOWN = -1, -2
"""Place of the model of a request without a model; and of a request whose model is unknown, because it led to no other
group."""


@dataclass(frozen=True, slots=True)
class Requests(ArrayRows):
    """Requests of a host. ``group``: their ids; ``model``: place in the models of the host, NO_MODEL or UNKNOWN;
    ``size``: tasks that it put into batches; ``batches``: by their place, that of the least group first."""

    group: Int64s
    model: Int64s
    begin: Int64s
    end: Int64s
    size: Int64s
    batches: NumberLinks


@dataclass(frozen=True, slots=True)
class Batches(ArrayRows):
    """Batches of a host. ``requests``: requests of each batch, by their place; ``first_request``: the least group that
    led to the batch, or -1; ``padded_size``: tasks with padding."""

    group: Int64s
    begin: Int64s
    end: Int64s
    padding: Int64s
    padded_size: Int64s
    requests: NumberLinks
    first_request: Int64s
    related: NumberLinks


@dataclass(frozen=True, slots=True)
class GroupLinks:
    """Groups by the groups that led to them. ``count``: number of groups."""

    children: NumberLinks
    parents: NumberLinks
    count: int

    @classmethod
    def of(cls, groups: Groups) -> GroupLinks:
        led, followed, count = groups.parents, groups.children, groups.count
        return cls(NumberLinks.of(led, followed, count), NumberLinks.of(followed, led, count), count)


def find_requests(rows: ServingEvents, links: GroupLinks) -> tuple[Requests, Batches, list[str]]:
    """Find the requests and batches of a host, and its models."""
    batch_rows = rows.grouped(*BATCHES)
    is_batch = np.zeros(links.count, bool)
    is_batch[rows.group[batch_rows]] = True
    kind = next((names for names in REQUESTS if len(rows.all(*names))), REQUESTS[-1])
    standard, roots = rows.grouped(*kind), _find_user_roots(rows)
    candidates = np.concatenate([standard, roots])
    rooted = np.arange(len(candidates)) >= len(standard)
    free = ~is_batch[rows.group[candidates]]
    group, first = np.unique(rows.group[candidates[free]], return_index=True)
    order = np.argsort(first)
    group, rooted = group[order].astype(np.int64), rooted[free][first[order]]
    model_of_group, names = _find_group_models(rows, roots, links.count)
    model = np.full(len(group), NO_MODEL, np.int64)
    model[~rooted] = _find_standard_models(group[~rooted], model_of_group, links, kind == REQUESTS[0])
    model[rooted] = _find_root_models(group[rooted], model_of_group, links)
    model, models = _number_root_models(group, rooted, model, model_of_group, links, names)
    begin, end = _find_group_spans(rows, group, links.count)
    size = _find_last_of_group(rows, SCHEDULE, "batching_input_task_size", links.count)[group]
    kept = end > begin
    group = group[kept]
    batch = _read_batches(rows, batch_rows, group, links)
    to_batch = _find_related(links.children, group, batch.group, links.count)
    return Requests(group, model[kept], begin[kept], end[kept], size[kept], to_batch), batch, models


def _find_user_roots(rows: ServingEvents) -> Int64s:
    """Return roots of groups that are requests because their server marks them."""
    root_rows, level = rows.events.ints("_r")
    mine = (root_rows >= rows.first) & (root_rows < rows.last) & (rows.group[root_rows] >= 0)
    root_rows, level = root_rows[mine].astype(np.int64), level[mine]
    chosen = level == USER_ROOT
    served = np.flatnonzero(level == SERVER_ROOT)
    meta = rows.events.meta[root_rows[served]]
    distinct, place = number_values(meta)
    of_server = np.array([rows.events.names[m].startswith(SERVER_REQUEST) for m in distinct.tolist()], bool)
    chosen[served[of_server[place]] if len(served) else served] = True
    roots: Int64s = root_rows[chosen]
    return roots


def _find_group_models(rows: ServingEvents, roots: Int64s, count: int) -> tuple[Int64s, list[str]]:
    """Return the model of each group as a place in the list, or NO_MODEL if no event of the group names a model."""
    stat = rows.events.stat("model_id")
    numbers, names = _list_model_names(rows.events, stat.kind, stat.value)
    runs = np.concatenate([rows.grouped(*MODEL_RUNS), roots])
    has, number = join_stat(runs, stat.rows, numbers)
    model = np.full(count, NO_MODEL, np.int64)
    model[rows.group[runs[has]]] = number[has]
    return model, names


def _list_model_names(events: HostEvents, kinds: npt.NDArray[np.uint8], values: Int64s) -> tuple[Int64s, list[str]]:
    """Return the names of models, and the place of each value among them; the empty name is none."""
    names: dict[str, int] = {}
    numbers = np.full(len(values), NO_MODEL, np.int64)
    for kind in np.unique(kinds).tolist():
        of_kind = np.flatnonzero(kinds == kind)
        distinct, place = number_values(values[of_kind])
        texts = [_read_model_name(events, kind, value) for value in distinct.tolist()]
        known = [names.setdefault(text, len(names)) if text else NO_MODEL for text in texts]
        numbers[of_kind] = np.array(known, np.int64)[place]
    return numbers, list(names)


def _read_model_name(events: HostEvents, kind: int, value: int) -> str:
    if kind in (records.STR, records.REF):
        return events.text(value)
    if kind == records.DOUBLE:
        return f"{np.int64(value).view(np.float64):g}"
    return str(value % 2**64 if kind == records.UINT64 else value)


def _find_standard_models(group: Int64s, model_of_group: Int64s, links: GroupLinks, batching: bool) -> Int64s:
    if not batching:
        return model_of_group[group]
    child = links.children.first(group)
    return np.where(child >= 0, np.append(model_of_group, UNKNOWN)[child], UNKNOWN)


def _find_root_models(group: Int64s, model_of_group: Int64s, links: GroupLinks) -> Int64s:
    """Return the group's own model, else the one that all groups it led to have, as far as they have one."""
    place, child = links.children.of_each(group)
    model = model_of_group[child]
    known = model >= 0
    low = find_least_by(place[known], model[known], len(group), NO_MODEL)
    high = find_most_by(place[known], model[known], len(group), NO_MODEL)
    common = np.where(low == high, high, NO_MODEL)
    common[np.bincount(place, minlength=len(group)) == 0] = UNKNOWN
    own = model_of_group[group]
    return np.where(own >= 0, own, common)


def _number_root_models(
    group: Int64s,
    rooted: npt.NDArray[np.bool_],
    model: Int64s,
    model_of_group: Int64s,
    links: GroupLinks,
    names: list[str],
) -> tuple[Int64s, list[str]]:
    """Number models in the order of the requests that record them, including those of groups that a root led to."""
    own = np.where(rooted, model_of_group[group], model)
    searched = np.flatnonzero(rooted & (own < 0))
    place, led = links.children.of_each(group[searched])
    source = np.concatenate([np.arange(len(group)), searched[place]])
    recorded = np.concatenate([own, model_of_group[led]])[np.argsort(source, kind="stable")]
    distinct, first = np.unique(recorded[recorded >= 0], return_index=True)
    ordered = distinct[np.argsort(first)]
    renumbered = np.full(len(names) + 1, NO_MODEL, np.int64)
    renumbered[ordered] = np.arange(len(ordered))
    renamed = np.where(model >= 0, renumbered[np.maximum(model, NO_MODEL)], model)
    return renamed, [names[number] for number in ordered.tolist()]


def _find_group_spans(rows: ServingEvents, group: Int64s, count: int) -> tuple[Int64s, Int64s]:
    """Return the span from the first to the last event of each group on the host's threads."""
    place = np.full(count + 1, -1, np.int64)
    place[group] = np.arange(len(group))
    request = place[rows.group[rows.first : rows.last]]
    inside = np.flatnonzero(request >= 0) + rows.first
    request = request[request >= 0]
    return find_least_by(request, rows.start(inside), len(group)), find_most_by(request, rows.end(inside), len(group))


def _find_last_of_group(rows: ServingEvents, names: tuple[str, ...], stat: str, count: int) -> Int64s:
    """Return an integer stat of the last event of these types in each group, or 0."""
    named = rows.grouped(*names)
    stat_rows, values = rows.events.ints(stat)
    has, value = join_stat(named, stat_rows, values)
    of_group = np.zeros(count, np.int64)
    of_group[rows.group[named[has]]] = value[has]
    return of_group


def _read_batches(rows: ServingEvents, batch_rows: Int64s, requests: Int64s, links: GroupLinks) -> Batches:
    distinct, last = np.unique(rows.group[batch_rows[::-1]], return_index=True)
    group, at = distinct.astype(np.int64), batch_rows[::-1][last]
    padding, padded_size = _read_padding(rows, links.count)
    return Batches(
        group,
        rows.start(at),
        rows.end(at),
        padding[group],
        padded_size[group],
        _find_related(links.parents, group, requests, links.count),
        links.parents.first(group),
        NumberLinks.of(*links.parents.of_each(group), len(group)),
    )


def _read_padding(rows: ServingEvents, count: int) -> tuple[Int64s, Int64s]:
    """Return padding and size of each batch, from the last event that has both."""
    paddings = rows.grouped(*PADDING)
    amounts, sizes = rows.events.ints("padding_amount"), rows.events.ints("batch_size_after_padding")
    has_amount, amount = join_stat(paddings, *amounts)
    has_size, size = join_stat(paddings, *sizes)
    both = has_amount & has_size
    padding, padded_size = np.zeros((2, count), np.int64)
    padding[rows.group[paddings[both]]] = amount[both]
    padded_size[rows.group[paddings[both]]] = size[both]
    return padding, padded_size


def _find_related(links: NumberLinks, group: Int64s, others: Int64s, count: int) -> NumberLinks:
    """Return the linked groups of each group that are among ``others``, by their place there; by ascending group."""
    place = np.full(count + 1, -1, np.int64)
    place[others] = np.arange(len(others))
    mine, other = links.of_each(group)
    known = place[other] >= 0
    mine, other = mine[known], other[known]
    related = NumberLinks.of(mine, other, len(group))
    return NumberLinks(related.bounds, place[related.others])


MOVES = ("Linearize", "Delinearize", "TransferBufferFromDevice-FastPath")
DESCRIPTION = ("shape", "layout")

Pattern = tuple[str, ...]
"""Moves of a request or batch: ``name shape layout`` of each event, sorted."""


@dataclass(frozen=True, slots=True)
class TensorMoves:
    """Tensor patterns of the requests and batches that move tensors. ``owner``: place among the requests, or of a
    batch, behind them; ``time_ps``: of all its moves; ``pattern``: place in ``patterns``."""

    owner: Int64s
    pattern: Int64s
    time_ps: Int64s
    patterns: list[Pattern]


def find_tensors(rows: ServingEvents, requests: Requests, batches: Batches, group_count: int) -> TensorMoves:
    """Find the moves of a host. An owner is left out if the shape or layout of one of its moves is not recorded."""
    owner_of_group = np.full(group_count, -1, np.int64)
    owner_of_group[batches.group] = len(requests) + np.arange(len(batches))
    owner_of_group[requests.group] = np.arange(len(requests))
    moves = rows.grouped(*MOVES)
    owner = owner_of_group[rows.group[moves]]
    moves, owner = moves[owner >= 0], owner[owner >= 0]
    known, rank, texts = _describe_moves(rows, moves)
    count = len(requests) + len(batches)
    time_ps = sum_by(owner, np.maximum(rows.events.duration_ps[moves], 0), count, "the durations of tensor transfers")
    incomplete = np.zeros(count, bool)
    incomplete[owner[~known]] = True
    keep = ~incomplete[owner]
    owner, rank = owner[keep], rank[keep]
    order = sort_rows(owner, rank)
    owner, rank = owner[order], rank[order]
    owners, begin = np.unique(owner, return_index=True)
    bounds = [*begin.tolist(), len(owner)]
    numbers: dict[bytes, int] = {}
    pattern = [numbers.setdefault(rank[a:b].tobytes(), len(numbers)) for a, b in pairwise(bounds)]
    patterns = [tuple(texts[i] for i in np.frombuffer(key, np.int64).tolist()) for key in numbers]
    return TensorMoves(owners, np.array(pattern, np.int64), time_ps[owners], patterns)


def _describe_moves(rows: ServingEvents, moves: Int64s) -> tuple[npt.NDArray[np.bool_], Int64s, list[str]]:
    """Return whether shape and layout of each move are known, the rank of its description, and the descriptions,
    sorted."""
    columns = [rows.events.meta[moves].astype(np.int64)]
    known = np.ones(len(moves), bool)
    for stat in DESCRIPTION:
        stat_rows, numbers = rows.events.texts(stat)
        has, number = join_stat(moves, stat_rows, numbers)
        known &= has
        columns.append(number)
    columns = [column[known] for column in columns]
    first, place = number_sorted_rows(columns)
    texts = [
        f"{rows.events.names[meta]} {rows.events.text(shape)} {rows.events.text(layout)}"
        for meta, shape, layout in zip(*(column[first].tolist() for column in columns), strict=True)
    ]
    ordered = sorted(set(texts))
    ranks = {text: i for i, text in enumerate(ordered)}
    rank = np.zeros(len(moves), np.int64)
    rank[known] = np.array([ranks[text] for text in texts], np.int64)[place]
    return known, rank, ordered
