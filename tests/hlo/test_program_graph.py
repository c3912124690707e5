"""A program as a graph: what needs what, by which way, what calls what, and what stands between fusions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hlo_builder import Op, Program, f32

import fastprof
from fastprof.cli import main as command
from fastprof.errors import UsageError
from fastprof.hlo.module import HloModule
from fastprof.hlo.program_graph import ProgramGraph

XLA = str(Path(__file__).resolve().parents[2] / "demo" / "xla")

#   x ──► scaled (fusion: p ──► e) ──► summed (all-reduce) ──► shifted ──► out (fusion: q, r ──► s)
#   w ─────────────────────────────────────────────────────────────────────►┘


@pytest.fixture(scope="module")
def graph() -> ProgramGraph:
    program = Program("jit_f")
    add = program.computation("add", Op("a", "parameter", f32()), Op("b", "add", f32(), ["a", "a"]))
    exp = program.computation("fused", Op("p", "parameter", f32(4)), Op("e", "exponential", f32(4), ["p"]), fused=True)
    mul = program.computation(
        "fused.1",
        Op("q", "parameter", f32(4)), Op("r", "parameter", f32(4)), Op("s", "multiply", f32(4), ["q", "r"]), fused=True,
    )  # fmt: skip
    program.entry(
        Op("x", "parameter", f32(4)),
        Op("w", "parameter", f32(4)),
        Op("scaled", "fusion", f32(4), ["x"], calls=[exp], fusion_kind="kLoop"),
        Op("summed", "all-reduce", f32(4), ["scaled"], calls=[add]),
        Op("shifted", "add", f32(4), ["summed", "summed"]),
        Op("out", "fusion", f32(4), ["shifted", "w"], calls=[mul], fusion_kind="kLoop"),
    )
    return ProgramGraph(HloModule(program.proto()))


def rows(table: Any, *columns: str) -> list[tuple[Any, ...]]:
    return list(zip(*(table[column].to_pylist() for column in columns), strict=True))


def test_a_walk_finds_operands_and_users_by_distance(graph: ProgramGraph) -> None:
    near = graph.walk("summed", width=2)
    assert rows(near, "distance", "relation", "name") == [
        (0, "itself", "summed"), (1, "operand", "scaled"), (1, "user", "shifted"), (2, "operand", "x"),
        (2, "user", "out"),
    ]  # fmt: skip
    assert rows(graph.walk("%summed", direction="users", width=1), "name") == [("summed",), ("shifted",)]
    assert rows(graph.walk("out", direction="users"), "name") == [("out",)]


def test_a_walk_follows_calls_in_both_directions(graph: ProgramGraph) -> None:
    needed = graph.walk("out", direction="operands", width=9, follow_calls=True)
    assert {name for (name,) in rows(needed, "name")} == {
        "out", "s", "q", "r", "shifted", "w", "summed", "b", "a", "scaled", "e", "p", "x",
    }  # fmt: skip
    needing = graph.walk("x", direction="users", width=2, follow_calls=True)
    assert rows(needing, "distance", "name") == [
        (0, "x"), (1, "p"), (1, "scaled"), (2, "a"), (2, "e"), (2, "summed"),
    ]  # fmt: skip
    assert rows(graph.walk("w", direction="users", width=1, follow_calls=True), "name") == [("w",), ("r",), ("out",)]


def test_a_walk_shows_only_some_opcodes(graph: ProgramGraph) -> None:
    assert rows(graph.walk("summed", opcodes=("fusion", "parameter")), "name") == [("scaled",), ("x",), ("out",)]
    assert rows(graph.walk("summed", opcodes=("dot",)), "name") == []


def test_a_path_is_shortest_and_in_the_direction_of_the_data(graph: ProgramGraph) -> None:
    chain = [("x",), ("scaled",), ("summed",), ("shifted",), ("out",)]
    assert rows(graph.find_path("x", "out"), "name") == chain
    assert rows(graph.find_path("out", "x"), "name") == chain
    assert rows(graph.find_path("p", "s"), "name") == [
        ("p",), ("e",), ("scaled",), ("summed",), ("shifted",), ("q",), ("s",),
    ]  # fmt: skip
    assert rows(graph.find_path("x", "w"), "name") == []
    assert rows(graph.find_path("x", "x"), "position", "name") == [(0, "x")]
    assert rows(graph.find_path("p", "s", follow_calls=False), "name") == []


def test_a_shared_reducer_connects_no_callers() -> None:
    program = Program("jit_h")
    add = program.computation("add", Op("a", "parameter", f32()), Op("b", "add", f32(), ["a", "a"]))
    program.entry(
        Op("x", "parameter", f32(4)),
        Op("y", "parameter", f32(4)),
        Op("of_x", "all-reduce", f32(4), ["x"], calls=[add]),
        Op("of_y", "all-reduce", f32(4), ["y"], calls=[add]),
        Op("out", "add", f32(4), ["of_x", "of_y"]),
    )
    graph = ProgramGraph(HloModule(program.proto()))
    assert rows(graph.find_path("x", "of_y"), "name") == []
    assert rows(graph.find_path("x", "out"), "name") == [("x",), ("of_x",), ("out",)]
    needed = graph.walk("of_y", direction="operands", width=9, follow_calls=True)
    assert {name for (name,) in rows(needed, "name")} == {"of_y", "y", "b", "a"}
    needing = graph.walk("x", direction="users", width=9, follow_calls=True)
    assert {name for (name,) in rows(needing, "name")} == {"x", "of_x", "out", "a", "b"}


def test_the_cost_of_a_walk_follows_the_uses() -> None:
    """One instruction has all operands; each is looked at once."""
    count = 4_000
    program = Program("jit_w")
    names = [f"n{number}" for number in range(count)]
    fused = program.computation("fused", *(Op(f"p{number}", "parameter", f32()) for number in range(count)), fused=True)
    program.entry(
        Op("x", "parameter", f32()),
        *(Op(name, "negate", f32(), ["x"]) for name in names),
        Op("all", "fusion", f32(), names, calls=[fused], fusion_kind="kLoop"),
        Op("y", "parameter", f32()),
    )
    graph = ProgramGraph(HloModule(program.proto()))
    assert sum(len(uses) for uses in graph._uses.values()) == 2 * count
    assert graph.find_path("x", "y").num_rows == 0
    assert graph.walk("x", direction="users", width=2, follow_calls=True).num_rows == 2 * count + 2


def test_calls_are_a_tree(graph: ProgramGraph) -> None:
    assert rows(graph.list_calls(), "depth", "computation", "caller", "opcode", "instruction_count") == [
        (0, "main", None, None, 6), (1, "fused", "scaled", "fusion", 2), (1, "add", "summed", "all-reduce", 2),
        (1, "fused.1", "out", "fusion", 3),
    ]  # fmt: skip


def test_blockers_stand_between_fusible_instructions(graph: ProgramGraph) -> None:
    blockers = graph.list_blockers()
    assert rows(blockers, "name", "reason", "fusible_operand_count", "fusible_user_count") == [
        ("summed", "collective", 1, 1)
    ]
    assert rows(graph.count_opcodes(), "opcode", "instruction_count", "unfused_count")[:3] == [
        ("parameter", 6, 3), ("add", 2, 2), ("fusion", 2, 2),
    ]  # fmt: skip


def test_unknown_names_are_refused(graph: ProgramGraph) -> None:
    with pytest.raises(UsageError, match="no instruction 'sumed' in jit_f; did you mean 'summed'"):
        graph.walk("sumed")
    with pytest.raises(UsageError, match="direction 'up' is none of operands, users, both"):
        graph.walk("x", direction="up")


def test_a_circle_of_a_damaged_program_ends() -> None:
    program = Program("jit_g")
    body = program.computation("body", Op("p", "parameter", f32()), Op("again", "call", f32(), ["p"], calls=[1]))
    program.entry(Op("x", "parameter", f32()), Op("y", "call", f32(), ["x"], calls=[body, 99]))
    graph = ProgramGraph(HloModule(program.proto()))
    assert graph.walk("x", width=50, follow_calls=True).num_rows == 4
    assert rows(graph.list_calls(), "depth", "computation") == [(0, "main"), (1, "body")]
    assert graph.find_path("x", "again").num_rows == 3


def test_the_command_and_the_profile_give_the_same_tables(capsys: pytest.CaptureFixture[str]) -> None:
    graph = fastprof.load(XLA).program_graph("jit_train_step")
    for words, table in (
        (("opcodes",), graph.count_opcodes()),
        (("calls",), graph.list_calls()),
        (("blockers",), graph.list_blockers()),
        (("path", "--instruction", "param_tokens", "--to", "tuple"), graph.find_path("param_tokens", "tuple")),
        (("walk", "--instruction", "tuple", "--width", "1", "--direction", "operands", "--follow-calls", "--opcode",
          "fusion"), graph.walk("tuple", width=1, direction="operands", follow_calls=True, opcodes=["fusion"])),
    ):  # fmt: skip
        assert command.main(["hlo", XLA, "--module", "jit_train_step", "--format", "json", "--graph", *words]) == 0
        assert json.loads(capsys.readouterr().out)["rows"] == table.to_pylist() != []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--graph", "path"), "--graph path needs --instruction NAME"),
        (("--graph", "path", "--instruction", "x"), "--graph path needs --to NAME"),
        (("--graph", "calls", "--to", "x"), "--graph calls does not take --to NAME"),
        (("--graph", "calls", "--direction", "users"), "--direction needs --graph walk"),
        (("--graph", "calls", "--format", "dot"), "cannot be combined with --format dot"),
        (("--to", "x"), "--to needs --graph path"),
        (("--follow-calls",), "--follow-calls needs --graph walk"),
    ],
)
def test_flags_that_do_not_fit_are_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], reason: str
) -> None:
    assert command.main(["hlo", XLA, "--module", "jit_train_step", *words]) == 2
    assert reason in capsys.readouterr().err
