"""Which free ends which allocation, and what becomes of those that have none."""

from __future__ import annotations

import random

import numpy as np
from allocator_calls import Call, alloc, free, in_order, made_up, read
from slow_allocations import broken, known_sizes, matched

from fastprof.derive.memory import allocation_history
from fastprof.derive.memory.allocation_history import (
    find_allocating_sites,
    find_breaks,
    get_matches,
    get_moved_bytes,
    match_frees,
)


def fates(calls: list[Call]) -> list[str]:
    return [allocation_history.FATES[fate] for fate in get_matches(read(calls)).fate.tolist()]


def test_a_free_ends_the_allocation_of_its_address() -> None:
    pairs = get_matches(read([alloc(0, 8, 4), alloc(1, 16, 4), free(2, 8), alloc(3, 8, 4)]))
    assert pairs.partner.tolist() == [2, -1, 0, -1]
    assert [allocation_history.FATES[fate] for fate in pairs.fate.tolist()] == ["freed", *2 * ["held at the end"]][
        :2
    ] + [
        "freed",
        "held at the end",
    ]


def test_what_is_missing_is_distinguished_from_the_address() -> None:
    assert fates([free(0, 8), free(1, 8), alloc(2, 8, 4), alloc(3, 8, 4)]) == [
        "held before",
        "allocation not recorded",
        "free not recorded",
        "held at the end",
    ]
    assert fates([alloc(0, None, 4), free(1, None)]) == ["address unknown", "address unknown"]


def test_addresses_of_64_bits_are_distinguished() -> None:
    high = 2**64 - 256
    assert fates([alloc(0, high, 4), free(1, high - 2**63), free(2, high)]) == ["freed", "held before", "freed"]


def test_allocators_have_addresses_of_their_own() -> None:
    assert fates([alloc(0, 8, 4), free(1, 8, allocator="b")]) == ["held at the end", "held before"]


def test_as_in_xprof_the_first_of_two_allocations_is_freed() -> None:
    is_allocation = np.array([True, True, False])
    address, bounds = np.full(3, 8), np.array([0, 3])
    assert match_frees(is_allocation, address, bounds).partner.tolist() == [-1, 2, 1]
    assert match_frees(is_allocation, address, bounds, keep_first=True).partner.tolist() == [2, -1, 0]


def test_a_free_takes_the_site_of_its_allocation() -> None:
    events = read([alloc(0, 8, 4, op="conv"), free(1, 8, op="other"), free(2, 16, op="other")])
    ops = [None if site < 0 else events.sites.op[site] for site in find_allocating_sites(events).tolist()]
    assert ops == ["conv", "conv", None]


def test_the_size_of_a_free_is_given_by_itself_or_its_allocation_or_the_heap() -> None:
    events = read([
        free(0, 8, 5, heap=95),
        free(1, 16, heap=75),
        alloc(2, 24, 10, heap=85),
        free(3, 24, heap=75),
    ])  # fmt: skip
    assert get_moved_bytes(events).tolist() == [5, 20, 10, 10]
    assert not find_breaks(events).any()


def test_the_heap_records_no_size_where_it_does_not_follow_from_the_other_events() -> None:
    events = read([free(0, 8, 5, heap=95), free(1, 16, heap=75), alloc(2, 24, 10, heap=90)])
    assert get_moved_bytes(events).tolist() == [5, -1, 10]
    assert find_breaks(events).tolist() == [False, False, True]


def test_the_heap_records_the_size_of_no_allocation() -> None:
    assert get_moved_bytes(read([alloc(0, 8, 5, heap=95), alloc(1, 16, None, heap=75)])).tolist() == [5, -1]
    assert get_moved_bytes(read([alloc(0, 8, 5, heap=95), free(1, 16, heap=99)])).tolist() == [5, -1]


def test_any_events_are_matched_as_one_by_one() -> None:
    for seed in range(60):
        calls = in_order(made_up(random.Random(seed)))
        events = read(calls)
        pairs = get_matches(events)
        assert list(zip(pairs.partner.tolist(), pairs.fate.tolist(), strict=True)) == matched(calls), seed
        sizes = get_moved_bytes(events).tolist()
        assert [a for a, b in zip(sizes, known_sizes(calls), strict=True) if b >= 0] == [
            b for b in known_sizes(calls) if b >= 0
        ]
        assert find_breaks(events).tolist() == broken(calls, sizes), seed
