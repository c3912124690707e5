"""Texts that a condition demands of columns: rows without them are left out before pyarrow evaluates the condition,
because it writes each text of a dictionary out to compare it."""

from __future__ import annotations

import json
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from fastprof.wording.patterns import compile_late

_COMPARISON: Final = compile_late(r'\((\w+) (==|!=|<=?|>=?) ("(?:[^"\\]|\\.)*"|[-+.\w]+)\)')
_ALL_OF: Final = compile_late(r"[() ]*(?:and[() ]*)*")


def find_demanded_texts(schema: pa.Schema, condition: ds.Expression | None) -> dict[str, str]:
    """Return the text that each dictionary column must equal, of those where all parts of the condition are
    comparisons. pyarrow does not show the parts of an expression, only its text."""
    text = str(condition)
    if condition is None or not _ALL_OF.fullmatch(_COMPARISON.sub("", text)):
        return {}
    demanded = {}
    for match in _COMPARISON.finditer(text):
        name, compares, value = match.groups()
        if compares == "==" and value.startswith('"') and name in schema.names:
            try:
                wanted = json.loads(value)
            except ValueError:
                continue
            is_understood = str(ds.field(name) == wanted) == match[0]
            if is_understood and pa.types.is_dictionary(schema.field(name).type):
                demanded[name] = wanted
    return demanded


def keep_demanded_rows(batch: pa.RecordBatch, demanded: dict[str, str]) -> pa.RecordBatch:
    """Return the rows that have the demanded texts."""
    for name, text in demanded.items():
        column = batch.column(name)
        batch = batch.filter(pc.equal(column.dictionary, text).take(column.indices))
    return batch
