"""Lines of counters in both forms of XProf's trace viewer. The expected answers are those of XProf 2.24.2."""

from __future__ import annotations

import json
from typing import Any

import pytest
from trace_builder import Event, Metadata, Plane, event, line, plane, ref, u64, xspace

import fastprof
from fastprof.xprof.trace.trace_forms import write_trace

US = 10**6
LAST = 2**32 - 1
"""The id that counter lines of TPUs have."""


def shown(form: str, *planes: Plane) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        b"".join(write_trace(fastprof.load(xspace(*planes, hostnames=["host"])).tables, form))
    )
    return document


def sample(name: str, start: int, duration: int, value: float | str, stat: str = "% util") -> Event:
    return event(name, start, duration, {stat: value})


def core(*counts: Event, number: int = 0, more: tuple[Any, ...] = (), **rest: Any) -> Plane:
    lines = [line("_counters_", counts, id=LAST), *more]
    return plane(f"/device:TPU:{number}", lines, id=2 + number, **rest)


def counters(*planes: Plane) -> dict[tuple[int, str], tuple[str | None, list[list[Any]]]]:
    """By pid and name, the stat of a counter and its points."""
    events = [one for one in shown("xprof-streaming", *planes)["traceEvents"] if one["ph"] == "C"]
    return {(one["pid"], one["name"]): (one.get("event_stats"), one["entries"]) for one in events}


KERNEL = line(
    "Tensor Core", [event("range", 0, 50 * US, {"long_name": "bundles 0 to 9"}), event("end", 50 * US, US)], id=7
)
UNITS = core(
    sample("MXU", 0, 10 * US, 72.03660000000001),
    sample("Scalar ALU", 0, 10 * US, 0.0),
    sample("MXU", 10 * US, 20 * US, 1234567.0),
    sample("Vector Spills", 30 * US, 200 * US, 3.0, "spills"),
    more=(KERNEL,),
)


def test_the_form_with_all_events_has_a_thread_of_counters() -> None:
    thread = {"ph": "X", "pid": 3, "tid": LAST}
    assert shown("xprof", UNITS)["traceEvents"] == [
        {"args": {"name": "/device:TPU:0"}, "name": "process_name", "ph": "M", "pid": 3},
        {"args": {"sort_index": 3}, "name": "process_sort_index", "ph": "M", "pid": 3},
        {"args": {"name": "Tensor Core"}, "name": "thread_name", "ph": "M", "pid": 3, "tid": 7},
        {"args": {"sort_index": 7}, "name": "thread_sort_index", "ph": "M", "pid": 3, "tid": 7},
        {"args": {"name": "_counters_"}, "name": "thread_name", "ph": "M", "pid": 3, "tid": LAST},
        {"args": {"sort_index": LAST}, "name": "thread_sort_index", "ph": "M", "pid": 3, "tid": LAST},
        {"args": {"% util": "72.0366"}, "dur": 10, "name": "MXU", "ts": 0, **thread},
        {"args": {"% util": "0"}, "dur": 10, "name": "Scalar ALU", "ts": 0, **thread},
        {"args": {"% util": "1.23457e+06"}, "dur": 20, "name": "MXU", "ts": 10, **thread},
        {"args": {"spills": "3"}, "dur": 200, "name": "Vector Spills", "ts": 30, **thread},
        {"args": {"long_name": "bundles 0 to 9"}, "dur": 50, "name": "range", "ph": "X", "pid": 3, "tid": 7, "ts": 0},
        {"dur": 1, "name": "end", "ph": "X", "pid": 3, "tid": 7, "ts": 50},
        {},
    ]


def test_the_streaming_form_has_one_object_a_counter() -> None:
    found = shown("xprof-streaming", UNITS)
    slices = {"ph": "X", "pid": 1003, "tid": 7}
    assert found["traceEvents"] == [
        {"args": {"name": "host /device:TPU:0"}, "name": "process_name", "ph": "M", "pid": 1003, "thread_count": 1},
        {"args": {"sort_index": 1003}, "name": "process_sort_index", "ph": "M", "pid": 1003},
        {"args": {"name": "Tensor Core"}, "name": "thread_name", "ph": "M", "pid": 1003, "tid": 7},
        {"args": {"sort_index": 7}, "name": "thread_sort_index", "ph": "M", "pid": 1003, "tid": 7},
        {"pid": 1003, "name": "MXU", "ph": "C", "event_stats": "% util", "entries": [[0, 72.0366], [10, 1234567]]},
        {"pid": 1003, "name": "Scalar ALU", "ph": "C", "event_stats": "% util", "entries": [[0, 0]]},
        {"pid": 1003, "name": "Vector Spills", "ph": "C", "event_stats": "spills", "entries": [[30, 3]]},
        {"name": "range", "ts": 0, "dur": 50, "args": {"uid": 0}, **slices},
        {"name": "end", "ts": 50, "dur": 1, "args": {"uid": 0}, **slices},
    ]
    assert (found["totalCounterEvents"], found["returnedEventsSize"]) == (4, 6)


