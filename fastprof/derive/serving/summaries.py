"""Sums over requests and batches of each model: the tables of the analysis inference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from fastprof.derive.serving import PERCENTILES, TENSOR_PERCENTILES, percentile_name
from fastprof.schema.columns import Int64s, locate_percentile, sum_unbounded
from fastprof.schema.tables import Column, Count, Formula, Picoseconds, Share, TableSchema, Text
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import join_stat

if TYPE_CHECKING:
    from fastprof.derive.serving.host_serving import BatchColumns, MoveColumns, RequestColumns, SessionServing
    from fastprof.derive.serving.requests import NumberLinks

PARTS = (
    ("host_preprocess", "time from the start of the request to the first program handed to the device"),
    ("host_batch_formation", "time from scheduling to the merge of its inputs with those of other requests"),
    ("host_runtime", "time from handing a program over to its launch"),
    ("write_to_device", "time to copy inputs to the device"),
    ("device_compute", "time of programs or kernels of the request or its batches on devices"),
    ("read_from_device", "time to copy results from the device"),
    ("host_postprocess", "time from the end of work on the device to the end of the request"),
    ("idle", "time between the first and the last part that no part covers"),
)
"""Names and descriptions of breakdown.PARTS."""
_COMPUTE: Final = [name for name, _ in PARTS].index("device_compute")
_NO_WORK: Final = "null: no work of requests on devices is recorded"


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model (None if no model is named) with its requests, batches and tensor moves, shortest first."""

    session: SessionServing
    model: str | None
    requests: RequestColumns
    batches: BatchColumns
    moves: MoveColumns

    def delays(self) -> Int64s:
        """Return the delays of batches whose requests are known."""
        return self.batches.delay[np.diff(self.batches.others.bounds) > 0]

    def pattern(self) -> str:
        """Return the tensors of the first move."""
        return "; ".join(self.session.patterns[self.moves.pattern[0]])

    def move_times(self) -> Int64s:
        return np.sort(self.moves.time_ps)


def group_by_model(session: SessionServing) -> list[ServedModel]:
    """List the models by name; last, if there are any, the requests and batches without a model."""

    def of(name: str | None, number: int) -> ServedModel:
        requests, batches, moves = session.requests, session.batches, session.moves
        mine = (np.maximum(rows.model, -1) == number for rows in (requests, batches, moves))
        return ServedModel(session, name, requests[next(mine)], batches[next(mine)], moves[next(mine)])

    models = [of(name, number) for name, number in sorted((name, number) for number, name in enumerate(session.models))]
    rest = of(None, -1)
    return [*models, rest] if len(rest.requests) or len(rest.batches) else models


def average_times(values: Int64s) -> int | None:
    return sum_unbounded(values) // len(values) if len(values) else None


def find_percentile(ascending: Int64s, percent: float) -> int:
    """Return the least value that ``percent`` % of the values do not exceed."""
    return int(ascending[locate_percentile(percent, len(ascending))])


def measure_rate(begin: Int64s, end: Int64s) -> float | None:
    """Return how many there were per second between the first begin and the last end, or None if no time passed."""
    span = int(end.max()) - int(begin.min()) if len(begin) else 0
    return len(begin) / (span / 1e12) if span > 0 else None


def make_figures(session: SessionServing) -> dict[str, Any]:
    """Make the figures of all models together. None: there are no requests, or they took no time."""
    requests, times = session.requests, session.requests.latency
    at = {f"{percentile_name(p)}_latency_ps": find_percentile(times, p) if len(times) else None for p in PERCENTILES}
    return {
        "request_count": len(times),
        "batch_count": len(session.batches),
        "model_count": len(session.models),
        "requests_per_second": measure_rate(requests.begin, requests.end),
        "mean_latency_ps": average_times(times),
        "max_latency_ps": int(times[-1]) if len(times) else None,
        **at,
    }


def measure_efficiency(padded_size: int, padding: int) -> float | None:
    """Return the share of a batch that is not padding, or None if sizes are not recorded, or inconsistent."""
    return (padded_size - padding) / padded_size if 0 <= padding <= padded_size and padded_size else None


