"""Programs are read into columns, and looked up by the names of their instructions."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hlo_builder import Op, Program, f32, shape, tuple_of
from trace_builder import len_field

from fastprof._native.hlo import SIZES, read_hlo
from fastprof.errors import CaptureError
from fastprof.hlo import columns
from fastprof.hlo.category import category
from fastprof.hlo.cost import CostModel
from fastprof.hlo.module import HloModule


def two_computations() -> bytes:
    program = Program("jit_f")
    ops = [Op("p", "parameter", f32(4)), Op("e", "exponential", f32(4), ["p"], op_name="jit(f)/exp")]
    fused = program.computation("fused", *ops)
    program.entry(
        Op("p", "parameter", f32(4)),
        Op("y", "fusion", f32(4), ["p"], calls=[fused], fusion_kind="kLoop", op_name="jit(f)/exp", op_type="exp"),
    )
    return program.proto()


def test_structs_have_the_sizes_that_c_gives_them() -> None:
    dtypes = {"COMPUTATION": columns.COMPUTATION, "INSTRUCTION": columns.INSTRUCTION, "SHAPE": columns.SHAPE}
    assert {name: dtype.itemsize for name, dtype in dtypes.items()} == SIZES


def test_instructions_are_found_by_name_in_any_computation_the_first_of_a_name() -> None:
    module = HloModule(two_computations())
    assert module.name == "jit_f" and len(module) == 4 and module.entry == 1
    assert module.find(["y", "p", "e", "none", ""]).tolist() == [3, 0, 1, -1, -1]


def test_an_instruction_knows_its_operands_its_calls_and_where_it_comes_from() -> None:
    module = HloModule(two_computations())
    one = module.instruction(3)
    assert (one.opcode, one.operands, one.calls, one.fusion_kind) == ("fusion", (2,), (0,), "kLoop")
    assert module.rows_of(0) == range(2) and module.root_of(0).name == "e"
    assert [module.framework_op(row) for row in range(4)] == ["", "jit(f)/exp:", "", "jit(f)/exp:exp"]
    assert module.framework_ops() == [("", ""), ("jit(f)/exp", ""), ("jit(f)/exp", "exp")]


def test_arguments_and_results_are_ops_of_their_own_type() -> None:
    program = Program("f")
    program.entry(Op("a", "parameter", f32(), op_name="XLA_Args"), Op("r", "tuple", f32(), op_name="XLA_Retvals"))
    module = HloModule(program.proto())
    assert [module.framework_op(row) for row in (0, 1)] == ["XLA_Args:XLA_Args", "XLA_Retvals:XLA_Retvals"]


def test_shapes_say_what_they_take() -> None:
    program = Program("f")
    shapes = {
        "scalar": f32(),
        "matrix": shape("bf16", 3, 5),
        "narrow": shape("s4", 9, bits=4),
        "wide": shape("s4", 9),
        "flags": shape("pred", 6),
        "pair": tuple_of(f32(2), tuple_of(shape("f64", 3), f32())),
    }
    program.entry(*(Op(name, "parameter", one) for name, one in shapes.items()))
    module = HloModule(program.proto())
    found = {name: module.instruction(row).shape for row, name in enumerate(shapes)}
    assert {name: one.bytes for name, one in found.items()} == {
        "scalar": 4,
        "matrix": 30,
        "narrow": 5,
        "wide": 9,
        "flags": 6,
        "pair": 16,  # a table of two pointers
    }
    assert found["pair"].leaf_bytes == 8 + 24 + 4 and found["pair"].leaf_count == 2 + 3 + 1
    assert [index for index, _ in found["pair"].leaves()] == [(0,), (1, 0), (1, 1)]


def test_bytes_that_are_no_program_are_refused_with_their_offset() -> None:
    whole = two_computations()
    with pytest.raises(CaptureError, match="past the end") as refused:
        read_hlo(whole[:-1])
    assert refused.value.offset == 0
    with pytest.raises(CaptureError, match="reading HloModuleProto") as refused:
        read_hlo(len_field(1, len_field(1, "f") + b"\x07"))
    assert refused.value.offset == 5


def test_nothing_is_a_program_without_instructions() -> None:
    module = HloModule(b"")
    assert len(module) == 0 and module.name == "" and module.find(["x"]).tolist() == [-1]
    assert module.framework_ops() == []


def test_damaged_programs_are_read_or_refused_and_never_crash() -> None:
    whole = two_computations()
    dice = random.Random(3)
    read = 0
    for _ in range(1500):
        damaged = bytearray(whole)
        for _ in range(dice.randint(1, 3)):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        try:
            module = HloModule(bytes(damaged))
        except CaptureError as refused:
            assert refused.offset is not None and refused.offset <= len(whole)
            continue
        read += 1
        costs = CostModel(module)
        for row in range(len(module)):
            cost = costs.cost(row)
            assert min(cost.bytes_accessed, cost.hbm_read_bytes, cost.hbm_write_bytes) >= 0
            assert category(module.instruction(row)) is not None
        assert (module.find(["e", "y"]) < len(module)).all()
    assert 100 < read < 1400


def test_columns_of_instructions_are_numpy_views() -> None:
    module = HloModule(two_computations())
    assert module.instructions["id"].tolist() == [1, 2, 3, 4]
    assert np.array_equal(module.instructions["computation"], [0, 0, 1, 1])