def test_durations_of_counters_count_for_the_time_span_and_the_order_of_equal_starts() -> None:
    found = shown("xprof-streaming", core(sample("MXU", 0, 200 * US, 1.0), more=(KERNEL,)))
    assert found["fullTimespan"] == [0, 0.2]
    (first, _) = (one for one in found["traceEvents"] if one["ph"] == "X")
    assert (first["name"], first["args"], first["z"]) == ("range", {"uid": 1}, 1)


def test_a_counter_has_the_name_of_its_metadata_and_the_values_of_its_metadata_first() -> None:
    metadata = [Metadata("a", display_name="A", stats={"% util": 7.0, "unit": "parts", "flops": 3})]
    given = core(sample("a", 0, 1, 1.0), event("b", 0, 1, {"step_name": "S", "% util": 2.0}), event_metadata=metadata)
    assert counters(given) == {
        (1003, "a"): ("long_name", [[0, "a", 7, "parts", 1]]),
        (1003, "b"): ("step_name", [[0, "S", 2]]),
    }


def test_groups_and_flows_are_not_values_of_counters() -> None:
    stats = {"group_id": 3, "flow": u64(9 << 2 | 1), "_a": 1, "% util": 2.0}
    assert counters(core(event("a", 0, 1, stats))) == {(1003, "a"): ("% util", [[0, 2]])}


def test_counters_of_a_tpu_belong_to_no_step() -> None:
    modules = line("XLA Modules", [event("jit_f(1)", 0, 20 * US, {"run_id": 1})], id=3)
    ops = line("XLA Ops", [event("fusion", 0, 20 * US)], id=4)
    found = shown("xprof", core(sample("MXU", 0, 10 * US, 1.0), more=(modules, ops)))["traceEvents"]
    args = {one["name"]: one["args"] for one in found if one.get("ph") == "X"}
    assert args == {"jit_f(1)": {"group_id": "0", "run_id": "1"}, "fusion": {"group_id": "0"}, "MXU": {"% util": "1"}}


def test_a_name_of_several_devices_is_a_counter_of_each() -> None:
    given = [core(sample("MXU", 0, 1, value), number=number, more=(KERNEL,)) for number, value in ((0, 1.0), (1, 3.0))]
    assert counters(*given) == {(1003, "MXU"): ("% util", [[0, 1]]), (1004, "MXU"): ("% util", [[0, 3]])}


@pytest.mark.parametrize(
    ("value", "expected", "text"),
    [
        (2 / 3 * 100, 66.66666666666666, "66.6667"),
        (123456789.12345679, 123456789.12345679, "1.23457e+08"),
        (5e-324, 5e-324, "4.94066e-324"),
        (-12.25, -12.25, "-12.25"),
        (float("nan"), "NaN", "nan"),
        (float("-inf"), "-Infinity", "-inf"),
        (2**53 + 1, 2**53 + 1, "9007199254740993"),
        (u64(2**64 - 1), 2**64 - 1, "18446744073709551615"),
        ("12", "12", "12"),
        (ref("a text of more than sixteen letters"), "a text of more than sixteen letters", None),
    ],
)
def test_values_are_exact_in_the_streaming_form_and_texts_in_the_other(value: Any, expected: Any, text: str) -> None:
    given = core(event("MXU", 0, 1, {"% util": value}))
    assert counters(given)[1003, "MXU"] == ("% util", [[0, expected]])
    (found,) = (one for one in shown("xprof", given)["traceEvents"] if one.get("ph") == "X")
    assert found["args"] == {"% util": text or expected}


def test_samples_of_equal_start_are_points_each() -> None:
    """XProf has them in another order."""
    given = core(sample("MXU", 0, 10, 1.0), sample("MXU", 0, 20, 2.0), sample("MXU", 0, 10, 3.0))
    assert counters(given)[1003, "MXU"] == ("% util", [[0, 2], [0, 1], [0, 3]])


def test_ids_of_counter_lines_do_not_matter_to_the_streaming_form() -> None:
    for number in (2**63 - 1, -1, 0):
        given = plane("/device:TPU:0", [line("_counters_", [sample("MXU", 0, 1, 1.0)], id=number), KERNEL], id=2)
        assert counters(given) == {(1003, "MXU"): ("% util", [[0, 1]])}


def test_a_counter_without_a_value_has_no_point() -> None:
    given = core(event("MXU", 0, 1), sample("MXU", 5 * US, 1, 2.0), event("XLU", 0, 1))
    assert counters(given) == {(1003, "MXU"): (None, [[5, 2]]), (1003, "XLU"): (None, [])}
