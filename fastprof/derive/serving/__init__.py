"""Serving: what were the requests and batches of a model server?

This module only decides whether a host serves at all: the rest is imported if one does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastprof.tables.host_events import HostEvents

__all__ = ["breakdown", "host_serving", "requests", "summaries"]

BATCHING = "BatchingSessionRun"
REQUESTS = ((BATCHING,), ("TfrtModelRun",), ("ServingModelRun",), ("SessionRun", "RunGraph"))
"""Names of request events, by kind. The first kind that a host has counts."""
BATCHES = ("ProcessBatch", "OrbaxServing::ProcessBatch")
USER_ROOT, SERVER_ROOT, SERVER_REQUEST = -1, 1, "ModelServerRequest_"
"""Levels of roots that are requests; roots of the second level only if their names begin so."""

PARAMETERS = "/tensorflow/serving/batching/"
"""Prefix of stats that record the setup of batching."""
MODEL = "model_id"
STATS = (
    "_r", "_c", MODEL, "batching_input_task_size", "padding_amount", "batch_size_after_padding", "program_id",
    "shape", "layout", f"{PARAMETERS}*",
)  # fmt: skip
"""Stats of events that are read, beside those of grouping."""

PERCENTILES = (50.0, 75.0, 90.0, 99.0, 99.9)
TENSOR_PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9)


def may_serve(events: HostEvents) -> bool:
    """Return whether a host may have requests or batches; if not, it surely has none."""
    serving_names = {name for names in (*REQUESTS, BATCHES) for name in names}
    return (
        bool(serving_names & set(events.names))
        or bool((events.ints("_r")[1] == USER_ROOT).any())
        or any(name.startswith(SERVER_REQUEST) for name in events.names)
    )


def is_of_server(events: HostEvents) -> bool:
    """Return whether a model server wrote the events: they name models, or are named after its requests or batches.
    Sessions run in other programs, too. Reads MODEL."""
    names = {*BATCHES, *(name for kind in REQUESTS[:-1] for name in kind)}
    is_named = any(name in names or name.startswith(SERVER_REQUEST) for name in events.names)
    return is_named or bool(len(events.stat(MODEL).rows))


def percentile_name(percent: float) -> str:
    """Return the usual name of a percentile, such as ``p99`` or ``p999``."""
    return f"p{percent:g}".replace(".", "")
