"""The memory profile: peaks, what is alive, steps, ops, growth, fragmentation, every snapshot and allocation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from memory_builder import Pool, report_of, threads
from reports import column, rows
from trace_builder import Event, event, line, plane, u64, xspace

import fastprof
from fastprof.analyses.memory_profile import is_fragmented
from fastprof.cli.main import main

MS = 1_000_000_000


def step(number: int, at_ps: int, duration_ps: int) -> Event:
    return event("train", at_ps, duration_ps, {"_r": 1, "step_num": number})


# ---- without memory events


@pytest.mark.parametrize(
    ("planes", "advice"),
    [
        (["/host:CPU"], "TF_CPU_ALLOCATOR_USE_BFC=true"),
        (["/host:CPU", "/device:GPU:0"], "not with TF_GPU_ALLOCATOR=cuda_malloc_async"),
        (["/host:CPU", "/device:TPU:0"], "The TPU runtime writes them at host_tracer_level 2"),
    ],
)
def test_without_events_it_says_what_to_switch_on(planes: Sequence[str], advice: str) -> None:
    report = report_of(xspace(*(plane(name, [line("main", [event("work", 0, 5)])]) for name in planes)))
    (notice,) = report.notices
    assert notice.severity == "info" and advice in notice.text and "ProfilerOptions(host_tracer_level=2)" in notice.text
    assert notice.text.startswith("No memory profile: the capture has no events MemoryAllocation")
    assert "Alive" not in report.to_text() and report.to_text().count("\n") < 10
    assert report.scalars["peak_bytes"].reason == "the capture has no events MemoryAllocation or MemoryDeallocation"
    assert (report.scalars["snapshot_count"].value, report.scalars["allocator_count"].value) == (None, None)
    assert {name: table.num_rows for name, table in report.tables.items() if table.num_rows} == {}


@pytest.mark.parametrize(
    ("name", "advice"),
    [("/host:metadata", ""), ("/device:GPU:0", " TensorFlow and JAX GPU allocators write them at")],
)
def test_without_threads_it_says_so(name: str, advice: str) -> None:
    (notice,) = report_of(xspace(plane(name, [line("main", [event("work", 0, 5)])]))).notices
    start = "No memory profile: the capture has no threads of hosts, plane /host:CPU, where allocators write events."
    assert notice.text.startswith(start + advice) and bool(advice) == (notice.text != start)


def test_names_must_match_and_only_host_threads_count() -> None:
    pool = Pool()
    other = plane("/device:GPU:0", [line("Stream #1", [pool.alloc(0, 64, 5)])])
    report = report_of(threads([event("MemoryAllocation2"), event("memoryallocation")], planes=[other]))
    assert report.scalars["snapshot_count"].value is None


# ---- allocators


def test_the_peak_is_the_first_moment_of_the_most_in_use_stack_and_heap() -> None:
    pool = Pool(heap=100, stack=7, limit=1_000)
    report = report_of(
        threads([
            pool.alloc(10, 0x100, 50, fragmentation=0.25),
            pool.free(20, 0x100),
            pool.alloc(30, 0x200, 50, fragmentation=0.5),
            pool.alloc(40, 0x300, 0),
            pool.free(50, 0x200, fragmentation=0.125),
        ])
    )  # fmt: skip
    (row,) = report.tables["allocators"].to_pylist()
    assert row == {
        "host": "vm",
        "allocator": "GPU_0_bfc",
        "snapshot_count": 5,
        "allocation_count": 3,
        "free_count": 2,
        "held_before_count": 0,
        "replaced_count": 0,
        "held_at_end_count": 1,
        "held_at_end_bytes": 0,
        "peak_bytes": 157,
        "peak_ps": 10,
        "peak_step": None,
        "stack_at_peak_bytes": 7,
        "heap_at_peak_bytes": 150,
        "free_at_peak_bytes": 843,
        "held_before_at_peak_bytes": 100,
        "wasted_at_peak_bytes": 0,
        "fragmentation_at_peak": 0.25,
        "capacity_bytes": 1_000,
        "reserved_at_peak_bytes": None,
        "lifetime_peak_bytes": 157,
        "highest_fragmentation": 0.5,
        "highest_fragmentation_ps": 30,
    }
    peaks = {name: report.scalars[name].value for name in ("peak_bytes", "peak_allocator", "peak_ps", "peak_share")}
    assert peaks == {"peak_bytes": 157, "peak_allocator": "GPU_0_bfc", "peak_ps": 10, "peak_share": 0.157}
    assert report.scalars["peak_step"].reason == "the host has no known steps"


def test_allocators_are_given_by_name_or_device_largest_peak_first() -> None:
    """A number is that of a device, of the kind that the host has."""

    def of(at_ps: int, size: int, **stats: Any) -> Event:
        return Pool().alloc(at_ps, 64, size, **{"allocator_name": None, **stats})

    events = [of(0, 5, device_ordinal=3), of(1, 9, index_on_host=12), of(2, 7, allocator_name="a")]
    assert rows(report_of(threads(events)), "allocators", "allocator", "peak_bytes") == [
        ("device 12", 9), ("a", 7), ("device 3", 5),
    ]  # fmt: skip
    on_tpus = report_of(threads(events, planes=[plane("/device:TPU:3", [])]))
    assert column(on_tpus, "allocators", "allocator") == ["TPU 12", "a", "TPU 3"]


def test_the_peak_since_the_process_began_may_be_older_than_the_capture() -> None:
    pool = Pool(peak=900)
    report = report_of(threads([pool.alloc(0, 64, 10), pool.free(1, 64)]))
    assert rows(report, "allocators", "peak_bytes", "lifetime_peak_bytes") == [(10, 900)]


def test_what_is_not_recorded_is_null() -> None:
    report = report_of(threads([event("MemoryAllocation", 5, 0, {"addr": 64}), event("MemoryDeallocation", 9, 0)]))
    (row,) = report.tables["allocators"].to_pylist()
    unknown = {name for name, value in row.items() if value is None}
    assert unknown >= {"peak_bytes", "peak_ps", "capacity_bytes", "lifetime_peak_bytes", "fragmentation_at_peak"}
    assert rows(report, "snapshots", "address", "in_use_bytes", "free_bytes", "allocation_bytes") == [
        (64, None, None, None),
        (None, None, None, None),
    ]
    assert report.scalars["peak_bytes"].reason == "the allocator does not record it"


def test_hosts_are_rows_of_one_table() -> None:
    captures = [threads([Pool().alloc(0, 64, size)], host=host) for host, size in (("a", 10), ("b", 30), ("c", 20))]
    report = report_of(*captures)
    assert rows(report, "allocators", "host", "peak_bytes") == [("b", 30), ("c", 20), ("a", 10)]
    assert rows(report, "snapshots", "host", "in_use_bytes") == [("a", 10), ("b", 30), ("c", 20)]
    assert rows(report, "active", "host", "total_bytes") == [("b", 30), ("c", 20), ("a", 10)]
    assert (report.scalars["peak_host"].value, report.scalars["snapshot_count"].value) == ("b", 3)


# ---- what is alive


def test_what_is_alive_at_the_peak_adds_up_to_the_memory_in_use() -> None:
    pool = Pool(heap=130, stack=8)  # 100 held throughout, 30 freed at 70
    tensor: dict[str, Any] = {"region_type": "output", "data_type": 1, "shape": "[2,5]"}
    report = report_of(
        threads([
            pool.alloc(10, 0x100, 40, "dense/MatMul", **tensor),
            pool.alloc(20, 0x200, 40, "dense/MatMul", **tensor),
            pool.alloc(30, 0x300, 10, "relu", region_type="temp"),
            pool.free(40, 0x300),
            pool.alloc(50, 0x400, 12, "relu", region_type="temp", requested_bytes=9),
            pool.free(60, 0x100),
            pool.free(70, 0x900, 30),
        ])
    )  # fmt: skip
    columns = ("op_name", "region_type", "data_type", "shape", "allocation_bytes", "requested_bytes", "count",
               "total_bytes", "source")  # fmt: skip
    assert rows(report, "active", *columns) == [
        (None, None, None, None, None, None, None, 100, "held throughout"),
        ("dense/MatMul", "output", "float", "[2,5]", 40, 40, 2, 80, "recorded"),
        (None, None, None, None, 30, 30, 1, 30, "held before"),
        ("relu", "temp", None, None, 12, 9, 1, 12, "recorded"),
        (None, None, None, None, None, None, None, 8, "stack"),
    ]
    assert rows(report, "allocators", "peak_ps", "peak_bytes") == [(50, 230)]
    assert sum(column(report, "active", "total_bytes")) == 230
    assert sum(column(report, "active", "share")) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("at", "alive"),
    [
        ("35ps", [("a", 10), ("b", 20)]),
        (30, [("a", 10), ("b", 20)]),
        (29, [("a", 10)]),
        (40, [("b", 20)]),
        (50, [("b", 20)]),
        (9, []),
    ],
)
def test_what_is_alive_at_a_time_that_is_asked_for(at: int | str, alive: list[tuple[str, int]]) -> None:
    pool = Pool()
    events = [pool.alloc(10, 64, 10, "a"), pool.alloc(30, 128, 20, "b"), pool.free(40, 64), event("end", 50, 1)]
    report = report_of(threads([*events, event("begin", 0, 1)]), at=at)
    assert sorted(rows(report, "at", "op_name", "total_bytes")) == alive
    assert [notice.text for notice in report.notices] == []
    assert "at" not in column(report_of(threads(events)), "fragmentation", "moment")


def test_without_a_time_that_table_is_empty_and_a_time_outside_is_reported() -> None:
    capture = threads([Pool().alloc(10 * MS, 64, 10), event("end", 20 * MS, MS)])
    assert report_of(capture).tables["at"].num_rows == 0
    for at in (9 * MS, 22 * MS):
        (notice,) = report_of(capture, at=at).notices
        assert notice.severity == "warning"
        assert notice.text.endswith("is outside of the capture: vm was captured from 10.000 ms to 21.000 ms.")
    assert report_of(capture, at=21 * MS).notices == ()


def test_a_time_that_is_none_is_a_usage_error() -> None:
    with pytest.raises(fastprof.UsageError, match="at"):
        report_of(threads([]), at="soon")


# ---- lifetimes


def test_an_allocation_belongs_to_the_next_free_of_its_address_in_its_allocator() -> None:
    pool, other = Pool(), Pool("gpu_host_bfc")
    report = report_of(
        threads(
            [
                pool.alloc(10, 64, 5, "a"),
                pool.free(30, 64),
                pool.alloc(40, 64, 6, "b"),
                pool.alloc(50, 64, 7, "c"),
                pool.free(60, 64),
                pool.free(70, 64, 7),
                pool.free(80, 128, 9),
            ],
            [other.alloc(20, 64, 8, "d")],
        )
    )
    columns = ("allocator", "op_name", "allocated_ps", "freed_ps", "lifetime_ps", "fate")
    assert rows(report, "allocations", *columns) == [
        ("GPU_0_bfc", "a", 10, 30, 20, "freed"),
        ("GPU_0_bfc", "b", 40, None, None, "free not recorded"),
        ("GPU_0_bfc", "c", 50, 60, 10, "freed"),
        ("GPU_0_bfc", None, None, 70, None, "allocation not recorded"),
        ("GPU_0_bfc", None, None, 80, None, "held before"),
        ("gpu_host_bfc", "d", 20, None, None, "held at the end"),
    ]
    lost = [notice.text for notice in report.notices if notice.text.startswith("2 allocations and frees have no")]
    assert len(lost) == 1


def test_ops_record_what_they_allocate_and_how_long_it_lives() -> None:
    pool = Pool()
    events = [pool.alloc(MS * at, 64 * at + 64, size, "a") for at, size in ((0, 10), (1, 20), (2, 30), (3, 5))]
    frees = [pool.free(MS * at, address) for at, address in ((1, 64), (3, 128), (100, 192))]
    report = report_of(threads([*events, *frees, pool.alloc(5 * MS, 999, 7)]), short_lived_us=2_000)
    columns = ("op_name", "count", "allocated_bytes", "largest_bytes", "held_at_end_count", "held_at_end_bytes",
               "short_lived_count", "short_lived_bytes", "lifetime_min_ps", "lifetime_p50_ps",
               "lifetime_max_ps")  # fmt: skip
    assert rows(report, "ops", *columns) == [
        ("a", 4, 65, 30, 1, 5, 2, 30, MS, 2 * MS, 98 * MS),
        (None, 1, 7, 7, 1, 7, 0, 0, None, None, None),
    ]
    assert (report.scalars["short_lived_count"].value, report.scalars["short_lived_share"].value) == (2, 0.4)
    assert report_of(threads([*events, *frees])).scalars["short_lived_count"].value == 1  # a millisecond, by default


def test_allocations_over_and_over_are_reported() -> None:
    pool = Pool()
    events = []
    for n in range(1_000):
        events += [pool.alloc(10 * n, 64, 5, "noisy"), pool.free(10 * n + 5, 64)]
    (notice,) = report_of(threads(events)).notices
    assert notice.text.startswith(
        "1,000 of 1,000 allocations of GPU_0_bfc are freed soon after; noisy has most of these, 1,000."
    )
    assert report_of(threads(events[2:])).notices == ()


# ---- steps and growth


def leaking(steps: int, keep: int = 10) -> bytes:
    """Each step of 100 ps keeps memory of the op leak, and frees that of the op work."""
    pool = Pool(limit=200, heap=50)
    marks = [one for n in range(steps) for one in (step(n, 1_000 + 100 * n, 100), event("ran", 1_000 + 100 * n, 90))]
    events = []
    for n in range(steps):
        at = 1_000 + 100 * n
        events += [
            pool.alloc(at + 10, 0x1000, 30, "work"),
            pool.alloc(at + 20, 0x2000 + 64 * n, keep, "leak"),
            pool.free(at + 30, 0x1000),
        ]
    return threads(marks, events)


def test_steps_record_peak_growth_allocations_and_frees() -> None:
    report = report_of(leaking(3))
    columns = ("step", "start_ps", "duration_ps", "peak_bytes", "peak_ps", "begin_bytes", "end_bytes", "growth_bytes",
               "allocation_count", "allocated_bytes", "freed_bytes", "short_lived_bytes")  # fmt: skip
    assert rows(report, "steps", *columns) == [
        (0, 1_000, 100, 90, 1_020, None, 60, None, 2, 40, 30, 30),
        (1, 1_100, 100, 100, 1_120, 60, 70, 10, 2, 40, 30, 30),
        (2, 1_200, 100, 110, 1_220, 70, 80, 10, 2, 40, 30, 30),
    ]
    assert rows(report, "allocators", "peak_step", "peak_ps") == [(2, 1_220)]
    assert column(report, "snapshots", "step") == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert rows(report, "allocations", "op_name", "allocated_step", "freed_step") == [
        ("work", 0, 0), ("leak", 0, None), ("work", 1, 1), ("leak", 1, None), ("work", 2, 2), ("leak", 2, None),
    ]  # fmt: skip


def test_an_op_that_holds_more_and_more_is_a_leak() -> None:
    report = report_of(leaking(5))
    columns = ("op_name", "growth_bytes", "growth_per_step_bytes", "steps_grown", "step_count", "first_step_end_bytes",
               "last_step_end_bytes", "grows_steadily")  # fmt: skip
    assert rows(report, "growth", *columns) == [("leak", 40, 10.0, 4, 5, 10, 50, True)]
    (notice,) = report.notices
    assert notice.severity == "recommendation"
    assert notice.text.startswith("leak holds more and more memory of GPU_0_bfc: 40 B more at the end of the last of 5")
    assert "the peak of a step, 130 B in the last one, reaches the 200 B that" in notice.text
    assert "may use after 7 more steps. See" in notice.text  # 70 bytes are left at that peak, not 100 as at its end


def test_an_op_that_leaks_on_several_allocators_is_reported_once() -> None:
    events = []
    for name in ("GPU_0_bfc", "GPU_1_bfc"):
        pool = Pool(name)
        events += [pool.alloc(1_050 + 100 * n, 64 * (n + 1), 10, "leak") for n in range(5)]
    marks = [one for n in range(5) for one in (step(n, 1_000 + 100 * n, 100), event("ran", 1_000 + 100 * n, 90))]
    report = report_of(threads(marks, events))
    assert rows(report, "growth", "allocator", "growth_bytes") == [("GPU_0_bfc", 40), ("GPU_1_bfc", 40)]
    (notice,) = report.notices
    assert "The same applies to 1 other allocator. See" in notice.text


def test_steps_without_allocations_and_frees_have_no_row() -> None:
    pool = Pool()
    marks = [one for n in range(3) for one in (step(n, 100 * n, 100), event("ran", 100 * n, 90))]
    report = report_of(threads(marks, [pool.alloc(50, 64, 10), pool.free(250, 64)]))
    assert rows(report, "steps", "step", "begin_bytes", "end_bytes", "peak_bytes") == [
        (0, None, 10, 10),
        (2, 10, 0, 10),
    ]


def test_of_steps_that_overlap_the_one_that_began_last_counts() -> None:
    first = [step(0, 0, 100), event("ran", 0, 90)]
    second = [step(1, 50, 20), event("ran", 50, 10)]
    pool = Pool()
    report = report_of(threads(first, second, [pool.alloc(at, 64 + at, 1) for at in (10, 60, 80, 100)]))
    assert column(report, "snapshots", "step") == [0, 1, 0, None]
    assert rows(report, "steps", "step", "allocation_count") == [(0, 3), (1, 1)]


def test_a_few_steps_or_no_growth_are_no_leak() -> None:
    assert report_of(leaking(3)).notices == ()
    steady = report_of(leaking(5, keep=0))
    assert not any(notice.severity == "recommendation" for notice in steady.notices)
    assert steady.tables["growth"].num_rows == 0


# ---- fragmentation


@pytest.mark.parametrize(
    ("too_small", "free", "taken", "shown"),
    [
        (10, 1_000, 1_000, True),
        (9, 1_000, 1_000, False),
        (10, 100_000, 1_000, True),  # most of what is free is not taken from the device
        (9, 100_000, 1_000, False),
        (10, 1_000, 100_000, True),
        (10, 1_000, None, True),
        (9, 1_000, None, False),
        (10, None, 1_000, True),
        (9, None, 1_000, False),
        (9, None, None, True),
        (None, 1_000, 1_000, True),
        (0, 0, 1_000, False),
    ],
)
def test_fragmentation_is_shown_from_a_hundredth_of_what_is_free_and_taken_on(
    too_small: int | None, free: int | None, taken: int | None, shown: bool
) -> None:
    columns = {"too_small_most_bytes": too_small, "free_bytes": free, "taken_most_bytes": taken}
    table = pa.table({name: pa.array([value] * 2, pa.int64()) for name, value in columns.items()})
    table = table.append_column("moment", pa.array(["peak", "at"]).dictionary_encode())
    assert is_fragmented(table).to_pylist() == [shown, True]


def test_of_an_allocator_that_grows_fragmentation_is_shown_too(captures: Path) -> None:
    """Half of what is taken is in chunks too small, and 141 GiB could still be taken."""
    path = captures / "xspace" / "gpu-mi300x-jax08-gemm"
    assert "Fragmentation, with the largest free chunk" in fastprof.load(path).report("memory_profile").to_text()


def test_fragmentation_that_kept_the_next_request_out_is_reported() -> None:
    pool = Pool(limit=1_024, heap=524)
    report = report_of(
        threads([
            pool.free(1_000, 64, 100, fragmentation=0.75),  # 600 free, the largest chunk 150, give or take a digit
            pool.free(2_000, 256, 300, fragmentation=0.333333),  # it joins two of these, 600 of 900 free
            pool.alloc(3_000, 256, 400, "big", fragmentation=0.6),
        ]),
        at=1_000,
    )  # fmt: skip
    columns = ("moment", "start_ps", "free_bytes", "largest_free_bytes", "next_largest_bytes", "next_largest_op",
               "next_largest_ps", "too_small_least_bytes", "too_small_most_bytes")  # fmt: skip
    worst = (1_000, 600, 151, 400, "big", 3_000, 600, 600)
    assert rows(report, "fragmentation", *columns) == [
        ("peak", 3_000, 500, 201, None, None, None, 0, 0),
        ("most fragmented", *worst),
        ("tightest", *worst),
        ("at", *worst),
    ]
    (notice,) = report.notices
    assert notice.severity == "recommendation"
    assert notice.text.startswith(
        "At 1.000 ns 600 B of GPU_0_bfc were free, but no chunk held the 400 B that big asked for at 3.000 ns: "
        "the largest had at most 151 B."
    )


def test_of_an_allocator_that_grows_the_largest_chunk_is_known_within_bounds() -> None:
    """600 bytes are not in a chunk of a tenth of 500: it took more from the device."""
    pool = Pool(limit=1_000)
    report = report_of(threads([pool.alloc(0, 64, 100, fragmentation=0.9), pool.alloc(1, 512, 600, "big")]))
    assert rows(report, "snapshots", "largest_free_bytes", "too_small_most_bytes") == [(91, 900), (300, 0)]
    assert report.notices[0].text.startswith(
        "1 allocator takes more memory from the device on demand: GPU_0_bfc has taken 700 B to 1,000 B by "
        "its last event, of the 1,000 B that it may."
    )


def test_a_nearly_exhausted_allocator_is_reported() -> None:
    (notice,) = report_of(threads([Pool(limit=100).alloc(2 * MS, 64, 95)])).notices
    assert notice.text.startswith("GPU_0_bfc is nearly exhausted: at its peak, at 2.000 ms, 95.0 % of the 100 B")
    assert report_of(threads([Pool(limit=100).alloc(2 * MS, 64, 94)])).notices == ()


# ---- every snapshot


def test_all_snapshots_are_kept_in_order_of_absolute_time() -> None:
    """XProf keeps 1,000, and counts time from the start of each line."""
    pool = Pool(limit=10**9)
    events = [pool.alloc(1_000 * n, 64 * (n + 1), 10) for n in range(2_500)]
    early = Pool("GPU_0_bfc", heap=-1).alloc(500_000, 1, 1)
    report = report_of(threads(events, [early], base_ns=[1, 0]))
    assert report.tables["snapshots"].num_rows == 2_501
    starts = column(report, "snapshots", "start_ps")
    assert starts == sorted(starts)
    assert starts[499:502] == [500_000, 500_000, 501_000]  # of equal times as in the file
    assert column(report, "snapshots", "in_use_bytes")[499:502] == [5_000, 0, 5_010]


def test_a_free_is_reported_with_what_it_frees() -> None:
    pool = Pool("TPU")
    report = report_of(
        threads([
            pool.alloc(0, 64, 10, "a", shape="[5]", data_type=1),
            pool.free(1, 64, requested_bytes=None, allocation_bytes=None, tf_op="who frees"),
            pool.free(2, 128, 5, requested_bytes=None, allocation_bytes=None),
        ])
    )  # fmt: skip
    assert rows(report, "snapshots", "activity", "op_name", "shape", "data_type", "allocation_bytes") == [
        ("allocation", "a", "[5]", "float", 10),
        ("free", "a", "[5]", "float", 10),
        ("free", None, None, None, 5),  # as the heap fell
    ]


@pytest.mark.parametrize("text", ["", "(null)"])
def test_empty_names_are_no_names(text: str) -> None:
    report = report_of(threads([Pool().alloc(0, 64, 5, text, region_type=text, shape=text, data_type=0)]))
    assert rows(report, "active", "op_name", "region_type", "shape", "data_type") == [(None, None, None, None)]


def test_addresses_beyond_63_bits_are_reported_as_twos_complement() -> None:
    report = report_of(threads([Pool().alloc(0, 64, 5, addr=u64(2**64 - 1)), Pool().alloc(1, 64, 5, addr=-1)]))
    assert column(report, "snapshots", "address") == [-1, -1]
    assert column(report, "allocations", "fate") == ["free not recorded", "held at the end"]


# ---- on the command line


def test_the_time_is_a_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "vm.xplane.pb"
    path.write_bytes(threads([Pool().alloc(10, 64, 10, "first"), event("end", 5 * MS)]))
    assert main(["memory-profile", str(path), "--at", "1ms", "--format", "csv", "--table", "at"]) == 0
    assert "first" in capsys.readouterr().out
    assert main(["memory-profile", str(path)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Memory profile\n") and "Alive at the peak" in shown and "time asked for" not in shown
