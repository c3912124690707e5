"""Whole modules as XLA prints them: header, order, stack frames; and against the texts of XProf for real captures."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from effort import takes_less
from hlo_builder import Op, Program, f32, packed
from trace_builder import int_field, len_field

import fastprof
from fastprof.hlo.module import HloModule
from fastprof.hlo.text.instruction_text import LONG, SHORT, format_expression
from fastprof.hlo.text.module_text import format_module
from fastprof.hlo.text.shape_text import print_name

EXPECTED = Path(__file__).resolve().parents[3] / "shared" / "conformance" / "xprof"
x = Op("x", "parameter", f32(4))


def module_of(program: Program, *fields: bytes) -> HloModule:
    """With further fields of its HloModuleProto."""
    module = HloModule(program.proto())
    return HloModule(len_field(1, bytes(module.proto) + b"".join(fields))) if fields else module


def text(module: HloModule, form: str = "short", metadata: bool = False) -> str:
    return "".join(format_module(module, replace(SHORT if form == "short" else LONG, metadata=metadata)))


# ---- the whole


def test_short_and_long() -> None:
    program = Program("jit_f")
    fused = program.computation("fused", Op("p", "parameter", f32(4)), Op("e", "exponential", f32(4), "p"))
    program.entry(x, Op("y", "fusion", f32(4), "x", [fused], fusion_kind="kLoop"))
    module = module_of(program)
    assert text(module) == (
        "HloModule jit_f, entry_computation_layout={(f32[4]{0})->f32[4]{0}}\n"
        "\n"
        "fused {\n"
        "  p = f32[4]{0} parameter(0)\n"
        "  ROOT e = f32[4]{0} exponential(p)\n"
        "}\n"
        "\n"
        "ENTRY main {\n"
        "  x = f32[4]{0} parameter(0)\n"
        "  ROOT y = f32[4]{0} fusion(x), kind=kLoop, calls=fused\n"
        "}\n"
        "\n"
    )
    assert text(module, "long").splitlines()[2:6] == [
        "%fused (p: f32[4]) -> f32[4] {",
        "  %p = f32[4]{0} parameter(0)",
        "  ROOT %e = f32[4]{0} exponential(%p)",
        "}",
    ]


def test_header() -> None:
    program = Program("m")
    program.entry(x)
    alias = len_field(8, len_field(1, packed(1, [0]) + int_field(2, 1) + packed(3, [2, 3]) + int_field(4, 2)))
    donor = len_field(18, len_field(1, int_field(1, 1)))
    attributes = len_field(19, len_field(1, len_field(1, "k") + len_field(2, "v")))
    schedule = len_field(7, len_field(1, int_field(1, 1) + len_field(2, packed(1, [1]))))
    assert text(module_of(program, alias + donor + attributes + schedule)).splitlines()[0] == (
        "HloModule m, is_scheduled=true, input_output_alias={ {0}: (1, {2,3}, must-alias) }, buffer_donor={ (1, {}) }, "
        'entry_computation_layout={(f32[4]{0})->f32[4]{0}}, frontend_attributes={k="v"}'
    )


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        ("jit_f", "jit_f"),
        ("fusion.3-x", "fusion.3-x"),
        ("jit_train(step)", "jit_train_step_"),
        ("1st", "_st"),
        ("", ""),
        ("é b", "a__b"),
        ("c64", "c64_"),
        ("tuple", "tuple"),
        ("buffer", "buffer"),
        ("__a", "a_a"),
        ("__xla_a", "__xla_a"),
        ("((", "a_"),
    ],
)
def test_names_that_text_has_no_room_for_are_changed(stored: str, text: str) -> None:
    assert print_name(stored) == text


# ---- orders


def lines_of(module: HloModule, computation: str) -> list[str]:
    """Names of the instructions of a computation, in the order of the text."""
    part = text(module).split(f"{computation} {{\n")[1].split("\n}\n")[0]
    return [line.removeprefix("  ").removeprefix("ROOT ").split(" = ")[0] for line in part.splitlines()]


def test_operands_come_first_where_there_is_no_schedule() -> None:
    program = Program("m")
    unused = Op("u", "negate", f32(4), "x")
    program.entry(x, Op("b", "tanh", f32(4), "x"), Op("a", "abs", f32(4), "x"), unused, Op("r", "add", f32(4), "ab"))
    assert lines_of(module_of(program), "main") == ["x", "u", "a", "b", "r"]


def test_the_schedule_goes_before() -> None:
    program = Program("m")
    program.entry(x, Op("b", "tanh", f32(4), "x"), Op("a", "abs", f32(4), "x"), Op("r", "add", f32(4), "ab"))
    schedule = len_field(7, len_field(1, int_field(1, 1) + len_field(2, packed(1, [1, 2, 3, 4]))))
    assert lines_of(module_of(program, schedule), "main") == ["x", "b", "a", "r"]


def test_what_must_run_before_comes_before() -> None:
    program = Program("m")
    late = Op("a", "abs", f32(4), "x", raw=packed(37, [3]))
    program.entry(x, late, Op("b", "tanh", f32(4), "x"), Op("r", "add", f32(4), "ab"))
    assert lines_of(module_of(program), "main") == ["x", "b", "a", "r"]


def test_collectives_of_one_channel_keep_their_order() -> None:
    program = Program("m")
    talk = [Op(f"t{k}", "all-reduce", f32(4), "x", raw=int_field(26, 5)) for k in range(3)]
    program.entry(x, *talk, Op("r", "tuple", f32(4), ["t2", "t1", "t0"]))
    assert lines_of(module_of(program), "main") == ["x", "t0", "t1", "t2", "r"]
    one_partition = len_field(15, int_field(1, 1) + int_field(2, 1))
    assert lines_of(module_of(program, one_partition), "main") == ["x", "t2", "t1", "t0", "r"]


def test_callees_come_first_and_what_nobody_calls_too() -> None:
    program = Program("m")
    loose = program.computation("loose", x)
    inner = program.computation("inner", x)
    outer = program.computation("outer", x, Op("c", "call", f32(4), "x", [inner]))
    other = program.computation("other", x)
    program.entry(x, Op("w", "while", f32(4), "x", [other, outer]))
    assert loose == 1
    heads = [line.split()[-2] for line in text(module_of(program)).splitlines() if line.endswith(" {")]
    assert heads == ["loose", "other", "inner", "outer", "main"]


# ---- stack frames


def test_frames_are_numbered_by_first_use() -> None:
    places = len_field(3, int_field(1, 1) + int_field(2, 2) + int_field(3, 7) + int_field(4, 5))
    places += len_field(3, int_field(1, 2) + int_field(2, 1) + int_field(3, 9))
    stacks = (
        len_field(4, int_field(1, 1)) + len_field(4, int_field(1, 2)) + len_field(4, int_field(1, 1) + int_field(2, 2))
    )
    names = len_field(1, "a.py") + len_field(1, "b.py") + len_field(2, "f") + len_field(2, "g")
    program = Program("m", stack_frames=names + places + stacks)
    program.entry(x, Op("n", "negate", f32(4), "x", op_name="jit(f)/neg", metadata=int_field(15, 3)))
    written = text(module_of(program), metadata=True)
    assert written.split("\n\nENTRY")[0].split("\n", 1)[1] == (
        '\nFileNames\n1 "b.py"\n2 "a.py"\n\nFunctionNames\n1 "f"\n2 "g"\n\n'
        "FileLocations\n1 {file_name_id=1 function_name_id=1 line=9 end_line=0 column=0 end_column=0}\n"
        "2 {file_name_id=2 function_name_id=2 line=7 end_line=0 column=5 end_column=0}\n\n"
        "StackFrames\n1 {file_location_id=1 parent_frame_id=1}\n2 {file_location_id=2 parent_frame_id=2}\n"
    )
    assert 'negate(x), metadata={op_name="jit(f)/neg" stack_frame_id=2}' in written
    assert "metadata" not in text(module_of(program)) and "FileNames" not in text(module_of(program))


# ---- damaged and large ones


def test_circles_end() -> None:
    program = Program("m")
    program.computation("a", x, Op("b", "call", f32(4), "x", [2]))
    program.computation("c", x, Op("d", "call", f32(4), "x", [1], raw=packed(36, [4]) + packed(37, [4])))
    program.entry(x)
    written = text(module_of(program))
    assert written.count("calls=") + written.count("to_apply=") == 2
    assert "d = f32[4]{0} call(x, d), to_apply=a" in written


def chain(length: int) -> HloModule:
    """Each instruction needs the one before it, and they are stored last first."""
    program = Program("m")
    ops = [x, *(Op(f"n{k}", "negate", f32(4), [f"n{k - 1}" if k else "x"]) for k in range(length))]
    program.entry(*ops)
    return module_of(program)


def test_long_chains_take_time_as_they_are_long() -> None:
    def printing(length: int) -> Callable[[], None]:
        module = chain(length)

        def work() -> None:
            assert text(module).count("\n") == len(module) + 5

        return work

    assert takes_less(printing(16_000), 100, printing(1_000), noise_s=0.5)  # by pairs it would be 256


def test_deep_calls_do_not_recurse() -> None:
    program = Program("m")
    inner = program.computation("call0", x)
    for k in range(1, 3_000):
        inner = program.computation(f"call{k}", x, Op(f"k{k}", "call", f32(4), "x", [inner]))
    program.entry(x, Op("k", "call", f32(4), "x", [inner]))
    heads = [line.split()[-2] for line in text(module_of(program)).splitlines() if line.endswith(" {")]
    assert heads == [*(f"call{k}" for k in range(3_000)), "main"]


def test_a_module_is_not_kept_by_its_text() -> None:
    program = Program("m")
    program.entry(x)
    module = module_of(program)
    assert format_expression(module, 0) == "%x = f32[4]{0} parameter(0)"
    gone = weakref.ref(module)
    del module
    gc.collect()
    assert gone() is None


# ---- real captures


@pytest.mark.captures
def test_texts_of_xprof(captures: Path) -> None:
    """All lines of all programs; XProf loses the groups of devices of one all-reduce."""
    ordered = sorted(EXPECTED.glob("*/graph_viewer.*.txt"))
    if not ordered:
        pytest.skip(f"XProf's answers are absent: no graph_viewer files in {EXPECTED}")
    lines = same = 0
    for path in ordered:
        profile = fastprof.load(captures / "xspace" / path.parent.name)
        title = path.name.removeprefix("graph_viewer.").removesuffix(".txt")
        pairs = list(zip(path.read_text().splitlines(), profile.hlo_text(title).splitlines(), strict=True))
        lines += len(pairs)
        same += sum(one.rstrip() == other.rstrip() for one, other in pairs)
    assert (lines - same, lines > 2_500) == (1, True)
