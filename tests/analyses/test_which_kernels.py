"""GPU kernels with and without recorded launch dimensions."""

from __future__ import annotations

import json
from typing import Any

from reports import data_table, rows, session_of
from trace_builder import Event, event, line, plane, xspace

DETAILS = "regs:32 static_shared:16 dynamic_shared:1008 grid:8,4,2 block:128,2,1 occ_pct:50"


def kernel(name: str, at: int, duration_ps: int, details: str | None = DETAILS, **stats: Any) -> Event:
    return event(name, at, duration_ps, stats if details is None else {"kernel_details": details, **stats})


def test_kernels_are_what_streams_run_but_for_copies() -> None:
    """XProf knows those that last and record their launch."""
    host = plane("/host:CPU", [line("main", [kernel("on the host", 0, 5)])])
    events = [
        kernel("copy", 0, 5, None, memcpy_details="num_bytes:4"),
        kernel("fill", 5, 5, None, memset_details="num_bytes:4"),
        kernel("Memcpy DtoH (Device -> Pageable)", 6, 1, None),
        kernel("Memset (Device)", 7, 1, None),
        kernel("__amd_rocclr_fillBufferAligned.kd", 8, 1, None),
        kernel("__amd_rocclr_copyBuffer.kd", 9, 1),
        kernel("ends before it begins", 9, -1),
        kernel("no details", 10, 5, ""),
        kernel("no time", 20, 0),
        kernel("details of no text", 30, 5, None, kernel_details=7),
        kernel("kernel", 40, 5),
    ]
    device = plane(
        "/device:GPU:0",
        [line("Stream #1", events, id=1), line("XLA Ops", [kernel("derived", 0, 9)], id=0xDEADBEEF + 5)],
    )
    report = session_of(xspace(host, device)).kernel_stats()
    assert rows(report, "kernels", "name", "occurrences", "total_ps", "grid_dim", "occupancy_percent") == [
        ("details of no text", 1, 5, None, None),
        ("kernel", 1, 5, "8,4,2", 50.0),
        ("no details", 1, 5, None, None),
        ("__amd_rocclr_copyBuffer.kd", 1, 1, "8,4,2", 50.0),
        ("no time", 1, 0, "8,4,2", 50.0),
    ]
    shown = data_table(json.loads(report.to_xprof()))
    assert {row["kernel_name"] for row in shown} == {"kernel", "__amd_rocclr_copyBuffer.kd"}


def test_launches_with_and_without_dimensions_are_rows_of_their_own() -> None:
    events = [kernel("k", 0, 5, "grid:1,1,1 block:1,1,1"), kernel("k", 10, 7, None), kernel("k", 20, 0)]
    report = session_of(xspace(plane("/device:GPU:0", [line("Stream #1", events, id=1)]))).kernel_stats()
    assert rows(report, "kernels", "total_ps", "grid_dim") == [(7, None), (5, "1,1,1"), (0, "8,4,2")]
    assert [row["total_duration_us"] for row in data_table(json.loads(report.to_xprof()))] == [0.0]
