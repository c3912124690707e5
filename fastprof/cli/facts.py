"""The content of ``fastprof info``, for all its formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa


class Facts(NamedTuple):
    """A session. ``hosts``, ``planes`` and ``lines`` have counts and times next to their own columns."""

    summary: dict[str, Any]
    hosts: pa.Table
    planes: pa.Table
    lines: pa.Table
    import_log: pa.Table
