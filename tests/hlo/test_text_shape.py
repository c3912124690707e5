"""Shapes as XLA prints them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from effort import takes_less
from hlo_builder import TOKEN, Op, Program, f32, packed, shape, tuple_of
from trace_builder import int_field, len_field

from fastprof.hlo.module import HloModule
from fastprof.hlo.text.shape_text import ShapeTexts


def laid_out(layout: bytes, *dimensions: int, dynamic: tuple[int, ...] = (), kind: int = 11) -> bytes:
    return int_field(2, kind) + packed(3, dimensions) + packed(6, dynamic) + len_field(5, layout)


ORDER = packed(1, [1, 0])


@pytest.mark.parametrize(
    ("proto", "text"),
    [
        (f32(), "f32[]"),
        (shape("bf16", 8, 128), "bf16[8,128]{1,0}"),
        (shape("s4", 2, 3, order=[0, 1], space=1, bits=4), "s4[2,3]{0,1:E(4)S(1)}"),
        (int_field(2, 11) + packed(3, [4]), "f32[4]"),
        (
            laid_out(ORDER + len_field(6, packed(1, [8, 128])) + len_field(6, packed(1, [2, 1])), 8, 8),
            "f32[8,8]{1,0:T(8,128)(2,1)}",
        ),
        (laid_out(len_field(6, packed(1, [128])) + int_field(8, 2)), "f32[]{:T(128)S(2)}"),
        (laid_out(ORDER + len_field(6, packed(1, [2**64 - 2**63, 2])), 4, 8), "f32[4,8]{1,0:T(*,2)}"),
        (laid_out(ORDER + int_field(16, 8), 4, 8), "f32[4,8]{1,0:L(8)}"),
        (laid_out(ORDER + int_field(15, 16), 4, 8), "f32[4,8]{1,0:M(16)}"),
        (laid_out(ORDER + len_field(17, packed(2, [2])), 4, 8), "f32[4,8]{1,0:SC(0:2)}"),
        (laid_out(ORDER + packed(9, [0, 1]), 4, 8), "f32[4,8]{1,0:D(D,C)}"),
        (laid_out(ORDER, 4, 8, dynamic=(1, 0)), "f32[<=4,8]{1,0}"),
        (laid_out(ORDER, 2**64 - 2**63, 8, dynamic=(1, 0)), "f32[?,8]{1,0}"),
        (int_field(2, TOKEN), "token[]"),
        (int_field(2, 14), "opaque[]"),
        (int_field(2, 99), "invalid[]"),
        (tuple_of(), "()"),
        (tuple_of(*[f32()] * 7), "(f32[], f32[], f32[], f32[], f32[], /*index=5*/f32[], f32[])"),
        (tuple_of(f32(2), tuple_of(f32(3))), "(f32[2]{0}, (f32[3]{0}))"),
        (int_field(2, 34) + len_field(4, f32(4)), "b(f32[4]{0})"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_text_of_a_shape(proto: bytes, text: str) -> None:
    assert ShapeTexts().text(memoryview(proto)) == text


def test_without_layouts() -> None:
    assert ShapeTexts(layouts=False).text(memoryview(tuple_of(f32(2, 3), f32()))) == "(f32[2,3], f32[])"


def test_one_that_does_not_decode_is_a_question_mark() -> None:
    assert ShapeTexts().text(memoryview(b"\x08")) == "?"


def test_of_a_module_by_row() -> None:
    program = Program("f")
    program.entry(Op("x", "parameter", shape("f32", 4, space=3)))
    module = HloModule(program.proto())
    assert module.shape_text(int(module.instructions["shape"][0])) == "f32[4]{0:S(3)}"
    assert module.shape_text(-1) == "?"


def test_tuples_in_tuples_take_time_as_they_are_large() -> None:
    """Each level is a message in a message, so its bytes are as many as there are levels, times four."""

    def printing(levels: int) -> Callable[[], None]:
        nested = f32()
        for _ in range(levels):
            nested = tuple_of(nested)

        def work() -> None:
            assert ShapeTexts().text(memoryview(nested)) == "(" * levels + "f32[]" + ")" * levels

        return work

    assert takes_less(printing(4_000), 40, printing(1_000), noise_s=0.2)
