"""One table with all that a renderer must get right."""

from __future__ import annotations

import pyarrow as pa
import pytest


@pytest.fixture
def awkward() -> pa.Table:
    times = pa.field("total_ps", pa.int64(), metadata={"unit": "ps", "description": "all of it"})
    schema = pa.schema(
        [
            ("name", pa.dictionary(pa.int8(), pa.string())),
            ("count", pa.int64()),
            times,
            ("value", pa.float64()),
            ("raw", pa.large_binary()),
            ("list", pa.list_(pa.int64())),
            ("map", pa.map_(pa.string(), pa.string())),
            ("flag", pa.bool_()),
        ]
    )
    rows = {
        "name": ["plain", 'say "a, b"\x1b[31m', None, ""],
        "count": [1, (1 << 63) - 1, -(1 << 63), None],
        "total_ps": [1_500_000, 2_000_000_000, None, 0],
        "value": [0.1, float("nan"), float("-inf"), None],
        "raw": [b"abc", None, b"", b"\xff\x00"],
        "list": [[1, None], None, [], [3]],
        "map": [[("k", "v")], None, [], [("x", "1"), ("x", "2")]],
        "flag": [True, False, None, True],
    }
    return pa.table([pa.array(rows[field.name], field.type) for field in schema], schema=schema)
