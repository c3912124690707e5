"""Which groups are requests and batches, and whose models they are of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from serving_builder import US, Server
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.derive.serving.requests import NONE, NumberLinks, find_earliest, find_latest
from fastprof.tables.host_events import join_stat


def requests(server: Server, *columns: str) -> list[Any]:
    rows = fastprof.load(server.capture()).inference().tables["requests"].select(columns).to_pylist()
    return sorted(tuple(row.values()) if len(columns) > 1 else row[columns[0]] for row in rows)


# ---- requests


@pytest.mark.parametrize(
    ("names", "taken"),
    [
        (("SessionRun", "RunGraph"), [0, 1]),
        (("SessionRun", "ServingModelRun"), [1]),
        (("ServingModelRun", "TfrtModelRun"), [1]),
        (("TfrtModelRun", "BatchingSessionRun", "SessionRun"), [1]),
        (("FunctionRun",), []),
    ],
)
def test_the_first_kind_of_event_that_a_host_has_makes_requests(names: tuple[str, ...], taken: list[int]) -> None:
    server = Server()
    for number, name in enumerate(names):
        server.add(name, 10 + 100 * number, 50, _r=1)
    assert requests(server, "request_id") == taken


def test_events_of_no_group_make_no_request() -> None:
    server = Server()
    server.add("SessionRun", 10, 50)
    assert requests(server, "request_id") == []


@pytest.mark.parametrize(
    ("name", "level", "is_request"),
    [("Mine", -1, True), ("Mine", 1, False), ("ModelServerRequest_7", 1, True), ("ModelServerRequest_7", 2, False)],
)
def test_roots_that_a_server_marks_are_requests(name: str, level: int, is_request: bool) -> None:
    server = Server()
    server.add(name, 10, 50, _r=level)
    assert requests(server, "request_id") == [0] * is_request


def test_a_group_is_one_request_whatever_marks_it_and_a_batch_is_none() -> None:
    server = Server()
    server.add("Mine", 10, 50, _r=-1)
    server.add("SessionRun", 20, 10)
    server.add("RunGraph", 21, 5)
    server.batch(200, 60, 1, "b")
    assert requests(server, "request_id", "latency_ps") == [(1, 50 * US)]


def test_a_request_lasts_over_all_threads_of_the_host_and_no_other_plane() -> None:
    main = line("main", [event("SessionRun", 10, 50, {"_r": 1, "_pt": 3, "_p": 9})])
    pool = line("pool", [event("work", 55, 20, {"_ct": 3, "_c": 9})])
    other = plane("/host:python-tracer", [line("x", [event("work", 70, 500, {"_ct": 3, "_c": 9})])])
    report = fastprof.load(xspace(plane("/host:CPU", [main, pool]), other)).inference()
    assert report.tables["requests"].select(["start_ps", "latency_ps"]).to_pylist() == [
        {"start_ps": 10, "latency_ps": 65}
    ]


def test_device_time_that_is_not_recorded_is_unknown() -> None:
    server = Server()
    for at in range(3):
        server.request(200 * at, 100, at)
    recorded = fastprof.load(server.capture()).inference().tables
    server.programs.clear()
    unrecorded = fastprof.load(server.capture()).inference().tables
    columns = ("latency", "device_ps"), ("latency", "host_ps"), ("requests", "device_compute_ps")
    assert [recorded[table][name][0].as_py() // US for table, name in columns] == [40, 40, 40]
    assert all(unrecorded[table][name].null_count == len(unrecorded[table]) > 0 for table, name in columns)


def test_requests_that_last_no_time_are_none() -> None:
    server = Server()
    server.add("SessionRun", 10, 0, _r=1)
    assert requests(server, "request_id") == []


# ---- models


def root(server: Server, contexts: list[int], **stats: Any) -> None:
    server.add("Mine", 10, 400, "a", _r=-1, **stats)
    for at, context in enumerate(contexts):
        server.add("Send", 12 + at, 1, "a", _pt=1, _p=context)


@pytest.mark.parametrize(
    ("own", "of_batches", "model"),
    [
        (None, ["x", "x"], "x"),
        (None, ["x", "y"], None),
        ("z", ["x", "y"], "z"),
        (None, ["x", ""], "x"),
        (None, [], None),
    ],
)
def test_a_root_has_its_own_model_else_the_one_of_all_its_batches(
    own: str | None, of_batches: list[str], model: str | None
) -> None:
    server = Server()
    contexts = list(range(1, len(of_batches) + 1))
    root(server, contexts, **({} if own is None else {"model_id": own}))
    for context, name in zip(contexts, of_batches, strict=True):
        server.batch(100 * context, 60, context, f"batch {context}", model=name)
    assert requests(server, "model") == [model]


def test_a_batched_request_has_the_model_of_its_first_batch() -> None:
    server = Server()
    server.batched(10, 400, [2, 1], "a")
    server.batch(100, 60, 2, "x", model="early")
    server.batch(200, 60, 1, "y", model="late")
    report = fastprof.load(server.capture()).inference()
    assert report.tables["requests"]["model"].to_pylist() == ["early"]
    assert report.tables["batches"]["model"].to_pylist() == ["early", "early"]


# ---- batches


def test_a_batch_of_no_request_has_neither_model_nor_delay() -> None:
    server = Server()
    server.batch(100, 60, 2, "x")
    (batch,) = fastprof.load(server.capture()).inference().tables["batches"].to_pylist()
    assert (batch["model"], batch["delay_ps"], batch["request_ids"], batch["padded_size"]) == (None, None, [], 4)


def test_sizes_that_make_no_sense_have_no_efficiency() -> None:
    server = Server()
    server.batch(100, 60, 2, "x", padding=9, size=4)
    server.batch(300, 60, 3, "x", padding=0, size=0)
    found = fastprof.load(server.capture()).inference().tables["batches"]
    assert found["efficiency_share"].to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("name", "stats", "programs"),
    [
        ("f(12)", {}, [12]),
        ("f(12)", {"program_id": 7}, [7]),
        ("f", {}, []),
        ("f(x)", {}, []),
        ("f(1)(2)", {}, [2]),
        ("f(3) ", {}, []),
        (f"f({2**64})", {}, []),
        (f"f({'1' * 5000})", {}, []),
    ],
)
def test_programs_are_known_by_a_stat_or_by_the_end_of_the_name(
    name: str, stats: dict[str, Any], programs: list[int]
) -> None:
    server = Server()
    server.add("ProcessBatch", 10, 90)
    server.launch(20, 5)
    server.run(30, 10, 5, name, **stats)
    assert fastprof.load(server.capture()).inference().tables["batches"]["program_ids"].to_pylist() == [programs]


# ---- columns


def test_links_hold_each_pair_once_in_ascending_order() -> None:
    links = NumberLinks.of(np.array([2, 0, 2, 2]), np.array([9, 5, 3, 9]), 4)
    assert [links.others[links.bounds[i] : links.bounds[i + 1]].tolist() for i in range(4)] == [[5], [], [3, 9], []]
    assert links.first(np.array([3, 2, 0])).tolist() == [-1, 3, 5]
    place, other = links.of_each(np.array([2, 1, 2]))
    assert (place.tolist(), other.tolist()) == ([0, 0, 2, 2], [3, 9, 3, 9])


def test_links_of_nothing() -> None:
    none = np.zeros(0, np.int64)
    links = NumberLinks.of(none, none, 2)
    assert links.first(np.array([0, 1])).tolist() == [-1, -1]
    assert [column.tolist() for column in links.of_each(np.array([1]))] == [[], []]


def test_values_beside_rows() -> None:
    has, values = join_stat(np.array([5, 0, 9]), np.array([0, 4, 5]), np.array([7, 8, 9]))
    assert (has.tolist(), values.tolist()) == ([True, True, False], [9, 7, 0])


def test_the_least_and_the_greatest_at_each_place() -> None:
    values, at = np.array([4, NONE, 2, NONE]), np.array([0, 0, 0, 1])
    assert find_earliest(values, at, 3).tolist() == [2, NONE, NONE]
    assert find_latest(values, at, 3).tolist() == [4, NONE, NONE]
