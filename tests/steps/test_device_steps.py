"""Steps as devices show them: on their own line, or made of the groups of their events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from host_groups import groups_of, members, read
from trace_builder import Event, Line, Plane, event, line, plane, xspace

from fastprof.derive.steps.device_steps import find_grouping_line, map_to_nodes, read_device_times
from fastprof.derive.steps.grouping import Groups

CONTEXT = 12
DERIVED = 0xDEADBEEF
Step = tuple[int, int, int]
"""A group, a start and a duration."""


def roots(count: int) -> Plane:
    """Groups from 0 on, ``train 0`` at 0; each produces the context of its number."""
    events = [event("train", 100 * i, 50, {"_r": 1, "_pt": CONTEXT, "_p": i}) for i in range(count)]
    return plane("/host:CPU", [line("main", events)])


def of(group: int | None, start: int, duration: int, name: str = "e", **stats: Any) -> Event:
    """An event of a device that the group leads to."""
    context: dict[str | int, Any] = {} if group is None else {"_ct": CONTEXT, "_c": group}
    return event(name, start, duration, {**context, **stats})


def gpu(*streams: Sequence[Event]) -> Plane:
    return plane("/device:GPU:0", [line(f"stream {i}", events) for i, events in enumerate(streams)])


def tpu(*lines: Line, name: str = "/device:TPU:0", **rest: Any) -> Plane:
    return plane(name, lines, **rest)


def groups(*planes: Plane) -> Groups:
    return groups_of(xspace(roots(4), *planes))


def steps(found: Groups, plane_number: int = 1) -> list[Step]:
    table = found.device_steps[plane_number]
    return list(zip(table.group_id.tolist(), table.start_ps.tolist(), table.duration_ps.tolist(), strict=True))


def of_line(found: Groups, name: str) -> list[int]:
    return next(found.group_id[one.first : one.last].tolist() for one in found.events.lines if one.name == name)


# ---- GPUs --------------------------------------------------------------------------------------------


def test_events_of_a_group_that_follow_each_other_are_a_step() -> None:
    grouped = groups(gpu([of(0, 10, 5), of(0, 20, 5), of(1, 30, 5), of(0, 40, 5)]))
    assert steps(grouped) == [(0, 10, 15), (1, 30, 5), (0, 40, 5)]


def test_streams_are_gone_through_together() -> None:
    grouped = groups(gpu([of(0, 10, 50), of(1, 70, 5)], [of(0, 12, 5), of(0, 80, 5)]))
    assert steps(grouped) == [(0, 10, 50), (1, 70, 5), (0, 80, 5)]


def test_events_without_a_group_join_the_one_before() -> None:
    """Those before the first that has one stay without."""
    grouped = groups(
        gpu([of(None, 5, 1), of(0, 10, 5), of(None, 20, 9)], [of(None, 40, 1), of(1, 50, 1), of(None, 60, 1)])
    )
    assert grouped.group_id.tolist()[4:] == [-1, 0, 0, 0, 1, 1]
    assert steps(grouped) == [(0, 10, 31), (1, 50, 11)]


def test_of_events_that_begin_together_the_shorter_is_first() -> None:
    grouped = groups(gpu([of(0, 10, 20)], [of(1, 10, 5), of(None, 30, 1)]))
    assert steps(grouped) == [(1, 10, 5), (0, 10, 21)]


def test_a_step_ends_with_what_ends_last() -> None:
    assert steps(groups(gpu([of(0, 10, 50)], [of(0, 20, 5)]))) == [(0, 10, 50)]
    assert steps(groups(gpu([of(0, 10, 5), of(0, 20, -100)]))) == [(0, 10, 5)]


def test_lines_that_a_profiler_derived_are_no_events_of_the_gpu() -> None:
    derived = line("Launch Stats", [of(None, 0, 500)], id=DERIVED + 1)
    grouped = groups(plane("/device:GPU:0", [line("stream", [of(0, 10, 5)], id=1), derived]))
    assert steps(grouped) == [(0, 10, 5)] and of_line(grouped, "Launch Stats") == [-1]


def test_each_gpu_has_steps_of_its_own() -> None:
    grouped = groups(gpu([of(0, 10, 5)]), plane("/device:GPU:1", [line("s", [of(1, 7, 2)])]), plane("/device:GPU:2"))
    assert [steps(grouped, number) for number in (1, 2, 3)] == [[(0, 10, 5)], [(1, 7, 2)], []]
    assert 0 not in grouped.device_steps  # the host has none


def test_steps_of_a_capture_that_was_grouped_are_those_that_it_shows() -> None:
    shown = [event("0", 5, 90, {"group_id": 0}), event("none", 200, 5), event("3", 100, 50, {"group_id": 3})]
    lines = [line("stream", [event("k", 10, 5, {"group_id": 0})], id=1), line("Steps", shown, id=DERIVED)]
    grouped = groups_of(xspace(plane("/device:GPU:0", lines)))
    assert steps(grouped, 0) == [(0, 5, 90), (3, 100, 50)]


@pytest.mark.parametrize(
    ("id", "derived"), [(DERIVED, True), (DERIVED + 388, True), (DERIVED - 1, False), (DERIVED + 389, False),
                        (DERIVED - (1 << 32), True), (1, False)],
)  # fmt: skip
def test_derived_lines_are_known_by_their_ids(id: int, derived: bool) -> None:
    assert read(xspace(plane("p", [line("Steps", [event("e")], id=id)]))).lines[0].is_derived == derived


# ---- what groups the events of a TPU -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("XLA Modules", "Steps", "XLA Ops"), "Steps"),
        (("XLA Modules", "Steps!", "XLA Ops"), "XLA Modules"),
        (("Sparse Core Modules", "Sparse Core Steps"), "Sparse Core Steps"),
        (("Steps!", "Sparse Core Modules"), "Sparse Core Modules"),
        (("Steps!", "XLA Modules!", "XLA Ops"), None),
        ((), None),
    ],
)
def test_steps_group_the_events_of_a_tpu_else_modules(names: tuple[str, ...], found: str | None) -> None:
    """A name with an exclamation mark is that of a line without events."""
    lines = [line(name.rstrip("!"), [] if name.endswith("!") else [event("e", 0, 5)]) for name in names]
    chosen = find_grouping_line(read(xspace(tpu(*lines))).planes[0])
    assert (None if chosen is None else chosen.name) == found


def test_ops_are_stood_for_by_the_step_that_includes_them() -> None:
    grouping = line("Steps", [event("s", 10, 20), event("s", 30, 20)])
    ops = [event("before", 5, 2), event("in", 10, 20), event("sticks out", 25, 10), event("in the second", 30, 0),
           event("after", 50, 1)]  # fmt: skip
    events = read(
        xspace(roots(1), tpu(line("XLA Ops", ops), grouping), tpu(line("XLA Ops", ops), name="/device:TPU:1"))
    )
    node = map_to_nodes(events, events.planes[1:])
    assert node.tolist() == [0] + [-1, 6, -1, 7, -1] + [6, 7] + [-1] * 5


def test_steps_are_grouped_by_what_their_ops_wait_for() -> None:
    lines = [line("Steps", [event("s", 10, 20), event("s", 40, 20), event("s", 70, 20)]),
             line("XLA Ops", [of(2, 15, 5, "op"), of(3, 45, 50, "sticks out"), of(1, 80, 5, "op")])]  # fmt: skip
    grouped = groups(tpu(*lines))
    assert of_line(grouped, "Steps") == [2, -1, 1]
    assert of_line(grouped, "XLA Ops") == [2, 1, 1]
    assert steps(grouped) == [(2, 10, 20), (1, 70, 20)] and grouped.count == 4


def test_events_of_a_tpu_neither_nest_nor_are_roots() -> None:
    inner = [of(1, 10, 80, "outer"), event("s", 20, 30, {"_r": 1}), event("TraceContext", 60, 5)]
    grouped = groups(tpu(line("Steps", inner)))
    assert of_line(grouped, "Steps") == [1, -1, -1] and grouped.names == [f"train {i}" for i in range(4)]


def test_other_events_are_in_the_group_of_the_step_that_they_overlap() -> None:
    """Spans that only touch overlap; of two steps the first counts."""
    ops = [
        event("e", 0, 9),
        event("touches", 0, 10),
        event("in", 15, 1),
        event("touches both", 30, 0),
        event("from both", 30, 9),
        event("in the second", 31, 1),
        event("after", 51, 1),
    ]
    grouped = groups(tpu(line("Steps", [of(0, 10, 20), of(1, 30, 20)]), line("XLA Ops", sorted_by_time(ops))))
    names = [grouped.events.names[meta] for meta in grouped.events.meta.tolist()]
    group_of = dict(zip(names, grouped.group_id.tolist(), strict=True))
    assert [group_of[one.name] for one in ops] == [-1, 0, 0, 0, 0, 1, -1]


def sorted_by_time(events: Sequence[Event]) -> list[Event]:
    return sorted(events, key=lambda one: (one.offset_ps or 0, -one.duration_ps))


def test_modules_that_nothing_led_to_are_in_the_group_of_one_that_they_overlap() -> None:
    grouped = groups(tpu(line("XLA Modules", [of(0, 10, 20), event("m", 30, 5), event("m", 40, 5), of(1, 60, 5)])))
    assert of_line(grouped, "XLA Modules") == [0, 0, -1, 1]
    assert 1 not in grouped.device_steps  # modules are no steps


# ---- lock step ---------------------------------------------------------------------------------------


def test_steps_that_no_group_reaches_are_numbered_alike_on_all_cores() -> None:
    three, two = ([event("s", start + 10 * i, 5) for i in range(count)] for start, count in ((0, 3), (2, 2)))
    grouped = groups(tpu(line("Steps", three)), tpu(line("Steps", two), name="/device:TPU:1", id=1))
    assert grouped.group_id.tolist() == [0, 1, 2, 3] + [4, 5, 6] + [4, 5]
    assert grouped.count == 7 and grouped.names[4:] == ["4", "5", "6"]
    assert grouped.root_rows.tolist()[4:] == [-1, -1, -1] and steps(grouped, 2) == [(4, 2, 5), (5, 12, 5)]


def test_one_step_that_is_reached_is_enough_to_leave_the_others_alone() -> None:
    cores = [tpu(line("Steps", [event("s", 0, 5)])), tpu(line("Steps", [of(2, 0, 5)]), name="/device:TPU:1", id=1)]
    assert groups(*cores).group_id.tolist()[4:] == [-1, 2]


def test_sparse_cores_are_not_numbered_in_lock_step() -> None:
    cores = [tpu(line("Steps", [event("s", 0, 5)])),
             tpu(line("Sparse Core Steps", [event("s", 0, 5)]), name="/device:TPU:0 SparseCore 0", id=1)]  # fmt: skip
    assert groups(*cores).group_id.tolist()[4:] == [4, -1]


def test_groups_in_lock_step_record_what_they_lead_to() -> None:
    waits = event("train", 500, 9, {"_r": 1, "_ct": CONTEXT, "_c": 77})
    step = event("s", 10, 5, {"_pt": CONTEXT, "_p": 77})
    grouped = groups_of(xspace(plane("/host:CPU", [line("t", [waits])]), tpu(line("Steps", [step]))))
    assert grouped.group_id.tolist() == [0, 1] and grouped.relations.tolist() == [[1, 0]]


# ---- steps of TPUs -----------------------------------------------------------------------------------


def test_steps_of_a_group_that_follow_each_other_are_one() -> None:
    grouped = groups(tpu(line("Steps", [of(0, 10, 5), of(0, 20, 5), of(1, 30, 5), of(0, 40, 5)])))
    assert steps(grouped) == [(0, 10, 15), (1, 30, 5), (0, 40, 5)]


def test_a_step_without_a_group_is_left_out_and_parts_its_neighbours() -> None:
    grouped = groups(tpu(line("Steps", [of(0, 10, 5), event("s", 20, 5), of(0, 30, 5), event("s", 40, 5)])))
    assert steps(grouped) == [(0, 10, 5), (0, 30, 5)]


def test_steps_have_the_times_of_the_device_if_it_records_both() -> None:
    clock = [
        of(0, 10, 5, device_offset_ps=1010, device_duration_ps=4),
        of(0, 20, 5, device_offset_ps=1020, device_duration_ps=6),
        of(1, 30, 5, device_offset_ps=1030),
        of(2, 40, 5, device_duration_ps=1),
    ]
    table = groups(tpu(line("Steps", clock))).device_steps[1]
    assert table.start_ps.tolist() == [10, 30, 40] and table.duration_ps.tolist() == [15, 5, 5]
    assert table.device_start_ps.tolist() == [
        1010,
        30,
        40,
    ] and table.device_duration_ps.tolist() == [16, 5, 5]


def test_times_of_any_events_by_the_clock_of_the_device() -> None:
    events = read(
        xspace(tpu(line("l", [event("e", 1, 2, {"device_offset_ps": 5, "device_duration_ps": 6}), event("e", 3, 4)])))
    )
    for rows, expected in (([0, 1], [[5, 3], [6, 4]]), ([1], [[3], [4]]), ([], [[], []])):
        assert [column.tolist() for column in read_device_times(events, np.array(rows, np.int32))] == expected


def test_some_of_the_steps() -> None:
    grouped = groups(tpu(line("Steps", [of(0, 10, 5), of(1, 20, 5), of(2, 30, 5)])))
    kept = grouped.subset(np.isin(grouped.group_id, [0, 2, 9])).device_steps[1]
    assert kept.group_id.tolist() == [0, 2] and kept.start_ps.tolist() == [10, 30] and len(kept) == 2
    part = grouped.subset(np.isin(grouped.group_id, [1]))
    assert steps(part) == [(1, 20, 5)] and members(part) == {"train 1": ["train", "e"]}
