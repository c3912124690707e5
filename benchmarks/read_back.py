"""Reads exported tables back with pyarrow.dataset and with DuckDB; reports rows counted, and the seconds.

Usage: read_back.py OUT TABLE:COLUMN... Both readers count the rows and add up the column, and must agree.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import duckdb
import pyarrow.compute as pc
import pyarrow.dataset


def by_pyarrow(folder: Path, column: str) -> tuple[int, int]:
    """Rows, and the sum of the column."""
    rows = total = 0
    dataset = pyarrow.dataset.dataset(folder, partitioning="hive")
    for batch in dataset.to_batches(columns=[column]):
        rows += batch.num_rows
        total += pc.sum(batch[column]).as_py() or 0
    return rows, total


def by_duckdb(folder: Path, column: str) -> tuple[int, int]:
    """Rows, and the sum of the column."""
    query = f'SELECT count(*), sum("{column}") FROM read_parquet(?, hive_partitioning = true)'
    rows, total = duckdb.execute(query, [f"{folder}/**/*.parquet"]).fetchall()[0]
    return int(rows), int(total or 0)


def main(out: str, *wanted: str) -> int:
    facts = {}
    began = time.perf_counter()
    for table, column in (text.split(":") for text in wanted):
        read = {"pyarrow": by_pyarrow(Path(out) / table, column), "duckdb": by_duckdb(Path(out) / table, column)}
        if len(set(read.values())) != 1:
            raise SystemExit(f"{table}: the readers do not agree: {read}")
        facts.update({f"{reader} {table}": rows for reader, (rows, _) in read.items()})
    print(json.dumps({"seconds": [time.perf_counter() - began], "facts": facts}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
