"""Requests and batches of a model server: latency by percentile, and what it is made of.

Requests are groups of events on the host's threads that a server's request began; formulas: docs/analyses/inference.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from fastprof.analyses.contract import Needs, Notice, Report, ScalarSpec, Section, Value, has_rows, scalars
from fastprof.derive.serving import PERCENTILES, REQUESTS, STATS, TENSOR_PERCENTILES, may_serve, percentile_name
from fastprof.derive.steps.grouping import STATS as GROUPING_STATS
from fastprof.schema.arrow_columns import typed
from fastprof.schema.tables import TEXT, Column, TableSchema

if TYPE_CHECKING:
    from fastprof.derive.host import Host
    from fastprof.derive.serving.of_host import HostServing
    from fastprof.derive.serving.session import Session

NAME = "inference"
READS = Needs(stats=(*GROUPING_STATS, *STATS))
AFTER: tuple[str, ...] = ()

LATENCY = "latency"
REQUEST_ORDERS = (
    LATENCY, "batching_delay", "size", "host_preprocess", "host_batch_formation", "host_runtime", "write_to_device",
    "device_compute", "read_from_device", "host_postprocess", "idle",
)  # fmt: skip
BATCH_ORDERS = (LATENCY, "delay", "padding", "padded_size", "efficiency")
"""What XProf's page can be sorted by: columns of the tables requests and batches."""

PARTS = (
    ("host_preprocess", "from its begin to the first program handed to the device"),
    ("host_batch_formation", "from being scheduled to its inputs being put together with others"),
    ("host_runtime", "from a program being handed over to its launch"),
    ("write_to_device", "inputs copied to the device"),
    ("device_compute", "programs or kernels of it, or of its batches, on devices"),
    ("read_from_device", "results copied from the device"),
    ("host_postprocess", "from the device being done to its end"),
    ("idle", "between the first and the last of the above, with none of them"),
)
"""The parts of breakdown.PARTS, and what they are."""


@dataclass(frozen=True, slots=True)
class Params:
    """How XProf's page samples requests and batches."""

    request_order: str = field(
        default=LATENCY,
        metadata={
            "help": "the order by which XProf's page samples requests",
            "choices": REQUEST_ORDERS,
            "alone": True,
        },
    )
    batch_order: str = field(
        default=LATENCY,
        metadata={
            "help": "the order by which XProf's page samples batches",
            "choices": BATCH_ORDERS,
            "alone": True,
        },
    )


def _percentile_columns(percentiles: Sequence[float], what: str) -> tuple[Column, ...]:
    return tuple(
        Column(
            f"{percentile_name(percent)}_ps",
            pa.int64(),
            f"least {what} that {percent:g} % do not exceed; null: none",
            True,
            "ps",
        )
        for percent in percentiles
    )


