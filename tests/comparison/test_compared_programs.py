"""Compiled programs of two runs: fusions matched by contents, layouts, padding, and exact quantities."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import demo_program
import demo_training
import pytest
from hlo_builder import Op as Instruction
from hlo_builder import Program, shape
from paired_runs import Op, Plan

import fastprof
from fastprof.analyses.compare import compare_runs
from fastprof.derive.comparison.program_changes import (
    MOST_PROGRAMS,
    RunProgram,
    list_instruction_changes,
    list_run_programs,
    pair_programs,
)
from fastprof.hlo.programs import Program as Listed
from fastprof.hlo.programs import make_program
from fastprof.profile.comparison import measure_run_facts

SCOPE = "jit(train)/Model/layer_0/mlp"
ROWS, TURNED = shape("f32", 1000, 512), shape("f32", 1000, 512, order=(0, 1))
HALF = shape("f32", 500, 512)
TILED = shape("f32", 1000, 512, tiles=[(16, 128)])


def inner(name: str, opcode: str, *operands: str, scope: str = SCOPE) -> Instruction:
    return Instruction(name, opcode, ROWS, operands, op_name=f"{scope}/{opcode}")


def fused(program: Program, name: str, opcodes: Sequence[str], operand: str, what: bytes = ROWS) -> Instruction:
    """A fusion of a chain of ops, in a program."""
    chain = [Instruction(f"{name}.p", "parameter", ROWS)]
    for number, opcode in enumerate(opcodes):
        chain.append(inner(f"{name}.{opcode}.{number}", opcode, chain[-1].name))
    body = program.computation(f"fused_{name}", *chain, fused=True)
    return Instruction(name, "fusion", what, [operand], [body], fusion_kind="kLoop", op_name=f"{SCOPE}/{opcodes[-1]}")


def program(*fusions: tuple[str, Sequence[str]], what: bytes = ROWS, name: str = "jit_train", extra: str = "") -> bytes:
    """A program of fusions one after the other; ``what``: shape of the last one."""
    made = Program(name)
    ops = [Instruction("x", "parameter", ROWS, op_name="x")]
    for number, (fusion, opcodes) in enumerate(fusions, 1):
        ops.append(fused(made, fusion, opcodes, ops[-1].name, what if number == len(fusions) else ROWS))
    if extra:
        ops.append(Instruction(extra, "copy", ROWS, [ops[-1].name]))
    made.entry(*ops)
    return made.proto()


def copies(*ops: tuple[str, bytes]) -> bytes:
    """A program of copies without framework ops."""
    made = Program("jit_train")
    made.entry(Instruction("x", "parameter", ROWS), *(Instruction(name, "copy", what, ["x"]) for name, what in ops))
    return made.proto()


def read(*protos: bytes, first: int = 7) -> list[RunProgram]:
    listed: list[Listed] = [
        make_program((number, f"jit({number})", "f", 0, len(proto), True, b"", b""), proto)
        for number, proto in enumerate(protos, first)
    ]
    return list_run_programs(listed, {}, {})[0]


def changes(base: bytes, new: bytes) -> list[tuple[str, list[str], list[str]]]:
    (pair,) = pair_programs(read(base), read(new, first=90))
    return [
        (change.kind, [each.name for each in change.base], [each.name for each in change.new])
        for change in list_instruction_changes(pair)
    ]


WHOLE = ("fusion.1", ("multiply", "exponential", "tanh", "add"))
HALVES = (("fusion.8", ("multiply", "exponential")), ("fusion.9", ("tanh", "add")))
OTHER = ("fusion.2", ("sine", "negate"))
COSINE = ("fusion.2", ("cosine",))


@pytest.mark.parametrize(
    ("base", "new", "expected"),
    [
        (program(WHOLE, OTHER), program(WHOLE, OTHER), []),
        (program(WHOLE, OTHER), program(("fusion.77", WHOLE[1]), ("wrapped", OTHER[1])), []),
        (program(WHOLE, OTHER), program(*HALVES, OTHER), [("split", ["fusion.1"], ["fusion.8", "fusion.9"])]),
        (program(*HALVES, OTHER), program(WHOLE, OTHER), [("merged", ["fusion.8", "fusion.9"], ["fusion.1"])]),
        (
            program(WHOLE, OTHER),
            program(("fusion.1", ("multiply", "exponential", "tanh", "add", "floor")), OTHER),
            [("contents", ["fusion.1"], ["fusion.1"])],
        ),
        (
            program(*HALVES),
            program(("fusion.8", ("multiply", "tanh")), ("fusion.9", ("exponential", "add"))),
            [("regrouped", ["fusion.8", "fusion.9"], ["fusion.8", "fusion.9"])],
        ),
        (program(WHOLE, OTHER), program(WHOLE, OTHER, what=TURNED), [("layout", ["fusion.2"], ["fusion.2"])]),
        (program(WHOLE), program(WHOLE, extra="copy.3"), [("new", [], ["copy.3"])]),
        (program(WHOLE, OTHER), program(WHOLE), [("gone", ["fusion.2"], [])]),
        (copies(("copy.1", ROWS), ("copy.2", TURNED)), copies(("copy.8", TURNED), ("copy.9", ROWS)), []),
        (copies(("copy.1", ROWS), ("copy.2", HALF)), copies(("copy.1", HALF)), [("gone", ["copy.1"], [])]),
    ],
)
def test_instructions_are_matched_by_contents(
    base: bytes, new: bytes, expected: list[tuple[str, list[str], list[str]]]
) -> None:
    assert changes(base, new) == expected


def test_programs_are_matched_by_name_then_by_structure() -> None:
    first, second = program(WHOLE), program(OTHER)
    base = read(first, second, program(WHOLE, name="jit_eval"))
    new = read(program(OTHER, name="jit_train"), program(WHOLE, name="jit_test"), first, program(COSINE, name="z"))
    pairs = [
        (pair.base and pair.base.title, pair.new and pair.new.title, pair.matched) for pair in pair_programs(base, new)
    ]
    assert sorted(pairs, key=str) == [
        ("jit(7)", "jit(9)", "name"), ("jit(8)", "jit(7)", "name"), ("jit(9)", "jit(8)", "structure"),
        (None, "jit(10)", ""),
    ]  # fmt: skip


def test_equal_programs_are_one_with_many_compilations() -> None:
    (one,) = read(*[program(WHOLE) + b"\x22\x00" * number for number in range(5)])
    assert one.ids == frozenset(range(7, 12)) and one.name == "jit_train"


@pytest.mark.parametrize("cut", [1, 40, 200, 400])
def test_damaged_programs_are_left_out(cut: int) -> None:
    assert len(read(program(WHOLE)[:-cut], program(OTHER))) >= 1


BASE_OPS = (
    Op("fusion.1", f"{SCOPE}/add", "f32[1000,512]", "loop fusion", 3000),
    Op("fusion.2", f"{SCOPE}/negate", "f32[1000,512]", "loop fusion", 2000),
)
SPLIT_OPS = (
    Op("fusion.8", f"{SCOPE}/exponential", "f32[1000,512]", "loop fusion", 2000),
    Op("fusion.9", "jit(train)/Other/add", "f32[1000,512]", "loop fusion", 2000),
    BASE_OPS[1],
)
BASE = Plan(ops=BASE_OPS, seed=1, program=program(WHOLE, OTHER))


def compare(new: Plan, base: Plan = BASE) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    report = fastprof.compare(*(fastprof.load(io.BytesIO(plan.captures()[0])) for plan in (base, new)))
    figures = {name: figure.value for name, figure in report.scalars.items()}
    tables = {name: table.to_pylist() for name, table in report.tables.items()}
    assert sum(row["change_ps"] for row in tables["changes"]) == figures["step_change_ps"]
    return figures, tables


def test_a_split_fusion_is_a_cause_of_its_change() -> None:
    figures, tables = compare(replace(BASE, seed=2, ops=SPLIT_OPS, program=program(*HALVES, OTHER)))
    first, (change,) = tables["changes"][0], tables["program_changes"]
    assert figures["verdict"] == "slower" and first["change_ps"] / 1e6 == pytest.approx(1000, rel=0.1)
    assert first["evidence"].startswith("fusion.1 split into 2 kernels: fusion.8, fusion.9; same flops")
    assert (first["base_count"], first["new_count"], first["certainty"]) == (1, 2, "certain")
    assert change["change_ps"] == first["change_ps"] and change["kind"] == "split"
    quantities = {row["quantity"]: (row["base"], row["new"]) for row in tables["programs"]}
    assert quantities["fusions"] == (2, 3) and quantities["flops"][0] == quantities["flops"][1]
    assert tables["programs"][0]["change"]


def test_a_layout_and_padding_are_causes_of_a_change() -> None:
    slower = [BASE_OPS[0], replace(BASE_OPS[1], time_us=3500)]
    _, tables = compare(replace(BASE, seed=2, ops=slower, program=program(WHOLE, OTHER, what=TURNED)))
    assert tables["changes"][0]["evidence"] == (
        "layout of fusion.2 changed: f32[1000,512]{1,0} → f32[1000,512]{0,1}; same flops"
    )
    _, tables = compare(replace(BASE, seed=2, ops=slower, program=program(WHOLE, OTHER, what=TILED)))
    assert tables["changes"][0]["evidence"].endswith("; padding 0 B → 16.00 KiB")
    assert {row["quantity"]: row["change"] for row in tables["programs"]}["padding_bytes"] == 16 << 10


def test_a_program_recompiled_in_each_step_is_one_program() -> None:
    _, tables = compare(replace(BASE, seed=2, programs=5))
    assert tables["program_changes"] == []
    quantities = {row["quantity"]: row for row in tables["programs"]}
    assert quantities["compilations"]["new"] == 5 and quantities["instructions"]["change"] == 0


def test_fusions_nested_deep_are_read() -> None:
    made = Program("jit_deep")
    body = made.computation("f0", Instruction("p0", "parameter", ROWS), Instruction("e", "exponential", ROWS, ["p0"]))
    for number in range(1, 3_000):
        fusion = Instruction(f"f.{number}", "fusion", ROWS, [f"p{number}"], [body])
        body = made.computation(f"f{number}", Instruction(f"p{number}", "parameter", ROWS), fusion)
    made.entry(Instruction("x", "parameter", ROWS), Instruction("all", "fusion", ROWS, ["x"], [body]))
    (deep,) = read(made.proto())
    assert [each.name for each in deep.instructions] == ["x", "all"] and len(deep.instructions[1].contents) == 1


def test_names_of_any_length_are_shortened() -> None:
    name = "\x1b[2J" + "n" * 100_000
    odd = program((name, WHOLE[1]), OTHER, name="p" * 100_000)
    _, tables = compare(replace(BASE, seed=2, program=odd), replace(BASE, program=program(*HALVES, OTHER)))
    texts = [value for rows in tables.values() for row in rows for value in row.values() if isinstance(value, str)]
    assert max(map(len, texts)) < 600


DEMO = Path(__file__).resolve().parents[2] / "demo" / "xla"


def test_a_recorded_run_has_no_changes_from_itself() -> None:
    report = fastprof.compare(DEMO, DEMO)
    assert report.tables["program_changes"].num_rows == 0 and report.tables["programs"].num_rows == 7
    assert report.tables["programs"]["change"].to_pylist() == [0] * 7


def test_split_fusions_of_a_renumbered_program_are_its_only_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = demo_program.Compiler.fusion

    def split(code: Any, what: str, scope: str, line: str, dims: Any, reads: Any, opcodes: Any, *kind: str) -> Any:
        if what == "adam_fusion":
            reads = [whole(code, "first_fusion", scope, line, dims, reads, opcodes[:2], *kind)]
            opcodes = opcodes[2:]
        return whole(code, what, scope, line, dims, reads, opcodes, *kind)

    monkeypatch.setattr(demo_program.Compiler, "fusion", split)
    report = fastprof.compare(DEMO, io.BytesIO(demo_training.captured()))
    rows, fusions = report.tables["program_changes"].to_pylist(), report.tables["programs"].to_pylist()
    assert {row["kind"] for row in rows} == {"split"} and all("; same flops" in row["title"] for row in rows)
    assert {row["quantity"]: row["change"] for row in fusions}["fusions"] == len(rows) == 12
    assert sum("split into 2 kernels" in (row["evidence"] or "") for row in report.tables["changes"].to_pylist()) == 12


def test_programs_that_did_not_run_are_left_out() -> None:
    listed = [
        make_program((number, f"jit({number})", "f", 0, len(proto), True, b"", b""), proto)
        for number, proto in enumerate((program(WHOLE), program(OTHER)))
    ]
    assert [each.title for each in list_run_programs(listed, {1: 5.0}, {})[0]] == ["jit(1)"]
    assert len(list_run_programs(listed, {}, {})[0]) == 2


def test_programs_beyond_the_most_are_counted() -> None:
    chains = [program(("fusion.1", ("negate",) * (1 + number))) for number in range(MOST_PROGRAMS + 3)]
    listed = [
        make_program((number, f"jit({number})", "f", 0, len(proto), True, b"", b""), proto)
        for number, proto in enumerate(chains)
    ]
    programs, left_out = list_run_programs(listed, {}, {})
    assert (len(programs), left_out) == (MOST_PROGRAMS, 3)
    facts = measure_run_facts(fastprof.load(DEMO))
    notices = compare_runs(facts, replace(facts, programs_left_out=left_out)).notices
    assert "The compiled programs of the new run with most device time were compared; 3 programs were left out." in [
        notice.text for notice in notices
    ]
