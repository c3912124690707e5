"""XProf's page inference_profile: models, and of each a sample of its requests and batches, and its tensors.

Averages are whole picoseconds, rounded down, and of parts of the latency as XProf has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fastprof.analyses.contract import Report
from fastprof.analyses.inference import BATCH_ORDERS, REQUEST_ORDERS, Inference
from fastprof.derive.serving import PERCENTILES, TENSOR_PERCENTILES
from fastprof.derive.serving.parameters import BatchingParameters
from fastprof.derive.serving.requests import UNKNOWN
from fastprof.derive.serving.session import BatchColumns, RequestColumns, Session, combined, per_second
from fastprof.schema.array_types import Int64s
from fastprof.xprof.pages.data_table import Cell, Col, data_table, number, one_digit, text, three_digits
from fastprof.xprof.serving import first_models, shown_requests

ALL_MODELS = "ALL"
NOT_AVAILABLE = "N/A"
SHOW_ALL = 60
MOST_OF_PERCENTILE = 10
SAMPLES = ((50.0, 1.0), (75.0, 1.0), (90.0, 1.0), (99.0, 0.5), (99.9, 0.05), (99.99, 0.005))
"""Percentiles that are shown, and how wide each is."""

PREPROCESS, FORMATION, RUNTIME, WRITE, COMPUTE, READ, POSTPROCESS, IDLE = range(8)
"""Places in RequestColumns.parts."""
_SHOWN = (PREPROCESS, RUNTIME, WRITE, READ, COMPUTE, POSTPROCESS, IDLE)
_URL = text("trace_viewer_url", "Trace Viewer URL")
_REQUEST = (text("percentile", "Percentile"), text("request_id", "Request ID"), number("latency_ms", "Latency"))
_BATCHING = (
    number("batching_request_size", "Request size"),
    number("host_batch_formation", "Host batch formation"),
    text("throughput", "Throughput"),
)
_PARTS = (
    number("host_preprocessing", "Host preprocess"),
    number("host_runtime", "Host runtime"),
    number("data_transfer_h2d", "Data transfer H2D"),
    number("data_transfer_d2h", "Data transfer D2H"),
    number("device_compute", "Device compute"),
    number("host_postprocess", "Host postprocess"),
    number("idle time", "Idle time"),
)
_BATCH = (
    text("percentile", "Percentile"),
    text("batch_id", "Batch ID"),
    number("latency", "Latency"),
    number("padding_amount", "Padding amount"),
    number("batch_size_after_padding", "Batch size after padding"),
    number("batching_efficiency", "Batching efficiency"),
    number("batching_delay_us", "Batching delay"),
    text("throughput", "Throughput"),
    number("device_compute", "Device compute"),
    text("program_id", "Program ID(s)"),
    _URL,
)
_TENSORS = (
    number("id", "ID"),
    text("tensor_pattern", "Tensor Pattern"),
    number("count", "Number of Occurrence"),
    text("percentile", "Linearize/Delinearize latency"),
)


@dataclass(frozen=True, slots=True)
class OfModel:
    """Rows of a model, shortest first; ``pairs``: each request with each of its batches, the rows of both."""

    name: str
    requests: Int64s
    batches: Int64s
    moves: Int64s
    pairs: tuple[Int64s, Int64s]


def answer(report: Report) -> object:
    inference = report.detail_as(Inference)
    session = inference.session or combined([])
    shown = shown_requests(inference.hosts)
    models = _models(inference, session, shown)
    has_batching = any(len(model.batches) for model in models)
    p = {"hasBatching": "true" if has_batching else "false", "hasTensorPattern": "false"}
    tables = [data_table((text("model_name", "Model Name"),), [[model.name] for model in models], p)]
    for model in models:
        tables.append(_requests_table(session, shown, model, has_batching, inference.params.request_order))
        if has_batching:
            tables.append(_batches_table(session, model, inference.params.batch_order))
        if session.patterns:
            tables.append(data_table(_TENSORS, _tensor_rows(session, model)))
    return tables


def _models(inference: Inference, session: Session, requests: RequestColumns) -> list[OfModel]:
    """By name; one of all requests where none names a model. Where some do, requests without a model are left out,
    except those that led to nothing: they count for the first model of their host."""
    batches, moves = session.batches, session.moves
    if not session.models:
        rows = (np.arange(len(column)) for column in (requests.id, batches.id, moves.model))
        return [_of_model(session, requests, ALL_MODELS, *rows)]
    by_host = first_models(inference.hosts)
    counted = np.where(requests.model == UNKNOWN, by_host[requests.host], requests.model)
    models = (counted, batches.model, moves.model)
    return [
        _of_model(session, requests, name, *(np.flatnonzero(one == place) for one in models))
        for name, place in sorted((name, place) for place, name in enumerate(session.models))
    ]


def _of_model(
    session: Session, columns: RequestColumns, name: str, requests: Int64s, batches: Int64s, moves: Int64s
) -> OfModel:
    """Batches of equal id on several hosts are one to XProf: the longest of them."""
    row_of_batch = dict(zip(session.batches.id[batches].tolist(), batches.tolist(), strict=True))
    bounds, ids = columns.batch_bounds, columns.batch_ids
    request = np.repeat(requests, np.diff(bounds)[requests])
    mine = np.concatenate([np.zeros(0, np.int64), *(ids[bounds[row] : bounds[row + 1]] for row in requests.tolist())])
    batch = np.array([row_of_batch.get(one, -1) for one in mine.tolist()], np.int64)
    return OfModel(name, requests, batches, moves, (request[batch >= 0], batch[batch >= 0]))


# ---- requests


def _requests_table(
    session: Session, columns: RequestColumns, model: OfModel, has_batching: bool, order: str
) -> dict[str, object]:
    sampled = sample(_in_order(_request_key(columns, model.requests, order), model.requests))
    rows = [
        _request_row(columns, np.array([row]), f"{percentile:.3f}", str(columns.id[row]), has_batching, NOT_AVAILABLE)
        for row, percentile in sampled
    ]
    rate = per_second_text(columns, model.requests)
    request, batch = model.pairs
    sizes = session.batches.padded_size
    for size in np.unique(sizes[model.batches]).tolist():
        of_size = request[sizes[batch] == size]
        share = one_digit(_share(columns, model.requests, len(of_size)))
        row = _request_row(columns, of_size, f"Batch size {size}", NOT_AVAILABLE, has_batching, share)
        row[-1 - len(_SHOWN) + _SHOWN.index(COMPUTE)] = _compute_ms(session.batches, model.batches, size)
        rows.append(row)
    rows.append(_request_row(columns, model.requests, "Average", NOT_AVAILABLE, has_batching, rate))
    heads: tuple[Col, ...] = (*_REQUEST, *(_BATCHING if has_batching else ()), *_PARTS, _URL)
    return data_table(heads, rows, {"throughput": rate, "averageLatencyMs": _mean_latency(columns, model.requests)})


def _request_row(
    columns: RequestColumns, rows: Int64s, title: str, name: str, has_batching: bool, throughput: str
) -> list[Cell]:
    """The mean of these requests, which may be one."""
    cells: list[Cell] = [title, name, _mean_ms(columns.latency[rows])]
    if has_batching:
        cells += [_mean(columns.size[rows]), _mean_ms(columns.delay[rows]), throughput]
    cells += [_mean_ms(columns.parts[rows, part]) for part in _SHOWN]
    return [*cells, ""]


def _request_key(columns: RequestColumns, rows: Int64s, order: str) -> Int64s:
    place = REQUEST_ORDERS.index(order)
    keys = (columns.latency, columns.delay, columns.size, *columns.parts.T)
    key: Int64s = keys[place][rows]
    return key


# ---- batches


def _batches_table(session: Session, model: OfModel, order: str) -> dict[str, object]:
    columns = session.batches
    sampled = sample(_in_order(_batch_key(columns, model.batches, order), model.batches))
    rows = [
        [*_batch_cells(columns, np.array([row]), f"{percentile:.3f}", str(columns.id[row]), NOT_AVAILABLE),
         _programs(columns, [row]), ""]
        for row, percentile in sampled
    ]  # fmt: skip
    rate = per_second_text(columns, model.batches)
    for size in np.unique(columns.padded_size[model.batches]).tolist():
        same = model.batches[columns.padded_size[model.batches] == size]
        share = one_digit(_share(columns, model.batches, len(same)))
        cells = _batch_cells(columns, same, f"Batch size {size}", NOT_AVAILABLE, share)
        rows.append([*cells, _programs(columns, same.tolist()), ""])
    cells = _batch_cells(columns, model.batches, "Aggregated", NOT_AVAILABLE, rate)
    rows.append([*cells, NOT_AVAILABLE, NOT_AVAILABLE])
    p = {"throughput": rate, "averageLatencyMs": _mean_latency(columns, model.batches)}
    return data_table(_BATCH, rows, p | _parameters(session.parameters.get(model.name)))


def _batch_cells(columns: BatchColumns, rows: Int64s, title: str, name: str, throughput: str) -> list[Cell]:
    padding, size = int(columns.padding[rows].sum()), int(columns.padded_size[rows].sum())
    return [
        title,
        name,
        _mean_ms(columns.latency[rows]),
        _mean(columns.padding[rows]),
        _mean(columns.padded_size[rows]),
        (size - padding) / size if size else 0.0,
        _mean_ms(columns.delay[rows]),
        throughput,
        _mean_ms(columns.on_tpus[rows]),
    ]


def _compute_ms(columns: BatchColumns, rows: Int64s, size: int) -> float:
    """Mean device compute of the batches of a size, which stands for that of their requests too."""
    return _mean_ms(columns.compute[rows[columns.padded_size[rows] == size]])


def _programs(columns: BatchColumns, rows: Sequence[int]) -> str:
    ids = dict.fromkeys(program for row in rows for program in columns.programs[row])
    return ", ".join(map(str, ids)) or NOT_AVAILABLE


def _batch_key(columns: BatchColumns, rows: Int64s, order: str) -> npt.NDArray[Any]:
    size, padding = columns.padded_size[rows], columns.padding[rows]
    efficiency = np.divide(size - padding, size, out=np.zeros(len(rows)), where=size != 0)
    keys = (columns.latency[rows], columns.delay[rows], padding, size, efficiency)
    return keys[BATCH_ORDERS.index(order)]


def _parameters(known: BatchingParameters | None) -> dict[str, str]:
    if known is None:
        return {"hasBatchingParam": "false"}
    return {
        "hasBatchingParam": "true",
        "batchingParamNumBatchThreads": str(known.num_batch_threads or 0),
        "batchingParamMaxBatchSize": str(known.max_batch_size or 0),
        "batchingParamBatchTimeoutMicros": str(known.batch_timeout_micros or 0),
        "batchingParamMaxEnqueuedBatches": str(known.max_enqueued_batches or 0),
        "batchingParamAllowedBatchSizes": known.allowed_batch_sizes or "",
    }


# ---- tensors


def _tensor_rows(session: Session, model: OfModel) -> list[list[Cell]]:
    pattern, time_ps = session.moves.pattern[model.moves], session.moves.time_ps[model.moves]
    rows: list[list[Cell]] = []
    for place, kind in enumerate(np.unique(pattern).tolist()):
        times = np.sort(time_ps[pattern == kind])
        at = "<br>".join(f"{p:.2f}%: {int(times[_place(p, len(times))]) / 1e9:.6f}ms" for p in TENSOR_PERCENTILES)
        rows.append([place, "<br>".join(session.patterns[kind]), len(times), at])
    return rows


# ---- what they share


def sample(rows: Int64s) -> list[tuple[int, float]]:
    """Of rows in ascending order the ones shown, with their percentiles: all where they are few, else the first ten
    from each percentile on."""
    percentile = 100.0 * np.arange(len(rows)) / max(len(rows), 1)
    if len(rows) <= SHOW_ALL:
        chosen = np.arange(len(rows))
    else:
        within = [np.flatnonzero((percentile >= p) & (percentile < p + width)) for p, width in SAMPLES]
        chosen = np.concatenate([places[:MOST_OF_PERCENTILE] for places in within])
    return list(zip(rows[chosen].tolist(), percentile[chosen].tolist(), strict=True))


def _in_order(key: npt.NDArray[Any], rows: Int64s) -> Int64s:
    ordered: Int64s = rows[np.argsort(key, kind="stable")]
    return ordered


def _mean(values: Int64s) -> int:
    """Rounded down; 0 of nothing."""
    return int(values.sum()) // len(values) if len(values) else 0


def _mean_ms(values: Int64s) -> float:
    return _mean(values) / 1e9


def _mean_latency(columns: RequestColumns | BatchColumns, rows: Int64s) -> str:
    return three_digits(int(columns.latency[rows].sum()) / 1e6 / len(rows) / 1e3 if len(rows) else 0.0)


def _share(columns: RequestColumns | BatchColumns, rows: Int64s, part: int) -> float:
    """The throughput of ``part`` of the rows."""
    rate = _per_second(columns, rows)
    return part * rate / len(rows) if len(rows) else float("nan")


def per_second_text(columns: RequestColumns | BatchColumns, rows: Int64s) -> str:
    return one_digit(_per_second(columns, rows))


def _per_second(columns: RequestColumns | BatchColumns, rows: Int64s) -> float:
    rate = per_second(columns.begin[rows], columns.end[rows])
    return rate if rate is not None else float("inf") if len(rows) else 0.0


def _place(percent: float, count: int) -> int:
    """The index of a percentile among ascending values: XProf takes the one with this share of values before it."""
    return int(percent / 100.0 * count)


def latency_rows(report: Report) -> list[list[Cell]]:
    """The rows of the overview's table of latencies: percentile, and host, device, communication and total in ms."""
    inference = report.detail_as(Inference)
    if inference.session is None:
        return []
    columns = shown_requests(inference.hosts)
    models = _models(inference, inference.session, columns)
    shown = np.concatenate([np.zeros(0, np.int64), *(model.requests for model in models)])
    if not len(shown):
        return []
    shown = np.sort(shown)
    total = columns.latency[shown] / 1e9
    device = columns.parts[shown, COMPUTE] / 1e9
    communication = (columns.parts[shown, WRITE] + columns.parts[shown, READ]) / 1e9
    table = np.stack([total - device - communication, device, communication, total], axis=1)
    places = [_place(percent, len(shown)) for percent in PERCENTILES]
    rows: list[list[Cell]] = [["Avg", *table.mean(axis=0).tolist()]]
    return rows + [[f"{p:.1f}%", *table[place].tolist()] for p, place in zip(PERCENTILES, places, strict=True)]
