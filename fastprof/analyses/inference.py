"""Requests and batches of a model server: latency by percentile and by part.

A request is the group of host-thread events that a server request started; formulas: docs/analyses/inference.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple

from fastprof.analyses.contract import (
    AnalysisReport,
    Evidence,
    Known,
    Notice,
    Opening,
    ScalarSpec,
    Section,
    has_rows,
    make_scalars,
)
from fastprof.derive.serving import (
    BATCHES,
    PERCENTILES,
    REQUESTS,
    SERVER_REQUEST,
    STATS,
    may_serve,
    percentile_name,
    summaries,
)
from fastprof.derive.serving.summaries import TABLES as TABLES
from fastprof.derive.steps.event_graph import STATS as GROUPING_STATS
from fastprof.schema.tables import Need
from fastprof.schema.value_classes import dataclass
from fastprof.tables.needs import Needs

if TYPE_CHECKING:
    from fastprof.derive.host import Host
    from fastprof.derive.serving.host_serving import HostServing, SessionServing

NAME = "inference"
READS = Needs(stats=(*GROUPING_STATS, *STATS))
AFTER: tuple[str, ...] = ()
REMEDY = "For other servers, annotations shows the regions that they name."
CONTENT = Evidence(
    "No requests: the capture has no events of model servers.",
    events=(*(f"^{name}$" for names in (*REQUESTS, BATCHES) for name in names), f"^{SERVER_REQUEST}"),
    stats=("_r",),
)
NOT_OF_TORCH = (
    "PyTorch's profiler records no requests of model servers. The report annotations shows the regions that a server "
    "marks with record_function."
)

LATENCY = "latency"
REQUEST_ORDERS = (
    LATENCY, "batching_delay", "size", "host_preprocess", "host_batch_formation", "host_runtime", "write_to_device",
    "device_compute", "read_from_device", "host_postprocess", "idle",
)  # fmt: skip
BATCH_ORDERS = (LATENCY, "delay", "padding", "padded_size", "efficiency")
"""Columns of the tables requests and batches by which XProf's page can be sorted."""


def _make_order(rows: str, orders: tuple[str, ...]) -> Any:
    metadata = {"help": f"order in which XProf's page samples {rows}", "choices": orders, "alone": True}
    return field(default=LATENCY, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters: how XProf's page samples requests and batches."""

    request_order: str = _make_order("requests", REQUEST_ORDERS)
    batch_order: str = _make_order("batches", BATCH_ORDERS)


_REQUESTS = Need("request_count", "no request is recorded")
SCALARS = {
    "request_count": ScalarSpec(None, "number of requests of all models and hosts", need=_REQUESTS),
    "batch_count": ScalarSpec(None, "number of batches of all models and hosts", need=_REQUESTS),
    "model_count": ScalarSpec(None, "number of models named in requests", need=_REQUESTS),
    "requests_per_second": ScalarSpec(None, "requests / time from the first start to the last end, in seconds"),
    "mean_latency_ps": ScalarSpec("ps", "mean request latency, rounded down"),
    **{
        f"{percentile_name(percent)}_latency_ps": ScalarSpec(
            "ps", f"{percent:g}th percentile (nearest rank) of request latency"
        )
        for percent in PERCENTILES
    },
    "max_latency_ps": ScalarSpec("ps", "longest request latency"),
}
OPENING = Opening(
    (
        "Requests take {mean_latency_ps} on average, and {p99_latency_ps} at the 99th percentile.",
    ),
    (
        "request_count", "requests_per_second", "mean_latency_ps", "p50_latency_ps", "p99_latency_ps",
        "max_latency_ps",
    ),
)  # fmt: skip

SECTIONS = (
    Section("Latency", scalars=tuple(SCALARS)),
    Section("Models", "models", ("model", "request_count", "requests_per_second", "mean_ps", "p50_ps", "p99_ps",
            "batch_count"), rows=20, shown=has_rows("models")),
    Section("Parts of latency", "breakdown", ("model", "part", "mean_ps", "p50_ps", "p99_ps", "latency_share"),
            "latency_share", 36, nonzero="mean_ps", shown=has_rows("breakdown")),
    Section("Latency by percentile", "latency", shown=has_rows("latency")),
    Section("Longest requests", "requests", ("host", "model", "request_id", "start_ps", "latency_ps",
            "device_compute_ps", "idle_ps", "other_ps"), rows=10, shown=has_rows("requests")),
    Section("Batches by size", "batch_sizes", ("model", "padded_size", "batch_count", "mean_ps", "mean_delay_ps",
            "mean_padding", "device_compute_ps"), rows=20, shown=has_rows("batch_sizes")),
    Section("Tensors", "tensor_patterns", ("model", "pattern", "count", "p50_ps", "p99_ps"), rows=10,
            shown=has_rows("tensor_patterns")),
)  # fmt: skip


class InferenceHostState(NamedTuple):
    """Host state. ``serving``: None if it serves nothing; ``vetoed``: whether its events could not be grouped."""

    serving: HostServing | None
    vetoed: bool


class Inference(NamedTuple):
    """Intermediate results of the report. ``hosts``: serving hosts; ``session``: all of them, or None without any."""

    hosts: Sequence[HostServing]
    session: SessionServing | None
    params: Params


def of_host(host: Host, params: Params) -> InferenceHostState:
    if not may_serve(host.raw):
        return InferenceHostState(None, False)
    from fastprof.derive.serving.host_serving import read_host_serving

    return InferenceHostState(read_host_serving(host.name, host.events, host.groups), host.groups.vetoed)


def run(kept: Sequence[InferenceHostState], params: Params, after: Mapping[str, AnalysisReport]) -> AnalysisReport:
    serving = [host.serving for host in kept if host.serving is not None]
    session, tables = None, {name: table.empty() for name, table in TABLES.items()}
    values: dict[str, Any] = {name: 0 if name.endswith("_count") else None for name in SCALARS}
    if serving:
        from fastprof.derive.serving import host_serving as sessions

        session = sessions.combine_hosts_serving(serving)
        tables, values = summaries.make_serving_tables(session), summaries.make_figures(session)
    kinds = ", ".join(name for names in REQUESTS for name in names)
    reason = f"no serving requests (looked for event groups that start with {kinds}, or with a root of level -1)"
    if any(host.vetoed for host in kept):
        reason = "events of TensorFlow loops prevent grouping the events of this capture by request"
    known: dict[str, Known] = {name: (None, reason) if value is None else value for name, value in values.items()}
    notices = () if values["request_count"] else (Notice("info", f"No requests: {reason}."),)
    return AnalysisReport(
        NAME, tables, make_scalars(SCALARS, known), notices, detail=Inference(serving, session, params)
    )
