"""Communication: what is hidden, what is exposed and to blame, over steps, devices and ops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flight_spaces import (
    AG_DONE,
    AG_START,
    AR,
    CATEGORIES,
    FUSION,
    LOAD_DONE,
    LOAD_START,
    PREFETCH_DONE,
    PREFETCH_START,
    core,
    gpu,
    report_of,
    rows,
)
from gate import few, typical_captures
from hlo_builder import Op, Program, f32, packed
from random_spaces import random_space
from step_captures import US, host, ran, spaces, sparse_core, step, tpu
from trace_builder import Metadata, event, int_field, len_field, line, plane, u64, xspace
from xla_spaces import gpu_capture, tpu_capture

import fastprof

SPLIT = ("duration_ps", "compute_ps", "hidden_ps", "exposed_ps", "idle_ps")
OF_KIND = ("kind", "time_ps", "hidden_ps", "exposed_ps")
OF_OP = ("name", "occurrences", "total_ps", "wait_ps", "hidden_ps", "exposed_ps")

# ---- TPU cores


def test_a_collective_on_the_op_line_is_exposed() -> None:
    report = report_of(spaces(core(0, [(FUSION, 0, 10), (AR, 10, 5), (FUSION, 18, 2)])))
    assert rows(report, "devices", *SPLIT) == [(20, 12, 0, 5, 3)]
    assert rows(report, "kinds", *OF_KIND) == [("all-reduce", 5, 0, 5)]
    assert rows(report, "operations", *OF_OP) == [("all-reduce.1", 1, 5, 5, 0, 5)]


def test_what_is_aloft_while_the_core_computes_is_hidden() -> None:
    ops = [(AG_START, 0, 1), (FUSION, 1, 6), (AG_DONE, 9, 3), (FUSION, 12, 8)]
    report = report_of(spaces(core(0, ops)))
    # 1 to start it, 6 hidden, 2 in which the core does nothing, 3 of waiting
    assert rows(report, "devices", *SPLIT) == [(20, 14, 6, 6, 0)]
    assert rows(report, "operations", *OF_OP) == [("all-gather-start.3", 1, 12, 4, 6, 6)]
    assert report.tables["operations"]["payload_bytes"].to_pylist() == [1024]


def test_the_op_that_the_core_stands_at_takes_the_blame() -> None:
    ops = [(LOAD_START, 0, 1), (AG_START, 1, 1), (FUSION, 2, 3), (LOAD_DONE, 5, 4), (FUSION, 9, 1), (AG_DONE, 10, 2)]
    report = report_of(spaces(core(0, ops)))
    assert rows(report, "devices", *SPLIT) == [(12, 4, 4, 8, 0)]
    assert rows(report, "kinds", *OF_KIND) == [("copy host to device", 9, 3, 5), ("all-gather", 11, 4, 3)]


def test_a_core_that_stands_at_nothing_waits_for_the_first_kind() -> None:
    ops = [(LOAD_START, 0, 1), (AG_START, 1, 1), (LOAD_DONE, 8, 1), (AG_DONE, 9, 1)]
    report = report_of(spaces(core(0, ops)))
    assert rows(report, "kinds", *OF_KIND) == [("all-gather", 9, 0, 8), ("copy host to device", 9, 0, 2)]


def test_nested_ops_take_time_from_those_around_them() -> None:
    loop = "%while.1 = f32[8] while(f32[8] %x), condition=%c, body=%b"
    categories = {**CATEGORIES, loop: "while"}
    ops = [(loop, 0, 20), (AR, 2, 5), (FUSION, 7, 3), (AR, 15, 1)]
    report = report_of(spaces(core(0, ops, categories=categories)))
    assert rows(report, "devices", *SPLIT) == [(20, 14, 0, 6, 0)]
    assert rows(report, "operations", *OF_OP) == [("all-reduce.1", 2, 6, 6, 0, 6)]


def test_starts_and_ends_are_paired_in_order() -> None:
    ops = [(LOAD_START, 0, 1), (LOAD_DONE, 4, 1), (LOAD_START, 5, 1), (FUSION, 6, 2), (LOAD_DONE, 9, 1)]
    report = report_of(spaces(core(0, ops)))
    assert rows(report, "operations", "occurrences", "total_ps", "min_ps", "max_ps", "hidden_ps") == [(2, 10, 5, 5, 2)]


def test_a_start_without_an_end_and_an_end_without_a_start_count_by_themselves() -> None:
    report = report_of(spaces(core(0, [(LOAD_DONE, 0, 2), (FUSION, 2, 5), (LOAD_START, 7, 1), (FUSION, 8, 5)])))
    assert rows(report, "operations", *OF_OP) == [("copy-done", 1, 2, 2, 0, 2), ("copy-start", 1, 1, 1, 0, 1)]


def test_the_asynchronous_line_pairs_what_loops_separate() -> None:
    done = "%copy-done = f32[1024]{0} copy-done((f32[1024]{0}, f32[1024]{0:S(5)}, u32[]) %carried.4)"
    categories = {**CATEGORIES, done: "copy-done"}
    ops = [(LOAD_START, 0, 1), (FUSION, 1, 5), (done, 6, 2)]
    for late in (0, 100):
        report = report_of(
            spaces(core(0, ops, aloft=[(LOAD_START, "copy-done", 0, 8)], late_us=late, categories=categories))
        )
        assert rows(report, "operations", *OF_OP) == [("copy-start", 1, 8, 3, 5, 3)]


def test_the_asynchronous_line_alone_is_put_on_the_clock_of_the_ops() -> None:
    ops = [(FUSION, 0, 4), (FUSION, 6, 4)]
    for late in (0, 100):
        report = report_of(spaces(core(0, ops, aloft=[(PREFETCH_START, "copy-done.2", 1, 7)], late_us=late)))
        assert rows(report, "operations", *OF_OP) == [("copy-start.2", 1, 7, 0, 5, 2)]
        assert rows(report, "devices", *SPLIT) == [(10, 8, 5, 2, 0)]


def test_an_asynchronous_line_that_repeats_the_ops_changes_nothing() -> None:
    ops = [(LOAD_START, 0, 1), (FUSION, 1, 5), (LOAD_DONE, 6, 2)]
    alone = report_of(spaces(core(0, ops)))
    both = report_of(spaces(core(0, ops, aloft=[(LOAD_START, "copy-done", 0, 8)])))
    for name in alone.tables:
        assert both.tables[name].equals(alone.tables[name])


def test_sparse_cores_are_devices_of_their_own() -> None:
    found = spaces(
        tpu(0, [ran("0", 0, 20)], [("f", "fusion", 0, 10), ("all-gather-start", "async-start", 10, 1),
            ("g", "fusion", 11, 4), ("all-gather-done", "async-done", 15, 5)]),
        sparse_core(0, [("s", "all-gather", 11, 8)], [ran("0", 11, 8)]),
    )  # fmt: skip
    report = report_of(found)
    assert rows(report, "devices", "sparse_core", *SPLIT) == [(False, 20, 14, 4, 6, 0), (True, 8, 0, 0, 8, 0)]


def test_events_that_name_no_op_are_idle_time() -> None:
    events = [ran("something", 0, 10)]
    report = report_of(spaces(plane("/device:TPU:0", [line("XLA Ops", events, id=3)], id=2)))
    assert rows(report, "devices", *SPLIT) == [(10, 0, 0, 0, 10)]


# ---- steps


def test_steps_of_a_core_divide_what_lies_in_them() -> None:
    ops = [(FUSION, 0, 4), (AG_START, 4, 1), (FUSION, 5, 6), (AG_DONE, 11, 2), (FUSION, 14, 4)]
    report = report_of(spaces(core(0, ops, steps=[(0, 10), (10, 10)])))
    assert rows(report, "steps", "step", "start_ps", *SPLIT) == [(0, 0, 10, 9, 5, 1, 0), (1, 10, 10, 5, 1, 2, 3)]
    assert rows(report, "step_kinds", "step", *OF_KIND) == [(0, "all-gather", 6, 5, 1), (1, "all-gather", 3, 1, 2)]
    assert rows(report, "steps", "if_hidden_ps") == [(9,), (8,)]
    figures = report.scalars
    assert (figures["step_count"].value, figures["step_device_mean_ps"].value) == (2, 10_000_000)
    assert figures["step_if_hidden_mean_ps"].value == 8_500_000
    assert figures["step_gain_share"].value == pytest.approx(0.15)


def test_compute_hides_no_more_than_there_is() -> None:
    report = report_of(spaces(core(0, [(AR, 0, 9), (FUSION, 9, 1)], steps=[(0, 10)])))
    assert rows(report, "steps", "exposed_ps", "if_hidden_ps") == [(9, 9)]


def test_without_steps_all_of_the_capture_is_one() -> None:
    report = report_of(spaces(core(0, [(FUSION, 5, 10), (AR, 15, 5)])))
    assert rows(report, "steps", "step", "name", "start_ps", *SPLIT) == [(None, None, 5, 15, 10, 0, 5, 0)]
    assert "no step" in (report.scalars["step_device_mean_ps"].reason or "")


def test_programs_may_be_the_steps() -> None:
    ops = [(FUSION, 0, 4), (AR, 4, 2), (FUSION, 10, 4)]
    runs = line("XLA Modules", [ran("jit_f(1)", 0, 8, run_id=1), ran("jit_f(1)", 10, 5, run_id=2)], id=2)
    report = report_of(spaces(core(0, ops, more=[runs])), steps_from="modules")
    assert rows(report, "steps", *SPLIT) == [(8, 4, 0, 2, 2), (5, 4, 0, 0, 1)]


# ---- GPUs


def test_kernels_of_other_streams_hide_collectives_and_copies() -> None:
    main = [step(0, 0, 100), ran("launch", 1, 1, correlation_id=1)]
    kernels = [ran("gemm", 5, 50, correlation_id=1), ran("gemm", 70, 10, correlation_id=1)]
    nccl = [ran("ncclDevKernel_AllReduce_Sum_f32_RING_LL(a)", 40, 25, correlation_id=1)]
    copies = [ran("MemcpyH2D", 60, 15, correlation_id=1, memcpy_details="kind_src:pinned size:1000 dest:0 async:1")]
    report = report_of(spaces(host(main), gpu(0, kernels, nccl, copies)))
    assert rows(report, "devices", *SPLIT) == [(75, 60, 20, 15, 0)]
    assert rows(report, "steps", "step", *SPLIT) == [(0, 75, 60, 20, 15, 0)]
    # what both wait for is the collective
    assert rows(report, "kinds", *OF_KIND) == [("all-reduce", 25, 15, 10), ("copy host to device", 15, 5, 5)]
    assert report.tables["operations"]["payload_bytes"].to_pylist() == [None, 1000]
    assert report.tables["operations"]["algorithm_bytes_per_s"].to_pylist() == [None, pytest.approx(1000 / 15e-6)]


def test_copies_of_a_gpu_to_another_one_are_between_devices() -> None:
    def copy(at: float, destination: int) -> Any:
        return ran("MemcpyD2D", at, 2, correlation_id=1, memcpy_details=f"size:10 dest:{destination} async:1")

    report = report_of(spaces(host(), gpu(3, [copy(0, 3), copy(5, 4), ran("MemcpyP2P", 9, 1)])))
    assert rows(report, "kinds", "kind", "scope", "exposed_ps", "moved_bytes") == [
        ("copy between devices", "between devices", 3, None),
        ("copy within device", "within the device", 2, 10),
    ]


def test_copies_whose_launch_alone_records_the_way_are_copies() -> None:
    calls = [ran("hipMemcpyHtoDAsync", 1, 1, correlation_id=1), ran("hipMemcpyDtoDAsync", 3, 1, correlation_id=2)]
    copies = [ran("__amd_rocclr_copyBuffer.kd", 5 * n, 2, correlation_id=n) for n in (1, 2)]
    profile = fastprof.load(spaces(host(calls), gpu(0, [*copies, ran("gemm", 20, 5, correlation_id=3)])))
    report = profile.communication()
    assert rows(report, "kinds", "kind", "exposed_ps") == [("copy host to device", 2), ("copy within device", 2)]
    named = dict(
        zip(*(profile.hlo_stats().tables["ops"][name].to_pylist() for name in ("name", "category")), strict=True)
    )
    assert [named[name] for (name,) in rows(report, "operations", "name")] == ["copy (H2D)", "copy (D2D)"]


def test_instructions_of_gpus_record_bytes_and_groups() -> None:
    program = Program("jit_f")
    add = program.computation(
        "add", Op("a", "parameter", f32()), Op("b", "parameter", f32()), Op("c", "add", f32(), ["a", "b"])
    )
    program.entry(
        Op("x", "parameter", f32(256)),
        Op(
            "all-reduce-start.1", "all-reduce-start", f32(256), ["x"], calls=[add], raw=len_field(49, packed(1, [0, 1]))
        ),
        Op("all-reduce-done.1", "all-reduce-done", f32(256), ["all-reduce-start.1"]),
    )
    stats = {"hlo_op": "all-reduce-start.1", "hlo_module": "jit_f", "program_id": u64(7), "correlation_id": 1}
    kernel = event("ncclDevKernel_Generic(x)", 0, 2 * US, stats)
    entry = Metadata("jit_f(7)", 7, stats={"Hlo Proto": program.proto()})
    report = report_of(spaces(gpu(0, [kernel]), plane("/host:metadata", event_metadata=[entry])))
    assert rows(report, "operations", "program_id", "name", "kind", "payload_bytes", "group_size") == [
        (7, "all-reduce-start.1", "all-reduce", 1024, 2)
    ]
    assert report.tables["operations"]["bus_bytes_per_s"].to_pylist() == [pytest.approx(1024 / 2e-6)]


# ---- meetings


def _pair(late: float, *, groups: str = "{{0,1}}") -> bytes:
    text = AR.replace("{{0,1}}", groups)
    categories = {**CATEGORIES, text: "all-reduce"}
    first = [(FUSION, 0, 10), (text, 10, 10 + late), (FUSION, 20 + late, 5), (text, 25 + late, 5)]
    second = [(FUSION, 0, 10 + late), (text, 10 + late, 10), (FUSION, 20 + late, 3), (text, 23 + late, 7)]
    steps = [(0, 20 + late), (20 + late, 10)]
    return spaces(*(core(n, ops, steps=steps, categories=categories) for n, ops in enumerate((first, second))))


def test_meetings_record_who_came_last_and_how_long_others_waited() -> None:
    report = report_of(_pair(4))
    assert rows(report, "meetings", "step", "number", "name", "device_count", "first_device", "last_device", "skew_ps",
                "shortest_ps", "longest_ps", "wait_ps") == [
        (0, 0, "all-reduce.1", 2, "vm: /device:TPU:0", "vm: /device:TPU:1", 4, 10, 14, 4),
        (1, 0, "all-reduce.1", 2, "vm: /device:TPU:1", "vm: /device:TPU:0", 2, 5, 7, 2),
    ]  # fmt: skip
    assert rows(report, "stragglers", "device", "meetings", "last_count", "late_ps", "waited_ps", "caused_ps") == [
        ("/device:TPU:1", 2, 1, 4, 2, 4),
        ("/device:TPU:0", 2, 1, 2, 4, 2),
    ]
    assert report.scalars["meeting_wait_ps"].value == 6_000_000


def test_waits_in_asynchronous_meetings_are_unknown_and_not_zero() -> None:
    first = [(AG_START, 0, 1), (FUSION, 1, 6), (AG_DONE, 9, 3)]
    second = [(AG_START, 2, 1), (FUSION, 3, 6), (AG_DONE, 11, 1)]
    report = report_of(spaces(core(0, first), core(1, second)))
    assert rows(report, "stragglers", "device", "last_count", "late_ps", "waited_ps", "caused_ps") == [
        ("/device:TPU:1", 1, 2, None, None),
        ("/device:TPU:0", 0, 0, None, None),
    ]


def test_a_device_that_comes_last_most_of_the_time_is_reported() -> None:
    def one(late: float) -> list[tuple[str, float, float]]:
        return [(AR, 20.0 * n + late, 10.0 - late) for n in range(5)]

    notice = report_of(spaces(core(0, one(0)), core(1, one(3)))).notices[-1].text
    assert notice.startswith("/device:TPU:1 of vm comes last to 5 of its 5 collectives with other devices, which wait")
    assert "15.000 µs for it" in notice


def test_of_several_groups_it_is_not_known_who_meets() -> None:
    report = report_of(_pair(4, groups="{{0,2},{1,3}}"))
    assert report.tables["meetings"].num_rows == 0
    assert any("several device groups" in notice.text for notice in report.notices)


def _assigned(devices: list[list[int]], groups: str, *, is_global: bool = True) -> bytes:
    """Four cores, numbered from 10 on, and a program that gives them to replicas, by partition."""
    ids = ", use_global_device_ids=true" if is_global else ""
    text = AR.replace("{{0,1}}", groups + ids)
    ops = [[(FUSION, 0, late), (text, late, 20.0 - late)] for late in (1, 2, 3, 4)]
    cores = [core(n, one, number=10 + n, categories={**CATEGORIES, text: "all-reduce"}) for n, one in enumerate(ops)]
    counts = int_field(1, len(devices[0])) + int_field(2, len(devices))
    assignment = counts + b"".join(len_field(3, packed(1, of_partition)) for of_partition in devices)
    entry = Metadata(
        "jit_f(1)", 1, stats={"Hlo Proto": len_field(1, len_field(1, "jit_f") + len_field(15, assignment))}
    )
    return spaces(*cores, plane("/host:metadata", event_metadata=[entry]))


@pytest.mark.parametrize(
    ("devices", "groups", "is_global", "met"),
    [
        ([[10], [11], [12], [13]], "{{0,1},{2,3}}", True, [(0, 1), (2, 3)]),
        ([[10], [12], [11], [13]], "{{0,1},{2,3}}", True, [(0, 2), (1, 3)]),
        ([[10], [11], [12], [13]], "[2,2]<=[2,2]T(1,0)", True, [(0, 2), (1, 3)]),
        ([[13, 12, 11, 10]], "{{0,3},{1,2}}", False, [(0, 3), (1, 2)]),
        ([[10], [11], [12], [13]], "{{0,1},{2,3}}", False, []),  # groups of replicas within partitions
        ([[10], [11], [12], [99]], "{{0,1},{2,3}}", True, [(0, 1)]),
    ],
)
def test_the_device_assignment_records_who_meets(
    devices: list[list[int]], groups: str, is_global: bool, met: list[tuple[int, int]]
) -> None:
    listed = rows(report_of(_assigned(devices, groups, is_global=is_global)), "meetings", "first_device", "last_device")
    assert [(int(first[-1]), int(last[-1])) for first, last in listed] == met


def test_what_was_not_at_the_same_time_did_not_meet() -> None:
    report = report_of(spaces(core(0, [(AR, 0, 5)]), core(1, [(AR, 10, 5)])))
    assert report.tables["meetings"].num_rows == 0
    assert any("did not overlap in time" in notice.text for notice in report.notices)


def test_a_device_that_was_captured_later_meets_the_others_from_the_last_on() -> None:
    every = [(AR, 10.0 * n, 5.0) for n in range(4)]
    report = report_of(spaces(core(0, every), core(1, every[2:])))
    assert rows(report, "meetings", "number", "device_count", "skew_ps") == [(-2, 2, 0), (-1, 2, 0)]


def test_over_several_hosts_the_last_is_that_which_took_the_shortest() -> None:
    def capture(name: str, late: float) -> bytes:
        ops = [(FUSION, 0, 10 + late), (AR, 10 + late, 15 - late)]
        return xspace(core(0, ops, steps=[(0, 30)]), hostnames=[name])

    report = report_of(capture("a", 0), capture("b", 5))
    listed = rows(report, "meetings", "host_count", "first_device", "skew_ps", "shortest_ps", "wait_ps")
    assert listed == [(2, None, None, 10, 5)]
    last = report.tables["meetings"]["last_device"].to_pylist()[0]
    assert last.endswith("/device:TPU:0") and last == report.scalars["last_device"].value


# ---- notices


def test_cpus_say_why_there_is_nothing() -> None:
    report = report_of(spaces(host([step(0, 0, 10), ran("all-reduce.1", 1, 5)])))
    assert report.scalars["device_count"].value == 1
    assert report.scalars["used_device_count"].value is None
    assert [notice.severity for notice in report.notices] == ["warning"]
    assert "no devices" in report.notices[0].text


def test_what_costs_most_is_reported_with_what_may_help() -> None:
    report = report_of(spaces(core(0, [(FUSION, 0, 4), (LOAD_START, 4, 1), (LOAD_DONE, 5, 5)], steps=[(0, 10)])))
    (notice,) = report.notices
    assert notice.severity == "recommendation"
    assert "60.0 %" in notice.text and "copy-start" in notice.text and "device memory" in notice.text
    assert "6.000 µs instead of 10.000 µs" in notice.text


@pytest.mark.parametrize(
    ("ops", "fewer"),
    [
        ([(FUSION, 0, 4), (LOAD_START, 4, 1), (LOAD_DONE, 5, 5)], False),
        ([(LOAD_START, 0, 1), (FUSION, 1, 45), (LOAD_DONE, 46, 45), (FUSION, 91, 9)], True),  # 91 % of the time
        ([(LOAD_START, 0, 1), (FUSION, 1, 45), (LOAD_DONE, 46, 43), (FUSION, 89, 11)], False),
        ([(FUSION, 0, 4), (LOAD_START, 4, 1), (LOAD_DONE, 5, 39), (FUSION, 99, 0.4)], False),
        ([(FUSION, 0, 3.6), (LOAD_START, 4, 1), (LOAD_DONE, 5, 39), (FUSION, 99, 0.4)], True),  # 10 times compute
    ],
)
def test_copies_that_compute_cannot_hide_want_fewer_bytes(ops: list[tuple[str, float, float]], fewer: bool) -> None:
    capture = spaces(core(0, ops, steps=[(0, 100)]))
    (text,) = (one.text for one in report_of(capture).notices if one.severity == "recommendation")
    assert ("Move fewer bytes" in text, "start copies and feeds earlier" in text) == (fewer, not fewer)
    findings = fastprof.load(capture).report("diagnosis").tables["findings"].to_pylist()
    (advice,) = (row["advice"] for row in findings if row["cause"] == "transfer")
    assert advice.startswith("Move fewer bytes") == fewer


def test_feeds_that_take_all_of_the_time_may_wait_for_the_host() -> None:
    infeed = "%infeed.1 = ((f32[8]{0}), token[]) infeed(token[] %t)"
    capture = spaces(core(0, [(FUSION, 0, 1), (infeed, 1, 99)], categories={**CATEGORIES, infeed: "infeed"}))
    (text,) = (one.text for one in report_of(capture).notices if one.severity == "recommendation")
    assert "start copies and feeds earlier" in text


def test_devices_on_which_nothing_communicates_say_so() -> None:
    report = report_of(spaces(core(0, [(FUSION, 0, 4)])))
    assert [notice.text for notice in report.notices] == [
        "Nothing communicates: no collective, copy or feed ran on any device."
    ]


def test_prefetches_from_memory_of_the_device_are_distinguished() -> None:
    report = report_of(spaces(core(0, [(PREFETCH_START, 0, 1), (FUSION, 1, 3), (PREFETCH_DONE, 4, 2)])))
    assert rows(
        report, "devices", "exposed_between_devices_ps", "exposed_with_host_ps", "exposed_within_device_ps"
    ) == [(0, 0, 3)]


# ---- all captures


@typical_captures
def test_time_adds_up_to_the_picosecond(capture: Path) -> None:
    check(fastprof.load(capture))


@pytest.mark.parametrize("seed", few(range(12), 5))
def test_time_of_random_captures_adds_up(seed: int) -> None:
    for space in (tpu_capture(seed), gpu_capture(seed), random_space(seed)):
        check(fastprof.load(space))


def check(profile: fastprof.Profile) -> None:
    report = profile.report("communication")
    for name in ("steps", "devices"):
        for row in report.tables[name].to_pylist():
            assert row["duration_ps"] == row["compute_ps"] + row["exposed_ps"] + row["idle_ps"]
            assert row["communication_ps"] == row["hidden_ps"] + row["exposed_ps"]
            assert min(row["compute_ps"], row["hidden_ps"], row["exposed_ps"], row["idle_ps"]) >= 0
            scopes = ("between_devices", "with_host", "within_device")
            assert row["exposed_ps"] == sum(row[f"exposed_{scope}_ps"] for scope in scopes)
            assert row["communication_ps"] <= row["if_hidden_ps"] <= row["duration_ps"]
    totals = {name: sum(report.tables[name]["exposed_ps"].to_pylist()) for name in ("devices", "kinds", "operations")}
    assert len(set(totals.values())) == 1
    in_steps = [sum(report.tables[name]["exposed_ps"].to_pylist()) for name in ("steps", "step_kinds")]
    assert in_steps[0] == in_steps[1]
    for row in report.tables["operations"].to_pylist():
        assert row["hidden_ps"] + row["exposed_ps"] <= row["total_ps"]
        assert row["min_ps"] <= row["mean_ps"] <= row["max_ps"]
        assert row["bus_bytes_per_s"] is None or row["bus_bytes_per_s"] <= 2 * row["algorithm_bytes_per_s"]


@typical_captures
def test_compute_and_waits_of_tpu_cores_are_the_self_times_of_op_statistics(capture: Path) -> None:
    profile = fastprof.load(capture)
    report = profile.report("communication")
    if not report.tables["devices"].num_rows or "TPU" not in report.tables["devices"]["device"][0].as_py():
        return
    waits = sum(report.tables["operations"]["wait_ps"].to_pylist())
    ops = profile.report("op_stats").tables["device_ops"].to_pylist()
    self_ps = sum(row["self_ps"] for row in ops if row["name"] != "IDLE")
    assert sum(report.tables["devices"]["compute_ps"].to_pylist()) + waits == self_ps
