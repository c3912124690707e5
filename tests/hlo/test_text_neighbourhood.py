"""What is around an instruction: as text, as a table, as a graph; and a module's content as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hlo_builder import Op, Program, f32, packed, shape
from trace_builder import int_field, len_field

from fastprof.hlo.module import HloModule
from fastprof.hlo.text.instruction_text import SHORT, InstructionText
from fastprof.hlo.text.module_text import Neighbourhood, draw_dot, format_module_json, format_part

x = Op("x", "parameter", f32(4))


def module() -> HloModule:
    program = Program("jit_f")
    chain = [Op(f"n{k}", "negate", f32(4), [f"n{k - 1}" if k else "x"]) for k in range(6)]
    program.entry(x, *chain, Op("side", "tanh", f32(4), ["n2"]), Op("root", "add", f32(4), ["n5", "side"]))
    return HloModule(program.proto())


def near(width: int, name: str = "n2", whole: bool = False) -> Neighbourhood:
    found = module()
    return Neighbourhood(found, int(found.find([name])[0]), width, whole)


def test_distances_and_relations() -> None:
    around = near(2)
    table = around.table(InstructionText(around.module, SHORT))
    assert table.select(["name", "distance", "relation"]).to_pylist() == [
        {"name": "n0", "distance": 2, "relation": "operand"},
        {"name": "n1", "distance": 1, "relation": "operand"},
        {"name": "n2", "distance": 0, "relation": "itself"},
        {"name": "n3", "distance": 1, "relation": "user"},
        {"name": "n4", "distance": 2, "relation": "user"},
        {"name": "side", "distance": 1, "relation": "user"},
        {"name": "root", "distance": 2, "relation": "user"},
    ]
    assert table["instruction"].to_pylist()[2] == "n2 = f32[4]{0} negate(n1)"


def test_what_only_back_and_forth_leads_to_is_beside() -> None:
    around = near(2, "side")
    relations = {around.module.names[row]: around.relation(row) for row in around.rows()}
    assert relations == {
        "n1": "operand",
        "n2": "operand",
        "n3": "beside",
        "n5": "beside",
        "side": "itself",
        "root": "user",
    }


def test_text_has_only_these() -> None:
    around = near(1, "root")
    assert "".join(format_part(around, InstructionText(around.module, SHORT))) == (
        "ENTRY main {\n"
        "  n5 = f32[4]{0} negate(n4)\n"
        "  side = f32[4]{0} tanh(n2)\n"
        "  ROOT root = f32[4]{0} add(n5, side)\n"
        "}\n"
    )


def test_a_whole_computation_has_all_its_instructions() -> None:
    assert len(near(1, "root", whole=True).rows()) == 9


def test_graph() -> None:
    program = Program('q"')
    program.entry(x, Op("d", "dot", f32(4), ["x", "x"]))
    module = HloModule(program.proto())
    assert "".join(draw_dot(Neighbourhood(module, 1, 1))) == (
        "digraph neighbourhood {\n"
        '  label="d in main of q\\"";\n'
        '  node [shape=box, style=filled, fontname="sans-serif"];\n'
        '  n0 [label="x\\nparameter\\nf32[4]{0}", fillcolor="#ffcc80"];\n'
        '  n1 [label="d\\ndot\\nf32[4]{0}", fillcolor="#5c6bc0", penwidth=3];\n'
        "  n0 -> n1;\n"
        "}\n"
    )


# ---- JSON


def as_json(program: Program) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads("".join(format_module_json(HloModule(program.proto()), "jit_f(9)", -7)))
    return answer


def test_json_has_all_of_a_module() -> None:
    place = len_field(3, int_field(1, 1) + int_field(2, 1) + int_field(3, 4) + int_field(4, 2))
    frames = len_field(1, "a.py") + len_field(2, "f") + place + len_field(4, int_field(1, 1))
    program = Program("jit_f", stack_frames=frames)
    fused = program.computation("fused", x, fused=True)
    constant = len_field(8, len_field(1, shape("s32", 2)) + packed(4, [1, 2]))
    program.entry(
        x,
        Op("c", "constant", shape("s32", 2), raw=constant),
        Op("f", "fusion", f32(4), "x", [fused], fusion_kind="kLoop", op_name="jit(f)/add", metadata=int_field(15, 1)),
        Op(
            "k",
            "custom-call",
            f32(4),
            "f",
            target="t",
            raw=int_field(77, 1) + len_field(43, '{"a": [1]}') + packed(37, [2]),
        ),
    )
    assert as_json(program) == {
        "title": "jit_f(9)",
        "program_id": 2**64 - 7,
        "module": "jit_f",
        "module_id": 7,
        "is_scheduled": False,
        "entry_computation": "main",
        "computations": [
            {
                "name": "fused",
                "id": 1,
                "is_entry": False,
                "is_fusion": True,
                "execution_thread": None,
                "is_scheduled": False,
                "root": "x",
                "instructions": [
                    {
                        "name": "x",
                        "id": 1,
                        "opcode": "parameter",
                        "shape": "f32[4]{0}",
                        "operands": [],
                        "parameter_number": 0,
                    }
                ],
            },
            {
                "name": "main",
                "id": 2,
                "is_entry": True,
                "is_fusion": False,
                "execution_thread": None,
                "is_scheduled": False,
                "root": "k",
                "instructions": [
                    {
                        "name": "c",
                        "id": 3,
                        "opcode": "constant",
                        "shape": "s32[2]{0}",
                        "operands": [],
                        "literal": "{1, 2}",
                    },
                    {
                        "name": "x",
                        "id": 2,
                        "opcode": "parameter",
                        "shape": "f32[4]{0}",
                        "operands": [],
                        "parameter_number": 0,
                    },
                    {
                        "name": "f",
                        "id": 4,
                        "opcode": "fusion",
                        "shape": "f32[4]{0}",
                        "operands": ["x"],
                        "attributes": {"kind": "kLoop"},
                        "called_computations": ["fused"],
                        "metadata": {
                            "op_name": "jit(f)/add",
                            "source_file": "a.py",
                            "source_line": 4,
                            "source_column": 2,
                            "stack": [{"file": "a.py", "line": 4, "column": 2, "function": "f"}],
                        },
                    },
                    {
                        "name": "k",
                        "id": 5,
                        "opcode": "custom-call",
                        "shape": "f32[4]{0}",
                        "operands": ["f"],
                        "attributes": {"custom_call_target": '"t"'},
                        "control_predecessors": ["x"],
                        "backend_config": {"a": [1]},
                    },
                ],
            },
        ],
    }


@pytest.mark.parametrize("config", ["plain", '{"a": NaN}', '{"a": ' + "[" * 5_000 + "]" * 5_000 + "}", "{"])
def test_configurations_that_are_no_json_are_text(config: str) -> None:
    program = Program("m")
    program.entry(x, Op("n", "negate", f32(4), "x", raw=len_field(43, config)))
    assert as_json(program)["computations"][0]["instructions"][1]["backend_config"] == config


def test_what_does_not_decode_is_reported() -> None:
    program = Program("m")
    program.entry(x, Op("n", "slice", f32(4), "x", raw=len_field(17, b"\x08")))
    instruction = as_json(program)["computations"][0]["instructions"][1]
    assert instruction["problem"] == "a number that does not end, reading HLO"
