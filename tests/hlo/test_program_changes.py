"""Differences between two programs: of arguments first, then of constants, then of instructions."""

from __future__ import annotations

import struct

import pytest
from hlo_builder import Op, Program, f32, packed, shape
from trace_builder import int_field, len_field

from fastprof.hlo.module import HloModule
from fastprof.hlo.program_changes import Change, compare_programs


def program(
    *arguments: Op, rate: float = 0.5, more: int = 0, op: str = "add", root: bytes = f32(), entry: str = "main"
) -> HloModule:
    """A program of these arguments and a constant, with ``more`` ops and a root of this shape."""
    made = Program("jit_f")
    literal = len_field(8, len_field(1, f32()) + len_field(8, struct.pack("<f", rate)))
    ops = [Op(f"op.{number}", op, f32()) for number in range(more)]
    made.computation(entry, *arguments, *ops, Op("rate", "constant", f32(), raw=literal), Op("root", "copy", root))
    return HloModule(made.proto())


def argument(name: str, what: bytes, raw: bytes = b"") -> Op:
    return Op(f"Arg.{name}", "parameter", what, op_name=name, raw=raw)


X, Y = argument("x", f32(200, 512)), argument("y", f32(200))
TILED = len_field(40, int_field(1, 3) + packed(3, [2, 1]) + packed(4, [0, 1]))


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        (program(X, Y), program(X, Y), [Change("nothing")]),
        (
            program(X, Y),
            program(argument("x", f32(207, 512)), argument("y", f32(207))),
            [Change("shape", "x", "f32[200,512]", "f32[207,512]"), Change("shape", "y", "f32[200]", "f32[207]")],
        ),
        (
            program(X),
            program(argument("x", shape("bf16", 200, 512)), rate=0.25),
            [Change("type", "x", "f32[200,512]", "bf16[200,512]")],
        ),
        (program(X, Y), program(X), [Change("arguments", "y", "f32[200]", "")]),
        (program(Y, X), program(argument("z", f32()), Y, X), [Change("arguments", "z", "", "f32[]")]),
        (
            program(X),
            program(argument("x", shape("f32", 200, 512, order=(0, 1)))),
            [Change("layout", "x", "f32[200,512]{1,0}", "f32[200,512]{0,1}")],
        ),
        (
            program(X),
            program(argument("x", f32(200, 512), TILED)),
            [Change("sharding", "x", "f32[200,512] unsharded", "f32[200,512] {devices=[2,1]0,1}")],
        ),
        (program(X), program(X, rate=0.25), [Change("constant", None, "0.5", "0.25")]),
        (program(X), program(X, more=2), [Change("instructions", None, "3 instructions", "5 instructions")]),
        (
            program(X, more=2),
            program(X, more=2, op="multiply"),
            [Change("instructions", None, "add f32[]", "multiply f32[]")],
        ),
        (
            program(X, root=f32(10), rate=0.5),
            program(X, root=f32(11), rate=0.25),
            [Change("result", None, "f32[10]", "f32[11]")],
        ),
        (  # shards of arrays that did not change
            program(argument("x", f32(100, 512), TILED), entry="main.0_spmd"),
            program(X, entry="main.0_spmd"),
            [Change("sharding", "x", "f32[200,512] {devices=[2,1]0,1}", "f32[200,512] unsharded")],
        ),
        (
            program(argument("x", f32(100, 512), TILED), entry="main.0_spmd"),
            program(argument("x", f32(104, 512), TILED), entry="main.0_spmd"),
            [Change("shape", "x", "f32[200,512]", "f32[208,512]")],
        ),
        (
            program(Op("a", "parameter", f32(2), op_name="XLA_Args"), Op("b", "parameter", f32(3), op_name="XLA_Args")),
            program(Op("a", "parameter", f32(2), op_name="XLA_Args"), Op("b", "parameter", f32(4), op_name="XLA_Args")),
            [Change("shape", "argument 1", "f32[3]", "f32[4]")],
        ),
    ],
)
def test_the_first_kind_of_change_counts(before: HloModule, after: HloModule, changes: list[Change]) -> None:
    assert compare_programs(before, after) == tuple(changes)


def test_a_program_without_an_entry_is_an_error() -> None:
    with pytest.raises(LookupError):
        compare_programs(program(X), HloModule(len_field(1, len_field(1, "jit_f"))))
