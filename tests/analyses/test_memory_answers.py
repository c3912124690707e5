"""What people ask of a memory profile: whose is it, would more have fitted, when does a leak end, of some steps."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from gate import few
from memory_builder import Pool, report_of, threads
from reports import column, notices, rows
from step_captures import tpu
from trace_builder import Event, event, line, plane

import fastprof
from fastprof.cli.main import main


def step(number: int, at_ps: int, duration_ps: int) -> list[Event]:
    """The mark of a step, and work in it."""
    marks = {"_r": 1, "step_num": number}
    return [event("train", at_ps, duration_ps, marks), event("ran", at_ps, duration_ps - 1)]


# ---- whose the memory is


def test_ops_of_like_names_are_alive_together() -> None:
    """Numbers at the ends of words are left out; those within words are part of a name."""
    pool = Pool(heap=25)
    names = ["layer_0/Relu", "layer_11/Relu", "layer_0/Conv2D", "block3/MatMulV2", "block4/MatMulV2", "dense"]
    tensor: dict[str, Any] = {"region_type": "output", "data_type": 1}
    events = [pool.alloc(n, 64 * (n + 1), 10 + n, name, **tensor) for n, name in enumerate(names)]
    other = pool.alloc(6, 1_000, 3, "layer_7/Relu", region_type="temp", data_type=1)
    report = report_of(threads([*events, other]))
    columns = ("op_names", "region_type", "data_type", "op_count", "count", "total_bytes", "source")
    assert rows(report, "active_groups", *columns) == [
        ("block*/MatMulV2", "output", "float", 2, 2, 27, "recorded"),
        (None, None, None, None, None, 25, "held throughout"),
        ("layer_*/Relu", "output", "float", 2, 2, 21, "recorded"),
        ("dense", "output", "float", 1, 1, 15, "recorded"),
        ("layer_*/Conv2D", "output", "float", 1, 1, 12, "recorded"),
        ("layer_*/Relu", "temp", "float", 1, 1, 3, "recorded"),
    ]
    assert sum(column(report, "active_groups", "share")) == pytest.approx(1.0)


def test_what_was_never_asked_for_is_reported() -> None:
    pool = Pool(limit=10_000)
    report = report_of(
        threads([
            pool.alloc(0, 0x1000, 256, "layer_0/a", requested_bytes=200),
            pool.alloc(1, 0x2000, 256, "layer_1/a", requested_bytes=200),
            pool.alloc(2, 0x3000, 512, "b", requested_bytes=512),
            pool.alloc(3, 0x4000, 64, "c", requested_bytes=None),
            pool.alloc(4, 0x5000, 64, "d", requested_bytes=65),  # makes no sense
        ])
    )  # fmt: skip
    assert rows(report, "active_groups", "op_names", "total_bytes", "requested_bytes", "wasted_bytes") == [
        ("b", 512, 512, 0),
        ("layer_*/a", 512, 400, 112),
        ("c", 64, None, None),
        ("d", 64, None, None),
    ]
    assert rows(report, "active", "op_name", "total_bytes", "wasted_bytes")[1:3] == [
        ("layer_0/a", 256, 56),
        ("layer_1/a", 256, 56),
    ]
    assert column(report, "allocators", "wasted_at_peak_bytes") == [112]
    assert report.scalars["wasted_bytes"].value == 112
    assert notices(report, "info") == []  # a tenth of 1,152 bytes is more
    few = report_of(threads([Pool().alloc(0, 64, 100, requested_bytes=90), event("end", 9, 1)]))
    assert notices(few, "info")[0].startswith(
        "10 % of the memory in use at the peak of GPU_0_bfc is allocator rounding: "
    )


def test_what_was_never_asked_for_adds_up_with_what_was_held_before() -> None:
    """A free records what the allocation before the capture asked for."""
    pool = Pool(heap=1_024, limit=10_000)  # 512 of it are held throughout
    events = [
        pool.alloc(0, 0x1000, 256, "a", requested_bytes=200),
        pool.alloc(1, 0x2000, 256, "b", requested_bytes=250),
        pool.free(2, 0x3000, 512, requested_bytes=8),
    ]
    report = report_of(threads(events))
    wasted = [("held before", 504), ("held throughout", None), ("recorded", 6), ("recorded", 56)]
    for table in ("active", "active_groups"):
        assert sorted(rows(report, table, "source", "wasted_bytes")) == wasted
    assert rows(report, "allocators", "peak_bytes", "wasted_at_peak_bytes") == [(1_536, 566)]
    assert report.scalars["wasted_bytes"].value == 566
    assert notices(report, "info")[0].startswith(
        "37 % of the memory in use at the peak of GPU_0_bfc is allocator rounding: "
    )


@pytest.mark.parametrize(("peak", "remarked"), [(300, True), (299, False)])
def test_of_peaks_under_a_hundredth_of_the_largest_no_remark_records(peak: int, remarked: bool) -> None:
    """Of all hosts: 30,000 bytes on the other one. All of the small peak is stack, of before, or not asked for."""
    large = threads([Pool(limit=10**6).alloc(0, 64, 30_000, "a")], host="large")
    stack, before, wasted = Pool("s", stack=peak - 1), Pool("b", heap=peak - 1), Pool("w")
    small = [stack.alloc(0, 64, 1), before.alloc(0, 64, 1), wasted.alloc(0, 64, peak, requested_bytes=1)]
    texts = notices(report_of(large, threads(small, host="small")), "info")
    assert len(texts) == 3 * remarked


def test_of_what_was_held_before_the_capture_nothing_records_what_it_is() -> None:
    pool = Pool(heap=80)  # 50 held throughout
    report = report_of(threads([pool.alloc(0, 64, 20, "a"), pool.free(1, 128, 30)]))
    assert rows(report, "allocators", "peak_bytes", "held_before_at_peak_bytes") == [(100, 80)]
    assert report.scalars["held_before_bytes"].value == 80
    assert notices(report, "info") == [
        "80 % of the memory in use at the peak of GPU_0_bfc was allocated before the capture, as weights usually "
        "are, so its use is unknown: capture the start of the program to see it."
    ]
    assert report_of(threads([Pool(heap=49).alloc(0, 64, 51, "a")])).notices == ()


@pytest.mark.parametrize(
    ("at_ps", "sentence"),
    [
        (500, "The next program to run was jit_f(7), at 600 ps."),
        (700, "jit_f(7) ran then."),
        (1_650, "jit_g(8) ran then."),
        (1_900, "record. The lifetime peak"),
    ],
)
def test_of_the_stack_the_program_is_reported(at_ps: int, sentence: str) -> None:
    """Of the device that the allocator is of; what it calls its lifetime peak counts the heap alone."""
    pool = Pool("1", stack=90, limit=200)
    runs = [event("jit_f(7)", 600, 200), event("jit_g(8)", 1_600, 200)]
    devices = [
        plane("/device:TPU:0", [line("XLA Modules", [event("other", 0, 5_000)])]),
        plane("/device:TPU:1", [line("XLA Modules", runs)]),
    ]
    report = report_of(threads([pool.alloc(at_ps, 64, 10, peak_bytes_in_use=10)], planes=devices))
    (text,) = notices(report, "info")
    assert text.startswith("90 % of the memory in use at the peak of TPU 1 is the stack: what the runtime reserves for")
    assert sentence in text and text.endswith("The lifetime peak, 10 B, counts the heap alone.")


# ---- whether a request fits


def asked(size: int | str | None, **params: Any) -> fastprof.Report:
    """Of 1,000 bytes 600 are free, half of them in one chunk; then 900 in one; then 500."""
    pool = Pool(limit=1_000, heap=500)
    events = [
        pool.free(1_000, 64, 100, fragmentation=0.5),
        pool.free(2_000, 256, 300, fragmentation=0),
        pool.alloc(6_000, 256, 400, "big", fragmentation=0),
    ]
    return report_of(threads(events), request=size, **params)


def test_when_a_request_fits_is_given_by_stretches_of_time() -> None:
    columns = ("fits", "start_ps", "duration_ps", "snapshot_count", "least_free_bytes", "most_free_bytes")
    assert rows(asked(700), "request", *columns) == [
        ("no", 1_000, 1_000, 1, 600, 600),
        ("yes", 2_000, 4_000, 1, 900, 900),
        ("no", 6_000, 0, 1, 500, 500),
    ]
    assert rows(asked("0.01KiB"), "request", "fits", "snapshot_count", "least_free_bytes", "most_free_bytes") == [
        ("yes", 3, 500, 900)
    ]
    assert asked(None).tables["request"].num_rows == 0
    assert set(column(asked(None), "fragmentation", "request_fits")) == {None}


def test_between_the_bounds_of_the_largest_chunk_nothing_is_known() -> None:
    """Half of 600, give or take half of the last digit of the fragmentation."""
    (first, *_) = rows(asked(1), "request", "largest_free_least_bytes", "largest_free_most_bytes")
    snapshot = rows(asked(1), "snapshots", "largest_free_least_bytes", "largest_free_bytes")[0]
    low, high = snapshot
    answers = {size: column(asked(size), "request", "fits")[0] for size in (low, high, high + 1)}
    assert answers[low] == "yes" and answers[high + 1] == "no"
    assert answers[high] == ("yes" if low == high else "not known")
    assert first[0] <= low


def test_a_sentence_reports_the_peak_the_time_asked_for_and_the_whole() -> None:
    (text,) = [text for text in notices(asked(700, at=3_000), "info") if "request" in text]
    assert text == (
        "A request of 700 B would not have fitted in GPU_0_bfc at its peak, at 6.000 ns: 500 B were free, the "
        "largest chunk had 500 B. At the requested time it would have fitted: 900 B were free, the largest "
        "chunk had 900 B. From the first snapshot to the last it fits for 80.0 %, it does not fit for 20.0 % of "
        "the time, no more from 6.000 ns on. See the table request."
    )
    assert rows(asked(700, at=3_000), "fragmentation", "moment", "request_fits")[-1] == ("at", "yes")
    assert "A request of 4.883 KiB is more than all that GPU_0_bfc may use, 1,000 B." in notices(asked(5_000), "info")


def test_an_allocator_that_takes_more_from_the_device_may_do_so() -> None:
    """It had taken 300 bytes at most, as 600 did not fit; then 700 at least. What exceeds its limit does not fit."""
    pool = Pool(limit=1_000)
    capture = threads([pool.alloc(0, 64, 100, fragmentation=0.9), pool.alloc(1, 512, 600, "big")])
    taken = rows(report_of(capture), "fragmentation", "moment", "taken_least_bytes", "taken_most_bytes")
    assert ("peak", 700, 1_000) in taken
    for size, fits in ((900, ["not known", "no"]), (901, ["no"]), (200, ["not known"])):
        assert column(report_of(capture, request=size), "request", "fits") == fits


@pytest.mark.parametrize("size", [0, -5, 1.5, True, "2G", "0", 2**63])
def test_what_is_not_a_size_is_a_usage_error(size: Any) -> None:
    with pytest.raises(fastprof.UsageError, match="request"):
        asked(size)


def test_the_size_is_a_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "vm.xplane.pb"
    path.write_bytes(threads([Pool(limit=10_000).alloc(0, 64, 10)]))
    command = ["memory-profile", str(path), "--format", "csv", "--table", "request", "--request"]
    assert main([*command, "1KiB"]) == 0
    assert ",yes," in capsys.readouterr().out
    assert main([*command, "1Gi"]) == 2
    assert "'1Gi' is not a size" in capsys.readouterr().err


# ---- when a leak ends


def leak(between_ps: int | None) -> fastprof.Report:
    """Four steps that keep 10 bytes each, and 30 while they run; outside of them 80 at once."""
    pool = Pool(limit=300, heap=50)
    marks = [one for n in range(4) for one in step(n, 1_000 + 100 * n, 100)]
    events = [*([pool.alloc(between_ps, 64, 80), pool.free(between_ps + 1, 64)] if between_ps == 10 else [])]
    for n in range(4):
        at = 1_000 + 100 * n
        kept = pool.alloc(at + 20, 0x2000 + 64 * n, 10, "leak")
        events += [kept, pool.alloc(at + 30, 0x1000, 30), pool.free(at + 40, 0x1000)]
    events += [pool.alloc(between_ps, 64, 80), pool.free(between_ps + 1, 64)] if between_ps == 5_000 else []
    return report_of(threads(marks, events))


def test_a_leak_ends_where_the_peak_of_a_step_does_not_fit() -> None:
    """Of 300 bytes the last step needs 120; 18 steps on it needs all."""
    (text,) = notices(leak(None), "recommendation")
    assert text.endswith(
        "; at this pace the peak of a step, 120 B in the last one, reaches the 300 B that the allocator may "
        "use after 18 more steps. See the table growth."
    )


@pytest.mark.parametrize(("limit", "count"), [(10**8, 0), (10**5, 1)])
def test_a_leak_of_a_small_allocator_is_reported_where_it_fills_it(limit: int, count: int) -> None:
    """Beside a peak of 1,000,000 bytes one of 40; 10 bytes a step take 10,000,000 or 10,000 steps."""
    large, small = Pool("large", limit=10**7), Pool("small", limit=limit)
    marks = [one for n in range(4) for one in step(n, 1_000 + 100 * n, 100)]
    events = [small.alloc(1_020 + 100 * n, 64 * (n + 1), 10, "leak") for n in range(4)]
    report = report_of(threads(marks, [large.alloc(0, 64, 10**6, "weights")], events))
    assert rows(report, "growth", "op_name", "growth_bytes", "grows_steadily") == [("leak", 30, True)]
    assert len(notices(report, "recommendation")) == count


def test_what_runs_outside_of_steps_may_fail_sooner() -> None:
    """Before the first step the leak had not begun, so it is unknown how many steps are left."""
    (after,) = notices(leak(5_000), "recommendation")
    assert after.endswith(
        "after 18 more steps. Work outside steps may run out of memory sooner: it had 170 B in use at 5.000 ns, which "
        "fits for 13 more steps. See the table growth."
    )
    (before,) = notices(leak(10), "recommendation")
    assert before.endswith("it had 130 B in use at 10 ps. See the table growth.")


# ---- some steps


def over_steps() -> bytes:
    """Memory of step 0 that is freed in 1, of 1 that is freed in 2, and what other threads do in between."""
    pool = Pool(heap=5, limit=1_000)
    marks = [one for n in range(3) for one in step(n, 1_000 * (n + 1), 900)]
    events = [
        pool.alloc(500, 0x10, 300, "first"),
        pool.free(600, 0x10),
        pool.alloc(1_100, 0x100, 40, "a"),
        pool.alloc(1_950, 0x200, 7, "between"),
        pool.alloc(2_100, 0x300, 50, "b"),
        pool.free(2_200, 0x100),
        pool.free(3_100, 0x300),
        pool.free(3_950, 0x200),
    ]
    return threads(marks, events)


def of_step(number: int, **params: Any) -> fastprof.Report:
    chosen = fastprof.load(over_steps()).select(steps=(number, number + 1))
    return chosen.report("memory_profile", **params)


def test_of_some_steps_all_that_happens_in_their_time_is_reported() -> None:
    report = of_step(1)
    assert rows(report, "snapshots", "start_ps", "step", "activity", "op_name", "in_use_bytes") == [
        (2_100, 1, "allocation", "b", 102),
        (2_200, 1, "free", "a", 62),
    ]
    assert rows(report, "steps", "step", "peak_bytes", "begin_bytes", "end_bytes", "growth_bytes") == [
        (1, 102, 52, 62, 10)
    ]
    columns = ("peak_ps", "peak_bytes", "peak_step", "snapshot_count", "allocation_count", "free_count")
    assert rows(report, "allocators", *columns) == [(2_100, 102, 1, 2, 1, 1)]
    assert [text.partition(".")[0] for text in notices(report, "info")] == ["Only some steps are selected"]


def test_what_is_freed_after_the_chosen_steps_is_not_a_leak() -> None:
    """And what was allocated before them keeps its name."""
    report = of_step(1)
    assert rows(report, "allocations", "op_name", "allocated_ps", "freed_ps", "allocated_step", "fate") == [
        ("a", 1_100, 2_200, None, "freed"),
        ("b", 2_100, 3_100, 1, "freed"),
    ]
    assert rows(report, "active", "op_name", "total_bytes", "source") == [
        ("b", 50, "recorded"),
        ("a", 40, "recorded"),
        ("between", 7, "recorded"),
        (None, 5, "held throughout"),
    ]
    assert rows(report, "ops", "op_name", "count", "held_at_end_count", "lifetime_max_ps") == [("b", 1, 0, 1_000)]
    assert (report.scalars["held_at_end_count"].value, report.scalars["replaced_count"].value) == (0, 0)


def test_what_was_in_use_as_a_step_began_may_be_its_peak() -> None:
    report = of_step(2)
    assert rows(report, "allocators", "peak_ps", "peak_bytes", "peak_step") == [(3_000, 62, 2)]
    assert sum(column(report, "active", "total_bytes")) == 62
    assert rows(report, "fragmentation", "moment", "start_ps")[0] == ("peak", 3_000)


def test_the_request_is_reported_the_chosen_steps() -> None:
    assert rows(of_step(1, request=920), "request", "fits", "start_ps", "snapshot_count") == [
        ("no", 2_100, 1),
        ("yes", 2_200, 1),
    ]


def test_xprofs_page_of_some_steps_has_their_snapshots() -> None:
    page = json.loads(of_step(1).to_xprof())
    snapshots = page["memoryProfilePerAllocator"]["GPU_0_bfc"]["sampledTimelineSnapshots"]
    assert [one["timeOffsetPs"] for one in snapshots] == ["2100", "2200"]


def test_steps_may_be_executions_of_programs() -> None:
    pool = Pool("0", limit=1_000)
    us = 1_000_000
    runs = [event("jit_f(7)", n * us, us // 2) for n in (1, 2)]
    ops = [("fusion", "loop fusion", n + 0.1, 0.2) for n in (1, 2)]
    device = tpu(0, [], ops, lines=[line("XLA Modules", runs, id=2)])
    capture = threads([pool.alloc(us + 3, 64, 10), pool.alloc(2 * us + 3, 128, 20)], planes=[device])
    marked = report_of(capture, steps_from="markers")
    assert marked.tables["steps"].num_rows == 0
    assert marked.scalars["peak_step"].reason == (
        'the host has no known steps; steps_from="modules" makes executions of programs steps'
    )
    report = report_of(capture, steps_from="modules")
    assert rows(report, "steps", "start_ps", "peak_bytes", "allocation_count") == [(us, 10, 1), (2 * us, 30, 1)]
    with pytest.raises(fastprof.UsageError, match="steps_from"):
        report_of(capture, steps_from="")


@pytest.mark.parametrize("seed", few(range(12), 5))
def test_what_is_reported_of_some_steps_is_what_the_whole_records_of_them(seed: int) -> None:
    lot = random.Random(seed)
    pools = [Pool(name, heap=100, limit=5_000) for name in ("a", "b")]
    marks = [one for n in range(6) for one in step(n, 1_000 * n + lot.randrange(300), lot.choice((400, 700)))]
    events: list[Event] = []
    for at_ps in sorted(lot.sample(range(7_000), 60)):
        pool = lot.choice(pools)
        held = sorted(pool.sizes)
        if held and lot.random() < 0.5:
            events.append(pool.free(at_ps, lot.choice(held)))
        else:
            events.append(
                pool.alloc(at_ps, 64 * lot.randrange(1, 10**6), lot.randrange(1, 50), f"op{lot.randrange(3)}")
            )
    profile = fastprof.load(threads(marks, events))
    whole, some = profile.memory_profile(), profile.select(steps=(2, 4)).memory_profile()
    chosen = [row for row in whole.tables["steps"].to_pylist() if 2 <= row["step"] < 4]
    assert sorted(some.tables["steps"].to_pylist(), key=repr) == sorted(chosen, key=repr)  # a larger peak comes first
    for table, columns in (("snapshots", ("step",)), ("allocations", ("allocated_step", "freed_step"))):
        expected = [
            {**row, **{name: row[name] if row[name] in (2, 3) else None for name in columns}}
            for row in whole.tables[table].to_pylist()
            if any(row[name] in (2, 3) for name in columns)
        ]
        assert some.tables[table].to_pylist() == expected
    for row in some.tables["allocators"].to_pylist():
        peaks = [one["peak_bytes"] for one in chosen if one["allocator"] == row["allocator"]]
        assert row["peak_bytes"] == max(peaks) and row["peak_step"] in (2, 3)
        at_peak = [
            one["total_bytes"] for one in some.tables["active"].to_pylist() if one["allocator"] == row["allocator"]
        ]
        assert sum(at_peak) == row["peak_bytes"]
