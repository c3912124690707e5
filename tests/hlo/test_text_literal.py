"""Constants as XLA prints them. Expected texts are those of XProf 2.24.2's graph viewer."""

from __future__ import annotations

import struct
from time import process_time

import numpy as np
import pytest
from hlo_builder import packed, shape, tuple_of
from trace_builder import int_field, len_field, varint

from fastprof.errors import CaptureError
from fastprof.hlo.text.literal_text import format_floats, format_literal, format_small_floats, unpack_packed
from fastprof.inputs.message import Message


def text(shape_proto: bytes, values: bytes) -> str:
    return "".join(format_literal(Message(memoryview(len_field(1, shape_proto) + values))))


def s32(*numbers: int) -> bytes:
    return packed(4, [number % 2**64 for number in numbers])


def typed(kind: int, *dimensions: int) -> bytes:
    return int_field(2, kind) + packed(3, dimensions)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((), "1"),
        ((1,), "{1}"),
        ((3,), "{1, 2, 3}"),
        ((2, 3), "{ { 1, 2, 3 }, { 4, 5, 6 } }"),
        ((3, 1), "{ {1}, {2}, {3} }"),
        ((1, 1, 3), "{ { { 1, 2, 3 } } }"),
        (
            (2, 2, 1, 2),
            "{ { /*i0=0*/ { /*i1=0*/ { 1, 2 } }, { /*i1=1*/ { 3, 4 } } }, "
            "{ /*i0=1*/ { /*i1=0*/ { 5, 6 } }, { /*i1=1*/ { 7, 8 } } } }",
        ),
        ((0,), "{}"),
        ((2, 0), "{ {}, {} }"),
        ((0, 2), "{  }"),
        ((2, 0, 2, 2), "{ { /*i0=0*/ }, { /*i0=1*/ } }"),
    ],
)
def test_braces(sizes: tuple[int, ...], expected: str) -> None:
    assert text(shape("s32", *sizes), s32(*range(1, int(np.prod(sizes)) + 1))) == expected


def test_values_are_stored_in_the_order_of_the_layout() -> None:
    assert text(shape("s32", 2, 3, order=[0, 1]), s32(1, 4, 2, 5, 3, 6)) == "{ { 1, 2, 3 }, { 4, 5, 6 } }"


@pytest.mark.parametrize(
    ("proto", "values", "expected"),
    [
        (shape("pred"), int_field(2, 1), "true"),
        (shape("pred", 2), len_field(2, b"\1\0"), "{1, 0}"),
        (typed(5, 2), packed(5, [2**64 - 1, 2**63 - 1]), "{-1, 9223372036854775807}"),
        (typed(9, 1), packed(7, [2**64 - 1]), "{18446744073709551615}"),
        (typed(4, 2), int_field(4, 2**64 - 5) + int_field(4, 7), "{-5, 7}"),
        (typed(2, 2), len_field(15, b"\x80\x7f"), "{-128, 127}"),
        (typed(6, 1), len_field(3, b"\xff"), "{255}"),
        (typed(3, 1), len_field(17, b"\x00\x80"), "{-32768}"),
        (typed(21, 2), len_field(21, b"\x0a\xf7"), "{-6, 7}"),
        (typed(22, 1), len_field(22, b"\xff"), "{15}"),
        (typed(26, 2), len_field(26, b"\2\1"), "{-2, 1}"),
        (shape("f32", 2), len_field(8, struct.pack("<2f", 0.1, 123456789)), "{0.1, 123456792}"),
        (shape("c64", 2), len_field(12, struct.pack("<4f", 1, 2, -0.0, 0.5)), "{(1, 2), (-0, 0.5)}"),
        (typed(10, 2), len_field(11, np.array([0.1, np.inf], "f2").tobytes()), "{0.099976, inf}"),
        (typed(16, 2), len_field(13, b"\xcd\x3d\xfb\xff"), "{0.1001, -nan(0x7b)}"),
    ],
)
def test_values_by_type(proto: bytes, values: bytes, expected: str) -> None:
    assert text(proto, values) == expected


def test_tuples() -> None:
    inner = len_field(10, len_field(1, shape("s32", 2)) + s32(1, 2)) + len_field(10, len_field(1, typed(17)))
    assert text(tuple_of(shape("s32", 2), typed(17)), inner) == "( {1, 2}, token )"


