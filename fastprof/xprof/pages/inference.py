"""XProf's page inference_profile: models, a sample of the requests and batches of each, and its tensors.

Averages are whole picoseconds, rounded down; parts of the latency are those of XProf."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fastprof.analyses.contract import AnalysisReport
from fastprof.analyses.inference import BATCH_ORDERS, REQUEST_ORDERS, Inference
from fastprof.derive.serving import PERCENTILES, TENSOR_PERCENTILES, breakdown
from fastprof.derive.serving.breakdown import TimedRequests
from fastprof.derive.serving.host_serving import (
    BatchColumns,
    BatchingParameters,
    HostServing,
    MoveColumns,
    RequestColumns,
    SessionServing,
    combine_hosts_serving,
    join_requests,
    number_models,
)
from fastprof.derive.serving.requests import NO_MODEL, NONE, UNKNOWN
from fastprof.derive.serving.summaries import measure_rate
from fastprof.schema.columns import Int64s
from fastprof.xprof.pages.data_table import Cell, Col, join_rows, make_data_table, number, one_digit, text, three_digits

ALL_MODELS = "ALL"
NOT_AVAILABLE = "N/A"
SHOW_ALL = 60
MOST_OF_PERCENTILE = 10
SAMPLES = ((50.0, 1.0), (75.0, 1.0), (90.0, 1.0), (99.0, 0.5), (99.9, 0.05), (99.99, 0.005))
"""Percentiles that are shown, and the width of each."""

PREPROCESS, FORMATION, RUNTIME, WRITE, COMPUTE, READ, POSTPROCESS, IDLE = range(8)
"""Places in RequestColumns.parts."""
_URL = text("trace_viewer_url", "Trace Viewer URL")
_PARTS = (
    (PREPROCESS, number("host_preprocessing", "Host preprocess")),
    (RUNTIME, number("host_runtime", "Host runtime")),
    (WRITE, number("data_transfer_h2d", "Data transfer H2D")),
    (READ, number("data_transfer_d2h", "Data transfer D2H")),
    (COMPUTE, number("device_compute", "Device compute")),
    (POSTPROCESS, number("host_postprocess", "Host postprocess")),
    (IDLE, number("idle time", "Idle time")),
)
_TENSORS = (
    number("id", "ID"),
    text("tensor_pattern", "Tensor Pattern"),
    number("count", "Number of Occurrence"),
    text("percentile", "Linearize/Delinearize latency"),
)


class Group(NamedTuple):
    """Requests or batches, maybe a single one, whose means are in a row of a table. ``size``: batches of this size."""

    title: str
    id: str
    throughput: str
    rows: Int64s
    size: int | None = None


Formula = Callable[[Group], Cell]
_PERCENTILE: tuple[Col, Formula] = (text("percentile", "Percentile"), lambda group: group.title)
_THROUGHPUT: tuple[Col, Formula] = (text("throughput", "Throughput"), lambda group: group.throughput)


class ModelRequests(NamedTuple):
    """A model's requests, batches and moves, shortest first."""

    name: str
    requests: RequestColumns
    batches: BatchColumns
    moves: MoveColumns


def answer(report: AnalysisReport) -> object:
    inference = report.detail_as(Inference)
    session = inference.session or combine_hosts_serving([])
    shown = list_shown_requests(inference.hosts)
    counted = _assign_models(inference, session, shown)
    batches, moves = session.batches, session.moves
    if not session.models:
        models = [ModelRequests(ALL_MODELS, shown, batches, moves)]
    else:
        models = [
            ModelRequests(name, shown[counted == place], batches[batches.model == place], moves[moves.model == place])
            for name, place in sorted((name, place) for place, name in enumerate(session.models))
        ]
    has_batching = any(len(model.batches) for model in models)
    p = {"hasBatching": "true" if has_batching else "false", "hasTensorPattern": "false"}
    tables = [make_data_table((text("model_name", "Model Name"),), [[model.name] for model in models], p)]
    for model in models:
        tables.append(_make_requests_table(model, has_batching, inference.params.request_order))
        if has_batching:
            tables.append(_make_batches_table(session, model, inference.params.batch_order))
        if session.patterns:
            pattern, time_ps = model.moves.pattern, model.moves.time_ps
            rows: list[list[Cell]] = []
            for place, kind in enumerate(np.unique(pattern).tolist()):
                times = np.sort(time_ps[pattern == kind])
                at = "<br>".join(
                    f"{p:.2f}%: {int(times[_find_percentile(p, len(times))]) / 1e9:.6f}ms" for p in TENSOR_PERCENTILES
                )
                rows.append([place, "<br>".join(session.patterns[kind]), len(times), at])
            tables.append(make_data_table(_TENSORS, rows))
    return tables


