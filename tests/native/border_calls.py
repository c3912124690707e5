"""One valid call of every kernel, with what each of its arrays is: written, of any length, an index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastprof._native import (
    cause_kernels,
    chrome,
    communication_kernels,
    grouping,
    kernels,
    lod,
    memory_kernels,
    op_kernels,
    pipeline_kernels,
    records,
    riegeli,
    step_kernels,
    timeline_kernels,
    visibility,
)


@dataclass
class Given:
    """An array of a call. ``written``: by C. ``free``: no other array has its length. ``index``: C indexes by it."""

    array: np.ndarray
    written: bool = False
    free: bool = False
    index: bool = False


def plain(value: Any) -> Any:
    """The arguments as the function takes them: copies, so that no call sees what another one wrote."""
    if isinstance(value, Given):
        return value.array.copy()
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return type(value)(map(plain, value)) if isinstance(value, (tuple, list)) else value


def read(array: Any) -> Given:
    return Given(np.asarray(array))


def out(array: Any, *, free: bool = False) -> Given:
    return Given(np.asarray(array), written=True, free=free)


def index(array: Any, *, free: bool = False) -> Given:
    return Given(np.asarray(array), free=free, index=True)


def free(array: Any) -> Given:
    return Given(np.asarray(array), free=True)


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def u8(*values: int) -> np.ndarray:
    return np.array(values, np.uint8)


def u32(*values: int) -> np.ndarray:
    return np.array(values, np.uint32)


def u64(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def structs(layout: str, count: int = 2) -> np.ndarray:
    return np.zeros(count, np.dtype([(f"f{i}", one) for i, one in enumerate(layout.split())]))


LINES = np.array([(0, 2, 0), (2, 3, 9)], records.LINE_ROWS)
START, LASTING = i64(0, 5, 20), i64(10, 3, 4)
Call = tuple[Callable[..., Any], list[Any]]
CALLS: dict[str, Callable[[], Call]] = {}


def call(name: str) -> Callable[[Callable[[], Call]], Callable[[], Call]]:
    def add(make: Callable[[], Call]) -> Callable[[], Call]:
        CALLS[name] = make
        return make

    return add


def simple(function: Callable[..., Any], *arguments: Any) -> None:
    CALLS[f"{function.__module__.rpartition('.')[2]}.{function.__name__}"] = lambda: (function, list(arguments))


simple(kernels.nesting_lines, free(START), read(LASTING), read(u8(0, 0, 0)), index(LINES, free=True),
       out(i32(0, 0, 0)), out(i64(0, 0, 0)), out(i64(0, 0, 0)))  # fmt: skip
simple(kernels.group_sums, index(i32(0, 1, -1)), read(START), out(np.zeros(2, records.GROUP_SUM), free=True))
simple(kernels.bitmap_of_codes, index(u8(1, 2, 31), free=True), 6)
simple(kernels.rank_order, free(START), Given(i32(2, 0), written=True, free=True, index=True))
simple(kernels.input_walk, free(i64(0, 1, 2)), index(i64(1, 0), free=True), index(i64(0), free=True), out(i64(-1, -1)),
       out(i64(0, 0)), out(i64(0, 0)), out(i64(0, 0)))  # fmt: skip
simple(grouping.key_numbers, [read(START), read(LASTING)], out(i32(0, 0, 0)))
simple(
    grouping.parents,
    read(START),
    read(LASTING),
    read(u8(0, 0, 0)),
    free(i64(1, 0, 4)),
    index(i64(0, 2, 2, 3), free=True),
    out(i32(0, 0, 0)),
)
simple(
    step_kernels.step_time,
    index(i32(0, 1, 1)),
    read(u8(1, 2, 30)),
    read(START),
    read(LASTING),
    index(i64(0, 2, 3), free=True),
    read(np.zeros((2, 2), np.int64)),
    out(np.zeros((2, 18), np.int64)),
    out(np.zeros((2, 18), np.int64)),
    out(np.zeros((2, 18), np.uint8)),
)
simple(
    step_kernels.placed,
    read(i64(0, 9)),
    read(i64(8, 20)),
    read(i64(8, 20)),
    read(i32(1, 2)),
    read(START),
    read(LASTING),
    True,
    out(i32(0, 0, 0)),
)
simple(
    op_kernels.host_ops_sum,
    read(START),
    read(LASTING),
    read(i32(0, 1, 5)),
    index(i32(0, 1), free=True),
    read(u8(0, 1, 0)),
    free(np.zeros(2, [("row", "i8"), ("op", "i8")])),
    free(np.zeros(2, [("row", "i8"), ("op", "i8")])),
    read(u8(0, 1)),
    False,
    Given(
        np.array([(0, 2, 0, 0, 0, 0, 0), (2, 3, 0, 0, 0, 0, 0)], [(f"f{i}", "i8") for i in range(7)]),
        written=True,
        free=True,
        index=True,
    ),
    out(structs("i8 i8 i8 i8 i8 i8")),
)
simple(op_kernels.self_times, read(START), read(LASTING), index(LINES, free=True), out(i64(0, 0, 0)), out(i64(0, 0, 0)))
simple(op_kernels.innermost_time, read(START), read(LASTING), read(u8(1, 0, 1)), 1, index(LINES, free=True))
simple(op_kernels.extent, read(START), read(LASTING))
simple(kernels.spans_union, read(START), read(LASTING))
simple(
    communication_kernels.innermost_stretches, read(START), read(LASTING), read(u8(1, 0, 2)), index(LINES, free=True)
)
simple(
    communication_kernels.overlaps,
    index(np.array([(0, 5, -1), (9, 12, -1)], [("begin", "i8"), ("end", "i8"), ("row", "i8")]), free=True),
    Given(
        np.array(
            [(1, 7, 0, 1, 0, 0), (8, 10, 1, 1, 0, 0)],
            [(n, t) for n, t in zip("abcdef", ["i8", "i8", "i4", "i4", "i8", "i8"], strict=True)],
        ),
        written=True,
    ),
    index(i64(0, 1)),
    read(i64(4, 20)),
    out(np.zeros((2, 9), np.int64)),
    2,
)
SPANS = np.array([(0, 9, 1, 0), (2, 5, 0, 3)], "i8,i8,i4,i4")
NO_CAUSES = np.ones(256, np.int32)
THREADS = np.array([(0, 2, 0), (2, 3, 1)], "i8,i8,i8")
GAPS = np.array(
    [(0, 9, 1, 0, -1, 0, 4), (9, 12, -1, 0, 2, 0, 4)],
    np.dtype(
        [(n, "i8") for n in ("begin", "end", "row")] + [(n, "i4") for n in ("group", "transfer", "cause", "kind")]
    ),
)
simple(cause_kernels.foremost, free(SPANS), 0, 9)
simple(
    cause_kernels.foremost_reasons,
    (read(START), read(LASTING), read(u8(1, 0, 2))),
    free(np.ones(512, np.uint8)),
    index(THREADS, free=True),
    free(np.zeros(512, np.uint8)),
    free(i64(0, 9)),
    0,
    9,
)
simple(
    cause_kernels.gap_pieces,
    (
        read(START),
        index(i32(-1, -2, 1)),
        *(read(i64(0, time, 0)) for time in (0, 6, 7)),
        *(index(i64(-1, row, -1)) for row in (2, 1)),
    ),
    (index(u8(1, 3)), read(i32(3, 5))),
    (
        index(np.array([(0, 9, -1), (9, 12, 2)], "i8,i8,i8"), free=True),
        free(u8(0, 1, 2)),
        free(np.ones(256, np.int32)),
        6,
    ),
    free(i64(0, 9)),
    (free(i64(0, 9)), read(i64(7))),
    30,
    (24, 3),
    (9, 0, 1, 2, 3, 4, 7, 8),
)
simple(
    cause_kernels.event_writers,
    (index(u8(0, 3, 15)), index(i32(-1, 0, -1)), index(i32(1, -1, 0))),
    index(THREADS, free=True),
    free(np.ones(96, np.uint8)),
    (2, 3),
    out(u8(0, 0, 0)),
    out(np.zeros(8, np.uint8), free=True),
    4,
)
simple(
    cause_kernels.of_writer_and_name,
    index(u8(0, 3, 1)),
    index(i32(1, -1, 0)),
    index(THREADS, free=True),
    free(np.ones(8, np.uint8)),
    4,
    out(u8(0, 0, 0)),
)
simple(cause_kernels.gap_sums, index(GAPS, free=True), free(i32(4, 3)), 5)
simple(
    cause_kernels.longest_path,
    index(i32(0, 1)),
    index(i32(1, 2)),
    read(i64(3, 4)),
    out(i64(0, 0, 0), free=True),
    out(i32(0, 0, 0), free=True),
)
simple(
    memory_kernels.stat_beside,
    read(i32(0, 1)),
    index(u8(0, 1)),
    read(i64(5, 6)),
    read(i32(0, 1)),
    index(i32(1, 0)),
    (0, 1, 2),
    out(i64(0, 0)),
    out(np.zeros(2, np.uint16)),
    out(np.zeros(2, np.uint16)),
    1,
    True,
)
simple(
    memory_kernels.match_allocations,
    read(u8(1, 0, 1)),
    read(i64(7, 7, 9)),
    read(u8(1, 1, 1)),
    index(i64(0, 2, 3), free=True),
    False,
    out(i32(0, 0, 0)),
    out(u8(0, 0, 0)),
)
simple(
    memory_kernels.known_chunks,
    read(u8(1, 0, 1)),
    read(u8(0, 0, 0)),
    read(i64(8, 8, 99)),
    read(i64(4, 4, 4)),
    read(i64(2, 2, 2)),
    index(i64(0, 2, 3), free=True),
    0,
    2,
    *(out(i64(0, 0, 0)) for _ in range(4)),
)
simple(
    memory_kernels.bound_free_memory,
    read(u8(1, 0, 1)),
    read(np.array([0.5, np.nan, 0.1])),
    read(i64(9, 9, 9)),
    read(i64(5, 6, 7)),
    read(i64(0, 0, 0)),
    read(np.array([3, 3, 3], np.uint16)),
    1,
    2,
    read(i64(4, 4, 4)),
    read(i64(2, 2, 2)),
    index(i64(0, 2, 3), free=True),
    0,
    2,
    *(out(i64(0, 0, 0)) for _ in range(10)),
    out(u8(0, 0)),
)
simple(memory_kernels.range_peaks, free(i64(3, 9, 4)), index(i64(0, 1)), index(i64(2, 3)), out(i64(0, 0)))
simple(memory_kernels.following_peaks, read(i64(3, 9, 4)), index(i64(0, 2, 3), free=True), out(i32(0, 0, 0)))
simple(
    memory_kernels.heap_trace,
    read(i32(0, 2, 1)),
    index(i32(0, 1, 0)),
    index(i32(-1, 0, -1)),
    read(i64(8, 8)),
    read(i64(7, 7)),
    *(out(np.zeros(4, np.int64)) for _ in range(2)),
    *(out(i32(0, 0)) for _ in range(5)),
    *(out(i32(0, 0, 0)) for _ in range(2)),
)
simple(
    pipeline_kernels.marked_rows,
    index(i32(-1, 0, 1)),
    read(u8(1, 0, 1)),
    out(i32(0, 0)),
    out(i32(0, 0)),
    out(i32(0, 0)),
    out(i32(0, 0, 0)),
)
simple(pipeline_kernels.nearest_marked, index(i32(-1, 0, 1)), read(u8(1, 0, 1)), 1, out(i32(0, 0, 0)))
simple(
    pipeline_kernels.preorder, index(i32(-1, 0, 0)), index(i32(0, 1), free=True), out(i32(0, 0, 0)), out(i32(0, 0, 0))
)
simple(
    pipeline_kernels.pipeline_calls,
    (read(START), read(LASTING), index(i32(-1, 0, 1)), index(i32(0, 1, 2))),
    index(u8(0, 1, 2), free=True),
    free(np.array([(0, 4, 0, 1), (5, 6, 1, 2)], [("a", "i8"), ("b", "i8"), ("c", "i4"), ("d", "i4")])),
    (index(i32(0, 0)), read(i32(0, 0)), read(u8(1, 0))),
)
simple(
    pipeline_kernels.pipeline_paths,
    (read(START), read(LASTING), index(i32(-1, 0, 0)), index(i32(0, 1, 2))),
    3,
    (index(u32(0, 1, 2, 2)), index(u32(0, 1, 2), free=True), index(i32(0, 1), free=True), index(i32(1, 2), free=True)),
    index(i32(0, 1), free=True),
    99,
    9,
)
LISTS = (index(i64(0, 1, 3), free=True), free(i64(7, 8, 9)))
DERIVED = (
    read(START),
    read(LASTING),
    read(i32(-1, 0, 0)),
    index(i32(0, 1, -1)),
    LISTS,
    index(i32(0, 1, -1)),
    LISTS,
    read(u8(0, 0, 1)),
    False,
    True,
)
CALLS["timeline_kernels.DerivedLine"] = lambda: (timeline_kernels.DerivedLine, list(DERIVED))


@call("timeline_kernels.DerivedLine.fill")
def _() -> Call:
    made = timeline_kernels.DerivedLine(*plain(DERIVED))
    columns = [out(np.zeros(made.count(), np.int64)) for _ in range(3)]
    return made.fill, [*columns, out(np.zeros(made.count(), np.int32)), out(u8(0, 0, 0)), out(i64(0, 0, 0))]


simple(timeline_kernels.time_order, read(START), read(LASTING), out(i64(0, 0, 0)))
simple(
    timeline_kernels.offloads,
    read(i64(0, 1, 2)),
    read(i64(1, 2, 3)),
    index(i32(0, 1, 0)),
    read(u8(1, 1, 0)),
    2,
    out(i64(0, 0, 0)),
    out(i64(0, 0, 0)),
    out(i32(0, 0, 0)),
)
GRAPH = (
    index(i32(-1, 0, -1), free=True),
    index(np.array([(0, 0), (1, 1)], [("row", "i4"), ("link", "i4")]), free=True),
    index(np.array([(2, 0), (2, 1)], [("row", "i4"), ("link", "i4")]), free=True),
    2,
)
CALLS["grouping.EventGraph"] = lambda: (grouping.EventGraph, list(GRAPH))


def of_graph(name: str, *arguments: Any) -> None:
    CALLS[f"grouping.EventGraph.{name}"] = lambda: (getattr(grouping.EventGraph(*plain(GRAPH)), name), list(arguments))


of_graph("nearest_above", read(u8(1, 0, 0)), 1, index(i32(2, 1)), out(i32(0, 0)))
of_graph("nearest_above_all", read(u8(1, 0, 0)), 1, out(i32(0, 0, 0)))
of_graph("group", index(i32(0, 1), free=True), index(i32(1, 2, 0)), 0, out(i32(-1, -1, -1)))
CALLS["kernels.LineNesting.push"] = lambda: (
    kernels.LineNesting().push,
    [read(START), read(LASTING), read(u8(0, 0, 0)), 0, True, out(i32(0, 0, 0)), out(i64(0, 0, 0)), out(i64(0, 0, 0))],
)
TRACED = (
    read(u64(0, 5, 6)),
    read(u64(9, 9, 9)),
    index(i64(0, 2, 3)),
    read(u8(0, 1)),
    index(i32(0, -1, 0)),
    read(u8(0, 0, 1)),
    1,
)
CALLS["visibility.Traced"] = lambda: (visibility.Traced, list(TRACED))
ORDER = index(i32(0, 1, 2))


def of_traced(name: str, *arguments: Any) -> None:
    CALLS[f"visibility.Traced.{name}"] = lambda: (getattr(visibility.Traced(*plain(TRACED)), name), list(arguments))


of_traced("order", out(i32(0, 0, 0)))
of_traced("serials", ORDER, out(u32(0, 0, 0)))
of_traced("layers", ORDER, out(u8(0, 0, 0)))
of_traced("visible", ORDER, read(u8(0, 1, 2)), read(u8(0, 0, 0)), 0, 99, 5, out(u8(0, 0, 0)))

simple(lod.lanes, read(START), read(LASTING), out(np.zeros(3, np.uint16)))
GROUP = (
    0,
    2,
    out(np.zeros(4, np.int64)),
    out(np.zeros(4, np.int64)),
    out(np.zeros(4, np.uint32)),
    out(np.zeros(4, np.uint32)),
)
CALLS["lod.Group"] = lambda: (lod.Group, list(GROUP))
CALLS["lod.Group.add"] = lambda: (lod.Group(*plain(GROUP)).add, [0, read(START), read(LASTING), read(i32(0, 1, 0)), 0])


def lod_arguments() -> list[Any]:
    columns = [np.zeros(3, np.int64), np.zeros(3, np.int64), np.zeros(3, np.uint32), np.zeros(3, np.uint32)]
    group = lod.Group(0, 2, *columns)
    group.add(0, START, LASTING, i32(0, 1, 0), 0)
    lanes = np.frombuffer(group.lanes(), [(f"f{i}", "u4") for i in range(6)])
    levels = np.frombuffer(group.levels(), [("first", "u8"), ("count", "u4"), ("level", "u4")])
    slices = np.frombuffer(group.slices(), [("a", "i8"), ("b", "i8"), ("c", "i8"), ("d", "u4"), ("e", "u4")])
    return [*map(read, columns), index(lanes, free=True), index(levels, free=True), free(slices), 2]


CALLS["lod.Lod"] = lambda: (lod.Lod, lod_arguments())
LANES, WANTED = index(u32(0, 1), free=True), free(u8(1, 0))


def of_lod(name: str, *arguments: Any) -> None:
    CALLS[f"lod.Lod.{name}"] = lambda: (getattr(lod.Lod(*plain(lod_arguments())), name), list(arguments))


of_lod("sums", LANES, 0, 99)
of_lod("run_sums", 0, 3)
of_lod("hits", index(u32(0, 1)), WANTED, out(i64(0, 0)))
of_lod("next_hit", LANES, WANTED, 0, 0, 0, True)
of_lod("hits_before", LANES, WANTED, 9, 0, 0)
of_lod("lane_of", 1)
of_lod("parent", 1)
of_lod("children", 0, out(u32(0, 0), free=True), 99)
CALLS["lod.Tile.add"] = lambda: (
    lod.Tile().add,
    [lod.Lod(*plain(lod_arguments())), index(u32(0, 1)), read(u32(0, 0)), 3, 0, 99, 0, 0.0, 0, 0],
)
CALLS["lod.Tile.packed"] = lambda: (lod.Tile().packed, [3, 0])

CALLS["chrome.ChromeScribe"] = lambda: (chrome.ChromeScribe, ["trace.json", False])
for method in ("push", "scan"):
    CALLS[f"chrome.ChromeScribe.{method}"] = lambda method=method: (
        getattr(chrome.ChromeScribe("trace.json", False), method), [free(u8(91, 93))],
    )  # fmt: skip
CALLS["chrome.ChromeScribe.take"] = lambda: ((one := chrome.ChromeScribe("f", False)).take, [one.scan(b"[")])

# Two records of no bytes: the only node is the start of a record.
simple(riegeli.crc32c, free(u8(1, 2, 3)))
simple(riegeli.riegeli_hash, free(u8(1, 2, 3)))
simple(
    riegeli.transposed,
    free(np.frombuffer(i64(3, 0, -1, 0, 0), [(f"f{i}", "i8") for i in range(5)])),
    0,
    False,
    free(u8(1)),
    free(i64(0, 1)),
    free(u8(0)),
    0,
    out(i64(0, 0), free=True),
)
