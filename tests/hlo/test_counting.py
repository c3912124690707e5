"""What counts as an operation: as XLA counts for GPUs, and in general; instructions not visited, and unknown ones."""

from __future__ import annotations

import pytest
from hlo_builder import Op, Program, f32, packed, shape, tuple_of

from fastprof.hlo.cost import CostModel
from fastprof.hlo.module import HloModule
from fastprof.hlo.work import GENERAL, NOTHING, OF_GPUS, Cost, Counting

A, B = Op("a", "parameter", f32(100)), Op("b", "parameter", f32(100))
M = Op("m", "parameter", f32(20, 30))


def cost_of(one: Op, *others: Op, program: Program | None = None, counting: Counting = GENERAL) -> Cost:
    program = program or Program("f")
    program.entry(*others, one)
    module = HloModule(program.proto())
    return CostModel(module, counting).cost(int(module.find([one.name])[0]))


@pytest.mark.parametrize(
    ("one", "flops"),
    [
        (Op("r", "add", f32(100), ["a", "b"]), 100),
        (Op("r", "tanh", shape("bf16", 100), ["a"]), 100),
        (Op("r", "power", shape("f64", 100), ["a", "b"]), 100),
        (Op("r", "copy", f32(100), ["a"]), 0),
        (Op("r", "concatenate", f32(200), ["a", "b"], raw=packed(14, [0])), 0),
        (Op("r", "concatenate", f32(20, 60), ["m", "m"], raw=packed(14, [1])), 0),
        (Op("r", "all-reduce", f32(100), ["a"]), 100),
        (Op("r", "add", shape("s4", 100), ["a", "b"]), 100),
    ],
    ids=lambda value: value.opcode if isinstance(value, Op) else None,
)
def test_in_general_each_element_is_an_operation(one: Op, flops: int) -> None:
    cost = cost_of(one, A, B, M)
    assert (cost.flops, cost.model_flops, cost.is_known) == (flops, flops, True)


def fused(counting: Counting) -> Cost:
    """Multiplies 100 elements, needs 50 of them, and adds those to themselves."""
    program = Program("f")
    inner = program.computation(
        "fused",
        Op("p", "parameter", f32(100)),
        Op("s", "multiply", f32(100), ["p", "p"]),
        Op("half", "slice", f32(50), ["s"]),
        Op("sum", "add", f32(50), ["half", "half"]),
    )
    return cost_of(
        Op("r", "fusion", f32(50), ["a"], calls=[inner], fusion_kind="kLoop"), A, program=program, counting=counting
    )


def test_in_general_fused_instructions_count_once_and_on_gpus_as_they_are_used() -> None:
    assert fused(GENERAL).flops == 100 + 50
    assert fused(OF_GPUS).flops == 3 * 50 + 3 * 50
    assert fused(GENERAL).bytes_accessed == fused(OF_GPUS).bytes_accessed == 400


def test_what_holds_a_custom_call_is_not_known() -> None:
    program = Program("f")
    call = Op("c", "custom-call", f32(100), ["p"], target="mystery")
    inner = program.computation("inner", Op("p", "parameter", f32(100)), call)
    assert not cost_of(Op("r", "call", f32(100), ["a"], calls=[inner]), A, program=program).is_known
    assert not cost_of(Op("r", "custom-call", f32(100), ["a"], target="mystery"), A).is_known
    assert cost_of(Op("r", "custom-call", f32(100), ["a"], target="__cudnn$convForward"), A) == NOTHING  # damaged


def test_bytes_are_given_by_memory_space() -> None:
    near, host = shape("f32", 100, space=1), shape("f32", 100, space=5)
    cost = cost_of(Op("r", "add", near, ["a", "h"]), A, Op("h", "parameter", host))
    assert (cost.hbm_read_bytes, cost.hbm_write_bytes) == (400, 0)
    assert cost.elsewhere == ((1, 0, 400), (5, 400, 0)) and cost.bytes_accessed == 1200
    pair = tuple_of(near, f32(100))
    program = Program("f")
    inner = program.computation(
        "fused", Op("p", "parameter", f32(100)), Op("n", "negate", near, ["p"]), Op("t", "tuple", pair, ["n", "p"])
    )
    fusion = Op("r", "fusion", pair, ["a"], calls=[inner], fusion_kind="kLoop")
    assert cost_of(fusion, A, program=program).elsewhere == ((1, 0, 400),)


@pytest.mark.parametrize(
    ("opcode", "visited"), [("sort", False), ("all-reduce", False), ("reduce-scatter", False), ("reduce", True)]
)
def test_on_gpus_what_only_collectives_and_sorts_run_costs_nothing(opcode: str, visited: bool) -> None:
    program = Program("f")
    x, y = Op("x", "parameter", f32()), Op("y", "parameter", f32())
    program.computation("adder", x, y, Op("sum", "add", f32(), ["x", "y"]))
    program.computation("idle", Op("z", "parameter", f32()), Op("unused", "negate", f32(), ["z"]))
    program.entry(A, Op("r", opcode, f32(100), ["a", "a"], calls=[1]))
    module = HloModule(program.proto())
    rows = module.find(["sum", "unused"]).tolist()
    assert [CostModel(module).cost(row).flops for row in rows] == [3 * visited, 0]
    assert [CostModel(module, GENERAL).cost(row).flops for row in rows] == [1, 1]


def test_a_transpose_that_moves_a_dimension_of_size_1_moves_the_elements() -> None:
    before = Op("t", "parameter", f32(65, 1, 2))
    moved = Op("r", "transpose", f32(65, 2, 1), ["t"], raw=packed(14, [0, 2, 1]))
    assert cost_of(moved, before).bytes_accessed == 2 * 520
    kept = Op("r", "transpose", shape("f32", 65, 2, 1, order=[1, 2, 0]), ["t"], raw=packed(14, [0, 2, 1]))
    assert cost_of(kept, before).bytes_accessed == 0


def test_the_bytes_that_a_fusion_reads_are_rounded() -> None:
    """Three times 35 of 144 elements, in 32-bit floats, are a little less than 105."""
    joined = shape("f16", 2, 27, 8)
    program = Program("f")
    inner = program.computation(
        "fused",
        Op("p", "parameter", shape("f16", 2, 9, 8)),
        Op("n", "negate", shape("f16", 2, 9, 8), ["p"]),
        Op("c", "concatenate", joined, ["n", "n", "n"], raw=packed(14, [1])),
        Op("s", "slice", shape("f16", 2, 13, 4), ["c"]),
    )
    fusion = Op("r", "fusion", shape("f16", 2, 13, 4), ["x"], calls=[inner], fusion_kind="kLoop")
    cost = cost_of(fusion, Op("x", "parameter", shape("f16", 2, 9, 8)), program=program, counting=OF_GPUS)
    assert cost.hbm_read_bytes == 2 * 105 and cost.hbm_write_bytes == 208
