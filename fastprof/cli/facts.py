"""What ``fastprof info`` has found out, for the card and for the other formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa


class Facts(NamedTuple):
    """What a session holds. ``hosts``, ``planes`` and ``lines`` bear counts and times beside their own columns."""

    summary: dict[str, Any]
    hosts: pa.Table
    planes: pa.Table
    lines: pa.Table
    import_log: pa.Table