def _assign_models(inference: Inference, session: SessionServing, requests: RequestColumns) -> Int64s:
    """Return the model that each request counts for, or a negative number. If no request names a model, all count for
    one. Requests that led to nothing count for the first model of their host."""
    if not session.models:
        return np.zeros(len(requests), np.int64)
    by_host = find_first_models(inference.hosts)
    return np.where(requests.model == UNKNOWN, by_host[requests.host], requests.model)


# ---- requests and batches


def _make_requests_table(model: ModelRequests, has_batching: bool, order: str) -> dict[str, object]:
    columns, batches, sizes = model.requests, model.batches, _group_by_size(model)
    keys = (columns.latency, columns.delay, columns.size, *columns.parts.T)
    request, ids = columns.others.of_each(np.arange(len(columns)))
    # batches of equal id on several hosts are one to XProf: the longest of them
    row_of_batch = {id_: row for row, id_ in enumerate(batches.id.tolist())}
    batch = np.array([row_of_batch.get(id_, -1) for id_ in ids.tolist()], np.int64)
    size_of_batch = np.append(batches.padded_size, -1)[batch]
    of_size = {size: request[(batch >= 0) & (size_of_batch == size)] for size in sizes}

    def compute_ms(group: Group) -> float:
        """Return the device compute of a group. That of the batches of a size counts for their requests too."""
        times = columns.parts[group.rows, COMPUTE] if group.size is None else batches.compute[sizes[group.size]]
        return _measure_mean(times) / 1e9

    batching: list[tuple[Col, Formula]] = [
        (number("batching_request_size", "Request size"), _make_mean(columns.size)),
        (number("host_batch_formation", "Host batch formation"), _make_ms(columns.delay)),
        _THROUGHPUT,
    ]
    cells: list[tuple[Col, Formula]] = [
        _PERCENTILE,
        (text("request_id", "Request ID"), lambda group: group.id),
        (number("latency_ms", "Latency"), _make_ms(columns.latency)),
        *(batching if has_batching else ()),
        *((head, compute_ms if part == COMPUTE else _make_ms(columns.parts[:, part])) for part, head in _PARTS),
        (_URL, lambda _: ""),
    ]
    groups = _make_groups(columns, keys[REQUEST_ORDERS.index(order)], of_size, "Average")
    return join_rows(cells, groups, _describe_overall(columns, groups))


def _make_batches_table(session: SessionServing, model: ModelRequests, order: str) -> dict[str, object]:
    columns = model.batches
    size, padding = columns.padded_size, columns.padding
    efficiency = np.divide(size - padding, size, out=np.zeros(len(size)), where=size != 0)
    keys = (columns.latency, columns.delay, padding, size, efficiency)
    groups = _make_groups(columns, keys[BATCH_ORDERS.index(order)], _group_by_size(model), "Aggregated")

    def efficiency_of(group: Group) -> float:
        padding, size = (int(values[group.rows].sum()) for values in (columns.padding, columns.padded_size))
        return (size - padding) / size if size else 0.0

    def programs_of(group: Group) -> str:
        ids = dict.fromkeys(program for row in group.rows.tolist() for program in columns.programs[row])
        return NOT_AVAILABLE if group is groups[-1] else ", ".join(map(str, ids)) or NOT_AVAILABLE

    cells: list[tuple[Col, Formula]] = [
        _PERCENTILE,
        (text("batch_id", "Batch ID"), lambda group: group.id),
        (number("latency", "Latency"), _make_ms(columns.latency)),
        (number("padding_amount", "Padding amount"), _make_mean(columns.padding)),
        (number("batch_size_after_padding", "Batch size after padding"), _make_mean(columns.padded_size)),
        (number("batching_efficiency", "Batching efficiency"), efficiency_of),
        (number("batching_delay_us", "Batching delay"), _make_ms(columns.delay)),
        _THROUGHPUT,
        (number("device_compute", "Device compute"), _make_ms(columns.on_tpus)),
        (text("program_id", "Program ID(s)"), programs_of),
        (_URL, lambda group: NOT_AVAILABLE if group is groups[-1] else ""),
    ]
    return join_rows(
        cells, groups, _describe_overall(columns, groups) | _describe_batching(session.parameters.get(model.name))
    )


def _group_by_size(model: ModelRequests) -> dict[int, Int64s]:
    """Group rows of the model's batches by size, smallest first."""
    sizes = model.batches.padded_size
    return {size: np.flatnonzero(sizes == size) for size in np.unique(sizes).tolist()}


def _make_groups(
    columns: RequestColumns | BatchColumns, key: npt.NDArray[Any], sizes: dict[int, Int64s], title: str
) -> list[Group]:
    """Make a sample of the rows in the order of the key, then the rows of each batch size, and last all of them."""
    rate = measure_rate(columns.begin, columns.end)
    if rate is None:
        rate = math.inf if len(columns) else 0.0
    groups = [
        Group(f"{percentile:.3f}", str(columns.id[row]), NOT_AVAILABLE, np.array([row]))
        for row, percentile in sample_rows(np.argsort(key, kind="stable"))
    ]
    for size, same in sizes.items():
        share = one_digit(len(same) * rate / len(columns) if len(columns) else math.nan)
        groups.append(Group(f"Batch size {size}", NOT_AVAILABLE, share, same, size))
    return [*groups, Group(title, NOT_AVAILABLE, one_digit(rate), np.arange(len(columns)))]


