"""How much free memory is in chunks too small for the largest request that follows: bounds that hold, and are close."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from allocator_calls import Call, alloc, free, in_order, made_up, read
from allocator_captures import KIB, Device, captured, next_largest
from gate import rounds

import fastprof
from fastprof.decode.workers import Workers
from fastprof.derive.memory import heap_state as fragmentation_module
from fastprof.derive.memory.heap_state import FreeChunks


def of(calls: list[Call]) -> FreeChunks:
    return FreeChunks(read(calls))


def test_the_largest_request_that_follows_is_what_was_asked_for() -> None:
    found = of([
        alloc(0, 8, 900),
        alloc(1, 16, 32, requested=20),
        alloc(2, 24, 64, requested=30),
        free(3, 8, 900),
        alloc(4, 32, 64, requested=30),
        alloc(5, 40, 25),
    ])  # fmt: skip
    assert found.next_largest.tolist() == [2, 2, 4, 4, 5, -1]
    assert found.next_largest_bytes.tolist() == [30, 30, 30, 30, 25, 0]


def test_where_no_chunk_is_large_enough_all_that_is_free_is_too_small() -> None:
    calls = [alloc(0, 8, 10, free=1000, heap=0, fragmentation=0.6), alloc(1, 16, 401, free=599, heap=401)]
    found = of(calls)
    assert (found.largest_free_low[0], found.largest_free_high[0]) == (399, 401)
    assert found.next_largest_bytes[0] == 401
    calls[1].size = 402
    calls[1].heap = 999  # or the first would be seen to grow
    found = of(calls)
    assert (found.too_small_least[0], found.too_small_most[0]) == (1000, 1000)


def test_known_chunks_between_memory_in_use_are_too_small_for_certain() -> None:
    calls = [
        alloc(0, 0, 10, free=970, heap=30, fragmentation=0),
        alloc(1, 10, 10, free=960, heap=40, fragmentation=0),
        alloc(2, 20, 10, free=950, heap=50, fragmentation=0),
        free(3, 10, 10, free=960, heap=40, fragmentation=0.0104167),
        alloc(4, 100, 500, free=460, heap=540, fragmentation=0.0217391),
    ]
    found = of(calls)
    assert (found.known_free_bytes[3], found.known_free_chunks[3]) == (10, 1)
    assert found.too_small_least[3] == 10 and found.too_small_most[3] in (10, 11)
    assert found.too_small_least[4] == found.too_small_most[4] == 0  # nothing is asked for any more


def test_what_is_freed_later_lies_around_a_chunk_until_then() -> None:
    calls = [
        alloc(0, 10, 10, free=970, heap=30, fragmentation=0),
        free(1, 10, 10, free=980, heap=20, fragmentation=0.0102041),
        free(2, 0, 10, free=990, heap=10),
        free(3, 20, 10, free=1000, heap=0),
        alloc(4, 100, 500),
    ]
    found = of(calls)
    assert found.known_free_bytes.tolist() == [0, 10, 20, 30, 30]
    assert found.too_small_least[1] == 10


def test_memory_without_an_address_is_not_a_known_chunk() -> None:
    assert of([free(0, None, 10, free=50, heap=0)]).known_free_bytes.tolist() == [0]


def test_an_allocator_that_takes_more_is_said_to_grow_and_its_chunks_are_bounded() -> None:
    calls = [
        alloc(0, 8, 10, free=1000, heap=10, fragmentation=0.5, requested=10),
        alloc(1, 16, 100, free=900, heap=110, fragmentation=0.4, requested=100),
        alloc(2, 24, 10, free=890, heap=120, fragmentation=0.4, requested=10),
        alloc(0, 8, 10, free=1000, heap=10, allocator="b", fragmentation=0.0),
    ]
    found = of(calls)
    assert found.grows.tolist() == [True, False]
    # If 100 bytes fit, 0.6 (D - 100) <= 0.5 D: at most 600 are free at first; else 0.5 D < 100.
    assert (found.taken_high[0], found.largest_free_high[0]) == (610, 301)
    assert found.taken_low[0] <= 610 and 0 <= found.largest_free_low[0] <= 300
    assert (found.largest_free_low[3], found.largest_free_high[3]) == (1000, 1000)
    assert found.too_small_least[3] == 0


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    events = read(in_order(made_up(random.Random(3), 200)))
    monkeypatch.setattr(fragmentation_module, "_TASK_EVENTS", 10)
    one, other = FreeChunks(events), FreeChunks(events, Workers(3))
    for name in vars(one):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


def test_no_events_have_no_chunks() -> None:
    assert len(of([]).too_small_least) == 0


# ---- an allocator whose free list is known


def busy(chance: random.Random, **how: object) -> Device:
    """A device that allocates and frees by chance, before its capture begins and in it."""
    device = Device(limit=chance.choice((256, 1024)) * KIB, recording=False, **how)  # type: ignore[arg-type]
    for call in range(160):
        device.recording = call >= 40
        held = list(device.heap.held)
        if held and chance.random() < 0.48:
            device.free(chance.choice(held))
        else:
            try:
                device.allocate(chance.choice("abc"), chance.choice((100, 300, 2 * KIB, 9 * KIB, 60 * KIB)))
            except MemoryError:
                device.free(chance.choice(held))
    return device


def check_bounds(found: FreeChunks, device: Device) -> int:
    """Holds what is known against the allocator's own list; returns for how many moments it is known."""
    known = 0
    for place, moment in enumerate(device.moments):
        request = next_largest(device.moments, place)
        assert found.next_largest_bytes[place] == (request or 0)
        assert found.known_free_bytes[place] <= moment.free
        if found.largest_free_low[place] < 0:
            continue
        assert found.largest_free_low[place] <= moment.largest_free <= found.largest_free_high[place]
        if request is not None:
            known += 1
            truth = moment.smaller_than(request)
            assert found.too_small_least[place] <= truth <= found.too_small_most[place], (place, request, moment)
    return known