def _average_number(values: Int64s) -> float | None:
    return sum_unbounded(values) / len(values) if len(values) else None


def get_other_time(requests: RequestColumns) -> Int64s:
    """Return the latency minus the parts."""
    left: Int64s = requests.latency - requests.parts.sum(axis=1)
    return left


def pair_requests_batches(requests: RequestColumns, batches: BatchColumns) -> tuple[Int64s, Int64s]:
    """Pair each request with each of its batches; return their rows."""
    request, ids = requests.others.of_each(np.arange(len(requests)))
    key = batches.host << 32 | batches.id
    order = np.argsort(key)
    has, at = join_stat(requests.host[request] << 32 | ids, key[order], order)
    return request[has], at[has]


class _Part(NamedTuple):
    """A part of the latency of a model's requests. ``times``: of each request, ascending; empty if unknown."""

    model: str | None
    name: str
    times: Int64s
    latency_ps: int

    def share(self) -> float | None:
        if not len(self.times):
            return None
        spent = sum_unbounded(self.times)
        return spent / self.latency_ps if 0 <= spent <= self.latency_ps and self.latency_ps else None


def _list_model_parts(of: Sequence[ServedModel]) -> list[_Part]:
    names = [*(name for name, _ in PARTS), "other"]
    return [
        _Part(model.model, name, np.sort(times if is_known else times[:0]), sum_unbounded(model.requests.latency))
        for model in of
        if len(model.requests)
        for name, times in zip(names, (*model.requests.parts.T, get_other_time(model.requests)), strict=True)
        for is_known in [name != names[_COMPUTE] or model.session.has_device_work]
    ]


class _Latency(NamedTuple):
    title: str
    device: int | None
    communication: int
    total: int


def _list_latencies(session: SessionServing) -> list[_Latency]:
    """List the mean, and the requests at each percentile."""
    requests = session.requests
    names = [name for name, _ in PARTS]
    device = requests.parts[:, _COMPUTE]
    copies = [names.index("write_to_device"), names.index("read_from_device")]
    columns = (device, requests.parts[:, copies].sum(axis=1), requests.latency)
    if not len(device):
        return []
    at = [(f"{percent:.1f}%", locate_percentile(percent, len(device))) for percent in PERCENTILES]
    means = _Latency("Average", *(average_times(values) or 0 for values in columns))
    rows = [means, *(_Latency(title, *(int(values[row]) for values in columns)) for title, row in at)]
    return rows if session.has_device_work else [row._replace(device=None) for row in rows]


def _list_sizes(of: Sequence[ServedModel]) -> list[ServedModel]:
    """List the batches of each size of a model, and the requests that had one of them."""
    rows = []
    for model in of:
        request, batch = pair_requests_batches(model.requests, model.batches)
        for size in np.unique(model.batches.padded_size).tolist():
            same = model.batches.padded_size == size
            mine = np.unique(request[same[batch]])
            rows.append(replace(model, requests=model.requests[mine], batches=model.batches[same]))
    return rows


def _list_moves(of: Sequence[ServedModel]) -> list[ServedModel]:
    """List the moves of each pattern of a model."""
    return [
        replace(model, moves=model.moves[model.moves.pattern == number])
        for model in of
        for number in np.unique(model.moves.pattern).tolist()
    ]


def make_serving_tables(session: SessionServing) -> dict[str, pa.Table]:
    """Make all of TABLES; requests and batches are longest first."""
    of = group_by_model(session)
    longest_first = replace(session, requests=session.requests[::-1], batches=session.batches[::-1])
    rows: dict[str, Any] = {
        "models": of,
        "breakdown": _list_model_parts(of),
        "latency": _list_latencies(session),
        "requests": longest_first,
        "batches": longest_first,
        "batch_sizes": _list_sizes(of),
        "tensor_patterns": _list_moves(of),
    }
    return {name: schema.of(rows[name]) for name, schema in TABLES.items()}


# ---- columns