def _describe_overall(columns: RequestColumns | BatchColumns, groups: list[Group]) -> dict[str, str]:
    mean = int(columns.latency.sum()) / 1e6 / len(columns) / 1e3 if len(columns) else 0.0
    return {"throughput": groups[-1].throughput, "averageLatencyMs": three_digits(mean)}


def _describe_batching(known: BatchingParameters | None) -> dict[str, str]:
    if known is None:
        return {"hasBatchingParam": "false"}
    names = ("num_batch_threads", "max_batch_size", "batch_timeout_micros", "max_enqueued_batches")
    p = {name: str(getattr(known, name) or 0) for name in names}
    p["allowed_batch_sizes"] = known.allowed_batch_sizes or ""
    titles = {name: "".join(word.capitalize() for word in name.split("_")) for name in p}
    return {"hasBatchingParam": "true"} | {f"batchingParam{titles[name]}": value for name, value in p.items()}


# ---- what they share


def sample_rows(rows: Int64s) -> list[tuple[int, float]]:
    """Return the shown rows and their percentiles: all rows if they are few, else the first ten from each percentile
    on. Rows are in ascending order."""
    percentile = 100.0 * np.arange(len(rows)) / max(len(rows), 1)
    if len(rows) <= SHOW_ALL:
        chosen = np.arange(len(rows))
    else:
        within = [np.flatnonzero((percentile >= p) & (percentile < p + width)) for p, width in SAMPLES]
        chosen = np.concatenate([places[:MOST_OF_PERCENTILE] for places in within])
    return list(zip(rows[chosen].tolist(), percentile[chosen].tolist(), strict=True))


def _measure_mean(values: Int64s) -> int:
    """Return the mean, rounded down, or 0 without values."""
    return int(values.sum()) // len(values) if len(values) else 0


def _make_mean(values: Int64s) -> Formula:
    return lambda group: _measure_mean(values[group.rows])


def _make_ms(ps: Int64s) -> Formula:
    return lambda group: _measure_mean(ps[group.rows]) / 1e9


def _find_percentile(percent: float, count: int) -> int:
    """Return the index of a percentile among ascending values: XProf takes the one with this share of values before
    it."""
    return int(percent / 100.0 * count)


def list_latency_rows(report: AnalysisReport) -> list[list[Cell]]:
    """List the rows of the overview's table of latencies: percentile, and host, device, communication and total in
    ms."""
    inference = report.detail_as(Inference)
    if inference.session is None:
        return []
    requests = list_shown_requests(inference.hosts)
    shown = requests[_assign_models(inference, inference.session, requests) >= 0]
    if not len(shown):
        return []
    total = shown.latency / 1e9
    device = shown.parts[:, COMPUTE] / 1e9
    communication = (shown.parts[:, WRITE] + shown.parts[:, READ]) / 1e9
    table = np.stack([total - device - communication, device, communication, total], axis=1)
    rows = [(f"{percent:.1f}%", table[_find_percentile(percent, len(shown))]) for percent in PERCENTILES]
    return [[title, *row.tolist()] for title, row in [("Avg", table.mean(axis=0)), *rows]]


# ---- requests as XProf times them


def list_shown_requests(hosts: Sequence[HostServing]) -> RequestColumns:
    """List the requests of a session, in the order of their latency.

    XProf takes the batch of the least group for the first and the last of a request. Of several events that mark a
    stage it takes the last one it comes by, except for launches of programs. Only time on TPUs counts. A part of no
    length takes the time up to the next."""
    return join_requests([_measure_times(host) for host in hosts], hosts, number_models(hosts)[1])


def find_first_models(hosts: Sequence[HostServing]) -> Int64s:
    """Return the first model of each host, which requests whose model is not recorded count for."""
    _, places = number_models(hosts)
    return np.array([place[0] if len(place) > 2 else NO_MODEL for place in places], np.int64)


def _measure_times(host: HostServing) -> TimedRequests:
    batch = host.requests.batches.first(np.arange(len(host.requests)))
    begin, end = np.append(host.batches.begin, NONE)[batch], np.append(host.batches.end, NONE)[batch]
    requests, delay = breakdown.extend_requests(host.requests, begin, end)
    stamps = breakdown.find_stamps(host.marks, host.links.count)
    for stage in stamps.keys() - {"launch"}:
        group, start = host.marks[stage]
        stamps[stage][:] = NONE
        stamps[stage][group] = start
    spans = breakdown.list_parts(requests, host.tpu, stamps, host.links)
    return TimedRequests(requests, delay, breakdown.sum_parts(spans, len(requests)))
