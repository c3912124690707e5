"""What requests and batches add up to, model by model: the columns of the tables that the analysis answers with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from fastprof.derive.serving import PERCENTILES, TENSOR_PERCENTILES, percentile_name
from fastprof.derive.serving.breakdown import COMPUTE, PARTS
from fastprof.derive.serving.host_rows import beside
from fastprof.derive.serving.session import BatchColumns, RequestColumns, Session, at_percentile, per_second
from fastprof.derive.steps.time_spread import rank
from fastprof.derive.steps.time_types import DEVICE_TO_HOST, HOST_TO_DEVICE
from fastprof.schema.array_types import Int64s

Columns = dict[str, Any]


@dataclass(frozen=True, slots=True)
class OfModel:
    """A model, None: what names none, and the rows of its requests, batches and tensor moves."""

    name: str | None
    requests: Int64s
    batches: Int64s
    moves: Int64s


def by_model(session: Session) -> list[OfModel]:
    """The models by name; last, where there is any, what names none."""
    columns = (session.requests.model, session.batches.model, session.moves.model)
    found = []
    for name, number in sorted((name, number) for number, name in enumerate(session.models)):
        found.append(OfModel(name, *(np.flatnonzero(column == number) for column in columns)))
    rest = OfModel(None, *(np.flatnonzero(column < 0) for column in columns))
    return [*found, rest] if len(rest.requests) or len(rest.batches) else found


def total(values: Int64s) -> int:
    """The sum, also where it passes 64 bits."""
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def mean(values: Int64s) -> int | None:
    return total(values) // len(values) if len(values) else None


def tables(session: Session, part_names: Sequence[str]) -> dict[str, Columns]:
    """The columns of each table, requests and batches shortest first."""
    of = by_model(session)
    return {
        "models": models(session, of),
        "breakdown": breakdown(session, of, [*part_names, "other"]),
        "latency": latency(session.requests),
        "requests": requests(session, of, part_names),
        "batches": batches(session),
        "batch_sizes": batch_sizes(session, of),
        "tensor_patterns": tensor_patterns(session, of),
    }


def figures(session: Session) -> dict[str, Any]:
    """Of all models together; None where there are no requests, or took no time."""
    found, times = session.requests, session.requests.latency
    at = {f"{percentile_name(p)}_latency_ps": at_percentile(times, p) if len(times) else None for p in PERCENTILES}
    return {
        "request_count": len(times),
        "batch_count": len(session.batches.id),
        "model_count": len(session.models),
        "requests_per_second": per_second(found.begin, found.end),
        "mean_latency_ps": mean(times),
        "max_latency_ps": int(times[-1]) if len(times) else None,
        **at,
    }


def models(session: Session, of: Sequence[OfModel]) -> Columns:
    requests, batches = session.requests, session.batches
    latency, duration = requests.latency, batches.latency
    published = [session.parameters.get(one.name or "") for one in of]

    def at(percent: float) -> list[int | None]:
        return [at_percentile(latency[one.requests], percent) if len(one.requests) else None for one in of]

    def parameter(name: str) -> list[Any]:
        return [None if one is None else getattr(one, name) for one in published]

    return {
        "model": [one.name for one in of],
        "request_count": [len(one.requests) for one in of],
        "requests_per_second": [per_second(requests.begin[one.requests], requests.end[one.requests]) for one in of],
        "mean_ps": [mean(latency[one.requests]) for one in of],
        **{f"{percentile_name(percent)}_ps": at(percent) for percent in PERCENTILES},
        "max_ps": [int(latency[one.requests[-1]]) if len(one.requests) else None for one in of],
        "batch_count": [len(one.batches) for one in of],
        "batches_per_second": [per_second(batches.begin[one.batches], batches.end[one.batches]) for one in of],
        "batch_mean_ps": [mean(duration[one.batches]) for one in of],
        "batch_padded_size": [_mean_number(batches.padded_size[one.batches]) for one in of],
        "batch_efficiency_share": [
            efficiency(total(batches.padded_size[one.batches]), total(batches.padding[one.batches])) for one in of
        ],
        "num_batch_threads": parameter("num_batch_threads"),
        "batch_timeout_us": parameter("batch_timeout_micros"),
        "max_batch_size": parameter("max_batch_size"),
        "max_enqueued_batches": parameter("max_enqueued_batches"),
        "allowed_batch_sizes": parameter("allowed_batch_sizes"),
    }


def efficiency(padded_size: int, padding: int) -> float | None:
    """The share of a batch that is not padding; None where sizes are not recorded, or make no sense."""
    return (padded_size - padding) / padded_size if 0 <= padding <= padded_size and padded_size else None


def _mean_number(values: Int64s) -> float | None:
    return total(values) / len(values) if len(values) else None


def breakdown(session: Session, of: Sequence[OfModel], names: Sequence[str]) -> Columns:
    """``names``: of the parts, and of what is left of the latency."""
    requests = session.requests
    parts = np.concatenate([requests.parts, other(requests)[:, np.newaxis]], axis=1)
    rows: list[tuple[Any, ...]] = []
    for one in of:
        whole = total(requests.latency[one.requests])
        for i, name in enumerate(names if len(one.requests) else ()):
            times = np.sort(parts[one.requests, i])
            spent = total(times)
            share = spent / whole if 0 <= spent <= whole and whole else None
            rows.append((one.name, name, mean(times), share, *(at_percentile(times, p) for p in PERCENTILES)))
    titles = ("model", "part", "mean_ps", "latency_share", *(f"{percentile_name(p)}_ps" for p in PERCENTILES))
    return {title: [row[i] for row in rows] for i, title in enumerate(titles)}


def other(requests: RequestColumns) -> Int64s:
    """What is left of the latency without the parts."""
    left: Int64s = requests.latency - requests.parts.sum(axis=1)
    return left


def latency(requests: RequestColumns) -> Columns:
    """The mean, and the requests at each percentile."""
    whole, device = requests.latency, requests.parts[:, PARTS.index(COMPUTE)]
    communication = requests.parts[:, [PARTS.index(kind) for kind in (HOST_TO_DEVICE, DEVICE_TO_HOST)]].sum(axis=1)
    if not len(whole):
        return {name: [] for name in ("percentile", "host_ps", "device_ps", "communication_ps", "total_ps")}
    rows = [rank(percent, len(whole)) for percent in PERCENTILES]
    columns = {"device_ps": device, "communication_ps": communication, "total_ps": whole}
    found: Columns = {name: [mean(values), *values[rows].tolist()] for name, values in columns.items()}
    host = [t - d - c for t, d, c in zip(found["total_ps"], found["device_ps"], found["communication_ps"], strict=True)]
    return {"percentile": ["Average", *(f"{p:.1f}%" for p in PERCENTILES)], "host_ps": host, **found}


def requests(session: Session, of: Sequence[OfModel], part_names: Sequence[str]) -> Columns:
    """A row a request, shortest first."""
    columns = session.requests
    shorter = np.zeros(len(columns.id))
    for one in of:
        shorter[one.requests] = 100 * np.arange(len(one.requests)) / max(len(one.requests), 1)
    has_batch = np.diff(columns.batch_bounds) > 0
    return {
        "host": _named(columns.host, session.hosts),
        "model": _named(columns.model, session.models),
        "request_id": columns.id,
        "shorter_percent": shorter,
        "start_ps": columns.begin,
        "latency_ps": columns.latency,
        **{f"{name}_ps": columns.parts[:, i] for i, name in enumerate(part_names)},
        "other_ps": other(columns),
        "batching_delay_ps": pa.array(columns.delay, mask=~has_batch),
        "size": columns.size,
        "batch_ids": pa.ListArray.from_arrays(pa.array(columns.batch_bounds, pa.int32()), pa.array(columns.batch_ids)),
    }


def batches(session: Session) -> Columns:
    """A row a batch, shortest first."""
    columns = session.batches
    known = np.diff(columns.request_bounds) > 0
    sizes = zip(columns.padded_size.tolist(), columns.padding.tolist(), strict=True)
    return {
        "host": _named(columns.host, session.hosts),
        "model": _named(columns.model, session.models),
        "batch_id": columns.id,
        "start_ps": columns.begin,
        "duration_ps": columns.latency,
        "delay_ps": pa.array(columns.delay, mask=~known),
        "padded_size": columns.padded_size,
        "padding": columns.padding,
        "efficiency_share": [efficiency(size, padding) for size, padding in sizes],
        "device_compute_ps": columns.compute,
        "program_ids": pa.array(columns.programs, pa.list_(pa.uint64())),
        "request_ids": pa.ListArray.from_arrays(
            pa.array(columns.request_bounds, pa.int32()), pa.array(columns.request_ids)
        ),
    }


def _named(numbers: Int64s, names: Sequence[str]) -> pa.Array:
    """Numbers of names as text; below 0: none."""
    return pa.DictionaryArray.from_arrays(
        pa.array(numbers.astype(np.int32), mask=numbers < 0), pa.array(names, pa.string())
    )


def batch_sizes(session: Session, of: Sequence[OfModel]) -> Columns:
    columns = session.batches
    request_of, batch_of = batch_rows(session.requests, columns)
    rows: list[dict[str, Any]] = []
    for one in of:
        requested = np.isin(request_of, one.requests) & np.isin(batch_of, one.batches)
        size_of_pair = columns.padded_size[batch_of[requested]]
        for size in np.unique(columns.padded_size[one.batches]).tolist():
            same = one.batches[columns.padded_size[one.batches] == size]
            asked = np.unique(request_of[requested][size_of_pair == size])
            waited = same[np.diff(columns.request_bounds)[same] > 0]
            rows.append(
                {
                    "model": one.name,
                    "padded_size": size,
                    "batch_count": len(same),
                    "mean_ps": mean(columns.latency[same]),
                    "mean_delay_ps": mean(columns.delay[waited]),
                    "mean_padding": _mean_number(columns.padding[same]),
                    "device_compute_ps": mean(columns.compute[same]),
                    "request_count": len(asked),
                    "mean_latency_ps": mean(session.requests.latency[asked]),
                }
            )
    titles = (
        "model", "padded_size", "batch_count", "mean_ps", "mean_delay_ps", "mean_padding", "device_compute_ps",
        "request_count", "mean_latency_ps",
    )  # fmt: skip
    return {title: [row[title] for row in rows] for title in titles}


def batch_rows(requests: RequestColumns, batches: BatchColumns) -> tuple[Int64s, Int64s]:
    """Each request with each of its batches: their rows."""
    request = np.repeat(np.arange(len(requests.id)), np.diff(requests.batch_bounds))
    key = batches.host << 32 | batches.id
    order = np.argsort(key)
    has, at = beside(requests.host[request] << 32 | requests.batch_ids, key[order], order)
    return request[has], at[has]


def tensor_patterns(session: Session, of: Sequence[OfModel]) -> Columns:
    moves = session.moves
    rows: list[tuple[Any, ...]] = []
    for one in of:
        for number in np.unique(moves.pattern[one.moves]).tolist():
            times = np.sort(moves.time_ps[one.moves[moves.pattern[one.moves] == number]])
            pattern = "; ".join(session.patterns[number])
            rows.append((one.name, pattern, len(times), *(at_percentile(times, p) for p in TENSOR_PERCENTILES)))
    titles = ("model", "pattern", "count", *(f"{percentile_name(p)}_ps" for p in TENSOR_PERCENTILES))
    return {title: [row[i] for row in rows] for i, title in enumerate(titles)}
