"""DataTables and numbers in texts, as XProf writes them."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from fastprof.xprof.pages.data_table import (
    anchor,
    boolean,
    format_percent,
    join_columns,
    make_data_table,
    number,
    one_digit,
    text,
    three_digits,
    two_digits,
)


def test_a_table_has_typed_columns_rows_of_cells_and_sorted_properties() -> None:
    columns = [text("name", "Name"), number("count"), boolean("used", "Used"), text("tip", role="tooltip")]
    assert make_data_table(columns, [["op", 3, 1, None]], {"z": "1", "a": "2"}) == {
        "cols": [
            {"id": "name", "label": "Name", "type": "string"},
            {"id": "count", "label": "count", "type": "number"},
            {"id": "used", "label": "Used", "type": "boolean"},
            {"id": "tip", "label": "tip", "p": {"role": "tooltip"}, "type": "string"},
        ],
        "p": {"a": "2", "z": "1"},
        "rows": [{"c": [{"v": "op"}, {"v": 3.0}, {"v": True}, {"v": None}]}],
    }


def test_columns_come_with_their_cells() -> None:
    table = join_columns([(text("name"), ["a", "b"]), (number("count"), np.array([1, 2]))], {"p": "1"})
    assert table == make_data_table([text("name"), number("count")], [["a", 1], ["b", 2]], {"p": "1"})
    with pytest.raises(ValueError, match=r"shorter|longer"):
        join_columns([(text("name"), ["a", "b"]), (number("count"), np.array([1]))])


def test_whole_numbers_are_written_as_doubles() -> None:
    assert json.dumps(make_data_table([number("n")], [[2]])["rows"]) == '[{"c": [{"v": 2.0}]}]'


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None])
def test_what_is_not_a_number_is_null(value: float | None) -> None:
    assert make_data_table([number("n")], [[value]])["rows"] == [{"c": [{"v": None}]}]


def test_a_table_without_properties_has_none() -> None:
    assert make_data_table([]) == {"cols": [], "rows": []}
    assert make_data_table([], p={}) == {"cols": [], "rows": []}


def test_a_row_that_does_not_fit_the_columns_is_refused() -> None:
    with pytest.raises(ValueError, match=r"shorter|longer"):
        make_data_table([text("a"), text("b")], [["only one"]])


def test_numbers_in_texts_have_a_fixed_number_of_digits() -> None:
    assert (one_digit(0.25), one_digit(0.35), two_digits(1.005), three_digits(6466.6666)) == (
        "0.2", "0.3", "1.00", "6466.667",
    )  # fmt: skip
    assert one_digit(math.nan) == "-nan"
    assert one_digit(math.inf) == "inf"


def test_a_negative_share_is_unknown() -> None:
    assert (format_percent(12.34), format_percent(0), format_percent(-1)) == ("12.3%", "0.0%", "unknown")


def test_a_link_opens_in_a_tab_of_its_own() -> None:
    assert anchor("https://example.com", "words") == '<a href="https://example.com" target="_blank">words</a>'