def _make_each_column(of: Callable[[Any], Any]) -> Formula:
    return lambda rows: [of(row) for row in rows]


def _make_percentile_columns(
    percentiles: Sequence[float], what: str, times: Callable[[Any], Int64s]
) -> tuple[Column, ...]:
    """Make columns. ``times``: of a row, ascending."""

    def at(percent: float) -> Formula:
        return _make_each_column(lambda row: find_percentile(times(row), percent) if len(times(row)) else None)

    return tuple(
        Picoseconds(f"{percentile_name(percent)}_ps", f"{percent:g}th percentile (nearest rank) of {what}; null: "
                    "none is recorded", at(percent))
        for percent in percentiles
    )  # fmt: skip


def _make_published_column(name: str) -> Formula:
    def of(model: ServedModel) -> Any:
        parameters = model.session.parameters.get(model.model or "")
        return None if parameters is None else getattr(parameters, name)

    return _make_each_column(of)


def _make_rate(rows: RequestColumns | BatchColumns) -> float | None:
    return measure_rate(rows.begin, rows.end)


def _measure_efficiencies(session: SessionServing) -> list[float | None]:
    sizes = zip(session.batches.padded_size.tolist(), session.batches.padding.tolist(), strict=True)
    return [measure_efficiency(size, padding) for size, padding in sizes]


def _drop_shorter(session: SessionServing) -> Any:
    """Return the share of shorter requests of the model, for requests longest first."""
    model = np.maximum(session.requests.model, -1)
    shorter = np.zeros(len(model))
    for number in np.unique(model).tolist():
        mine = np.flatnonzero(model == number)
        shorter[mine] = 100 * np.arange(len(mine))[::-1] / len(mine)
    return shorter


def _make_part_column(place: int) -> Formula:
    return lambda session: session.requests.parts[:, place]


def _list_linked(links: NumberLinks) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(links.bounds, pa.int32()), pa.array(links.others))


def _name_numbers(numbers: Int64s, names: Sequence[str]) -> pa.Array:
    """Encode numbers of names as text; numbers below 0 are null."""
    return pa.DictionaryArray.from_arrays(
        pa.array(numbers.astype(np.int32), mask=numbers < 0), pa.array(names, pa.string())
    )


def _make_served_columns(kind: str) -> tuple[Column, ...]:
    """Make columns for host and model of requests or batches."""
    return (
        Text(
            "host", "host that processed it", lambda session: _name_numbers(getattr(session, kind).host, session.hosts)
        ),
        Text(
            "model",
            "model; null: not named",
            lambda session: _name_numbers(getattr(session, kind).model, session.models),
        ),
    )


