"""One instruction as XLA prints it, by opcode and by attribute. Expected lines are those of XProf 2.24.2."""

from __future__ import annotations

import struct

import pytest
from hlo_builder import TOKEN, Op, Program, f32, packed, shape, tuple_of
from trace_builder import double_field, int_field, len_field, tag

from fastprof.hlo.module import HloModule
from fastprof.hlo.text.instruction_text import EXPRESSION, LONG, SHORT, Form, InstructionText, format_expression

token = int_field(2, TOKEN)
x, y = Op("x", "parameter", f32(4)), Op("y", "parameter", f32(4))
m = Op("m", "parameter", f32(4, 8))
s = Op("s", "parameter", f32())
flag = Op("p", "parameter", shape("pred"))


def written(op: Op, form: Form, *before: Op) -> str:
    program = Program("f")
    program.entry(x, y, m, s, flag, *before, op)
    module = HloModule(program.proto())
    return InstructionText(module, form).line(len(module) - 1)


def dims(*numbers: int) -> bytes:
    return packed(14, numbers)


def window(*dimensions: bytes) -> bytes:
    return len_field(15, b"".join(len_field(1, one) for one in dimensions))


def side(size: int, stride: int = 1, low: int = 0, high: int = 0, inner: int = 1, outer: int = 1) -> bytes:
    return (
        packed_one(1, size)
        + packed_one(2, stride)
        + packed_one(3, low)
        + packed_one(4, high)
        + (packed_one(5, inner) + packed_one(6, outer))
    )


def packed_one(number: int, value: int) -> bytes:
    return int_field(number, value % 2**64) if value else b""


LABELS = len_field(
    16,
    int_field(7, 0)
    + int_field(8, 3)
    + packed(11, [1, 2])
    + int_field(3, 2)
    + int_field(4, 3)
    + packed(6, [0, 1])
    + int_field(9, 0)
    + int_field(10, 3)
    + packed(12, [1, 2]),
)
PLAIN_GROUPS = len_field(87, len_field(1, packed(1, [0, 1])) + len_field(1, packed(1, [2, 3])))
COUNTED_GROUPS = len_field(87, len_field(2, int_field(1, 2) + int_field(2, 4) + packed(3, [4, 2]) + packed(4, [1, 0])))


