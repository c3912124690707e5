"""What fusions are made of, from programs made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gate import few
from hlo_builder import Op, Program, f32
from large_modules import LARGE, captured, entry_names
from trace_builder import Metadata, event, line, plane, u64, xspace

import fastprof
from fastprof.profile.report import Report

N = 1024
"""Elements of every array."""


def parameter(name: str) -> Op:
    return Op(name, "parameter", f32(N))


def nested() -> Program:
    """outer: exponential, then a fusion of a negation, then an addition of both."""
    program = Program("jit_f")
    inner = program.computation("inner", parameter("q"), Op("minus", "negate", f32(N), ["q"]), fused=True)
    body = program.computation(
        "body",
        parameter("p"),
        Op("exp", "exponential", f32(N), ["p"], op_name="jit(f)/layer/exp"),
        Op("fusion.2", "fusion", f32(N), ["exp"], [inner], "kLoop"),
        Op("sum", "add", f32(N), ["exp", "fusion.2"]),
        fused=True,
    )
    program.entry(
        parameter("x"),
        Op("fusion.1", "fusion", f32(N), ["x"], [body], "kInput"),
        Op("copy.3", "copy", f32(N), ["fusion.1"]),
    )
    return program


def capture(program: Program, *names: str, times: int = 1) -> bytes:
    """A TPU core ran these instructions one after the other, ``times`` times."""
    metadata = [
        Metadata(f"%{name} = f32[1024]{{0}} …", display_name=name,
                 stats={"program_id": u64(7), "symbol_id": u64(number), "hlo_category": "loop fusion"})
        for number, name in enumerate(names, 1)
    ]  # fmt: skip
    events = [event(one.name, 1000 * k, 500) for k, one in enumerate(metadata * times)]
    core = plane("/device:TPU:0", [line("XLA Ops", events, id=3)], event_metadata=metadata)
    held = Metadata("jit_f(7)", 7, stats={"Hlo Proto": program.proto()})
    return xspace(core, plane("/host:metadata", event_metadata=[held]))


def rows(report: Report, *columns: str, kind: str = "instruction") -> list[tuple[Any, ...]]:
    table = report.tables["tree"].to_pylist()
    return [tuple(row[name] for name in columns) for row in table if row["kind"] == kind]


def test_instructions_are_below_their_fusion_without_parameters_and_with_those_of_fusions_in_it() -> None:
    report = fastprof.load(capture(nested(), "fusion.1", "copy.3")).op_profile()
    ops = dict(rows(report, "name", "node", kind="op"))
    by_name = {row[0]: row[1:] for row in rows(report, "name", "parent", "category", "self_ps", "children")}
    assert list(by_name) == ["exp", "fusion.2", "minus", "sum"]
    nodes = dict(rows(report, "name", "node"))
    above = {name: row[0] for name, row in by_name.items()}
    outer = ops["fusion.1"]
    assert above == {"exp": outer, "fusion.2": outer, "sum": outer, "minus": nodes["fusion.2"]}
    assert [row[1:] for row in by_name.values()] == [
        ("non-fusion elementwise", None, 0),
        ("loop fusion", None, 1),
        ("non-fusion elementwise", None, 0),
        ("non-fusion elementwise", None, 0),
    ]


def test_their_work_is_that_of_the_cost_model_times_the_runs_of_the_fusion() -> None:
    report = fastprof.load(capture(nested(), "fusion.1", times=3)).op_profile()
    assert rows(report, "name", "occurrences", "flops", "accessed_bytes", "cost_share", "framework_op") == [
        ("exp", 3, 3 * N, 3 * 8 * N, pytest.approx(1 / 3), "jit(f)/layer/exp"),
        ("fusion.2", 3, 3 * N, 3 * 8 * N, pytest.approx(1 / 3), None),
        ("minus", 3, 3 * N, 3 * 8 * N, 1.0, None),
        ("sum", 3, 3 * N, 3 * 12 * N, pytest.approx(1 / 3), None),
    ]


def test_their_text_is_that_of_the_program() -> None:
    report = fastprof.load(capture(nested(), "fusion.1")).op_profile()
    assert dict(rows(report, "name", "expression"))["sum"] == (
        "%sum = f32[1024]{0} add(f32[1024]{0} %exp, f32[1024]{0} %fusion.2)"
    )


def test_a_capture_without_programs_has_none_and_says_so() -> None:
    report = fastprof.load(capture(nested(), "fusion.1")).op_profile()
    assert rows(report, "name") and not any("carries no compiled programs" in notice.text for notice in report.notices)
    bare = xspace(plane("/device:TPU:0", [line("XLA Ops", [event("a", 0, 5)], id=3)], event_metadata=[
        Metadata("a", stats={"program_id": u64(7), "symbol_id": u64(1)})]))  # fmt: skip
    found = fastprof.load(bare).op_profile()
    assert not rows(found, "name") and any("carries no compiled programs" in notice.text for notice in found.notices)


def test_a_computation_that_calls_itself_or_nothing_ends() -> None:
    program = Program("jit_f")
    calls_itself = len(program.computations) + 1
    body = program.computation(
        "body", parameter("p"), Op("again", "fusion", f32(N), ["p"], [calls_itself], "kLoop"), fused=True
    )
    missing = 99
    program.entry(
        parameter("x"),
        Op("one", "fusion", f32(N), ["x"], [body], "kLoop"),
        Op("two", "fusion", f32(N), ["one"], [missing], "kLoop"),
        Op("three", "fusion", f32(N), ["two"], [], "kLoop"),
        Op("four", "fusion", f32(N), ["three"], [body], "kLoop"),
    )
    report = fastprof.load(capture(program, "one", "two", "three", "four")).op_profile()
    assert rows(report, "name") == [("again",)]
    assert rows(report, "name", "self_ps", kind="op") == [(name, 500) for name in ("four", "one", "three", "two")]


@pytest.mark.parametrize("shape", few(["layers", "nested fusions", "nested calls", "a wide tuple"], 2))
def test_large_programs_of_any_shape_are_read(shape: str) -> None:
    program = LARGE[shape](2_000)
    report = fastprof.load(captured(program, entry_names(program))).op_profile()
    assert report.scalars["op_count"].value == len(entry_names(program))
    assert max(report.tables["tree"]["depth"].to_pylist()) < 40


def test_a_program_that_does_not_decode_is_reported_and_the_rest_goes_on() -> None:
    proto = nested().proto()
    metadata = [Metadata("%fusion.1", display_name="fusion.1", stats={"program_id": u64(7), "symbol_id": u64(1)})]
    core = plane("/device:TPU:0", [line("XLA Ops", [event("%fusion.1", 0, 5)], id=3)], event_metadata=metadata)
    held = Metadata("jit_f(7)", 7, stats={"Hlo Proto": proto[:-9]})
    report = fastprof.load(xspace(core, plane("/host:metadata", event_metadata=[held]))).op_profile()
    assert rows(report, "name", "self_ps", kind="op") == [("fusion.1", 5)] and not rows(report, "name")
    texts = [notice.text for notice in report.notices if "decode" in notice.text]
    assert len(texts) == 1 and "jit_f(7) does not decode" in texts[0]


def test_a_program_of_several_hosts_is_reported_once(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.xplane.pb").write_bytes(capture(nested(), "fusion.1"))
    report = fastprof.load(tmp_path).op_profile()
    assert rows(report, "name", "occurrences") == [("exp", 2), ("fusion.2", 2), ("minus", 2), ("sum", 2)]