_MODEL: Final = Text("model", "model; null: the requests name no model", _make_each_column(lambda row: row.model))
_NUMBERS: Final = pa.list_(pa.int64())
_TABLES: Final = (
    TableSchema("models", "a model, by name", (
        _MODEL,
        Count("request_count", "number of requests", _make_each_column(lambda model: len(model.requests))),
        Column("requests_per_second", pa.float64(), "requests / time from the first start to the last end in seconds; "
               "null: this time is 0, or there are no requests", True,
               of=_make_each_column(lambda model: _make_rate(model.requests))),
        Picoseconds("mean_ps", "mean request latency, rounded down; null: there are no requests",
                    _make_each_column(lambda model: average_times(model.requests.latency))),
        *_make_percentile_columns(PERCENTILES, "request latency", lambda model: model.requests.latency),
        Picoseconds("max_ps", "longest request latency; null: there are no requests",
                    _make_each_column(lambda model: int(model.requests.latency[-1]) if len(model.requests) else None)),
        Count("batch_count", "number of batches", _make_each_column(lambda model: len(model.batches))),
        Column("batches_per_second", pa.float64(), "batches / time from the first start to the last end in seconds; "
               "null: this time is 0, or there are no batches", True,
               of=_make_each_column(lambda model: _make_rate(model.batches))),
        Picoseconds("batch_mean_ps", "mean batch duration, rounded down; null: there are no batches",
                    _make_each_column(lambda model: average_times(model.batches.latency))),
        Column("batch_padded_size", pa.float64(), "mean batch size after padding; null: there are no batches",
               True, of=_make_each_column(lambda model: _average_number(model.batches.padded_size))),
        Share("batch_efficiency_share", "part of the sizes of all batches that is not padding; null: sizes are not "
              "recorded", _make_each_column(lambda model: measure_efficiency(sum_unbounded(model.batches.padded_size),
                                                                     sum_unbounded(model.batches.padding)))),
        Count("num_batch_threads", "configured number of threads that process batches; null: not recorded",
              _make_published_column("num_batch_threads")),
        Column("batch_timeout_us", pa.int64(), "configured maximum time that a request waits for its batch; null: not "
               "recorded", True, "us", of=_make_published_column("batch_timeout_micros")),
        Count("max_batch_size", "configured maximum batch size; null: not recorded",
              _make_published_column("max_batch_size")),
        Count("max_enqueued_batches", "configured maximum number of enqueued batches; null: not recorded",
              _make_published_column("max_enqueued_batches")),
        Column("allowed_batch_sizes", pa.string(), "configured sizes to which batches are padded; null: not recorded",
               True, of=_make_published_column("allowed_batch_sizes")),
    ), derived=True),
    TableSchema("breakdown", "a model and part of its request latency", (
        _MODEL,
        Text("part", ", ".join(name for name, _ in PARTS) + ", other: as the columns of the requests table",
             _make_each_column(lambda row: row.name)),
        Picoseconds("mean_ps", f"mean of the part over all requests, rounded down; {_NO_WORK}",
                    _make_each_column(lambda row: average_times(row.times))),
        Share("latency_share", "sum of the part / sum of latencies; null: the part is unknown, or the share would "
              "not be between 0 and 1, because parts lie outside their requests", _make_each_column(_Part.share)),
        *_make_percentile_columns(PERCENTILES, "the time of the part", lambda row: row.times),
    ), derived=True),
    TableSchema("latency", "a statistic of request latency (average or percentile), over all models", (
        Column("percentile", pa.string(), "Average, or the percentage of requests that took at most this long",
               of=_make_each_column(lambda row: row.title)),
        Picoseconds("host_ps", f"total_ps - device_ps - communication_ps; {_NO_WORK}", _make_each_column(
            lambda row: None if row.device is None else row.total - row.device - row.communication)),
        Picoseconds("device_ps", "device_compute_ps of the request at this percentile; of Average, all times are "
                    f"means over requests; {_NO_WORK}", _make_each_column(lambda row: row.device)),
        Picoseconds("communication_ps", "write_to_device_ps + read_from_device_ps of the request at this percentile",
                    _make_each_column(lambda row: row.communication)),
        Picoseconds("total_ps", "latency_ps of the request at this percentile",
                    _make_each_column(lambda row: row.total)),
    ), derived=True),
    TableSchema("requests", "a request, longest first", (
        *_make_served_columns("requests"),
        Count("request_id", "number of its event group on its host", lambda session: session.requests.id),
        Column("shorter_percent", pa.float64(), "percentage of the model's requests that rank as shorter", unit="%",
               of=_drop_shorter),
        Picoseconds("start_ps", "start of its first event on the host's threads",
                    lambda session: session.requests.begin),
        Picoseconds("latency_ps", "time from start_ps to the end of its last event on the host's threads, or of its "
                    "last batch", lambda session: session.requests.latency),
        *(Picoseconds(f"{name}_ps", what, _make_part_column(i)) for i, (name, what) in enumerate(PARTS[:_COMPUTE])),
        Picoseconds("device_compute_ps", f"{PARTS[_COMPUTE][1]}; {_NO_WORK}", _make_part_column(_COMPUTE),
                    lambda session: np.full(len(session.requests), not session.has_device_work)),
        *(Picoseconds(f"{name}_ps", what, _make_part_column(i))
          for i, (name, what) in enumerate(PARTS[_COMPUTE + 1 :], _COMPUTE + 1)),
        Picoseconds("other_ps", "latency_ps minus the parts above; negative if some parts lie outside the request",
                    lambda session: get_other_time(session.requests)),
        Picoseconds("batching_delay_ps", "time from the start of the request to the start of its first batch; null: "
                    "it had no batch",
                    lambda session: session.requests.delay,
                    lambda session: np.diff(session.requests.others.bounds) <= 0),
        Count("size", "number of tasks that the request put into batches; 0 if not recorded",
              lambda session: session.requests.size),
        Column("batch_ids", _NUMBERS, "batch_id of its batches, on the same host",
               of=lambda session: _list_linked(session.requests.others)),
    ), derived=True),
    TableSchema("batches", "a batch, longest first", (
        *_make_served_columns("batches"),
        Count("batch_id", "number of its event group on its host", lambda session: session.batches.id),
        Picoseconds("start_ps", "start of its processing", lambda session: session.batches.begin),
        Picoseconds("duration_ps", "duration of its processing", lambda session: session.batches.latency),
        Picoseconds("delay_ps", "time from the start of the earliest of its requests to its own start; null: its "
                    "requests are unknown",
                    lambda session: session.batches.delay, lambda session: np.diff(session.batches.others.bounds) <= 0),
        Count("padded_size", "number of tasks with padding; 0 if not recorded",
              lambda session: session.batches.padded_size),
        Count("padding", "number of tasks that are padding", lambda session: session.batches.padding),
        Share("efficiency_share", "(padded_size - padding) / padded_size; null: the sizes are not recorded",
              _measure_efficiencies),
        Picoseconds("device_compute_ps", f"time of its programs on the device; {_NO_WORK}",
                    lambda session: session.batches.compute,
                    lambda session: np.full(len(session.batches), not session.has_device_work)),
        Column("program_ids", pa.list_(pa.uint64()), "programs that it ran",
               of=lambda session: session.batches.programs.tolist()),
        Column("request_ids", _NUMBERS, "event groups that caused the batch, on the same host",
               of=lambda session: _list_linked(session.batches.others)),
    ), derived=True),
    TableSchema("batch_sizes", "a model and padded batch size", (
        _MODEL,
        Count("padded_size", "padded batch size",
              _make_each_column(lambda row: row.batches.padded_size[0])),
        Count("batch_count", "number of batches of this size", _make_each_column(lambda row: len(row.batches))),
        Picoseconds("mean_ps", "mean batch duration, rounded down",
                    _make_each_column(lambda row: average_times(row.batches.latency))),
        Picoseconds("mean_delay_ps", "mean of the known delay_ps of batches, rounded down; null: none is known",
                    _make_each_column(lambda row: average_times(row.delays()))),
        Column("mean_padding", pa.float64(), "mean batch padding",
               of=_make_each_column(lambda row: _average_number(row.batches.padding))),
        Picoseconds("device_compute_ps", f"mean time of a batch's programs on the device, rounded down; {_NO_WORK}",
                    _make_each_column(lambda row: average_times(row.batches.compute)
                                      if row.session.has_device_work else None)),
        Count("request_count", "number of requests with a batch of this size",
              _make_each_column(lambda row: len(row.requests))),
        Picoseconds("mean_latency_ps", "mean request latency with a batch of this size, rounded down; null: there are "
                    "none", _make_each_column(lambda row: average_times(row.requests.latency))),
    ), derived=True),
    TableSchema("tensor_patterns", "a pattern of tensors whose layout a model's requests or batches change", (
        _MODEL,
        Column("pattern", pa.string(), "event, shape and layout of each tensor, sorted, separated by semicolons",
               of=_make_each_column(ServedModel.pattern)),
        Count("count", "number of requests and batches that change these layouts",
              _make_each_column(lambda row: len(row.moves))),
        *_make_percentile_columns(TENSOR_PERCENTILES, "the time to change layouts", ServedModel.move_times),
    ), derived=True),
)  # fmt: skip
TABLES: Final = {table.name: table for table in _TABLES}