@pytest.mark.parametrize(
    ("op", "line"),
    [
        (Op("a", "abs", f32(4), "x"), "a = f32[4]{0} abs(x)"),
        (Op("a", "broadcast", f32(4, 8), "s", raw=b""), "a = f32[4,8]{1,0} broadcast(s), dimensions={}"),
        (Op("a", "transpose", f32(8, 4), "m", raw=dims(1, 0)), "a = f32[8,4]{1,0} transpose(m), dimensions={1,0}"),
        (Op("a", "reshape", f32(32), "m"), "a = f32[32]{0} reshape(m)"),
        (Op("a", "reshape", f32(32), "m", raw=dims(0)), "a = f32[32]{0} reshape(m), inferred_dimension=0"),
        (Op("a", "iota", shape("s32", 4, 8), raw=dims(1)), "a = s32[4,8]{1,0} iota(), iota_dimension=1"),
        (
            Op("a", "slice", f32(2, 4), "m", raw=len_field(17, int_field(2, 4) + int_field(3, 2))),
            "a = f32[2,4]{1,0} slice(m), slice={[0:4:2]}",
        ),
        (
            Op("a", "slice", f32(2), "x", raw=len_field(17, int_field(1, 1) + int_field(2, 3) + int_field(3, 1))),
            "a = f32[2]{0} slice(x), slice={[1:3]}",
        ),
        (
            Op("a", "pad", f32(7), "xs", raw=len_field(21, len_field(1, int_field(1, 1) + int_field(2, 2)))),
            "a = f32[7]{0} pad(x, s), padding=1_2",
        ),
        (
            Op("a", "pad", f32(9), "xs", raw=len_field(21, len_field(1, packed_one(1, -1) + int_field(3, 2)))),
            "a = f32[9]{0} pad(x, s), padding=-1_0_2",
        ),
        (
            Op("a", "compare", shape("pred", 4), "xy", raw=len_field(63, "LT") + len_field(72, "FLOAT")),
            "a = pred[4]{0} compare(x, y), direction=LT",
        ),
        (
            Op("a", "compare", shape("pred", 4), "xy", raw=len_field(63, "GE") + len_field(72, "TOTALORDER")),
            "a = pred[4]{0} compare(x, y), direction=GE, order=TOTAL",
        ),
        (
            Op("a", "convolution", f32(4), "xm", raw=window(side(3, 2, 1, 1), side(3, 1, 0, 1, 2, 3)) + LABELS),
            "a = f32[4]{0} convolution(x, m), "
            "window={size=3x3 stride=2x1 pad=1_1x0_1 lhs_dilate=1x3 rhs_dilate=1x2}, dim_labels=b01f_01io->b01f",
        ),
        (
            Op("a", "convolution", f32(4), "xm", raw=LABELS + int_field(50, 32) + len_field(51, packed(1, [1, 2]))),
            "a = f32[4]{0} convolution(x, m), dim_labels=b01f_01io->b01f, feature_group_count=32, "
            "operand_precision={high,highest}",
        ),
        (
            Op("a", "dot", f32(4), "mx", raw=len_field(30, packed(1, [1]) + packed(2, [0]))),
            "a = f32[4]{0} dot(m, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        ),
        (
            Op(
                "a",
                "dot",
                f32(4),
                "mm",
                raw=len_field(30, packed(1, [1]) + packed(2, [1]) + packed(3, [0]) + packed(4, [0]))
                + len_field(51, int_field(2, 7)),
            ),
            "a = f32[4]{0} dot(m, m), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, "
            "rhs_contracting_dims={1}, algorithm=dot_bf16_bf16_f32_x3",
        ),
        (
            Op(
                "a",
                "gather",
                f32(5, 8),
                "mx",
                raw=len_field(33, packed(1, [1]) + packed(2, [0]) + packed(3, [0]) + int_field(4, 1))
                + packed(34, [1, 8])
                + int_field(67, 1),
            ),
            "a = f32[5,8]{1,0} gather(m, x), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
            "index_vector_dim=1, slice_sizes={1,8}, indices_are_sorted=true",
        ),
        (Op("a", "rng", f32(4), "ss", raw=int_field(23, 1)), "a = f32[4]{0} rng(s, s), distribution=rng_uniform"),
        (
            Op("a", "fft", shape("c64", 3), "x", raw=int_field(31, 2) + packed(32, [4])),
            "a = c64[3]{0} fft(x), fft_type=RFFT, fft_length={4}",
        ),
        (
            Op("a", "triangular-solve", f32(4), "mx", raw=len_field(59, int_field(1, 1) + int_field(4, 1))),
            "a = f32[4]{0} triangular-solve(m, x), left_side=true, transpose_a=NO_TRANSPOSE",
        ),
        (
            Op("a", "topk", tuple_of(f32(2), shape("s32", 2)), "x", raw=int_field(81, 2) + int_field(85, 1)),
            "a = (f32[2]{0}, s32[2]{0}) topk(x), k=2, largest=true, is_stable=false",
        ),
        (
            Op("a", "batch-norm-inference", f32(4), "x", raw=tag(24, 5) + struct.pack("<f", 0.001) + int_field(25, 1)),
            "a = f32[4]{0} batch-norm-inference(x), epsilon=0.001, feature_index=1",
        ),
        (
            Op("a", "reduce-precision", f32(4), "x", raw=int_field(18, 5) + int_field(19, 10)),
            "a = f32[4]{0} reduce-precision(x), exponent_bits=5, mantissa_bits=10",
        ),
        (
            Op("a", "all-gather", f32(8), "x", raw=PLAIN_GROUPS + dims(0) + int_field(26, 3) + int_field(71, 1)),
            "a = f32[8]{0} all-gather(x), channel_id=3, replica_groups={{0,1},{2,3}}, dimensions={0}, "
            "use_global_device_ids=true",
        ),
        (
            Op("a", "all-to-all", f32(4), "x", raw=COUNTED_GROUPS + int_field(56, 1)),
            "a = f32[4]{0} all-to-all(x), replica_groups=[2,4]<=[4,2]T(1,0), constrain_layout=true",
        ),
        (
            Op("a", "all-to-all", f32(4), "x", raw=len_field(49, packed(1, [0, 1]))),
            "a = f32[4]{0} all-to-all(x), replica_groups={{0,1}}",
        ),
        (
            Op(
                "a",
                "collective-permute",
                f32(4),
                "x",
                raw=len_field(52, int_field(2, 1)) + len_field(52, int_field(1, 1)),
            ),
            "a = f32[4]{0} collective-permute(x), source_target_pairs={{0,1},{1,0}}",
        ),
        (
            Op("a", "collective-broadcast", f32(4), "x", raw=PLAIN_GROUPS),
            "a = f32[4]{0} collective-broadcast(x), replica_groups={{0,1},{2,3}}, has_dynamic_root=false",
        ),
        (
            Op("a", "send", tuple_of(f32(4), shape("u32"), token), "x", raw=int_field(26, 4) + int_field(47, 1)),
            "a = (f32[4]{0}, u32[], token[]) send(x), channel_id=4, is_host_transfer=true",
        ),
        (
            Op("a", "infeed", tuple_of(f32(4), token), raw=len_field(27, b'\1"x')),
            'a = (f32[4]{0}, token[]) infeed(), infeed_config="\\001\\"x"',
        ),
        (
            Op("a", "outfeed", token, "x", raw=len_field(29, f32(4))),
            "a = token[] outfeed(x), outfeed_shape=f32[4]{0}",
        ),
        (
            Op("a", "custom-call", f32(4), "x", target='foo"bar', raw=int_field(77, 1) + int_field(65, 1)),
            'a = f32[4]{0} custom-call(x), custom_call_target="foo\\"bar", custom_call_has_side_effect=true',
        ),
        (
            Op(
                "a",
                "custom-call",
                f32(4),
                "x",
                target="t",
                raw=int_field(77, 4)
                + int_field(56, 1)
                + len_field(57, f32(4))
                + int_field(76, 2)
                + len_field(74, packed(1, [1]) + int_field(2, 2)),
            ),
            'a = f32[4]{0} custom-call(x), custom_call_target="t", operand_layout_constraints={f32[4]{0}}, '
            "output_to_operand_aliasing={{1}: (2, {})}, schedule=SCHEDULE_EARLIEST, api_version=API_VERSION_TYPED_FFI",
        ),
        (
            Op("a", "domain", f32(4), "x", raw=len_field(54, int_field(1, 1) + packed(4, [1]))),
            'a = f32[4]{0} domain(x), domain={kind="sharding", entry={}, exit={maximal device=1}}',
        ),
        (
            Op("a", "copy-start", f32(4), "x", raw=int_field(80, 0)),
            "a = f32[4]{0} copy-start(x), cross_program_prefetch_index=0",
        ),
        (
            Op("a", "parameter", f32(4), raw=len_field(61, packed(1, [1, 0]))),
            "a = f32[4]{0} parameter(5), parameter_replication={true,false}",
        ),
        (
            Op("a", "scan", f32(4), "x", raw=dims(0) + int_field(95, 1) + int_field(94, 1) + int_field(96, 2)),
            "a = f32[4]{0} scan(x), dimensions={0}, num_carries=1, is_reverse=true, is_associative=false",
        ),
        (
            Op("a", "exponential", f32(4), "x", raw=len_field(91, int_field(1, 1))),
            "a = f32[4]{0} exponential(x), result_accuracy={mode=highest}",
        ),
        (
            Op(
                "a",
                "log",
                f32(4),
                "x",
                raw=len_field(82, int_field(1, 1) + len_field(2, len_field(1, "n") + double_field(2, 2.5))),
            ),
            "a = f32[4]{0} log(x), statistics={visualizing_index=1,n=2.5}",
        ),
        (
            Op(
                "a",
                "copy",
                f32(4),
                "x",
                raw=len_field(
                    68,
                    len_field(1, len_field(1, "b") + len_field(2, 'q"'))
                    + len_field(1, len_field(1, "a") + len_field(2, '{"k": 1}')),
                ),
            ),
            'a = f32[4]{0} copy(x), frontend_attributes={a={"k": 1},b="q\\""}',
        ),
        (
            Op(
                "a",
                "copy",
                f32(4),
                "x",
                raw=len_field(88, len_field(1, len_field(2, len_field(1, "w") + packed(2, [0])))),
            ),
            'a = f32[4]{0} copy(x), origin={{"w" {0}}}',
        ),
    ],
    ids=lambda value: value.opcode if isinstance(value, Op) else "",
)
def test_attributes_of_an_opcode(op: Op, line: str) -> None:
    assert written(op, SHORT) == line


def test_called_computations_have_the_names_of_what_they_are_for() -> None:
    program = Program("f")
    one, other = (program.computation(name, Op(f"{name}.r", "parameter", f32())) for name in ("one", "other"))
    program.entry(
        x,
        flag,
        Op("r", "reduce", f32(), "x", [one], raw=dims(0)),
        Op("w", "while", f32(), "x", [one, other]),
        Op("c", "conditional", f32(), ["p", "x", "x"], [one, other]),
        Op("b", "conditional", f32(), ["x", "x", "x"], [one, other]),
        Op("s", "select-and-scatter", f32(), "x", [one, other]),
        Op("f", "fusion", f32(), "x", [one], fusion_kind="kLoop"),
        Op("k", "custom-call", f32(), "x", [one, other], target="t", raw=int_field(77, 1)),
        Op("l", "call", f32(), "x", [one], raw=int_field(89, 1)),
    )
    module = HloModule(program.proto())
    writer = InstructionText(module, SHORT)
    assert [writer.line(row).split("), ", 1)[1] for row in range(4, len(module))] == [
        "dimensions={0}, to_apply=one",
        "condition=other, body=one",
        "true_computation=one, false_computation=other",
        "branch_computations={one, other}",
        "select=one, scatter=other",
        "kind=kLoop, calls=one",
        'custom_call_target="t", called_computations={one, other}',
        "to_apply=one, is_composite=true",
    ]


def test_an_async_instruction_reads_like_the_one_that_is_all_of_its_computation() -> None:
    program = Program("f")
    lone = program.computation("lone", x, Op("n", "negate", f32(4), "x", raw=len_field(40, b"")))
    both = program.computation("both", x, Op("t", "tanh", f32(4), "x"), Op("u", "negate", f32(4), "t"))
    program.entry(
        x,
        Op("a", "async-start", f32(4), "x", [lone], raw=len_field(79, "side")),
        Op("b", "async-update", f32(4), "a", [lone]),
        Op("c", "async-done", f32(4), "b", [lone]),
        Op("d", "async-start", f32(4), "x", [both]),
        Op("e", "async-done", f32(4), "d", [both]),
    )
    module = HloModule(program.proto())
    writer = InstructionText(module, SHORT)
    rows = module.find(["a", "b", "c", "d", "e"]).tolist()
    assert [writer.line(row) for row in rows] == [
        'a = f32[4]{0} negate-start(x), async_execution_thread="side", sharding={replicated}',
        "b = f32[4]{0} negate-update(a)",
        "c = f32[4]{0} negate-done(b)",
        "d = f32[4]{0} async-start(x), calls=both",
        "e = f32[4]{0} async-done(d)",
    ]


def test_operands_are_counted_every_five_but_in_the_short_form() -> None:
    op = Op("a", "tuple", tuple_of(), list("xyxyxyxyxyx"))
    assert written(op, SHORT) == "a = () tuple(x, y, x, y, x, y, x, y, x, y, x)"
    assert written(op, LONG) == "%a = () tuple(%x, %y, %x, %y, %x, /*index=5*/%y, %x, %y, %x, %y, /*index=10*/%x)"
    assert written(op, EXPRESSION).startswith("%a = () tuple(f32[4]{0} %x, f32[4]{0} %y, ")


def test_forms_show_different_things() -> None:
    config = len_field(43, '{"b": 1}')
    op = Op("a", "negate", f32(4), "x", op_name="jit(f)/neg", raw=config + packed(37, [2]))
    assert written(op, SHORT) == 'a = f32[4]{0} negate(x), backend_config={"b": 1}'
    assert written(op, LONG) == '%a = f32[4]{0} negate(%x), control-predecessors={%y}, backend_config={"b": 1}'
    assert written(op, EXPRESSION) == "%a = f32[4]{0} negate(f32[4]{0} %x), control-predecessors={%y}"


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ('{"a": "}"}', '{"a": "}"}'),
        ('{"a": 1} // said', '{"a": 1} // said'),
        ('{"a": 1} x', r'"{\"a\": 1} x"'),
        ('{"a": {}', r'"{\"a\": {}"'),
        ('{"a": "b}', r'"{\"a\": \"b}"'),
        ("\1\t\n'é", r'"\001\t\n\'\303\251"'),
        ('{"wait_on_operation_queues": [ ] ,"b":1}', '{"b":1}'),
        ('{"wait_on_operation_queues":["1"],"b":1}', '{"wait_on_operation_queues":["1"],"b":1}'),
    ],
)
def test_configurations_are_quoted_unless_they_read_as_json(config: str, text: str) -> None:
    line = written(Op("a", "negate", f32(4), "x", raw=len_field(43, config)), SHORT)
    assert line == f"a = f32[4]{{0}} negate(x), backend_config={text}"


