"""Categories of instructions."""

from __future__ import annotations

import pytest
from hlo_builder import Op, Program, f32
from trace_builder import int_field, len_field

from fastprof.hlo.module import HloModule
from fastprof.hlo.opcodes import get_category


def window(**dilations: int) -> bytes:
    fields = {"window": 5, "base": 6}
    return len_field(15, len_field(1, b"".join(int_field(fields[name], value) for name, value in dilations.items())))


@pytest.mark.parametrize(
    ("one", "wanted"),
    [
        (Op("r", "fusion", f32(), fusion_kind="kLoop"), "loop fusion"),
        (Op("r", "fusion", f32(), fusion_kind="kInput"), "input fusion"),
        (Op("r", "fusion", f32(), fusion_kind="kOutput"), "output fusion"),
        (Op("r", "fusion", f32(), fusion_kind="kCustom"), "custom fusion"),
        (Op("r", "fusion", f32()), "unknown fusion"),
        (Op("r", "convolution", f32(), raw=window(window=1, base=1)), "convolution"),
        (Op("r", "convolution", f32(), raw=window(base=2)), "convolution base-dilated"),
        (Op("r", "convolution", f32(), raw=window(window=2)), "convolution window-dilated"),
        (Op("r", "convolution", f32(), raw=window(base=3, window=2)), "convolution base-dilated window-dilated"),
        (Op("r", "convolution", f32(), raw=len_field(15, b"\x0a\x05")), "convolution"),  # a damaged window
        (Op("r", "transpose", f32()), "data formatting"),
        (Op("r", "copy", f32()), "data formatting"),
        (Op("r", "add", f32()), "non-fusion elementwise"),
        (Op("r", "custom-call", f32()), "custom-call"),
        (Op("r", "all-reduce", f32()), "all-reduce"),
        (Op("r", "", f32()), ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_category_of_an_instruction(one: Op, wanted: str) -> None:
    program = Program("f")
    program.entry(one)
    assert get_category(HloModule(program.proto()).instruction(0)) == wanted
