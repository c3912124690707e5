"""Which groups of a host are requests or batches, their models, and when each began and ended."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof.derive.serving import BATCHES, REQUESTS, SERVER_REQUEST, SERVER_ROOT, USER_ROOT
from fastprof.derive.serving.host_rows import HostRows, Links
from fastprof.derive.steps.grouping import Groups
from fastprof.schema.array_rows import ArrayRows
from fastprof.schema.array_types import Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, beside

PADDING = ("ConcatInputTensors", "OrbaxServing::ConcatInputBuffers", "MergeInputTensors", "BrainSessionRun")
SCHEDULE = ("ScheduleWithSplit", "ScheduleWithoutSplit", "ScheduleWithEagerSplit", "ASBSQueue::Schedule")
MODEL_RUNS = ("SessionRun", "TfrtModelRun", "ServingModelRun")

NO_MODEL, UNKNOWN = -1, -2
"""A request of no model; one whose model is not known, as it led to no other group."""


@dataclass(frozen=True, slots=True)
class Requests(ArrayRows):
    """Requests of a host. ``group``: their ids; ``model``: place in the models of the host, NO_MODEL or UNKNOWN;
    ``size``: tasks that it put into batches; ``batches``: by their place, that of the least group first."""

    group: Int64s
    model: Int64s
    begin: Int64s
    end: Int64s
    size: Int64s
    batches: Links


@dataclass(frozen=True, slots=True)
class Batches(ArrayRows):
    """Batches of a host. ``requests``: of each batch, requests by their place; ``first_request``: the least group that
    led to the batch, -1: none did; ``padded_size``: tasks with padding."""

    group: Int64s
    begin: Int64s
    end: Int64s
    padding: Int64s
    padded_size: Int64s
    requests: Links
    first_request: Int64s
    related: Links


@dataclass(frozen=True, slots=True)
class GroupLinks:
    """Groups by the groups that led to them. ``count``: of groups."""

    children: Links
    parents: Links
    count: int

    @classmethod
    def of(cls, groups: Groups) -> GroupLinks:
        led, followed, count = groups.parents, groups.children, groups.count
        return cls(Links.of(led, followed, count), Links.of(followed, led, count), count)


def find(rows: HostRows, links: GroupLinks) -> tuple[Requests, Batches, list[str]]:
    """The requests and batches of a host, and its models."""
    batch_rows = rows.grouped(*BATCHES)
    is_batch = np.zeros(links.count, bool)
    is_batch[rows.group[batch_rows]] = True
    kind = next((names for names in REQUESTS if len(rows.all(*names))), REQUESTS[-1])
    standard, roots = rows.grouped(*kind), _user_roots(rows)
    candidates = np.concatenate([standard, roots])
    rooted = np.arange(len(candidates)) >= len(standard)
    free = ~is_batch[rows.group[candidates]]
    group, first = np.unique(rows.group[candidates[free]], return_index=True)
    order = np.argsort(first)
    group, rooted = group[order].astype(np.int64), rooted[free][first[order]]
    model_of_group, names = _models_of_groups(rows, roots, links.count)
    model = np.full(len(group), NO_MODEL, np.int64)
    model[~rooted] = _standard_models(group[~rooted], model_of_group, links, kind == REQUESTS[0])
    model[rooted] = _root_models(group[rooted], model_of_group, links)
    model, models = _numbered_models(group, rooted, model, model_of_group, links, names)
    begin, end = _spans(rows, group, links.count)
    size = _last_of_group(rows, SCHEDULE, "batching_input_task_size", links.count)[group]
    kept = end > begin
    group = group[kept]
    batch = _batches(rows, batch_rows, group, links)
    to_batch = _related(links.children, group, batch.group, links.count)
    return Requests(group, model[kept], begin[kept], end[kept], size[kept], to_batch), batch, models


def _user_roots(rows: HostRows) -> Int64s:
    """Roots of groups that are requests because their server marks them."""
    root_rows, level = rows.events.ints("_r")
    mine = (root_rows >= rows.first) & (root_rows < rows.last) & (rows.group[root_rows] >= 0)
    root_rows, level = root_rows[mine].astype(np.int64), level[mine]
    chosen = level == USER_ROOT
    served = np.flatnonzero(level == SERVER_ROOT)
    meta = rows.events.meta[root_rows[served]]
    distinct, place = np.unique(meta, return_inverse=True)
    of_server = np.array([rows.events.names[m].startswith(SERVER_REQUEST) for m in distinct.tolist()], bool)
    chosen[served[of_server[place]] if len(served) else served] = True
    found: Int64s = root_rows[chosen]
    return found


def _models_of_groups(rows: HostRows, roots: Int64s, count: int) -> tuple[Int64s, list[str]]:
    """The model of each group: a place in the list, NO_MODEL where no event of the group names one."""
    stat = rows.events.stat("model_id")
    numbers, names = _model_names(rows.events, stat.kind, stat.value)
    runs = np.concatenate([rows.grouped(*MODEL_RUNS), roots])
    has, number = beside(runs, stat.rows, numbers)
    model = np.full(count, NO_MODEL, np.int64)
    model[rows.group[runs[has]]] = number[has]
    return model, names


def _model_names(events: HostEvents, kinds: npt.NDArray[np.uint8], values: Int64s) -> tuple[Int64s, list[str]]:
    """The names of models, and the place of each value among them; the empty name is none."""
    names: dict[str, int] = {}
    numbers = np.full(len(values), NO_MODEL, np.int64)
    for kind in np.unique(kinds).tolist():
        of_kind = np.flatnonzero(kinds == kind)
        distinct, place = np.unique(values[of_kind], return_inverse=True)
        texts = [_model_name(events, kind, value) for value in distinct.tolist()]
        known = [names.setdefault(text, len(names)) if text else NO_MODEL for text in texts]
        numbers[of_kind] = np.array(known, np.int64)[place]
    return numbers, list(names)


def _model_name(events: HostEvents, kind: int, value: int) -> str:
    if kind in (records.STR, records.REF):
        return events.text(value)
    if kind == records.DOUBLE:
        return f"{np.int64(value).view(np.float64):g}"
    return str(value % 2**64 if kind == records.UINT64 else value)


def _standard_models(group: Int64s, model_of_group: Int64s, links: GroupLinks, batching: bool) -> Int64s:
    if not batching:
        return model_of_group[group]
    child = links.children.first(group)
    return np.where(child >= 0, np.append(model_of_group, UNKNOWN)[child], UNKNOWN)


def _root_models(group: Int64s, model_of_group: Int64s, links: GroupLinks) -> Int64s:
    """The group's own model, else the one that all groups it led to have, as far as they have one."""
    place, child = links.children.of_each(group)
    model = model_of_group[child]
    known = model >= 0
    low, high = np.full(len(group), np.iinfo(np.int64).max), np.full(len(group), NO_MODEL)
    np.minimum.at(low, place[known], model[known])
    np.maximum.at(high, place[known], model[known])
    common = np.where(low == high, high, NO_MODEL)
    common[np.bincount(place, minlength=len(group)) == 0] = UNKNOWN
    own = model_of_group[group]
    return np.where(own >= 0, own, common)