_MODEL = Column("model", TEXT, "model; null: requests that name none", True)
_ONE_MODEL = Column("model", TEXT, "model; null: not named", True)
_HOST = Column("host", TEXT, "host that served it")
TABLES = {
    "models": TableSchema("models", "a model, by name", (
        _MODEL,
        Column("request_count", pa.int64(), "requests"),
        Column("requests_per_second", pa.float64(), "requests / (latest end - earliest begin); null: no time passed",
               True),
        Column("mean_ps", pa.int64(), "mean latency of a request, rounded down; null: no requests", True, "ps"),
        *_percentile_columns(PERCENTILES, "latency"),
        Column("max_ps", pa.int64(), "longest latency; null: no requests", True, "ps"),
        Column("batch_count", pa.int64(), "batches"),
        Column("batches_per_second", pa.float64(), "batches / (latest end - earliest begin); null: no time passed",
               True),
        Column("batch_mean_ps", pa.int64(), "mean duration of a batch, rounded down; null: no batches", True, "ps"),
        Column("batch_padded_size", pa.float64(), "mean size of a batch after padding; null: no batches", True),
        Column("batch_efficiency_share", pa.float64(), "(size after padding - padding) / size after padding, sums over "
               "batches; null: sizes are not recorded", True, "share"),
        Column("num_batch_threads", pa.int64(), "threads that process batches, as set; null: not published", True),
        Column("batch_timeout_us", pa.int64(), "how long a request may wait for its batch, as set; null: not published",
               True, "us"),
        Column("max_batch_size", pa.int64(), "largest batch, as set; null: not published", True),
        Column("max_enqueued_batches", pa.int64(), "batches that may wait, as set; null: not published", True),
        Column("allowed_batch_sizes", pa.string(), "sizes that batches are padded to, as set; null: not published",
               True),
    ), derived=True),
    "breakdown": TableSchema("breakdown", "a part of the latency of a model's requests", (
        _MODEL,
        Column("part", TEXT, ", ".join(name for name, _ in PARTS) + ", other: columns of the table requests"),
        Column("mean_ps", pa.int64(), "mean of the part over all requests, rounded down", unit="ps"),
        Column("latency_share", pa.float64(), "sum of the part / sum of latencies; null: beyond 0 and 1, where parts "
               "are outside of their requests", True, "share"),
        *_percentile_columns(PERCENTILES, "time"),
    ), derived=True),
    "latency": TableSchema("latency", "latency of the requests of all models at one percentile", (
        Column("percentile", pa.string(), "Average, or the share of requests that took at most this long"),
        Column("host_ps", pa.int64(), "total less device and communication", unit="ps"),
        Column("device_ps", pa.int64(), "device_compute_ps of the request at this percentile", unit="ps"),
        Column("communication_ps", pa.int64(), "its write_to_device_ps and read_from_device_ps", unit="ps"),
        Column("total_ps", pa.int64(), "its latency_ps", unit="ps"),
    ), derived=True),
    "requests": TableSchema("requests", "a request, longest first", (
        _HOST,
        _ONE_MODEL,
        Column("request_id", pa.int64(), "group of its events on its host"),
        Column("shorter_percent", pa.float64(), "share of the model's requests that come before it", unit="%"),
        Column("start_ps", pa.int64(), "begin of its first event on the host's threads", unit="ps"),
        Column("latency_ps", pa.int64(), "to the end of its last event there, or of its last batch", unit="ps"),
        *(Column(f"{name}_ps", pa.int64(), what, unit="ps") for name, what in PARTS),
        Column("other_ps", pa.int64(), "latency less all of these; below 0 where some are outside of it", unit="ps"),
        Column("batching_delay_ps", pa.int64(), "from its begin to that of its first batch; null: it had none", True,
               "ps"),
        Column("size", pa.int64(), "tasks that it put into batches; 0: not recorded"),
        Column("batch_ids", pa.list_(pa.int64()), "groups of its batches on its host"),
    ), derived=True),
    "batches": TableSchema("batches", "a batch, longest first", (
        _HOST,
        _ONE_MODEL,
        Column("batch_id", pa.int64(), "group of its events on its host"),
        Column("start_ps", pa.int64(), "begin of its processing", unit="ps"),
        Column("duration_ps", pa.int64(), "duration of its processing", unit="ps"),
        Column("delay_ps", pa.int64(), "from the begin of the earliest of its requests; null: they are not known", True,
               "ps"),
        Column("padded_size", pa.int64(), "tasks, with padding; 0: not recorded"),
        Column("padding", pa.int64(), "tasks that only fill it up"),
        Column("efficiency_share", pa.float64(), "(padded_size - padding) / padded_size; null: not recorded", True,
               "share"),
        Column("device_compute_ps", pa.int64(), "its programs on the device", unit="ps"),
        Column("program_ids", pa.list_(pa.uint64()), "programs that it ran"),
        Column("request_ids", pa.list_(pa.int64()), "groups that led to it on its host"),
    ), derived=True),
    "batch_sizes": TableSchema("batch_sizes", "a size of a model's batches after padding", (
        _MODEL,
        Column("padded_size", pa.int64(), "size after padding"),
        Column("batch_count", pa.int64(), "batches of the size"),
        Column("mean_ps", pa.int64(), "mean duration, rounded down", unit="ps"),
        Column("mean_delay_ps", pa.int64(), "mean of delay_ps where it is known, rounded down; null: it is nowhere",
               True, "ps"),
        Column("mean_padding", pa.float64(), "mean padding"),
        Column("device_compute_ps", pa.int64(), "mean time of its programs on the device, rounded down", unit="ps"),
        Column("request_count", pa.int64(), "requests that had a batch of the size"),
        Column("mean_latency_ps", pa.int64(), "mean latency of those, rounded down; null: there are none", True, "ps"),
    ), derived=True),
    "tensor_patterns": TableSchema("tensor_patterns", "tensors whose layout a model's requests or batches change", (
        _MODEL,
        Column("pattern", pa.string(), "event, shape and layout of each, sorted, with semicolons between"),
        Column("count", pa.int64(), "requests and batches that do so"),
        *_percentile_columns(TENSOR_PERCENTILES, "time of changing layouts"),
    ), derived=True),
}  # fmt: skip
SCALARS = {
    "request_count": ScalarSpec(None, "requests of all models and hosts"),
    "batch_count": ScalarSpec(None, "batches of all models and hosts"),
    "model_count": ScalarSpec(None, "models that requests name"),
    "requests_per_second": ScalarSpec(None, "requests / (latest end - earliest begin)"),
    "mean_latency_ps": ScalarSpec("ps", "mean latency of a request, rounded down"),
    **{
        f"{percentile_name(percent)}_latency_ps": ScalarSpec(
            "ps", f"least latency that {percent:g} % of requests do not exceed"
        )
        for percent in PERCENTILES
    },
    "max_latency_ps": ScalarSpec("ps", "longest latency"),
}
SECTIONS = (
    Section("Latency", scalars=tuple(SCALARS)),
    Section("Models", "models", ("model", "request_count", "requests_per_second", "mean_ps", "p50_ps", "p99_ps",
            "batch_count"), rows=20, shown=has_rows("models")),
    Section("What latency is made of", "breakdown", ("model", "part", "mean_ps", "p50_ps", "p99_ps", "latency_share"),
            "latency_share", 36, nonzero="mean_ps", shown=has_rows("breakdown")),
    Section("Latency by percentile", "latency", shown=has_rows("latency")),
    Section("Longest requests", "requests", ("host", "model", "request_id", "start_ps", "latency_ps",
            "device_compute_ps", "idle_ps", "other_ps"), rows=10, shown=has_rows("requests")),
    Section("Batches by size", "batch_sizes", ("model", "padded_size", "batch_count", "mean_ps", "mean_delay_ps",
            "mean_padding", "device_compute_ps"), rows=20, shown=has_rows("batch_sizes")),
    Section("Tensors", "tensor_patterns", ("model", "pattern", "count", "p50_ps", "p99_ps"), rows=10,
            shown=has_rows("tensor_patterns")),
)  # fmt: skip


