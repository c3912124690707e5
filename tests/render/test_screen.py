"""Text of a trace on a terminal: escapes, widths, cuts."""

from __future__ import annotations

import pytest

from fastprof.wording.screen import cut_middle, escape_lines, escape_text, fit_text, measure_width, pad_text, wrap_text


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "plain"),
        ("été 中文 🙂", "été 中文 🙂"),
        ("\x1b[2J", r"\x1b[2J"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x9b31m", r"\x9b31m"),  # the eight-bit CSI
        ("\x00\x7f", r"\x00\x7f"),
        ("ab\u202ecd", r"ab\u202ecd"),  # turns the text that follows around
        ("a\x85b\u2028c\u2029", r"a\x85b\u2028c\u2029"),  # ends of lines to some
        ("a\u200bb\u2060\ufeff", r"a\u200bb\u2060\ufeff"),
        ("a\u034fb\u3164", r"a\u034fb\u3164"),  # letters that show nothing
        ("\u2066a\u2069", r"\u2066a\u2069"),
        ("\ud800", r"\ud800"),
        ("\U000e0001", r"\U000e0001"),
    ],
)
def test_only_what_prints_is_printed(raw: str, shown: str) -> None:
    assert escape_text(raw) == shown
    assert escape_text(raw).isprintable()


@pytest.mark.parametrize("text", ["x" * 10_000, "\x07" * 10_000, "中" * 10_000, "ab\n" * 5_000, "short", ""])
def test_the_ends_of_a_long_text_are_cut_as_all_of_it_is(text: str) -> None:
    part = cut_middle(text, 40)
    assert len(part) <= 2 * (4 * 40 + 64)
    for limit in (40, 7, 1):
        assert fit_text(escape_text(part), limit) == fit_text(escape_text(text), limit)


def test_a_word_of_a_megabyte_is_broken_in_time() -> None:
    lines = wrap_text("a " + "中" * 1_000_000, 80)
    assert lines[0] == "a" and set(lines[1:]) == {"中" * 40} and len(lines) == 25_001


def test_line_ends_stay_in_lines() -> None:
    assert escape_lines("a\nb\x1bc\n") == "a\nb\\x1bc\n"


def test_each_character_is_as_wide_by_itself_as_beside_a_wide_one() -> None:
    for character in map(chr, range(0x20, 0x3100)):
        assert measure_width(character) == measure_width(character + "中") - 2, ascii(character)


@pytest.mark.parametrize(("text", "cells"), [("abc", 3), ("中文", 4), ("e\u0301", 1), ("é", 1), ("", 0)])
def test_width_counts_cells(text: str, cells: int) -> None:
    assert measure_width(text) == cells


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        ("abcdefghij", 10, "abcdefghij"),
        ("abcdefghijk", 10, "abcde…hijk"),
        ("中文中文中文", 7, "中…文"),  # a wide character that does not fit is left out whole
        ("abcdef", 2, "ab"),
        ("abcdef", 0, ""),
    ],
)
def test_cut_leaves_out_the_middle(text: str, limit: int, shown: str) -> None:
    assert fit_text(text, limit) == shown
    assert measure_width(shown) <= limit


def test_pad_fills_cells_not_characters() -> None:
    assert pad_text("中", 4) + "|" == "中  |"
    assert pad_text("12", 4, right=True) == "  12"
    assert pad_text("12345", 4) == "12345"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]),
        ("to be or not", ["to be", "or not"]),
        ("abcdefgh ij", ["abcdef", "gh ij"]),
        ("a abcdefgh", ["a", "abcdef", "gh"]),
        ("中文中文", ["中文中", "文"]),
        ("ab  cd", ["ab  cd"]),
        ("abcdef ghijkl", ["abcdef", "ghijkl"]),
    ],
)
def test_wrapped_lines_hold_that_many_cells(text: str, lines: list[str]) -> None:
    assert wrap_text(text, 6) == lines
    assert wrap_text("中", 1) == ["中"]
