"""Tables that are made when they are first looked at."""

from __future__ import annotations

import pyarrow as pa

from fastprof.analyses.contract import LazyTables


def test_a_table_is_made_once_and_only_when_it_is_looked_at() -> None:
    made = []

    def late() -> pa.Table:
        made.append(1)
        return pa.table({"x": [1]})

    tables = LazyTables({"now": pa.table({"y": [2]}), "late": late})
    assert (list(tables), len(tables), "late" in tables) == (["now", "late"], 2, True)
    assert tables["now"].num_rows == 1 and list(tables) == ["now", "late"]
    assert tables["late"] is tables["late"] and tables["late"].to_pydict() == {"x": [1]}
    assert made == [1]
