"""Parameters of batching, tensors that are moved, and hosts that serve nothing."""

from __future__ import annotations

from typing import Any

import pytest
from serving_builder import US, Server
from trace_builder import Event, Plane, event, line, plane, ref, u64, xspace

import fastprof
from fastprof.derive import serving
from fastprof.tables.host_reader import read_host

PREFIX = "/tensorflow/serving/batching/"


def snapshots(*events: Event) -> Plane:
    return plane("/host:tfstreamz", [line("", events)])


def threads_of(model: str, *others: Plane) -> Any:
    server = Server()
    server.request(10, 100, 1, model)
    return fastprof.load(server.capture(*others)).inference().tables["models"]["num_batch_threads"].to_pylist()


@pytest.mark.parametrize(
    ("model", "label", "known"),
    [
        ("m", "{model_name=m}", True),
        ("m:1", "{model_name=m}", True),
        ("m:-3", "{model_name=m}", True),
        ("m:x", "{model_name=m}", False),
        ("m:x", "{model_name=m:x}", True),
        ("m", "{op_name=o, model_name=m}", True),
        ("m", "{model_name=m, op_name={}}", True),
        ("m", "{model_name=a=m}", False),
        ("m", "{model_name=m", False),
        ("m", "", False),
        ("m", "{op_name=m}", False),
    ],
)
def test_parameters_are_those_of_the_model_that_is_named(model: str, label: str, known: bool) -> None:
    recorded = {PREFIX + "num_batch_threads" + label: 8}
    assert threads_of(model, snapshots(event("a", 0, 1), event("b", 5, 1, recorded))) == [8 if known else None]


@pytest.mark.parametrize("count", [1, 3])
def test_snapshots_are_two_or_say_nothing(count: int) -> None:
    recorded = {PREFIX + "num_batch_threads{model_name=m}": 8}
    assert threads_of("m", snapshots(*[event("s", at, 1, recorded) for at in range(count)])) == [None]


@pytest.mark.parametrize(("value", "read"), [(8, 8), (u64(8), 8), ("8", None), (8.0, None)])
def test_numbers_are_numbers(value: Any, read: int | None) -> None:
    recorded = {PREFIX + "num_batch_threads{model_name=m}": value}
    assert threads_of("m", snapshots(event("a", 0, 1), event("b", 5, 1, recorded))) == [read]


# ---- tensors


def patterns(*moves: tuple[str, dict[str, Any]]) -> list[tuple[str, int]]:
    server = Server()
    server.add("SessionRun", 10, 100, _r=1)
    for at, (name, stats) in enumerate(moves):
        server.add(name, 20 + 10 * at, 1 + at, **stats)
    rows = fastprof.load(server.capture()).inference().tables["tensor_patterns"].to_pylist()
    return [(row["pattern"], row["p50_ps"] // US) for row in rows]


def test_a_pattern_is_of_all_moves_sorted_by_text() -> None:
    recorded = {"shape": ref("f32[2]"), "layout": "{0}"}
    moves = [
        ("TransferBufferFromDevice-FastPath", recorded),
        ("Linearize", recorded),
        ("Delinearize", {**recorded, "shape": "s8[1]"}),
    ]
    text = "Delinearize s8[1] {0}; Linearize f32[2] {0}; TransferBufferFromDevice-FastPath f32[2] {0}"
    assert patterns(*moves) == [(text, 6)]


@pytest.mark.parametrize("missing", ["shape", "layout"])
def test_a_move_that_is_not_described_leaves_its_request_out(missing: str) -> None:
    recorded = {"shape": "f32[2]", "layout": "{0}"}
    partly = {name: value for name, value in recorded.items() if name != missing}
    assert patterns(("Linearize", recorded), ("Linearize", partly)) == []


# ---- hosts that serve nothing


@pytest.mark.parametrize(
    ("one", "may"),
    [
        (event("SessionRun", 0, 5), True),
        (event("ProcessBatch", 0, 5), True),
        (event("Mine", 0, 5, {"_r": -1}), True),
        (event("ModelServerRequest_1", 0, 5, {"_r": 1}), True),
        (event("train", 0, 5, {"_r": 1}), False),
        (event("SessionRunner", 0, 5), False),
    ],
)
def test_what_serving_begins_with(one: Event, may: bool) -> None:
    tables = fastprof.load(xspace(plane("/host:CPU", [line("main", [one])]))).table_set
    assert serving.may_serve(read_host(tables, 0, (), serving.STATS, ())) == may
