"""Memory profiles of an allocator whose free list is known: leaks, churn and fragmentation by name and to the byte."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import demo_captures
import pytest
from allocator_captures import KIB, MIB, MS, US, Device, Moment, captured, next_largest
from gate import few
from reports import column, record, rows

import fastprof

LEAK = "cache/ConcatV2"
WORKSPACE = "conv/workspace"


def report_of(*devices: Device, **params: Any) -> fastprof.Report:
    return fastprof.load(captured(*devices)).memory_profile(**params)


def sentences(report: fastprof.Report) -> str:
    return "\n".join(f"{notice.severity}: {notice.text}" for notice in report.notices)


# ---- a training loop


def train(device: Device, steps: int, *, leaks: bool = False, churns: int = 0, recorded_from: int = 0) -> Device:
    """Weights that stay, activations that each step frees; what leaks holds a MiB more each step, what churns takes and
    gives back so often a step."""
    device.recording = False
    device.allocate("weights/VariableV2", 8 * MIB, region="persist/dynamic", shape="[1024,2048]")
    optimizer = device.allocate("momentum/VariableV2", 4 * MIB, region="persist/dynamic", shape="[1024,1024]")
    for number in range(steps):
        device.recording = number >= recorded_from
        with device.step(number):
            layers = [device.allocate(f"layer{i}/Relu", (i + 1) * MIB, shape=f"[{i + 1},512,512]") for i in range(3)]
            device.wait(MS)
            if leaks:
                device.allocate(LEAK, MIB, region="output", shape="[262144]")
            for _ in range(churns):
                with device.using(WORKSPACE, 512 * KIB):
                    device.wait(100 * US)
            if number == 1:  # what the first steps set up and then keep grows, but not steadily
                device.allocate("warm_up/Cast", 2 * MIB)
            optimizer, spent = device.allocate("momentum/VariableV2", 4 * MIB, region="persist/dynamic"), optimizer
            device.free(spent)
            device.wait(MS)
            for layer in reversed(layers):
                device.free(layer)
        device.wait(500 * US)
    return device


def test_the_op_that_leaks_is_named_with_what_it_leaks() -> None:
    report = report_of(train(Device(), 8, leaks=True))
    steady = [row for row in report.tables["growth"].to_pylist() if row["grows_steadily"]]
    assert [row["op_name"] for row in steady] == [LEAK]
    (leak,) = steady
    assert (leak["growth_bytes"], leak["growth_per_step_bytes"]) == (7 * MIB, MIB)
    assert (leak["steps_grown"], leak["step_count"]) == (7, 8)
    assert (leak["first_step_end_bytes"], leak["last_step_end_bytes"]) == (MIB, 8 * MIB)
    op = record(report, "ops", op_name=LEAK)
    assert (op["count"], op["held_at_end_count"], op["held_at_end_bytes"]) == (8, 8, 8 * MIB)
    assert LEAK in sentences(report)


def test_memory_that_is_replaced_or_set_up_once_is_not_a_leak() -> None:
    """The momentum is a new allocation each step, and the old one freed; the warm-up stays, but grows once."""
    report = report_of(train(Device(), 8))
    assert not any(column(report, "growth", "grows_steadily"))
    for op in (LEAK, "momentum", "warm_up", "weights"):
        assert op not in sentences(report)


def test_what_is_trimmed_now_and_then_is_not_a_leak() -> None:
    """A cache that grows each step, and is emptied once."""
    device = Device()
    cache: list[int] = []
    for number in range(8):
        with device.step(number):
            cache.append(device.allocate("cache/Insert", MIB))
            if number == 4:
                while len(cache) > 1:
                    device.free(cache.pop())
    report = report_of(device)
    row = record(report, "growth", op_name="cache/Insert")
    assert (row["growth_bytes"], row["steps_grown"], row["grows_steadily"]) == (3 * MIB, 6, False)
    assert "cache" not in sentences(report)


def test_a_step_that_only_frees_has_its_peak_at_its_begin() -> None:
    device = Device()
    kept = [device.allocate("a", MIB) for _ in range(3)]
    for number in range(3):
        with device.step(number):
            device.wait(MS)
            device.free(kept.pop())
    steps = report_of(device).tables["steps"].to_pylist()
    assert [row["peak_bytes"] for row in steps] == [3 * MIB, 2 * MIB, MIB]
    assert [(row["begin_bytes"], row["end_bytes"]) for row in steps[1:]] == [(2 * MIB, MIB), (MIB, 0)]


def test_the_op_that_churns_is_named_with_what_it_takes_and_gives_back() -> None:
    report = report_of(train(Device(), 5, churns=200))
    churn = record(report, "ops", op_name=WORKSPACE)
    assert (churn["count"], churn["short_lived_count"]) == (1000, 1000)
    assert churn["short_lived_bytes"] == churn["allocated_bytes"] == 500 * MIB
    assert {churn[f"lifetime_{which}_ps"] for which in ("min", "p50", "max")} == {101 * US}
    assert {row["op_name"] for row in report.tables["ops"].to_pylist() if row["short_lived_count"]} == {WORKSPACE}
    assert column(report, "steps", "short_lived_bytes") == [100 * MIB] * 5
    assert WORKSPACE in sentences(report)


def test_how_long_is_short_is_the_users_choice() -> None:
    device = train(Device(), 5, churns=20)
    for limit, count in ((100, 0), (101, 100), (10_000, 119)):
        assert sum(column(report_of(device, short_lived_us=limit), "ops", "short_lived_count")) == count


def test_the_peaks_of_steps_are_those_of_the_allocator() -> None:
    device = train(Device(), 8, leaks=True, recorded_from=2)
    report = report_of(device)
    steps = report.tables["steps"].to_pylist()
    assert len(steps) == 6
    for row in steps:
        begin, end = row["start_ps"], row["start_ps"] + row["duration_ps"]
        within = [each for each in device.moments if begin <= each.at_ps <= end]
        peak = max(within, key=lambda each: each.in_use)
        assert (row["peak_bytes"], row["peak_ps"]) == (peak.in_use, peak.at_ps)
        assert row["end_bytes"] == within[-1].in_use
        assert row["allocated_bytes"] == sum(each.chunk.size for each in within if each.is_allocation)
        assert row["freed_bytes"] == sum(each.chunk.size for each in within if not each.is_allocation)
    ends = [row["end_bytes"] for row in steps]
    assert [row["growth_bytes"] for row in steps[1:]] == [after - before for before, after in pairwise(ends)]


# ---- what is alive


def alive(report: fastprof.Report, table: str, allocator: str) -> tuple[Counter[Any], int]:
    """What a table says is alive: allocations by what they are, and bytes without an allocation."""
    counted: Counter[Any] = Counter()
    rest = 0
    for row in report.tables[table].to_pylist():
        if row["allocator"] != allocator:
            continue
        if row["source"] == "recorded":
            counted[row["op_name"], row["region_type"], row["shape"], row["allocation_bytes"]] += row["count"]
        else:
            rest += row["total_bytes"] or 0
    return counted, rest


def truly_alive(moment: Moment, begin_ps: int, stack: int) -> tuple[Counter[Any], int]:
    seen = [each for each in moment.held if each.since_ps >= begin_ps]
    rest = stack + sum(each.size for each in moment.held if each.since_ps < begin_ps)
    return Counter((each.op, each.region, each.shape or None, each.size) for each in seen), rest


@pytest.mark.parametrize("stack", [0, 3 * MIB])
def test_what_is_alive_at_the_peak_and_at_any_time_adds_up_to_what_is_in_use(stack: int) -> None:
    device = train(Device(stack=stack), 6, leaks=True, churns=20, recorded_from=3)
    begin, moments = device.moments[0].at_ps, device.moments
    peak = max(moments, key=lambda each: each.in_use)
    for moment in (moments[0], moments[17], moments[-1]):
        report = report_of(device, at=moment.at_ps)
        for table, when in (("active", peak), ("at", moment)):
            assert alive(report, table, device.allocator) == truly_alive(when, begin, stack)
            assert sum(column(report, table, "total_bytes")) == when.in_use + stack
    (row,) = report.tables["allocators"].to_pylist()
    assert (row["peak_bytes"], row["peak_ps"]) == (peak.in_use + stack, peak.at_ps)
    assert (row["stack_at_peak_bytes"], row["heap_at_peak_bytes"]) == (stack, peak.in_use)
    assert row["capacity_bytes"] == device.limit
    assert row["lifetime_peak_bytes"] == device.peak


def test_of_what_was_there_before_the_capture_what_is_freed_later_is_distinguished() -> None:
    device = Device(recording=False)
    early = [device.allocate("weights", size * MIB) for size in (1, 2, 2)]
    device.recording = True
    device.allocate("a/MatMul", MIB)
    at = device.now_ps
    device.free(early[1])
    rows_at = report_of(device, at=at).tables["at"].to_pylist()
    by_source = {row["source"]: (row["op_name"], row["count"], row["total_bytes"]) for row in rows_at}
    assert by_source == {
        "recorded": ("a/MatMul", 1, MIB),
        "held before": (None, 1, 2 * MIB),
        "held throughout": (None, None, 3 * MIB),
    }


def test_the_peak_before_the_capture_is_that_of_the_lifetime() -> None:
    device = Device(recording=False)
    device.free(device.allocate("init/RandomUniform", 24 * MIB))
    device.recording = True
    device.free(device.allocate("a/MatMul", MIB))
    row = record(report_of(device), "allocators")
    assert (row["peak_bytes"], row["lifetime_peak_bytes"]) == (MIB, 24 * MIB)


def test_the_capture_of_the_demo_is_the_one_that_is_made() -> None:
    for path, written in demo_captures.made().items():
        assert path.read_bytes() == written, f"write it again: python {demo_captures.__file__}"
    report = fastprof.load(demo_captures.DEMO / "memory").memory_profile()
    steady = [row for row in report.tables["growth"].to_pylist() if row["grows_steadily"]]
    assert [(row["op_name"], row["growth_bytes"]) for row in steady] == [("metrics/history/ConcatV2", 11 * 700 * KIB)]


# ---- fragmentation


def checkerboard(device: Device, *, held_before: bool = False) -> Device:
    """All memory in pieces of a MiB, every other one free: half is free, and no two MiB of it are in one place."""
    device.recording = not held_before
    pieces = [device.allocate("embedding/Gather", MIB) for _ in range(device.limit // MIB)]
    device.recording = True
    for piece in pieces[::2]:
        device.free(piece)
    return device


@pytest.mark.parametrize("held_before", [False, True])
def test_free_memory_in_pieces_that_are_too_small_is_reported_to_the_byte(held_before: bool) -> None:
    device = checkerboard(Device(limit=64 * MIB), held_before=held_before)
    place = len(device.moments) - 1
    device.wait(MS)
    for piece in sorted(device.heap.held)[:2]:  # what lies between makes room
        device.free(piece)
    device.allocate("logits/MatMul", 3 * MIB)
    report = report_of(device)
    tightest = record(report, "fragmentation", moment="tightest")
    assert (tightest["next_largest_bytes"], tightest["next_largest_op"]) == (3 * MIB, "logits/MatMul")
    assert tightest["start_ps"] == max(device.moments[: place + 2], key=lambda each: each.smaller_than(3 * MIB)).at_ps
    snapshots = report.tables["snapshots"].to_pylist()
    row, truth = snapshots[place], device.moments[place]
    assert (truth.free, truth.largest_free, truth.smaller_than(3 * MIB)) == (32 * MIB, MIB, 32 * MIB)
    assert (row["free_bytes"], row["too_small_least_bytes"], row["too_small_most_bytes"]) == (32 * MIB,) * 3
    assert row["fragmentation"] == pytest.approx(31 / 32)
    assert row["next_largest_bytes"] == 3 * MIB
    assert "logits/MatMul" in sentences(report)


def test_pieces_between_memory_in_use_are_known_though_a_large_chunk_is_free() -> None:
    """A quarter of the memory was never used, so the request fits; eight pieces of 256 KiB do not hold it."""
    device = Device(limit=16 * MIB)
    pieces = [device.allocate("embedding/Gather", 256 * KIB) for _ in range(48)]
    for piece in pieces[8:24:2]:
        device.free(piece)
    place = len(device.moments) - 1
    device.allocate("logits/MatMul", MIB)
    row = report_of(device).tables["snapshots"].to_pylist()[place]
    assert device.moments[place].smaller_than(MIB) == 2 * MIB
    assert row["too_small_least_bytes"] == 2 * MIB
    assert row["too_small_most_bytes"] == pytest.approx(2 * MIB, abs=8), "six digits of fragmentation"
    assert row["largest_free_bytes"] == pytest.approx(4 * MIB, abs=8)


def test_a_free_chunk_beside_memory_never_seen_is_not_called_small() -> None:
    """What was freed last joins the large chunk behind it, which no event of the capture mentions."""
    device = Device(limit=64 * MIB)
    device.allocate("a", MIB)
    device.free(device.allocate("b", MIB))
    place = len(device.moments) - 1
    device.allocate("c", 8 * MIB)
    row = report_of(device).tables["snapshots"].to_pylist()[place]
    assert device.moments[place].smaller_than(8 * MIB) == 0
    assert (row["too_small_least_bytes"], row["too_small_most_bytes"]) == (0, 0)


def at_random(seed: int, **options: Any) -> Device:
    """Allocations of sizes and lifetimes of all kinds, recorded from the middle of the run on."""
    draw = random.Random(seed)
    device = Device(limit=16 * MIB, recording=False, **options)
    held: list[int] = []
    for number in range(240):
        device.recording = number >= 60
        if held and (
            draw.random() < 0.48 or device.heap.limit - sum(o.size for o in device.heap.held.values()) < 6 * MIB
        ):
            device.free(held.pop(draw.randrange(len(held))))
            continue
        size = draw.choice([1, 300, 5 * KIB, 64 * KIB, 300 * KIB, MIB, 2 * MIB]) + draw.randrange(200)
        try:
            held.append(device.allocate(f"op{draw.randrange(4)}", size, thread=f"thread {draw.randrange(3)}"))
        except MemoryError:
            device.free(held.pop())
    return device


def check_fragmentation(report: fastprof.Report, moments: Sequence[Moment], stack: int) -> tuple[int, int]:
    """Bounds of what is too small hold at every snapshot; returns at how many they are known, and at how many equal."""
    snapshots = report.tables["snapshots"].to_pylist()
    assert len(snapshots) == len(moments)
    bounded = exact = 0
    for place, (row, truth) in enumerate(zip(snapshots, moments, strict=True)):
        assert (row["start_ps"], row["in_use_bytes"]) == (truth.at_ps, truth.in_use + stack)
        assert row["free_bytes"] == truth.free
        assert abs(row["largest_free_bytes"] - truth.largest_free) <= 1 + truth.free // 1_000_000
        request = next_largest(moments, place)
        assert row["next_largest_bytes"] == request
        if request is None:
            continue
        least, most = row["too_small_least_bytes"], row["too_small_most_bytes"]
        slack = 1 + truth.free // 1_000_000
        assert least <= truth.smaller_than(request) <= most + slack, f"at {place}"
        bounded += 1
        exact += abs(most - least) <= slack
    return bounded, exact


@pytest.mark.parametrize("seed", few(range(12), 5))
def test_at_every_snapshot_the_truth_lies_within_the_bounds(seed: int) -> None:
    stack = MIB if seed % 3 == 0 else 0
    device = at_random(seed, stack=stack, by_number=7 if seed % 4 == 1 else None)
    bounded, exact = check_fragmentation(report_of(device), device.moments, stack)
    assert bounded > 100
    assert stack or exact > bounded // 4, "a stack may grow over what is free, so less is sure"


@pytest.mark.parametrize("seed", [0, 3, 5, 18])
def test_of_an_allocator_that_takes_more_from_the_device_bounds_hold_at_every_snapshot(seed: int) -> None:
    """Of these, the first takes more during the capture; the others cannot use the rest."""
    device = at_random(seed, region=MIB if seed else 2 * MIB)
    assert device.last.taken < device.limit and (device.moments[0].taken < device.last.taken) == (seed == 0)
    report = report_of(device)
    for place, row in enumerate(report.tables["snapshots"].to_pylist()):
        truth, request = device.moments[place], next_largest(device.moments, place)
        assert row["largest_free_least_bytes"] <= truth.largest_free <= row["largest_free_bytes"]
        if request is not None:
            assert row["too_small_least_bytes"] <= truth.smaller_than(request) <= row["too_small_most_bytes"]
    at = {moment.at_ps: moment for moment in device.moments}
    for row in report.tables["fragmentation"].to_pylist():
        assert row["taken_least_bytes"] <= at[row["start_ps"]].taken <= row["taken_most_bytes"]
    assert "takes more memory from the device" in sentences(report)


@pytest.mark.parametrize(("seed", "region"), [(0, None), (1, None), (3, None), (4, None), (0, 2 * MIB), (5, MIB)])
def test_a_request_that_is_said_to_fit_does_and_one_that_is_not_does_not(seed: int, region: int | None) -> None:
    """What an allocator may yet take could, at best, join its largest chunk."""
    device = at_random(seed, region=region, stack=MIB if seed == 3 else 0)
    answers = Counter[str]()
    for size in (300 * KIB, 3 * MIB, 5 * MIB + 100, 7 * MIB, 10 * MIB):
        request_rows = rows(report_of(device, request=size), "request", "fits", "snapshot_count")
        by_moment = [fits for fits, count in request_rows for _ in range(count)]
        for moment, fits in zip(device.moments, by_moment, strict=True):
            if fits == "yes":
                assert moment.largest_free >= size
            elif fits == "no":
                assert moment.largest_free + (device.limit - moment.taken if region else 0) < size
            elif fits == "if the device has it":
                assert device.limit - moment.taken >= size
        answers.update(by_moment)
    assert answers["yes"] > 500 and answers["no"] > 20
    assert (answers["not known"] > 0) == (region is not None)
    assert (answers["if the device has it"] > 0) == (region is not None)


def test_fragmentation_of_an_allocator_that_can_take_more_is_not_a_reason_to_warn() -> None:
    """Between pieces there are MiBs free, and no 3 MiB of them in one place: it takes these from the device."""
    device = checkerboard(Device(limit=16 * MIB, region=MIB))
    device.heap.limit = device.limit = 64 * MIB
    device.allocate("logits/MatMul", 3 * MIB)
    device.free(device.allocate("logits/MatMul", 256))
    text = sentences(report_of(device))
    assert "takes more memory from the device" in text and "no chunk held" not in text


def test_the_allocator_of_these_captures_parts_its_memory_without_gap_or_overlap() -> None:
    device = at_random(3)
    for moment in device.moments:
        parts = sorted(
            [(each.address, each.size, True) for each in moment.held] + [(*c, False) for c in moment.free_chunks]
        )
        assert sum(size for _, size, _ in parts) == device.limit
        for (start, size, held), (following, _, held_too) in pairwise(parts):
            assert start + size == following
            assert held or held_too, "free neighbours are one chunk"
    assert all(each.size >= each.requested for each in device.last.held)


# ---- matching


@pytest.mark.parametrize("seed", range(12, 18))
def test_every_allocation_finds_its_free_and_what_was_held_before_is_distinguished(seed: int) -> None:
    device = at_random(seed)
    moments = device.moments
    begin = moments[0].at_ps
    expected: list[tuple[Any, ...]] = []
    for moment in moments:
        if not moment.is_allocation:
            since = moment.chunk.since_ps
            fate, allocated = ("freed", since) if since >= begin else ("held before", None)
            expected.append((moment.chunk.address, allocated, moment.at_ps, moment.chunk.size, fate))
    held = [each for each in device.last.held if each.since_ps >= begin]
    expected += [(each.address, each.since_ps, None, each.size, "held at the end") for each in held]
    report = report_of(device)
    columns = ("address", "allocated_ps", "freed_ps", "allocation_bytes", "fate")
    assert Counter(rows(report, "allocations", *columns)) == Counter(expected)
    row = record(report, "allocators")
    fates = Counter(each[-1] for each in expected)
    assert (row["held_before_count"], row["held_at_end_count"]) == (fates["held before"], fates["held at the end"])
    assert row["held_at_end_bytes"] == sum(each.size for each in held)
    assert (row["snapshot_count"], row["allocation_count"]) == (len(moments), sum(m.is_allocation for m in moments))


def test_a_free_that_the_capture_has_lost_is_reported_and_no_memory_counted_twice() -> None:
    device = Device()
    first = device.allocate("a", MIB)
    device.recording = False
    device.free(first)
    device.recording = True
    assert device.allocate("b", MIB) == first
    report = report_of(device, at=device.now_ps)
    assert record(report, "allocators")["replaced_count"] == 1
    assert rows(report, "allocations", "op_name", "fate") == [("a", "free not recorded"), ("b", "held at the end")]
    assert alive(report, "at", device.allocator)[0] == Counter({("b", "temp", None, MIB): 1})


def test_devices_and_hosts_are_kept_apart_though_their_addresses_are_the_same() -> None:
    devices = [train(Device(name=f"GPU_{number}_bfc", marks=number == 1), 4, leaks=number == 1) for number in range(2)]
    host = captured(*devices)
    report = fastprof.load([host, captured(train(Device(by_number=3), 4))]).memory_profile()
    peaks = {row["allocator"]: row["peak_bytes"] for row in report.tables["allocators"].to_pylist()}
    assert set(peaks) == {"GPU_0_bfc", "GPU_1_bfc", "device 3"}
    assert peaks["GPU_0_bfc"] == max(each.in_use for each in devices[0].moments)
    assert peaks["GPU_1_bfc"] == max(each.in_use for each in devices[1].moments)
    steady = [row for row in report.tables["growth"].to_pylist() if row["grows_steadily"]]
    assert [(row["allocator"], row["op_name"]) for row in steady] == [("GPU_1_bfc", LEAK)]
