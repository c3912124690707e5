"""The memory profile of numbers at the ends of 64 bits, and of events with few stats."""

from __future__ import annotations

import pytest
from memory_builder import Pool, report_of, threads
from reports import column, rows
from trace_builder import event

import fastprof


def test_the_largest_peak_is_so_by_a_byte() -> None:
    """As doubles, both are the same."""
    events = [Pool(name, limit=2**61).alloc(n, 64, 2**60 + n) for n, name in enumerate(("small", "large"))]
    report = report_of(threads(events))
    assert rows(report, "allocators", "allocator", "peak_bytes") == [("large", 2**60 + 1), ("small", 2**60)]
    assert report.scalars["peak_bytes"].value == 2**60 + 1


def test_a_peak_of_nothing_is_known_beside_events_that_do_not_record_it() -> None:
    stats = {"allocator_name": "a", "addr": 64}
    known = event("MemoryAllocation", 5, 0, {**stats, "bytes_allocated": 0})
    report = report_of(
        threads([event("MemoryAllocation", 1, 0, stats), known, event("MemoryDeallocation", 9, 0, stats)])
    )
    assert rows(report, "allocators", "peak_bytes", "peak_ps") == [(0, 5)]


def test_a_negative_stack_makes_no_sum_of_what_is_alive() -> None:
    report = report_of(threads([Pool(stack=-5).alloc(0, 64, 256, "a")]))
    assert column(report, "allocators", "peak_bytes") == [251]
    assert sum(column(report, "active", "total_bytes")) == 256
    assert [notice.text.partition(":")[0] for notice in report.notices] == [
        "Live allocations at the peak of 1 allocator do not add up to the memory in use"
    ]


def test_times_that_are_too_far_apart_are_reported() -> None:
    pool = Pool()
    with pytest.raises(fastprof.CaptureError, match="too far apart for 64 bits"):
        report_of(threads([pool.alloc(-(2**62), 64, 1)], [pool.free(2**62, 64)]))


def test_a_request_of_all_there_is_does_not_wrap() -> None:
    pool = Pool(limit=2**62)
    report = report_of(threads([pool.alloc(0, 64, 5, fragmentation=0.5)]), request=2**63 - 1)
    assert column(report, "request", "fits") == ["no"]
