"""Kinds of columns: ``Bytes("size_bytes", "size of the buffer; null: unknown", of=lambda rows: rows.size)``.

A column may be null where its description says when: "null: …".
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from fastprof.schema.tables import TEXT, Column, Formula
from fastprof.schema.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """Makes columns of one type and unit."""

    type: pa.DataType
    unit: str | None = None

    def __call__(self, name: str, description: str, of: Formula | None = None, null: Formula | None = None) -> Column:
        return Column(name, self.type, description, "null:" in description, self.unit, of=of, null=null)


Bytes: Final = Kind(pa.int64(), "bytes")
Count: Final = Kind(pa.int64())
Flag: Final = Kind(pa.bool_())
Number: Final = Kind(pa.float64())
Picoseconds: Final = Kind(pa.int64(), "ps")
Percent: Final = Kind(pa.float64(), "%")
Share: Final = Kind(pa.float64(), "share")
String: Final = Kind(pa.string())
Text: Final = Kind(TEXT)
"""With few distinct values: a dictionary."""
