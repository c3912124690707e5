"""CSV, line by line, and read back by two readers."""

from __future__ import annotations

import csv
import io
from typing import Any

import pyarrow as pa
import pyarrow.csv

from fastprof.render.table_forms import Look, render_table


def text(data: Any, **look: Any) -> str:
    return b"".join(render_table("csv", data, name="t", look=Look(**look))).decode()


def test_every_value(awkward: pa.Table) -> None:
    assert text(awkward) == (
        "name,count,total_ps,value,raw,list,map,flag\n"
        'plain,1,1500000,0.1,YWJj,"[1, null]","{""k"": ""v""}",true\n'
        '"say ""a, b""\x1b[31m",9223372036854775807,2000000000,NaN,,,,false\n'
        ',-9223372036854775808,,-Infinity,"",[],{},\n'
        '"",,0,,/wA=,[3],"{""x"": ""1"", ""x"": ""2""}",true\n'
    )


FORMULAS = [
    "=1+1",
    "+1",
    "-2",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "  =1",
    "\uff1d1+1",
    "\xa0=1",
    "\u2003@a",
    " \t+1",
    "\ufeff\u3000\uff0d1",
    "\x0b=",
    '=HYPERLINK("x")',
    "-",
]
TEXTS = ["a=1", "'", "'=1", "''a", "1-2", " a", "\xa0a", "\u2003", "a", ""]


def test_texts_that_spreadsheets_would_compute_begin_with_an_apostrophe() -> None:
    """Which can be removed again: texts that begin with an apostrophe get another one."""
    values = [*FORMULAS, *TEXTS, None]
    numbers = [-5.0, float("-inf"), *([0.5] * (len(values) - 2))]
    for texts in (pa.array(values), pa.array(values).dictionary_encode()):
        written = text(pa.table({"=name": texts, "n": pa.array(numbers), "i": pa.array([-7] * len(values))}))
        head, *rows = csv.reader(io.StringIO(written, newline=""))
        assert head == ["'=name", "n", "i"]
        cells = [row[0] for row in rows]
        assert cells[: len(FORMULAS)] == ["'" + value for value in FORMULAS]
        assert cells[len(FORMULAS) :] == ["a=1", "''", "''=1", "'''a", "1-2", " a", "\xa0a", "\u2003", "a", "", ""]
        assert [cell.removeprefix("'") for cell in cells] == [value or "" for value in values]
        assert rows[0][1:] == ["-5", "-7"] and rows[1][1] == "-Infinity"


def test_quotes_where_they_must_be() -> None:
    values = ["a,b", 'a"b', "a\nb", "a\r", " a", "a ", "a b", "été", "", None]
    table = pa.table({"x, y": values, "n": list(range(len(values)))})
    assert list(csv.reader(io.StringIO(text(table), newline=""))) == [
        ["x, y", "n"],
        *[[value or "", str(number)] for number, value in enumerate(values)],
    ]
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    parsing = pyarrow.csv.ParseOptions(newlines_in_values=True)
    whole = io.BytesIO(text(table).encode())
    back = pyarrow.csv.read_csv(whole, parse_options=parsing, convert_options=options)
    assert back.column("x, y").to_pylist() == values  # a null is nothing, an empty text is ""


def test_a_stream_gives_what_a_table_gives(awkward: pa.Table) -> None:
    assert text(iter(awkward.to_batches(max_chunksize=1))) == text(awkward)


def test_no_rows() -> None:
    assert text(pa.table({"a": pa.array([], pa.int64())})) == "a\n"
