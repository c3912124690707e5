"""Events of allocators as columns: which events, whose, in which order, and what is recorded of each."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from allocator_calls import STATS, Call, alloc, capture, free, made_up, read
from trace_builder import Value, event, line, plane, ref, u64, xspace

import fastprof
from fastprof.decode.workers import Workers
from fastprof.derive.memory import memory_events as columns
from fastprof.derive.memory.memory_events import MemoryEvents, format_data_type, read_memory_events
from fastprof.errors import CaptureError
from fastprof.tables.host_reader import read_host


def of_stats(*stats: dict[str | int, Value]) -> MemoryEvents:
    """An allocation for each of the stats, a picosecond apart."""
    events = [event("MemoryAllocation", at, 0, values) for at, values in enumerate(stats)]
    return read(xspace(plane("/host:CPU", [line("main", events)])))


def test_only_events_of_the_two_names_on_the_threads_of_the_host_count() -> None:
    def some(where: str) -> bytes:
        names = ("MemoryAllocation", "MemoryAllocation::x", "memoryallocation", "MemoryDeallocation", "other")
        return plane(where, [line("main", [event(name, at, 0) for at, name in enumerate(names)])])

    events = read(xspace(some("/device:GPU:0"), some("/host:CPU"), some("/host:CUPTI")))
    assert events.is_allocation.tolist() == [True, False]
    assert events.start_ps.tolist() == [0, 3]
    assert len(read(xspace(some("/device:GPU:0")))) == 0


def test_events_are_ordered_by_allocator_then_time_then_as_in_the_capture() -> None:
    calls = [
        alloc(5, 1, 1, allocator="b", line=0),
        alloc(7, 2, 1, allocator="a", line=0),
        alloc(7, 3, 1, allocator="a", line=0),
        alloc(5, 4, 1, allocator="a", line=1),
        alloc(7, 5, 1, allocator="a", line=1),
    ]
    events = read(calls)
    assert events.allocators == ["a", "b"] and events.bounds.tolist() == [0, 4, 5]
    assert events.address.tolist() == [4, 2, 3, 5, 1]
    assert events.line.tolist() == [1, 0, 0, 1, 0]
    assert events.allocator.tolist() == [0, 0, 0, 0, 1]
    assert events.of_allocator(1) == slice(4, 5)


def test_the_name_of_an_allocator_is_its_name_else_its_ordinal_else_its_index() -> None:
    events = of_stats(
        {"allocator_name": "GPU_0_bfc", "device_ordinal": 1, "index_on_host": 2},
        {"device_ordinal": 1, "index_on_host": 2},
        {"index_on_host": 2},
        {"index_on_host": -2},
        {"device_ordinal": 2},
        {"allocator_name": ref("2")},
        {},
        {"allocator_name": 7},
    )
    names = [events.allocators[number] for number in events.allocator.tolist()]
    by_time = dict(zip(events.start_ps.tolist(), names, strict=True))
    assert [by_time[at] for at in range(8)] == ["GPU_0_bfc", "1", "2", "-2", "2", "2", "", ""]


def test_what_is_not_recorded_is_distinguished_from_0() -> None:
    events = of_stats({"addr": 0, "bytes_allocated": 0, "fragmentation": 0.0}, {"requested_bytes": 5})
    bits = [columns.ADDRESS, columns.HEAP, columns.FRAGMENTATION, columns.REQUESTED, columns.FREE]
    assert [events.has(bit).tolist() for bit in bits] == [[True, False]] * 3 + [[False, True], [False, False]]
    assert events.heap_bytes.tolist() == [0, 0] and events.requested_bytes.tolist() == [0, 5]
    assert events.fragmentation[0] == 0.0 and np.isnan(events.fragmentation[1])


@pytest.mark.parametrize(
    ("stats", "column", "value", "odd"),
    [
        ({"bytes_allocated": 7}, "heap_bytes", 7, 0),
        ({"bytes_allocated": u64(7)}, "heap_bytes", 7, columns.HEAP),
        ({"bytes_allocated": u64(0)}, "heap_bytes", 0, 0),
        ({"addr": u64(2**64 - 1)}, "address", -1, columns.ADDRESS),
        ({"fragmentation": 0.25}, "fragmentation", 0.25, 0),
        ({"fragmentation": 1}, "fragmentation", 1.0, columns.FRAGMENTATION),
        ({"fragmentation": 0}, "fragmentation", 0.0, 0),
        ({"fragmentation": u64(2**63)}, "fragmentation", 2.0**63, columns.FRAGMENTATION),
    ],
)
def test_numbers_of_any_kind_count_and_odd_kinds_are_reported(
    stats: dict[str | int, Any], column: str, value: float, odd: int
) -> None:
    events = of_stats(stats)
    assert getattr(events, column).tolist() == [value]
    assert (0 if events.unsigned is None else int(events.unsigned[0])) == odd


@pytest.mark.parametrize("value", [1.5, "7", b"7"])
def test_kinds_that_record_no_size_are_as_if_not_recorded(value: Value) -> None:
    events = of_stats({"bytes_allocated": value})
    assert events.heap_bytes.tolist() == [0] and not events.has(columns.HEAP).any()


def test_fragmentation_that_is_not_a_number_is_not_recorded() -> None:
    events = of_stats({"fragmentation": float("inf")}, {"fragmentation": float("nan")}, {"fragmentation": "0.5"})
    assert np.isnan(events.fragmentation).all() and not events.has(columns.FRAGMENTATION).any()


def test_sizes_beyond_63_bits_are_an_error() -> None:
    for size in (2**63, 2**64 - 1):
        with pytest.raises(CaptureError, match="bytes_available of an event is beyond 63 bits"):
            of_stats({"bytes_available": u64(size)})
    assert of_stats({"bytes_available": -1}).free_bytes.tolist() == [-1]
    events = of_stats({"bytes_allocated": 2**63 - 1, "bytes_reserved": 1})
    with pytest.raises(CaptureError, match="do not add up in 64 bits"):
        _ = events.in_use_bytes


def test_in_use_are_stack_and_heap() -> None:
    assert of_stats({"bytes_allocated": 5, "bytes_reserved": 2}, {"bytes_allocated": 5}).in_use_bytes.tolist() == [7, 5]
    assert of_stats({"bytes_allocated": 5}).in_use_bytes.tolist() == [5]


def test_a_site_is_the_op_the_region_the_type_and_the_shape() -> None:
    recorded: dict[str | int, Value] = {"tf_op": "conv", "region_type": ref("temp"), "shape": "[2]", "data_type": 1}
    same, other = recorded | {"tf_op": ref("conv")}, recorded | {"data_type": 2}
    events = of_stats(recorded, same, other, {"tf_op": "(null)", "data_type": 0}, {})
    sites = events.sites
    assert events.site.tolist() == [0, 0, 1, 2, 3] and len(sites) == 4
    assert (sites.op, sites.region) == (["conv", "conv", "(null)", None], ["temp", "temp", None, None])
    assert (sites.shape, sites.data_type) == (["[2]", "[2]", None, None], [1, 2, 0, None])
    assert sites.names.op_name == ["conv", "conv", None, None]
    assert sites.names.data_type == ["float", "double", None, None]
    assert sites.op_names == ["conv", None] and sites.op_number.tolist() == [0, 0, 1, 1]


def test_a_type_of_an_odd_kind_is_reported_even_where_it_says_0() -> None:
    events = of_stats({"data_type": u64(0)}, {"data_type": "float"}, {"data_type": u64(3)})
    assert events.unsigned is not None
    assert [bool(bits & columns.DATA_TYPE) for bits in events.unsigned.tolist()] == [False, True, True]
    assert events.sites.data_type == [0, None, 3]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, ""),
        (0, "INVALID"),
        (1, "float"),
        (30, "uint4"),
        (101, "float_ref"),
        (31, "unknown dtype enum (31)"),
        (100, "unknown dtype enum (100)"),
        (133, "unknown dtype enum (33)_ref"),
        (-1, "unknown dtype enum (-1)"),
        (2**32 + 3, "int32"),
    ],
)
def test_data_types_have_the_names_of_tensorflow(number: int | None, text: str) -> None:
    assert format_data_type(number) == text


def test_offsets_are_from_the_start_of_the_line() -> None:
    lines = [
        line("one", [event("MemoryAllocation", 7, 0)], timestamp_ns=2),
        line("other", [event("other", 1, 0)]),
        line("two", [event("MemoryAllocation", 9, 0)], timestamp_ns=1),
    ]
    events = read(xspace(plane("/host:CPU", lines)))
    assert events.lines == ["one", "two"]
    assert events.start_ps.tolist() == [1009, 2007] and events.offset_ps.tolist() == [9, 7]


def test_groups_are_those_of_the_rows() -> None:
    tables = fastprof.load(capture([alloc(3, 8, 1), free(1, 8), alloc(2, 8, 1, line=1)])).table_set
    host = read_host(tables, 0, (), STATS, ())
    group = np.array([10, 11, 12], np.int32)
    events = read_memory_events(host, group)
    assert events.start_ps.tolist() == [1, 2, 3] and events.group.tolist() == group[events.row].tolist()
    later = read_memory_events(host)
    assert later.group.tolist() == [-1, -1, -1] and later.in_groups(group).group.tolist() == events.group.tolist()


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    import random

    calls = made_up(random.Random(1), 300)
    host = read_host(fastprof.load(capture(calls)).table_set, 0, (), STATS, ())
    one = read_memory_events(host)
    monkeypatch.setattr(columns, "_SHARE", 7)
    other = read_memory_events(host, None, Workers(3))
    for name in ("row", "address", "heap_bytes", "fragmentation", "recorded", "site", "bounds"):
        assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=name == "fragmentation"), name


def test_columns_can_be_sent_to_another_process() -> None:
    events = read([alloc(0, 8, 4, heap=4), free(1, 8)])
    again: MemoryEvents = pickle.loads(pickle.dumps(events))
    assert again.address.tolist() == [8, 8] and again.kept == {}


def test_no_events_make_empty_columns() -> None:
    for events in (read(xspace(plane("/device:GPU:0"))), read(xspace(plane("/host:CPU"))), read([])):
        assert len(events) == 0 and events.allocators == [] and events.bounds.tolist() == [0]
        assert events.in_use_bytes.tolist() == [] and len(events.sites) == 0


def test_only_what_was_reported_is_a_column() -> None:
    assert Call(True, 0, None).stats() == {"allocator_name": "a"}