def test_what_does_not_print_is_reported_in_octal() -> None:
    """It neither begins a line nor steers a terminal; what prints stays as it is."""
    pair = len_field(1, len_field(1, "ké\x1b") + len_field(2, '{"v":1}'))
    op = Op("a", "neg\x1b[31m\u202e", f32(4), "x", fusion_kind="kLoop\n}", raw=len_field(68, pair))
    assert written(op, SHORT) == (
        r"a = f32[4]{0} neg\033[31m\342\200\256(x), frontend_attributes={ké\033={" + '"v":1}}'
    )
    fused = Op("a", "fusion", f32(4), "x", fusion_kind="kLoop\n}")
    assert written(fused, SHORT) == r"a = f32[4]{0} fusion(x), kind=kLoop\n}"


def test_operands_come_piece_by_piece_and_a_line_has_an_end() -> None:
    program = Program("f")
    long = Op("p" * 100_000, "parameter", f32())
    program.entry(long, Op("t", "tuple", tuple_of(), raw=packed(36, [1] * 100) + packed(37, [1] * 100)))
    writer = InstructionText(HloModule(program.proto()), LONG)
    assert max(map(len, writer.pieces(1))) < 100_020
    assert sum(map(len, writer.pieces(1))) > 20_000_000
    assert (len(writer.line(1)), writer.line(1)[-2:]) == ((1 << 20) + 1, "p…")


def test_references_to_axes_are_short() -> None:
    axes = len_field(1, len_field(1, "m" * 9000) + int_field(2, 2))
    named = len_field(2, axes) + len_field(3, len_field(1, int_field(1, 0)) * 200 + int_field(2, 1))
    line = written(Op("a", "negate", f32(4), "x", raw=len_field(40, len_field(14, named))), SHORT)
    assert "'" + "m" * 9000 + "'=2" in line and "'" + "m" * 256 + "…', '" in line and len(line) < 70_000


def test_what_a_damaged_instruction_does_not_say_is_a_question_mark() -> None:
    program = Program("f")
    program.entry(x, Op("a", "slice", b"", "x", raw=len_field(17, b"\x08") + packed(36, [99])))
    assert format_expression(HloModule(program.proto()), 1) == "%a = invalid[] slice(f32[4]{0} %x, ? ?), ?"
