"""The cost of instructions: operations, bytes, and bytes to and from HBM, of one execution."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

import pytest
from hlo_builder import TOKEN, Op, Program, f32, packed, shape, tuple_of
from trace_builder import int_field, len_field

import fastprof
from fastprof.hlo.cost import CostModel
from fastprof.hlo.module import HloModule
from fastprof.hlo.opcodes import WindowDimension, count_valid_positions
from fastprof.hlo.work import NOTHING, Cost

A, B = Op("a", "parameter", f32(100)), Op("b", "parameter", f32(100))
M = Op("m", "parameter", f32(20, 30))
I = Op("i", "parameter", shape("s32"))  # noqa: E741 - an index


def cost_of(one: Op, *others: Op, program: Program | None = None) -> Cost:
    """Of an instruction that follows others in the entry computation."""
    program = program or Program("f")
    program.entry(*others, one)
    module = HloModule(program.proto())
    return CostModel(module).cost(int(module.find([one.name])[0]))


def figures(cost: Cost) -> tuple[int, int, int, int]:
    return cost.model_flops, cost.bytes_accessed, cost.hbm_read_bytes, cost.hbm_write_bytes


def adder(program: Program) -> int:
    return program.computation(
        "add", Op("x", "parameter", f32()), Op("y", "parameter", f32()), Op("s", "add", f32(), ["x", "y"])
    )


# ---- by opcode


@pytest.mark.parametrize(
    ("one", "wanted"),
    [
        (Op("r", "add", f32(100), ["a", "b"]), (300, 1200, 800, 400)),
        (Op("r", "exponential", f32(100), ["a"]), (8600, 800, 400, 400)),
        (Op("r", "tanh", shape("f16", 100), ["a"]), (21200, 600, 400, 200)),
        (Op("r", "copy", f32(100), ["a"]), (0, 800, 400, 400)),
        (Op("r", "copy", shape("f32", 100, space=5), ["a"]), (0, 800, 400, 0)),  # written elsewhere than to HBM
        (Op("r", "bitcast", f32(10, 10), ["a"]), (0, 0, 0, 0)),
        (Op("r", "parameter", f32(100)), (0, 0, 0, 0)),
        (Op("r", "slice", f32(10), ["a"]), (0, 80, 40, 40)),
        (Op("r", "dynamic-slice", f32(10), ["a", "i"]), (0, 84, 44, 40)),
        (Op("r", "dynamic-update-slice", f32(20, 30), ["m", "a", "i", "i"]), (0, 804, 408, 400)),
        (Op("r", "gather", f32(5), ["a", "i"]), (0, 44, 24, 20)),
        (Op("r", "concatenate", f32(200), ["a", "b"], raw=packed(14, [0])), (1200, 1600, 800, 800)),
        (Op("r", "concatenate", f32(20, 60), ["m", "m"], raw=packed(14, [1])), (480000, 9600, 4800, 4800)),
        (Op("r", "transpose", f32(30, 20), ["m"], raw=packed(14, [1, 0])), (0, 4800, 2400, 2400)),
        (Op("r", "transpose", shape("f32", 30, 20, order=[0, 1]), ["m"], raw=packed(14, [1, 0])), (0, 0, 0, 0)),
        (Op("r", "sort", f32(100), ["a"]), (700, 800, 400, 400)),
        (Op("r", "fft", f32(100), ["a"], raw=packed(32, [8, 4])), (4800, 800, 400, 400)),
        (Op("r", "dot", f32(20, 20), ["m", "m"], raw=len_field(30, packed(1, [1]))), (24000, 6400, 4800, 1600)),
        (Op("r", "custom-call", f32(100), ["a"], target="mystery"), (0, 0, 0, 0)),
        (Op("r", "all-gather", f32(400), ["a"], raw=len_field(49, packed(1, [0, 1, 2, 3]))), (0, 4400, 400, 1600)),
        (Op("r", "tuple", tuple_of(f32(100), f32(20, 30)), ["a", "m"]), (0, 16, 0, 0)),
        (Op("r", "infeed", tuple_of(f32(7), int_field(2, TOKEN)), []), (0, 28, 0, 28)),
        (Op("r", "outfeed", int_field(2, TOKEN), ["a"]), (0, 400, 400, 0)),
    ],
    ids=lambda value: value.opcode if isinstance(value, Op) else "",
)
def test_what_an_instruction_computes_and_moves(one: Op, wanted: tuple[int, int, int, int]) -> None:
    assert figures(cost_of(one, A, B, M, I)) == wanted


def test_operations_of_double_precision_take_longer_than_others() -> None:
    parameter = Op("d", "parameter", shape("f64", 10))
    assert cost_of(Op("r", "add", shape("f64", 10), ["d", "d"]), parameter).model_flops == 970
    assert cost_of(Op("r", "power", shape("f64", 10), ["d", "d"]), parameter).model_flops == 55110


def test_narrow_operands_are_computed_faster() -> None:
    bytes_, nibbles = Op("b", "parameter", shape("s8", 8, 16)), Op("n", "parameter", shape("s4", 8, 16))
    product = len_field(30, packed(1, [1]))
    full = Cost(2 * 64 * 16, 2 * 64 * 16)
    of_bytes = cost_of(Op("r", "dot", shape("s32", 8, 8), ["b", "b"], raw=product), bytes_)
    of_nibbles = cost_of(Op("r", "dot", shape("s32", 8, 8), ["n", "n"], raw=product), nibbles)
    assert (of_bytes.model_flops, of_bytes.flops) == (full.flops, full.flops // 2)
    assert (of_nibbles.model_flops, of_nibbles.flops) == (full.flops, full.flops // 4)


# ---- what calls computations


def test_a_reduction_adds_all_but_what_it_keeps() -> None:
    program = Program("f")
    add = adder(program)
    zero = Op("z", "constant", f32())
    one = Op("r", "reduce", f32(30), ["m", "z"], calls=[add])
    assert figures(cost_of(one, M, zero, program=program)) == (3 * 570, 2400 + 120 + 120, 2520, 120)


def test_a_cumulative_sum_costs_less_than_its_window_says() -> None:
    window = int_field(1, 199) + int_field(2, 1) + int_field(3, 99) + int_field(4, 99)
    for padding, wanted in ((window, 3 * 100), (int_field(1, 199), 3 * 198 * 100)):
        program = Program("f")
        add = adder(program)
        one = Op("r", "reduce-window", f32(100), ["a", "z"], calls=[add], raw=len_field(15, len_field(1, padding)))
        assert cost_of(one, A, Op("z", "constant", f32()), program=program).model_flops == wanted


def test_a_loop_costs_its_body_and_its_condition_once_and_a_conditional_its_dearest_branch() -> None:
    program = Program("f")
    body = program.computation("body", A, Op("s", "sine", f32(100), ["a"]))
    other = program.computation("other", A, Op("n", "negate", f32(100), ["a"]))
    loop = Op("w", "while", f32(100), ["a"], calls=[body, other])
    branch = Op("c", "conditional", f32(100), ["i", "a", "a"], calls=[other, body])
    program.entry(A, I, loop, branch)
    module = HloModule(program.proto())
    costs = CostModel(module)
    rows = module.find(["w", "c", "s"]).tolist()
    assert [costs.cost(row).model_flops for row in rows] == [66200 + 300, 66200, 66200]
    assert [costs.cost(row).bytes_accessed for row in rows] == [1600, 800, 800]


def test_an_all_reduce_costs_what_its_reducer_does() -> None:
    program = Program("f")
    add = adder(program)
    assert figures(cost_of(Op("r", "all-reduce", f32(100), ["a"], calls=[add]), A, program=program)) == (
        300,
        800,
        400,
        400,
    )


# ---- fusions


def fused(*ops: Op, output: bytes, operands: tuple[Op, ...], kind: str = "kLoop") -> Cost:
    program = Program("f")
    body = program.computation("fused", *ops)
    names = [operand.name for operand in operands]
    return cost_of(Op("r", "fusion", output, names, calls=[body], fusion_kind=kind), *operands, program=program)


def test_what_a_fusion_computes_within_is_not_moved() -> None:
    ops = [A, Op("e", "exponential", f32(100), ["a"]), Op("s", "add", f32(100), ["e", "a"])]
    assert figures(fused(*ops, output=f32(100), operands=(A,))) == (8600 + 300, 800, 400, 400)


def test_of_what_is_sliced_only_the_slice_is_computed_and_read() -> None:
    ops = [A, Op("e", "exponential", f32(100), ["a"]), Op("s", "slice", f32(10), ["e"])]
    assert figures(fused(*ops, output=f32(10), operands=(A,))) == (860, 80, 40, 40)


def test_an_update_in_place_moves_the_update_alone() -> None:
    u, i = Op("u", "parameter", f32(1, 30)), I
    ops = [M, u, i, Op("d", "dynamic-update-slice", f32(20, 30), ["m", "u", "i", "i"])]
    assert figures(fused(*ops, output=f32(20, 30), operands=(M, u, i))) == (0, 120 + 120 + 4, 124, 120)


def test_what_a_fused_reduction_starts_from_is_computed_once_for_each_value_that_it_keeps() -> None:
    """XProf 2.24.2 on an MI300X: a convert of the start costs 3 x 8192, as much as the reduction leaves out."""
    program = Program("f")
    add = adder(program)
    bf16 = shape("bf16", 20, 30)
    fused = program.computation(
        "fused", Op("p", "parameter", bf16), Op("wide", "convert", f32(20, 30), ["p"]),
        Op("zero", "constant", shape("bf16")), Op("start", "convert", f32(), ["zero"]),
        Op("sum", "reduce", f32(20), ["wide", "start"], calls=[add]),
    )  # fmt: skip
    one = Op("r", "fusion", f32(20), ["m"], calls=[fused], fusion_kind="kInput")
    found = cost_of(one, Op("m", "parameter", bf16), program=program)
    assert found.model_flops == 3 * 600 + 3 * 20 + 3 * (600 - 20)


def test_large_constants_are_read_and_small_ones_are_not() -> None:
    for size, read in ((8, 0), (9, 36)):
        ops = [Op("k", "constant", f32(size)), Op("n", "negate", f32(size), ["k"])]
        assert fused(*ops, output=f32(size), operands=()).bytes_accessed == 4 * size + read


def test_of_a_tuple_a_fusion_reads_the_elements_that_it_uses_and_the_pointers_for_others() -> None:
    both = Op("t", "parameter", tuple_of(f32(50), f32(60)))
    ops = [both, Op("g", "get-tuple-element", f32(50), ["t"]), Op("n", "negate", f32(50), ["g"])]
    cost = fused(*ops, output=f32(50), operands=(both,))
    assert (cost.model_flops, cost.hbm_read_bytes, cost.hbm_write_bytes) == (150, 200 + 16, 200)


def test_a_custom_fusion_around_a_gather_costs_what_the_gather_does() -> None:
    ops = [A, I, Op("g", "gather", f32(5), ["a", "i"]), Op("n", "negate", f32(5), ["g"])]
    assert figures(fused(*ops, output=f32(5), operands=(A, I), kind="kCustom")) == (0, 44, 24, 20)


# ---- libraries


def test_a_matrix_product_of_a_library_is_read_from_its_configuration() -> None:
    numbers = {"dot_dimension_numbers": {"lhs_contracting_dimensions": ["1"]}}
    for config in (numbers, {"gemm_backend_config": numbers}):
        raw = len_field(43, json.dumps(config))
        output = tuple_of(f32(20, 20), shape("s8", 1000))  # the rest is scratch space
        one = Op("r", "custom-call", output, ["m", "m"], target="__cublas$lt$matmul", raw=raw)
        cost = cost_of(one, M)
        assert (cost.model_flops, cost.bytes_accessed, cost.hbm_read_bytes) == (24000, 2 * 2400 + 1600, 4800)


@pytest.mark.parametrize("config", ["", "{", "[]", '{"dot_dimension_numbers": 3}', "[" * 100_000, '{"a": NaN}'])
def test_of_a_damaged_configuration_nothing_is_known(config: str) -> None:
    one = Op("r", "custom-call", f32(20, 20), ["m", "m"], target="__cublas$lt$matmul", raw=len_field(43, config))
    assert cost_of(one, M) == NOTHING


# ---- convolutions


def slow_positions(d: WindowDimension) -> int:
    count = 0
    for k, o in itertools.product(range(d.kernel), range(d.output)):
        at = o * d.stride + k * d.window_dilation - d.padding_low
        count += at % d.base_dilation == 0 and 0 <= at // d.base_dilation < d.input
    return count


def test_positions_of_a_window_are_counted_as_one_by_one() -> None:
    dice = random.Random(5)
    for _ in range(3000):
        sizes = [dice.randint(1, 9) for _ in range(3)]
        stride, window, base = (dice.randint(1, 4) for _ in range(3))
        d = WindowDimension(*sizes, stride, dice.randint(-2, 5), dice.randint(-2, 5), window, base)
        shortcut = d.input == d.output == d.kernel == d.base_dilation or (d.input == 1 and d.kernel == d.output)
        assert shortcut or count_valid_positions(d) == slow_positions(d), d


def test_sizes_without_end_are_not_counted() -> None:
    assert count_valid_positions(WindowDimension(2**60, 2**60, 2**60, 1, 0, 0, 1, 1)) == 0
    assert count_valid_positions(WindowDimension(3, 3, 3, -1, 0, 0, 1, 1)) == 0


def test_a_convolution_multiplies_what_is_not_padding() -> None:
    numbers = int_field(3, 2) + int_field(4, 3) + packed(6, [0, 1]) + int_field(7, 0) + int_field(8, 3)
    numbers += int_field(9, 0) + int_field(10, 3) + packed(11, [1, 2]) + packed(12, [1, 2])
    edge = int_field(1, 3) + int_field(2, 1) + int_field(3, 1) + int_field(4, 1) + int_field(5, 1) + int_field(6, 1)
    raw = len_field(15, len_field(1, edge) * 2) + len_field(16, numbers) + int_field(50, 1) + int_field(58, 1)
    image, kernel = Op("x", "parameter", f32(2, 8, 8, 4)), Op("k", "parameter", f32(3, 3, 4, 16))
    one = Op("r", "convolution", f32(2, 8, 8, 16), ["x", "k"], raw=raw)
    assert cost_of(one, image, kernel).model_flops == 2 * 4 * 16 * 2 * 22 * 22


# ---- damage


def test_computations_that_call_themselves_cost_nothing_known() -> None:
    program = Program("f")
    program.computation("again", A, Op("c", "call", f32(100), ["a"], calls=[1]))
    assert cost_of(Op("r", "call", f32(100), ["a"], calls=[1]), A, program=program) == NOTHING


def test_calls_nested_thousands_deep_are_followed() -> None:
    program = Program("f")
    program.computation("bottom", A, Op("n", "negate", f32(100), ["a"]))
    for depth in range(1, 3000):
        program.computation(f"c{depth}", A, Op("c", "call", f32(100), ["a"], calls=[depth]))
    assert cost_of(Op("r", "call", f32(100), ["a"], calls=[3000]), A, program=program).model_flops == 300


def test_computations_that_call_two_each_are_worked_out_once() -> None:
    program = Program("f")
    program.computation("bottom", A, Op("n", "negate", f32(100), ["a"]))
    for depth in range(1, 50):
        calls = [Op(name, "call", f32(100), ["a"], calls=[depth]) for name in "cd"]
        program.computation(f"c{depth}", A, *calls)
    cost = cost_of(Op("r", "call", f32(100), ["a"], calls=[50]), A, program=program)
    assert cost.model_flops == 300 * 2**49


@pytest.mark.parametrize(
    "one",
    [
        Op("r", "fusion", f32(100), ["a"], calls=[9], fusion_kind="kLoop"),
        Op("r", "fusion", f32(100), ["a"], fusion_kind="kLoop"),
        Op("r", "conditional", f32(100), ["a"]),
        Op("r", "dot", f32(100), []),
        Op("r", "dot", f32(100), ["a", "b"], raw=len_field(30, packed(1, [5]))),
        Op("r", "dot", f32(100), ["a", "b"], raw=len_field(30, packed(1, [-1 % 2**64]))),
        Op("r", "dot", f32(100), ["a", "b"], raw=len_field(30, b"\x0a\x05\x01")),
        Op("r", "convolution", f32(100), ["a", "b"], raw=len_field(15, len_field(1, b""))),
        Op("r", "scatter", f32(100), ["a"]),
    ],
    ids=lambda one: one.opcode,
)
def test_of_a_damaged_instruction_nothing_is_known(one: Op) -> None:
    assert cost_of(one, A, B) == NOTHING


def test_sizes_past_all_bounds_are_cut_to_fit() -> None:
    huge = Op("h", "parameter", f32(2**62, 2**62))
    cost = cost_of(Op("r", "add", f32(2**62, 2**62), ["h", "h"]), huge)
    assert 0 < cost.bytes_accessed <= 2**62 and 0 < cost.model_flops <= 2**62


# ---- a real program


def test_a_matrix_product_that_ran_on_an_mi300x(captures: Path) -> None:
    profile = fastprof.load(captures / "xspace" / "gpu-mi300x-jax08-gemm")
    rows = profile.event_metadata_stats.to_pylist()
    proto = next(row["bytes_value"] for row in rows if row["metadata_id"] == 5)
    module = HloModule(proto)
    cost = CostModel(module).cost(int(module.find(["gemm_fusion_dot_general.1"])[0]))
    assert cost == Cost(33554432, 33554432, 393216, 262144, 131072, is_known=True)
