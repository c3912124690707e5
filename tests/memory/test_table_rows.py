"""Tables joined from what many hosts have of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from fastprof.derive.memory.host_memory import StoredMemoryRows, TextCells, build_table, mask_unknown
from fastprof.schema.tables import TEXT, Column, TableSchema

SCHEMA = TableSchema(
    "t",
    "a row",
    (
        Column("word", TEXT, "", True),
        Column("size", pa.int64(), "", True),
    ),
    True,
)


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.int32, np.int64])
def test_texts_of_any_number_of_hosts_are_numbered_in_any_type(kind: type) -> None:
    """Numbers of texts are as narrow as suits one host, whatever there are of all together."""
    parts = [
        StoredMemoryRows(
            np.zeros(2),
            {
                "word": TextCells(["free", f"host {host}"], np.array([0, 1], kind)),
                "size": mask_unknown(np.array([host, 0]), np.array([True, False])),
            },
        )
        for host in range(400)
    ]
    found = build_table(SCHEMA, parts)
    assert found["word"].to_pylist() == [word for host in range(400) for word in ("free", f"host {host}")]
    assert found["size"].to_pylist() == [size for host in range(400) for size in (host, None)]
