"""Shapes and layouts read from the text of instructions."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

import pytest
from effort import takes_less
from random_modules import random_program

from fastprof.hlo.module import HloModule
from fastprof.hlo.shapes import (
    COMBINE,
    DEEPEST,
    MOST,
    OUTPUT,
    UNBOUNDED,
    ArrayLayout,
    Padding,
    _measure_unusual_padding,
    measure_padding,
    read_array,
    read_expression,
    read_layouts,
)
from fastprof.hlo.text.instruction_text import format_expression

COPY = (
    "%copy-start.1 = (f32[5,1024]{1,0:T(8,128)S(5)}, f32[5,1024]{1,0:T(8,128)}, u32[]{:S(2)}) "
    "copy-start(f32[5,1024]{1,0:T(8,128)} %broadcast_add_fusion.2)"
)
DOT = (
    "%d = bf16[5,130]{1,0:T(8,128)(2,1)} dot(bf16[5,7]{1,0:T(8,128)(2,1)} %a, f32[7,130]{0,1:T(8,128)S(1)} %b), "
    "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
)


def test_an_op_s_output_and_operands_are_distinguished() -> None:
    found = read_layouts(COPY)
    assert [(one.operand, one.position, one.index) for one in found] == [
        ("output", OUTPUT, (0,)),
        ("output", OUTPUT, (1,)),
        ("output", OUTPUT, (2,)),
        ("broadcast_add_fusion.2", 0, ()),
    ]
    first, last = found[0], found[2]
    assert (first.shape, first.layout, first.tile) == ("f32[5,1024]", "{1,0:T(8,128)S(5)}", "(8,128)")
    assert (first.memory_space, first.dimensions, first.padded_dimensions) == (5, (5, 1024), (8, 1024))
    assert (first.bytes, first.padded_bytes, first.wasted_share) == (20480, 32768, 0.375)
    assert (last.bytes, last.padded_bytes, last.tile) == (4, 4, "")


def test_an_op_pads_what_its_output_and_operands_pad() -> None:
    assert measure_padding(COPY) == Padding(3 * 20480 + 4, 3 * 32768 + 4)
    assert measure_padding(COPY).wasted_share == 1 - (3 * 20480 + 4) / (3 * 32768 + 4)


def test_the_dimensions_of_dots_and_convolutions_have_roles() -> None:
    assert [one.semantics for one in read_layouts(DOT)] == [(None, None), (None, "contracting"), ("contracting", None)]
    text = (
        "%c = f32[1,2,3,4] convolution(f32[1,5,6,7] %x, f32[3,3,7,4] %k), window={size=3x3}, dim_labels=b01f_01io->b01f"
    )
    assert [one.semantics for one in read_layouts(text)] == [
        ("batch", "spatial", "spatial", "feature"),
        ("batch", "spatial", "spatial", "feature"),
        ("spatial", "spatial", "feature", "feature"),
    ]


def test_no_role_is_guessed_where_labels_are_not_of_this_array() -> None:
    text = "%c = f32[1,2] convolution(f32[1] %x), dim_labels=b01f_01io->b01f"
    assert [one.semantics for one in read_layouts(text)] == [(None, None), (None,)]


@pytest.mark.parametrize(
    "text", ["", "fusion.1", "%a = ", "%a = (f32[2], ", "%a = f32[2]{0}", "%a = )) add(", "IDLE", "%a = add(f32[2] %b)"]
)
def test_what_is_not_an_instruction_has_no_layouts(text: str) -> None:
    assert read_layouts(text) == []
    assert measure_padding(text) == Padding(None, None)


def test_operands_without_shapes_have_no_layouts() -> None:
    read = read_expression("ROOT %a.1 = f32[2]{0} add(%b, /*index=1*/ %c.2), metadata={x}")
    assert read is not None
    assert (read.output.name, read.opcode, [one.name for one in read.operands]) == ("a.1", "add", ["b", "c.2"])
    assert [one.operand for one in read_layouts("%a = f32[2] add(%b, %c)")] == ["output"]


def test_numbers_of_parameters_and_constants_are_no_operands() -> None:
    assert [one.operand for one in read_layouts("%p = f32[2]{0} parameter(0)")] == ["output"]
    assert [one.operand for one in read_layouts("%c = f32[2]{0} constant({1, 2})")] == ["output"]


def test_tokens_take_nothing() -> None:
    assert measure_padding("%o = token[] after-all()") == Padding(None, None)
    assert measure_padding("%o = (f32[2], token[]) infeed(token[] %t)") == Padding(8, 8)


def test_every_part_of_a_layout_is_understood_or_left_out() -> None:
    assert read_array("f32", "<=8,?", "{1,0:D(D,C)T(*,8)(2,1)#(u32)L(4)E(16)S(3)M(64)}") == ArrayLayout(
        "f32", (8, UNBOUNDED), (1, 0), ((COMBINE, 8), (2, 1)), 16, 3, 4
    )
    assert read_array("f32", "99999999999999999999", "{x:T(y)}").dimensions == (UNBOUNDED,)


def test_damaged_expressions_are_read_as_far_as_they_are_whole() -> None:
    random = Random(3)
    for text in (COPY, DOT, "%c = f32[1,2]{1,0} convolution(f32[1,2] %x), dim_labels=b0_0i->b0"):
        for _ in range(2000):
            at = random.randrange(len(text))
            kept = text[at + random.randrange(3) :]
            damaged = (
                text[:at] + random.choice(("", "(", ")", "[", "]", "{", "}", ",", "9" * 5000, "%", "<=", "٣")) + kept
            )
            for one in read_layouts(damaged):
                assert one.bytes is None or 0 <= one.bytes <= MOST
            measure_padding(damaged)


def test_what_is_printed_of_a_module_is_read_as_the_module_has_it() -> None:
    compared = 0
    for seed in range(12):
        module = HloModule(random_program(Random(seed), "jit_f", 30).program.proto())
        for row in range(len(module)):
            read = read_expression(format_expression(module, row))
            assert read is not None, format_expression(module, row)
            one = module.instruction(row)
            wanted = [leaf.array for _, leaf in one.shape.leaves()]
            assert [leaf.array for leaf in read.output.leaves] == wanted
            if one.opcode not in ("constant", "parameter"):
                assert [value.name for value in read.operands] == [module.instruction(k).name for k in one.operands]
            assert measure_padding(format_expression(module, row)) == _measure_unusual_padding(
                format_expression(module, row)
            )
            compared += len(wanted)
    assert compared > 300


def test_wide_tuples_are_read_in_linear_time() -> None:
    def reading(count: int) -> Callable[[], None]:
        text = f"%t = ({', '.join(['f32[2]{0}'] * count)}) custom-call({', '.join(['f32[2] %a'] * count)})"

        def work() -> None:
            read = read_expression(text)
            assert read is not None and len(read.output.leaves) == len(read.operands) == count

        return work

    assert takes_less(reading(64_000), 100, reading(4_000))  # 16 times as many: by pairs it would be 256


def test_shapes_that_never_end_are_given_up_at_once() -> None:
    text = f"%t = f32[2] custom-call({'a[' * 200_000})"
    begun = time.process_time()
    assert [one.operand for one in read_layouts(text)] == ["output"]
    measure_padding(text)
    assert time.process_time() - begun < 10  # by pairs it would be hours


@pytest.mark.parametrize(
    "text",
    [
        f"%x = f32[8] add(f32[8] %{'a' * 100_000})",
        f"%x = f32[8]{{0:{'T' * 100_000}}} add()",
        f"%x = f32[8]{{0:T{'(1)' * 100_000}}} add()",
        f"%x = f32[8]{{0}} convolution(f32[8] %y), dim_labels={'a_' * 100_000}",
        f"%x = f32[8]{{0}} convolution(f32[8] %y), {'dim_labels=a_' * 20_000}",
    ],
)
def test_the_time_that_a_text_takes_grows_with_its_length(text: str) -> None:
    begun = time.process_time()
    assert read_layouts(text)[0].shape == "f32[8]"
    measure_padding(text)
    assert time.process_time() - begun < 10


def test_numbers_beyond_64_bits_are_none() -> None:
    assert read_array("f32", "9223372036854775808", "{0:S(9999999999999999999)}").dimensions == (UNBOUNDED,)
    text = "%x = f32[9223372036854775807,3]{1,0:T(4611686018427387904,2)} add()"
    assert [one.padded_dimensions for one in read_layouts(text)] == [None]


def test_tuples_nest_as_deep_as_their_places_can_be_reported() -> None:
    text = "%t = " + "(" * DEEPEST + "f32[2]" + ")" * DEEPEST + " custom-call()"
    assert [one.index for one in read_layouts(text)] == [(0,) * DEEPEST]
    assert read_layouts(f"%t = ({text[5:].replace(' ', ') ', 1)}") == []