def check_taken(found: FreeChunks, device: Device) -> int:
    """The same for what is taken from the device; returns at how many moments that is known to a millionth."""
    exact = 0
    for low, high, moment in zip(found.taken_low, found.taken_high, device.moments, strict=True):
        assert low <= moment.taken <= high or low == high == -1
        exact += 0 <= high - low <= 1 + moment.taken // 1_000_000
    return exact


@pytest.mark.parametrize("exact", [True, False])
def test_bounds_hold_whatever_is_allocated(exact: bool) -> None:
    known = total = 0
    for seed in range(rounds(25, 8)):
        device = busy(random.Random(seed), exact=exact)
        found = FreeChunks(read(captured(device)))
        assert not found.grows.any(), seed
        known += check_bounds(found, device)
        total += len(device.moments)
    assert known > 0.8 * total


def test_bounds_are_exact_where_all_that_is_free_is_known() -> None:
    """From the first allocation on, with the largest chunk at the end too small, or all others known."""
    exact = 0
    for seed in range(10):
        chance = random.Random(seed)
        device = Device(limit=256 * KIB, exact=True)
        held = [device.allocate("a", chance.choice((256, 512, 1024))) for _ in range(40)]
        for address in chance.sample(held, 20):
            device.free(address)
        device.allocate("b", 100 * KIB)
        found = FreeChunks(read(captured(device)))
        place = len(device.moments) - 2
        truth = device.moments[place].smaller_than(100 * KIB)
        assert found.too_small_most[place] - truth <= 2 and found.too_small_least[place] <= truth
        exact += found.too_small_least[place] == truth
    assert exact > 3


@pytest.mark.parametrize("how", [{}, {"adjoining": True}, {"collects": True}])
@pytest.mark.parametrize("exact", [True, False])
def test_of_an_allocator_that_grows_bounds_hold_and_are_close(how: dict[str, bool], exact: bool) -> None:
    grown = known = close = total = 0
    for seed in range(rounds(40, 12)):
        device = busy(random.Random(seed), region=(4, 16, 64)[seed % 3] * KIB, exact=exact, **how)
        found = FreeChunks(read(captured(device)))
        exactly = check_taken(found, device)
        if not found.grows.all():
            continue
        grown += 1
        total += len(device.moments)
        known += check_bounds(found, device)
        close += exactly
    assert grown >= rounds(25, 7)
    assert known > 0.9 * total
    assert close > 0.6 * total


def test_bounds_of_what_is_taken_hold_for_allocators_that_take_all_at_once() -> None:
    for seed in range(rounds(25, 8)):
        device = busy(random.Random(seed))
        check_taken(FreeChunks(read(captured(device))), device)


def test_what_an_allocator_gives_back_for_a_large_request_is_taken_into_account() -> None:
    """Regions of 64 KiB and more that are free from end to end go, so chunks in them that were known are none."""
    given_back = 0
    for seed in range(rounds(40, 12)):
        chance = random.Random(seed)
        device = Device(limit=1024 * KIB, region=64 * KIB, collects=True, exact=seed % 2 == 0)
        for _ in range(6):
            held = [device.allocate("a", chance.choice((1, 3, 20, 50)) * KIB) for _ in range(6)]
            for address in chance.sample(held, len(held)):
                device.free(address)
            device.free(device.allocate("b", chance.choice((1, 300, 700, 900)) * KIB))
        found = FreeChunks(read(captured(device)))
        given_back += device.heap.given_back
        check_taken(found, device)
        if found.grows[0]:
            check_bounds(found, device)
    assert given_back > 20


@pytest.mark.captures
def test_what_tensorflow_has_taken_is_found_out(captures: Path) -> None:
    """Of pinned memory of the host one region of 128 MiB; of a GPU all of the limit, at once."""
    taken = {
        row["allocator"]: (row["taken_least_bytes"], row["taken_most_bytes"])
        for row in fastprof.load(captures / "xspace" / "gpu-v100x8-tf")
        .memory_profile()
        .tables["fragmentation"]
        .to_pylist()
        if row["moment"] == "most fragmented"
    }
    assert taken["gpu_host_bfc"] == pytest.approx((128 << 20, 128 << 20), rel=3e-6)
    assert taken["GPU_4_bfc"] == pytest.approx((15_477_102_400,) * 2, rel=3e-6)
