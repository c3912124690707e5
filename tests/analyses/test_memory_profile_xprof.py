"""The memory profile as XProf's page reads it. Expected values are XProf 2.24.2's.

Captures drawn by lot are compared with a slow model that goes through them snapshot by snapshot.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from gate import few
from slow_memory_page import slow_page
from step_captures import HOST, spaces, step
from trace_builder import Event, Line, event, line, plane, ref, u64

import fastprof

Json = dict[str, Any]
META = "activityMetadata"
USE = "aggregationStats"


def page(*captures: bytes) -> Any:
    return json.loads(fastprof.load(list(captures)).report("memory_profile").to_xprof())


def allocated(at_ps: int, address: int, size: int, heap: int, **stats: Any) -> Event:
    recorded: Json = {"allocator_name": "bfc", "addr": address, "requested_bytes": size - 6, "allocation_bytes": size}
    recorded |= {"bytes_allocated": heap, "tf_op": "dense", "region_type": "temp", "data_type": 1, "shape": "[8]"}
    return event("MemoryAllocation", at_ps, 0, recorded | stats)


def freed(at_ps: int, address: int, size: int, heap: int, **stats: Any) -> Event:
    recorded: Json = {"allocator_name": "bfc", "addr": address, "requested_bytes": size - 6, "allocation_bytes": size}
    return event("MemoryDeallocation", at_ps, 0, recorded | {"bytes_allocated": heap} | stats)


def capture(*events: Event) -> bytes:
    return spaces(plane(HOST, [line("main", events)]))


def of_lines(*lines: Line) -> bytes:
    return spaces(plane(HOST, lines))


def bfc(*captures: bytes) -> Json:
    """What the page says of the allocator."""
    found: Json = page(*captures)["memoryProfilePerAllocator"]["bfc"]
    return found


def timeline(capture: bytes, field: str) -> list[str]:
    """A field of all snapshots of the timeline."""
    snapshots = [one | one[USE] | one[META] for one in bfc(capture)["sampledTimelineSnapshots"]]
    return [one[field] for one in snapshots]


def alive(capture: bytes) -> list[tuple[str, int, int]]:
    """The rows of what is active at the peak: op, bytes of one, how many."""
    allocator = bfc(capture)
    rows = []
    for row in allocator["activeAllocations"]:
        special = int(row["specialIndex"])
        assert int(row["snapshotIndex"]) == -special - 1 if special >= 0 else int(row["snapshotIndex"]) >= 0
        snapshots = allocator["memoryProfileSnapshots"]
        allocation = (
            allocator["specialAllocations"][special] if special >= 0 else snapshots[int(row["snapshotIndex"])][META]
        )
        rows.append((allocation["tfOpName"], int(allocation["allocationBytes"]), int(row["numOccurrences"])))
    return rows


# ---- the page as a whole


def test_a_page_has_every_field_and_its_64_bit_numbers_as_text() -> None:
    stats = {"bytes_reserved": 64, "bytes_available": 1000, "fragmentation": 0.25, "peak_bytes_in_use": 4096}
    answer = page(capture(allocated(10, 256, 512, 512, **stats)))
    use = {
        "stackReservedBytes": "64",
        "heapAllocatedBytes": "512",
        "freeMemoryBytes": "1000",
        "fragmentation": 0.25,
        "peakBytesInUse": "4096",
    }
    meta = {
        "memoryActivity": "ALLOCATION",
        "requestedBytes": "506",
        "allocationBytes": "512",
        "address": "256",
        "tfOpName": "dense",
        "stepId": "0",
        "regionType": "temp",
        "dataType": "float",
        "tensorShape": "[8]",
    }
    special = {
        "memoryActivity": "ALLOCATION",
        "requestedBytes": "64",
        "allocationBytes": "64",
        "address": "0",
        "tfOpName": "stack",
        "stepId": "0",
        "regionType": "stack",
        "dataType": "INVALID",
        "tensorShape": "unknown",
    }
    snapshot = {"timeOffsetPs": "10", USE: use, META: meta}
    assert answer == {
        "memoryProfilePerAllocator": {
            "bfc": {
                "memoryProfileSnapshots": [snapshot],
                "profileSummary": {
                    "peakBytesUsageLifetime": "4096",
                    "peakStats": use | {"peakBytesInUse": "576"},
                    "peakStatsTimePs": "10",
                    "memoryCapacity": "1576",
                },
                "activeAllocations": [
                    {"snapshotIndex": "0", "specialIndex": "-1", "numOccurrences": "1"},
                    {"snapshotIndex": "-1", "specialIndex": "0", "numOccurrences": "1"},
                ],
                "specialAllocations": [special],
                "sampledTimelineSnapshots": [snapshot],
            }
        },
        "numHosts": 1,
        "memoryIds": ["bfc"],
        "version": 1,
        "hloModules": [],
    }


def test_without_memory_events_a_page_is_empty_and_without_threads_there_is_none() -> None:
    empty = {"memoryProfilePerAllocator": {}, "numHosts": 1, "memoryIds": [], "version": 1, "hloModules": []}
    assert page(capture(event("work", 0, 5))) == empty
    assert page(spaces(plane("/device:GPU:0", [line("Stream #1", [event("kernel", 0, 5)])]))) == {}


def test_several_hosts_have_a_page_each(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"host{number}.xplane.pb").write_bytes(capture(allocated(number, 256, 512, 512)))
    page = json.loads(fastprof.load(tmp_path).report("memory_profile").to_xprof())
    times = {
        host: one["memoryProfilePerAllocator"]["bfc"]["profileSummary"]["peakStatsTimePs"] for host, one in page.items()
    }
    assert times == {"host0": "0", "host1": "1"}


def test_memory_ids_are_sorted_texts_and_devices_count_by_their_number() -> None:
    events = [event("MemoryAllocation", i, 0, {name: i}) for i, name in enumerate(("device_ordinal", "index_on_host"))]
    events += [event("MemoryAllocation", 10, 0, {"device_ordinal": 10}), event("MemoryAllocation", 11)]
    events.append(event("MemoryAllocation", 12, 0, {"allocator_name": ref("GPU_0_bfc")}))
    assert page(capture(*events))["memoryIds"] == ["", "0", "1", "10", "GPU_0_bfc"]


def test_programs_on_tpus_are_shown_by_their_offset_in_the_line() -> None:
    runs = [event("jit_step(1)", 5, 20), event("jit_eval(2)", 30, 10)]
    lines = [line("XLA Modules", runs, timestamp_ns=7), line("XLA Ops", [event("fusion", 5, 1)])]
    device = plane("/device:TPU:3", lines, id=5)
    assert page(spaces(plane(HOST), device))["hloModules"] == [
        {"name": "jit_step(1)", "startTimePs": "5", "endTimePs": "25", "id": "0", "planeName": "TPU:3"},
        {"name": "jit_eval(2)", "startTimePs": "30", "endTimePs": "40", "id": "1", "planeName": "TPU:3"},
    ]


# ---- snapshots


def test_lines_that_begin_at_different_times_are_laid_over_each_other() -> None:
    late = line("late", [allocated(10, 256, 512, 512), allocated(30, 1024, 512, 1536)], timestamp_ns=1_000)
    early = line("early", [allocated(20, 2048, 512, 1024)])
    assert timeline(of_lines(late, early), "timeOffsetPs") == ["10", "20", "30"]


def test_snapshots_of_one_moment_are_in_the_order_that_an_unstable_sort_leaves() -> None:
    events = [allocated(5, i, 512, 512) for i in range(20)]
    assert timeline(capture(*events[:16]), "address") == [str(i) for i in range(16)]
    order = [10, 19, 18, 17, 16, 15, 14, 13, 12, 11, 0, 9, 8, 7, 6, 5, 4, 3, 2, 1]
    assert timeline(capture(*events), "address") == [str(i) for i in order]


def test_the_lifetime_peak_is_that_of_the_last_snapshot_in_the_capture() -> None:
    first = line("first", [allocated(30, 256, 512, 512, peak_bytes_in_use=9)])
    second = line("second", [allocated(10, 1024, 512, 512, peak_bytes_in_use=7)])
    assert bfc(of_lines(first, second))["profileSummary"]["peakBytesUsageLifetime"] == "7"


def test_of_equal_peaks_the_last_counts() -> None:
    events = [allocated(10, 256, 512, 512), freed(20, 256, 512, 0), allocated(30, 512, 512, 512)]
    assert bfc(capture(*events))["profileSummary"]["peakStatsTimePs"] == "30"


def test_memory_in_use_that_is_always_negative_has_no_peak() -> None:
    allocator = bfc(capture(allocated(10, 256, 512, -512, bytes_available=5)))
    summary = allocator["profileSummary"]
    assert (summary["peakStatsTimePs"], summary["memoryCapacity"]) == ("0", "0")
    assert summary["peakStats"]["heapAllocatedBytes"] == "0"
    assert allocator["activeAllocations"] == []


def test_snapshots_without_a_step_belong_to_the_one_after_the_last() -> None:
    events = [allocated(5, 1, 512, 512), step(7, 0.00001, 0.00002), allocated(15, 2, 512, 512)]
    events += [allocated(40, 3, 512, 512), allocated(45, 4, 512, 512)]
    assert timeline(capture(*events), "stepId") == ["0", "0", "1", "1"]


def test_a_free_records_what_the_first_allocation_of_its_address_does() -> None:
    events = [allocated(10, 256, 512, 512, tf_op="first"), allocated(20, 256, 512, 1024, tf_op="second")]
    events += [freed(30, 256, 512, 512, tf_op="none"), freed(40, 256, 512, 0, tf_op="whoever frees")]
    assert timeline(capture(*events), "tfOpName") == ["first", "second", "first", "whoever frees"]


def test_numbers_of_other_kinds_than_xprof_reads_are_0() -> None:
    odd = {"addr": u64(256), "allocation_bytes": u64(512), "fragmentation": 1, "data_type": u64(1)}
    found = bfc(capture(allocated(10, 0, 0, 512, **odd)))["sampledTimelineSnapshots"][0]
    assert (found[META]["address"], found[META]["allocationBytes"], found[USE]["fragmentation"]) == ("0", "0", 0)
    assert found[META]["dataType"] == "INVALID"


@pytest.mark.parametrize(
    ("number", "name"),
    [(0, "INVALID"), (14, "bfloat16"), (19, "half"), (101, "float_ref"), (31, "unknown dtype enum (31)")],
)
def test_data_types_have_tensorflows_names(number: int, name: str) -> None:
    assert timeline(capture(allocated(10, 256, 512, 512, data_type=number)), "dataType") == [name]


def test_data_types_that_are_not_there_are_empty() -> None:
    assert timeline(capture(freed(10, 256, 512, 512)), "dataType") == [""]


# ---- at most 1,000 snapshots


def many(count: int) -> bytes:
    return capture(*(allocated(10 * i, i, 512, 100 + (i * 7) % 5) for i in range(count)))


def test_a_thousand_snapshots_are_all_there() -> None:
    assert timeline(many(1000), "timeOffsetPs") == [str(10 * i) for i in range(1000)]


@pytest.mark.parametrize("count", [1001, 1999, 2000, 2500])
def test_of_more_the_fullest_of_each_stretch_is_kept(count: int) -> None:
    width = count // 1000
    widths = [width] * (1000 * (width + 1) - count) + [width + 1] * (count - 1000 * width)
    at, kept = 0, []
    for one in widths:
        kept.append(max(range(at, at + one), key=lambda i: (i * 7) % 5))
        at += one
    assert timeline(many(count), "timeOffsetPs") == [str(10 * i) for i in kept]


# ---- what is active at the peak


def test_equal_allocations_are_one_row_and_the_largest_come_first() -> None:
    events = [allocated(10 + i, 256 + i, 512, 512 * (i + 1)) for i in range(3)]
    events.append(allocated(20, 8192, 2048, 3584, tf_op="conv"))
    assert alive(capture(*events)) == [("conv", 2048, 1), ("dense", 512, 3)]


def test_what_was_freed_before_the_peak_is_not_active() -> None:
    events = [allocated(10, 256, 512, 512), freed(20, 256, 512, 0), allocated(30, 1024, 2048, 2048, tf_op="conv")]
    assert alive(capture(*events)) == [("conv", 2048, 1)]


def test_what_comes_after_the_peak_is_not_active() -> None:
    events = [allocated(10, 256, 512, 5000, tf_op="conv"), allocated(20, 1024, 512, 600)]
    assert alive(capture(*events)) == [("unused preallocated device memory", 4488, 1), ("conv", 512, 1)]


def test_a_free_of_an_unknown_allocation_counts_twice_against_the_rest() -> None:
    """A free adds to what no allocation accounts for, and takes it off again if nothing was known at its address."""
    events = [freed(5, 64, 1000, 4000), allocated(10, 256, 512, 5000, tf_op="conv")]
    assert alive(capture(*events)) == [("unused preallocated device memory", 4488, 1), ("conv", 512, 1)]


def test_only_allocations_of_the_peaks_step_are_active() -> None:
    events = [step(0, 0, 0.00003), allocated(10, 256, 512, 512, tf_op="before")]
    events += [step(1, 0.00004, 0.00003), allocated(50, 1024, 512, 1024, tf_op="conv")]
    assert alive(capture(*events)) == [("unused preallocated device memory", 512, 1), ("conv", 512, 1)]


def test_the_rest_and_the_stack_come_where_their_size_puts_them() -> None:
    events = [allocated(10, 256, 512, 812, bytes_reserved=700), allocated(11, 1024, 100, 912, bytes_reserved=700)]
    assert alive(capture(*events)) == [
        ("stack", 700, 1),
        ("dense", 512, 1),
        ("unused preallocated device memory", 300, 1),
        ("dense", 100, 1),
    ]


# ---- captures drawn by lot


def drawn(seed: int) -> list[Line]:
    """Threads that allocate and free at a few addresses, of a few allocators; stats are missing now and then."""
    lot = random.Random(seed)
    threads: list[list[Event]] = [[] for _ in range(lot.randint(1, 3))]
    times = sorted(lot.sample(range(20_000), lot.choice((1, 10, 60, 1500))))
    for at in times:
        make = lot.choice((allocated, allocated, freed))
        size = 256 * lot.randint(1, 3)
        one = make(at, lot.randint(1, 9), size, 256 * lot.randint(-2, 40), bytes_available=lot.randrange(999))
        stats = dict(one.stats)  # type: ignore[call-overload]
        stats |= {"allocator_name": lot.choice("abc"), "bytes_reserved": lot.choice((0, 64)), "peak_bytes_in_use": at}
        if "tf_op" in stats:
            stats |= {"tf_op": lot.choice(("dense", "conv", "")), "shape": lot.choice(("[]", "[8]"))}
        for name in lot.sample(sorted(stats), lot.choice((0, 0, 1, 3))):
            del stats[name]
        lot.choice(threads).append(event(one.name, at, 0, stats))
    return [line(f"thread {i}", thread, timestamp_ns=lot.choice((0, 1))) for i, thread in enumerate(threads)]


@pytest.mark.parametrize("seed", few(range(25), 8))
def test_captures_drawn_by_lot_agree_with_the_slow_model(seed: int) -> None:
    lines = drawn(seed)
    assert _without_choice(page(of_lines(*lines))) == _without_choice(slow_page(lines))


def _without_choice(found: Json) -> Json:
    """Of several equal allocations any may stand for all."""
    for one in found["memoryProfilePerAllocator"].values():
        for snapshot in one["memoryProfileSnapshots"]:
            del snapshot["timeOffsetPs"], snapshot[USE], snapshot[META]["address"]
    return found
