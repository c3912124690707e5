"""Where in the source instructions come from."""

from __future__ import annotations

import time

from hlo_builder import Op, Program, f32
from trace_builder import int_field, len_field

from fastprof.hlo.module import MOST_FRAMES, HloModule


def place(file: int, function: int, line: int, column: int) -> bytes:
    return len_field(3, int_field(1, file) + int_field(2, function) + int_field(3, line) + int_field(4, column))


def frame(place: int, parent: int) -> bytes:
    return len_field(4, int_field(1, place) + int_field(2, parent))


NAMES = len_field(1, "/src/model.py") + len_field(1, "/src/train.py") + len_field(2, "call") + len_field(2, "main")
PLACES = place(1, 1, 12, 4) + place(2, 2, 30, 8)


def module(index: bytes, *metadata: bytes) -> HloModule:
    program = Program("f", stack_frames=index)
    program.entry(*(Op(f"x.{k}", "parameter", f32(), metadata=one) for k, one in enumerate(metadata)))
    return HloModule(program.proto())


def test_metadata_goes_before_the_innermost_frame() -> None:
    metadata = len_field(3, "/src/layer.py") + int_field(4, 5) + int_field(17, 6) + int_field(18, 7) + int_field(19, 8)
    found = module(NAMES + PLACES + frame(2, 0) + frame(1, 1), metadata + int_field(15, 2), int_field(15, 2), b"")
    source = found.source_of(0)
    assert (source.file, source.line, source.end_line, source.column, source.end_column) == (
        "/src/layer.py",
        5,
        6,
        7,
        8,
    )
    assert source.stack == "/src/model.py:12:4\n/src/train.py:30:8\n"
    assert [one.function for one in source.frames] == ["call", "main"]
    by_frame = found.source_of(1)
    assert (by_frame.file, by_frame.line, by_frame.column, by_frame.stack) == ("/src/model.py", 12, 4, source.stack)
    unknown = found.source_of(2)
    assert (unknown.file, unknown.line, unknown.stack, unknown.frames) == ("", -1, "", ())


def test_a_frame_of_unknown_place_ends_the_text_of_a_stack() -> None:
    found = module(NAMES + PLACES + frame(1, 2) + frame(9, 3) + frame(2, 0), int_field(15, 1)).source_of(0)
    assert [str(one) for one in found.frames] == ["/src/model.py:12:4", ":-1:-1", "/src/train.py:30:8"]
    assert found.stack == "/src/model.py:12:4\n"


def test_frames_that_are_not_there_are_none() -> None:
    found = module(NAMES + PLACES + frame(1, 7), *(int_field(15, id) for id in (-1, 0, 1, 2, 2**31 - 1)))
    assert [len(found.source_of(row).frames) for row in range(5)] == [0, 0, 1, 0, 0]


def test_stacks_that_go_in_circles_end_where_they_close() -> None:
    found = module(NAMES + PLACES + frame(1, 2) + frame(2, 1) + frame(1, 3), int_field(15, 1), int_field(15, 3))
    assert [len(found.source_of(row).frames) for row in (0, 1)] == [2, 1]


def test_long_names_of_files_do_not_multiply() -> None:
    count = 1000
    names = len_field(1, "/" + "x" * 200_000) + len_field(2, "f")
    index = names + place(1, 1, 1, 1) + b"".join(frame(1, k) for k in range(count))
    found = module(index, *(int_field(15, k + 1) for k in range(count)))
    assert len(found.source_of(0).stack) == 200_001 + len(":1:1\n")
    assert sum(len(found.source_of(row).stack) for row in range(count)) < 30 << 20
    assert found.source_of(count - 1).stack == "" and found.source_of(count - 1).frames


def test_deep_stacks_are_cut_and_many_of_them_take_no_square_of_time() -> None:
    count = 5_000
    index = NAMES + PLACES + b"".join(frame(1, k) for k in range(count))
    found = module(index, *(int_field(15, k + 1) for k in range(count)))
    assert len(found.source_of(count - 1).frames) == MOST_FRAMES
    began = time.process_time()
    frames = sum(len(found.source_of(row).frames) for row in range(count))
    assert frames < 100 * count and time.process_time() - began < 5
