"""How batching is set up, as TensorFlow Serving publishes it.

    /tensorflow/serving/batching/max_batch_size{model_name=resnet, op_name=…}

are stats of the second of two snapshots in the plane /host:tfstreamz.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from fastprof._native import records
from fastprof.derive.serving import PARAMETERS
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents

PLANE = "/host:tfstreamz"


@dataclass(frozen=True, slots=True)
class BatchingParameters:
    """None: not published."""

    num_batch_threads: int | None = None
    batch_timeout_micros: int | None = None
    max_batch_size: int | None = None
    max_enqueued_batches: int | None = None
    allowed_batch_sizes: str | None = None


_FIELDS = {field.name for field in fields(BatchingParameters)}


def find(events: HostEvents, models: Sequence[str]) -> dict[str, BatchingParameters]:
    """The parameters of each of the models that has any; ``resnet:3`` has those of ``resnet``."""
    row = _last_snapshot(events)
    if row is None:
        return {}
    published: dict[str, dict[str, Any]] = {}
    for stat_name in events.stats:
        name, label = stat_name.removeprefix(PARAMETERS).partition("{")[::2]
        model = _model_of(label)
        if not stat_name.startswith(PARAMETERS) or name not in _FIELDS or model is None:
            continue
        value = _value(events, stat_name, row, text=name == "allowed_batch_sizes")
        if value is not None:
            published.setdefault(model, {})[name] = value
    return {
        model: BatchingParameters(**published[key]) for model in models if (key := _without_version(model)) in published
    }


def _last_snapshot(events: HostEvents) -> int | None:
    """The second of the two snapshots: the first may come before the parameters are set."""
    plane = events.plane_named(PLANE)
    if plane is None or not plane.lines or plane.lines[0].last - plane.lines[0].first != 2:
        return None
    return plane.lines[0].last - 1


def _model_of(label: str) -> str | None:
    """The model of ``model_name=resnet, op_name=…}``; None: it names none."""
    if "}" not in label:
        return None
    for pair in label[: label.rindex("}")].split(", "):
        key, equals, value = pair.partition("=")
        if key == "model_name" and equals and "=" not in value:
            return value
    return None


def _without_version(model: str) -> str:
    name, colon, version = model.rpartition(":")
    return name if colon and version.lstrip("+-").isdecimal() else model


def _value(events: HostEvents, name: str, row: int, *, text: bool) -> int | str | None:
    kinds = (records.STR, records.REF) if text else (records.INT64, records.UINT64)
    stat = events.stat(name).of_kinds(kinds)
    at = np.flatnonzero(stat.rows == row)
    if not len(at):
        return None
    value = int(stat.value[at[0]])
    return events.text(value) if text else value