def _numbered_models(
    group: Int64s,
    rooted: npt.NDArray[np.bool_],
    model: Int64s,
    model_of_group: Int64s,
    links: GroupLinks,
    names: list[str],
) -> tuple[Int64s, list[str]]:
    """Models in the order of the requests that record them, including those of groups that a root led to."""
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


def _spans(rows: HostRows, group: Int64s, count: int) -> tuple[Int64s, Int64s]:
    """From the first to the last event of each group on the host's threads."""
    if not len(group):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    place = np.full(count + 1, -1, np.int64)
    place[group] = np.arange(len(group))
    request = place[rows.group[rows.first : rows.last]]
    inside = np.flatnonzero(request >= 0) + rows.first
    request = request[request >= 0]
    begin = np.full(len(group), np.iinfo(np.int64).max, np.int64)
    end = np.full(len(group), np.iinfo(np.int64).min, np.int64)
    np.minimum.at(begin, request, rows.start(inside))
    np.maximum.at(end, request, rows.end(inside))
    return begin, end


def _last_of_group(rows: HostRows, names: tuple[str, ...], stat: str, count: int) -> Int64s:
    """An integer stat of events of these types by group: the last one's; 0 where none has it."""
    found = rows.grouped(*names)
    stat_rows, values = rows.events.ints(stat)
    has, value = beside(found, stat_rows, values)
    of_group = np.zeros(count, np.int64)
    of_group[rows.group[found[has]]] = value[has]
    return of_group


def _batches(rows: HostRows, batch_rows: Int64s, requests: Int64s, links: GroupLinks) -> Batches:
    distinct, last = np.unique(rows.group[batch_rows[::-1]], return_index=True)
    group, at = distinct.astype(np.int64), batch_rows[::-1][last]
    padding, padded_size = _padding(rows, links.count)
    return Batches(
        group,
        rows.start(at),
        rows.end(at),
        padding[group],
        padded_size[group],
        _related(links.parents, group, requests, links.count),
        links.parents.first(group),
        Links.of(*links.parents.of_each(group), len(group)),
    )


def _padding(rows: HostRows, count: int) -> tuple[Int64s, Int64s]:
    """Padding and size of each batch, of the last event that has both."""
    found = rows.grouped(*PADDING)
    amounts, sizes = rows.events.ints("padding_amount"), rows.events.ints("batch_size_after_padding")
    has_amount, amount = beside(found, *amounts)
    has_size, size = beside(found, *sizes)
    both = has_amount & has_size
    padding, padded_size = np.zeros((2, count), np.int64)
    padding[rows.group[found[both]]] = amount[both]
    padded_size[rows.group[found[both]]] = size[both]
    return padding, padded_size


def _related(links: Links, group: Int64s, others: Int64s, count: int) -> Links:
    """What each of the groups is linked with, of the groups ``others``, by their place there; by ascending group."""
    place = np.full(count + 1, -1, np.int64)
    place[others] = np.arange(len(others))
    mine, other = links.of_each(group)
    known = place[other] >= 0
    mine, other = mine[known], other[known]
    related = Links.of(mine, other, len(group))
    return Links(related.bounds, place[related.others])
