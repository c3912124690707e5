"""What instructions cost on a GPU beyond XLA's model: products of libraries, and results that are tuples."""

from __future__ import annotations

import json

import pytest
from hlo_builder import Op, Program, f32, shape, tuple_of
from trace_builder import len_field

from fastprof.hlo.cost import CostModel, find_device_cost
from fastprof.hlo.module import HloModule
from fastprof.hlo.work import NOTHING, Cost

M = Op("m", "parameter", f32(20, 30))
N = Op("n", "parameter", f32(30, 40))
NUMBERS = {"dot_dimension_numbers": {"lhs_contracting_dimensions": ["1"], "rhs_contracting_dimensions": ["0"]}}


def cost_of(one: Op, *others: Op) -> Cost:
    program = Program("f")
    program.entry(*others, one)
    module = HloModule(program.proto())
    return find_device_cost(CostModel(module), int(module.find([one.name])[0]))


def product(target: str, output: bytes, config: object = NUMBERS) -> Op:
    return Op("r", "custom-call", output, ["m", "n"], target=target, raw=len_field(43, json.dumps(config)))


@pytest.mark.parametrize("target", ["__cublas$gemm", "__cublas$lt$matmul", "__hipblaslt$matmul"])
@pytest.mark.parametrize("config", [NUMBERS, {"gemm_backend_config": NUMBERS}])
def test_a_product_of_a_library_is_read_from_its_configuration(target: str, config: object) -> None:
    output = tuple_of(f32(20, 40), shape("s8", 1000))  # the rest is scratch space
    cost = cost_of(product(target, output, config), M, N)
    assert (cost.flops, cost.model_flops, cost.is_known) == (2 * 20 * 40 * 30, 2 * 20 * 40 * 30, True)
    assert (cost.bytes_accessed, cost.hbm_read_bytes, cost.hbm_write_bytes) == (10_400, 2_400 + 4_800, 3_200)


def test_a_product_beyond_64_bits_has_no_cost() -> None:
    one, other = (Op(name, "parameter", f32(2**62, 2**63 - 1)) for name in "mn")
    cost = cost_of(product("__cublas$gemm", f32(2**62, 2**62)), one, other)
    assert (cost.is_known, cost.is_cut, cost.flops, cost.bytes_accessed) == (False, True, 0, 0)


def test_results_beside_the_product_are_no_scratch_space() -> None:
    cost = cost_of(product("__cublas$gemm", tuple_of(f32(20, 40), f32(20, 40))), M, N)
    assert (cost.bytes_accessed, cost.hbm_write_bytes) == (7_200 + 6_400, 6_400)


def test_operands_in_the_memory_of_the_host_are_not_hbm_s() -> None:
    there = Op("m", "parameter", shape("f32", 20, 30, space=5))
    cost = cost_of(product("__cublas$gemm", f32(20, 40)), there, N)
    assert (cost.bytes_accessed, cost.hbm_read_bytes, cost.elsewhere) == (10_400, 4_800, ((5, 2_400, 0),))


@pytest.mark.parametrize(
    "config",
    [
        {},
        3,
        {"dot_dimension_numbers": 3},
        {"dot_dimension_numbers": {"lhs_contracting_dimensions": ["7"]}},
        {"dot_dimension_numbers": {"lhs_contracting_dimensions": ["one"]}},
    ],
)
def test_of_a_damaged_configuration_nothing_is_known(config: object) -> None:
    assert cost_of(product("__cublas$gemm", f32(20, 40), config), M, N) == NOTHING


def test_of_other_calls_nothing_is_known() -> None:
    assert cost_of(product("te_fused_attn_forward_ffi", f32(20, 40)), M, N) == NOTHING


def test_bytes_of_a_result_that_is_a_tuple_are_hbm_s() -> None:
    output = tuple_of(f32(20, 40), shape("s8", 1000))
    one = product("__cublas$lt$matmul", output)
    program = Program("f")
    program.entry(M, N, one)
    module = HloModule(program.proto())
    costs, row = CostModel(module), int(module.find(["r"])[0])
    assert costs.cost(row).hbm_write_bytes == 0  # to XLA, which counts all bytes as one number
    found = find_device_cost(costs, row)
    assert (found.hbm_read_bytes, found.hbm_write_bytes, found.bytes_accessed) == (7_200, 3_200, 10_400)
