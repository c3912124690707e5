"""JSON documents, read back."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from fastprof.render import as_json
from fastprof.render.rows import BLOCK_ROWS
from fastprof.render.table_forms import Look, render_table


def document(data: Any) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    text = b"".join(render_table("json", data, name="things", look=Look()))
    assert text.isascii()
    assert text.endswith(b"]}\n")
    return json.loads(text, parse_constant=refuse)


def test_the_document_word_for_word() -> None:
    field = pa.field("total_ps", pa.int64(), metadata={"unit": "ps", "description": "all of it"})
    table = pa.table([[1, None], ["a", 'b"']], schema=pa.schema([field, ("name", pa.string())]))
    assert b"".join(as_json.chunks("sums", table)).decode() == (
        '{"table": "sums",\n'
        ' "columns": [{"name": "total_ps", "type": "int64", "unit": "ps", "description": "all of it"},\n'
        '  {"name": "name", "type": "string", "unit": null, "description": null}],\n'
        ' "rows": [\n'
        '{"total_ps": 1, "name": "a"},\n'
        '{"total_ps": null, "name": "b\\""}]}\n'
    )


def test_every_value_comes_back(awkward: pa.Table) -> None:
    rows = document(awkward)["rows"]
    assert [row["name"] for row in rows] == ["plain", 'say "a, b"\x1b[31m', None, ""]
    assert [row["count"] for row in rows] == [1, (1 << 63) - 1, -(1 << 63), None]
    assert [row["value"] for row in rows] == [0.1, "NaN", "-Infinity", None]
    assert [row["raw"] for row in rows] == ["YWJj", None, "", "/wA="]
    assert [row["list"] for row in rows] == [[1, None], None, [], [3]]
    assert [row["map"] for row in rows] == [{"k": "v"}, None, {}, {"x": "2"}]
    assert [row["flag"] for row in rows] == [True, False, None, True]


def test_floats_come_back_bit_for_bit() -> None:
    values = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, 1e16, 123456789.123456789, math.pi]
    rows = document(pa.table({"x": values}))["rows"]
    assert [float(row["x"]).hex() for row in rows if row["x"]] == [x.hex() for x in values if x]


def test_a_stream_gives_what_a_table_gives(awkward: pa.Table) -> None:
    (whole,) = awkward.combine_chunks().to_batches()
    assert document(iter([whole.slice(0, 1), whole.slice(1, 0), whole.slice(1)])) == document(awkward)


def test_dictionaries_may_change_from_batch_to_batch() -> None:
    batches = [
        pa.record_batch({"name": pa.array(names).dictionary_encode()})
        for names in (["a", "b"], ["b", "c", None], ["b", "c"])
    ]
    names = [row["name"] for row in document(iter(batches))["rows"]]
    assert names == ["a", "b", "b", "c", None, "b", "c"]


def test_names_of_columns_are_unique() -> None:
    table = pa.table([[1], [2], [3], [4]], names=["name", "name_2", "name", "name"])
    assert document(table)["rows"] == [{"name": 1, "name_2": 2, "name_3": 3, "name_4": 4}]


def test_no_rows_no_columns() -> None:
    assert document(pa.table({"a": pa.array([], pa.int64())}))["rows"] == []
    assert document(iter([pa.record_batch({"a": pa.array([], pa.int64())})]))["rows"] == []
    with pytest.raises(ValueError, match="without batches"):
        document(iter([]))


def test_a_stream_is_held_a_block_at_a_time() -> None:
    pulled = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal pulled
        for _ in range(10):
            pulled += 1
            yield pa.record_batch({"a": [7] * (BLOCK_ROWS + 1)})

    largest = 0
    for number, chunk in enumerate(as_json.chunks("t", batches())):
        largest = max(largest, len(chunk))
        assert pulled <= number + 1
    assert largest == len(b'{"a": 7},\n') * BLOCK_ROWS
    assert pulled == 10


def test_a_long_text_in_many_rows_takes_no_more_than_a_block() -> None:
    names = pa.DictionaryArray.from_arrays(pa.array([0] * 200_000, pa.int8()), pa.array(["x" * 5_000]))
    table = pa.table({"name": names})
    sizes = [len(chunk) for chunk in as_json.chunks("t", table.slice(0, 3 * BLOCK_ROWS))]
    assert max(sizes) < BLOCK_ROWS * 5_100


def test_sections_are_one_document(awkward: pa.Table) -> None:
    text = b"".join(as_json.write_sections({"hosts": 1, "x": None}, {"one": awkward, "two": pa.table({"a": [1]})}))
    read = json.loads(text)
    assert read["summary"] == {"hosts": 1, "x": None}
    assert read["one"] == {**document(awkward), "table": "one"}
    assert read["two"]["rows"] == [{"a": 1}]


def test_rows_of_very_long_texts_are_written_few_at_a_time() -> None:
    """No text of all rows is made, which would be much larger than the table."""
    name = "x" * 4_000_000
    table = pa.table({"name": pa.array([0] * 100, pa.int32()), "n": range(100)})
    table = table.set_column(0, "name", pa.DictionaryArray.from_arrays(table["name"].combine_chunks(), [name]))
    pieces = [len(piece) for piece in as_json.chunks("t", table)]
    assert max(pieces) < 80_000_000 and sum(pieces) > 400_000_000