def test_floats_have_as_few_digits_as_give_them_back() -> None:
    values = [0.1, 1 / 3, 1e20, 16777216, 3.4028235e38, 1.4e-45, -0.0, float("inf"), float("-inf"), float("nan")]
    assert format_floats(np.array(values, np.float32)) == (
        ["0.1", "0.333333343", "1e+20", "16777216", "3.40282347e+38", "1.4013e-45", "-0", "inf", "-inf", "nan"]
    )
    assert format_floats(np.array([0.1, 1 / 3, 1e300])) == ["0.1", "0.33333333333333331", "1e+300"]


def test_what_a_nan_carries_is_reported() -> None:
    bits = np.array([0x7FC00000, 0xFFC00000, 0x7FE00000, 0x7F800001], np.uint32)
    assert format_floats(bits.view(np.float32)) == ["nan", "-nan", "nan(0x600000)", "nan(0x1)"]


@pytest.mark.parametrize(
    ("kind", "bits", "expected"),
    [
        (19, [0x7B, 0x7C, 0x7D, 0x7E, 0xFF, 0x01], "5.7e+04 inf nan(0x1) nan -nan(0x3) 1.5e-05"),
        (20, [0x7E, 0x7F, 0xFF, 0x1D, 0x80], "448 nan -nan 0.102 -0"),
        (23, [0x80, 0x3D], "-nan 0.102"),
        (32, [0x1, 0x7, 0xF], "0.5 6 -6"),
        (33, [0x7F, 0xFF, 0x7C], "1 nan 0.12"),
    ],
)
def test_floats_of_a_byte(kind: int, bits: list[int], expected: str) -> None:
    assert format_small_floats(kind, bits) == expected.split()


def test_large_arrays_come_in_pieces() -> None:
    count = 100_000
    literal = Message(memoryview(len_field(1, shape("s32", count, 1)) + s32(*range(count))))
    pieces = list(format_literal(literal))
    assert max(map(len, pieces)) < 1 << 20
    assert "".join(pieces) == "{ " + ", ".join(f"{{{k}}}" for k in range(count)) + " }"


@pytest.mark.parametrize("values", [b"", s32(1), s32(1, 2, 3)])
def test_values_that_do_not_fill_the_shape(values: bytes) -> None:
    with pytest.raises(CaptureError, match="does not fill its shape"):
        text(shape("s32", 2), values)


@pytest.mark.parametrize(("kind", "values"), [(11, len_field(8, b"12345")), (10, len_field(11, b"123"))])
def test_values_that_end_within_a_number(kind: int, values: bytes) -> None:
    with pytest.raises(CaptureError, match="ends within a number"):
        text(typed(kind, 1), values)


def test_dimensions_of_one_element_are_any_number() -> None:
    """More than NumPy has, and in any order."""
    sizes = [1] * 35 + [2] + [1] * 34 + [2]
    order = [70, 35, *range(35), *range(36, 70)]
    proto = shape("s32", *sizes, order=order)
    swapped = shape("s32", *sizes, order=[35, 70, *range(35), *range(36, 70)])
    assert text(proto, s32(1, 2, 3, 4)) == text(swapped, s32(1, 3, 2, 4))
    assert text(shape("s32", *sizes[:-1], 0, order=order), b"").endswith("{}" + " }" * 70)


def test_the_time_that_braces_take_grows_with_their_number() -> None:
    begun = process_time()
    assert text(shape("s32", *[1] * 50_000, 1000, 1), s32(*range(1000))).count("{") == 51_001
    assert process_time() - begun < 3


def test_packed_integers_of_any_length() -> None:
    numbers = [0, 1, 127, 128, 300, 2**31, 2**63, 2**64 - 1]
    data = memoryview(b"".join(varint(number) for number in numbers))
    assert unpack_packed(data).view(np.uint64).tolist() == numbers
    with pytest.raises(CaptureError):
        unpack_packed(data[:-1])


@pytest.mark.parametrize("sizes", [(1 << 40, 0), (1 << 40, 0, 3), (2, 0, 1 << 40)])
def test_nothing_in_endless_braces_is_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(CaptureError, match="too many dimensions"):
        text(shape("s32", *sizes), b"")