class HostKept(NamedTuple):
    """What is kept of a host. ``serving``: None where it serves nothing; ``vetoed``: whether its events could not be
    grouped."""

    serving: HostServing | None
    vetoed: bool


class Inference(NamedTuple):
    """What the report is made of. ``hosts``: those that serve; ``session``: all of them, None where there are none."""

    hosts: Sequence[HostServing]
    session: Session | None
    params: Params


def of_host(host: Host, _params: Params) -> HostKept:
    if not may_serve(host.raw):
        return HostKept(None, False)
    from fastprof.derive.serving.of_host import serving_of_host

    return HostKept(serving_of_host(host.name, host.events, host.groups), host.groups.vetoed)


def run(kept: Sequence[HostKept], params: Params, _after: Mapping[str, Report]) -> Report:
    serving = [host.serving for host in kept if host.serving is not None]
    session, columns, values = None, {}, _no_figures()
    if serving:
        from fastprof.derive.serving import session as sessions
        from fastprof.derive.serving import summaries

        session = sessions.combined(serving)
        columns = summaries.tables(session, [name for name, _ in PARTS])
        values = summaries.figures(session)
    tables = {
        name: _table(columns.get(name), schema.arrow(), backwards=name in ("requests", "batches"))
        for name, schema in TABLES.items()
    }
    reason = _why_none(kept)
    known: dict[str, Value | tuple[None, str]] = {
        name: (None, reason) if value is None else value for name, value in values.items()
    }
    notices = () if values["request_count"] else (Notice("info", f"No requests: {reason}."),)
    return Report(NAME, tables, scalars(SCALARS, known), notices, detail=Inference(serving, session, params))


def _no_figures() -> dict[str, Any]:
    return {name: 0 if name.endswith("_count") else None for name in SCALARS}


def _table(columns: Mapping[str, Any] | None, schema: pa.Schema, *, backwards: bool) -> pa.Table:
    """The columns as the schema has them; ``backwards``: the last row first."""
    if columns is None:
        return schema.empty_table()
    found = pa.table([typed(columns[one.name], one.type) for one in schema], schema=schema)
    return found.take(pa.array(np.arange(found.num_rows)[::-1])) if backwards else found


def _why_none(kept: Sequence[HostKept]) -> str:
    if any(host.vetoed for host in kept):
        return "events of TensorFlow loops keep the events of this capture from being grouped by request"
    kinds = ", ".join(name for names in REQUESTS for name in names)
    return f"no events on the threads of a host are in a group that begins with one of {kinds}, or a root of level -1"
