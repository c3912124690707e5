"""A view of tfprof as JSON: its rows, the nodes of these, and the options that made them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from fastprof.derive.tfprof.options import Options
from fastprof.render import as_json


def chunks(
    view: str, options: Options, unknown: Mapping[str, str], table: pa.Table, nodes: pa.Table
) -> Iterator[bytes]:
    """The document, ended by a newline. ``unknown``: figures that are not recorded, and why."""
    written = {name: _json(value) for name, value in dataclasses.asdict(options).items()}
    described = {"view": view, "options": written, "unknown": dict(unknown)}
    return as_json.sections(described, {"tfprof_view": table, "tfprof_view_nodes": nodes})


def _json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
