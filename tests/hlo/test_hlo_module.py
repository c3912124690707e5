"""Programs are read into columns, and looked up by the names of their instructions."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hlo_builder import Op, Program, f32, packed, shape, tuple_of
from trace_builder import int_field, len_field

from fastprof._native.hlo import SIZES, read_hlo
from fastprof.errors import CaptureError
from fastprof.hlo import module as columns
from fastprof.hlo.cost import CostModel
from fastprof.hlo.module import HloModule
from fastprof.hlo.opcodes import get_category


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
    assert {name: getattr(columns, name).itemsize for name in SIZES} == SIZES
    assert set(SIZES) == {"COMPUTATION", "INSTRUCTION", "SHAPE", "TILE", "FRAME"}


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


def test_layouts_say_order_and_tiles() -> None:
    program = Program("f")
    program.entry(Op("x", "parameter", shape("bf16", 16, 256, order=(0, 1), tiles=((8, 128), (2, 1)), space=5)))
    found = HloModule(program.proto()).instruction(0).shape
    assert (found.minor_to_major, found.tiles, found.memory_space) == ((0, 1), ((8, 128), (2, 1)), 5)
    assert not found.is_dynamic and found.proto[1] > 0


def test_tuples_may_nest_as_deep_as_protobuf_allows_and_hold_any_number() -> None:
    deep = f32(3)
    for _ in range(99):
        deep = tuple_of(deep, f32())
    program = Program("f")
    program.entry(Op("deep", "parameter", deep), Op("wide", "parameter", tuple_of(*[f32(2)] * 20_000)))
    module = HloModule(program.proto())
    found = module.instruction(0).shape
    assert found.leaf_bytes == 12 + 99 * 4 and len(next(found.leaves())[0]) == 99
    assert module.instruction(1).shape.leaf_bytes == 160_000
    program.entry(Op("deeper", "parameter", tuple_of(deep)))
    with pytest.raises(CaptureError, match="hundred deep"):
        HloModule(program.proto())


def test_instructions_of_equal_shape_share_it() -> None:
    program = Program("f")
    pair = tuple_of(f32(2), f32(2))
    program.entry(Op("a", "parameter", pair), Op("b", "copy", pair, ["a"]), Op("c", "parameter", f32(2)))
    module = HloModule(program.proto())
    assert module.instruction(0).shape is module.instruction(1).shape
    assert len(module.shapes) == 4  # the pair, its two elements, and one by itself


def scheduled() -> bytes:
    """Two instructions that run in the other order, and a schedule of a computation that is not there."""
    sequence = len_field(1, int_field(1, 1) + len_field(2, packed(1, [2, 1])))
    program = Program("f")
    program.entry(Op("a", "parameter", f32()), Op("b", "parameter", f32()))
    stray = len_field(1, int_field(1, 9) + len_field(2, packed(1, [1])))
    return program.proto() + len_field(1, len_field(7, sequence + stray))


def test_schedules_are_rows_in_the_order_of_execution() -> None:
    module = HloModule(scheduled())
    first, count = (int(module.computations[name][0]) for name in ("first_scheduled", "scheduled_count"))
    assert module.is_scheduled and module.scheduled[first : first + count].tolist() == [1, 0]
    assert not HloModule(two_computations()).is_scheduled


def test_a_computation_records_which_instruction_is_its_root() -> None:
    module = HloModule(two_computations())
    roots = [module.root_of(computation).row for computation in module.instructions["computation"].tolist()]
    assert roots == [1, 1, 3, 3] and module.instructions["computation"].tolist() == [0, 0, 1, 1]


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
            assert get_category(module.instruction(row)) is not None
        assert (module.find(["e", "y"]) < len(module)).all()
    assert 100 < read < 1400


def test_columns_of_instructions_are_numpy_views() -> None:
    module = HloModule(two_computations())
    assert module.instructions["id"].tolist() == [1, 2, 3, 4]
    assert np.array_equal(module.instructions["computation"], [0, 0, 1, 1])
