"""Counts the rows of an exported table with pyarrow.dataset and with DuckDB; reports the seconds.

Usage: read_back.py OUT TABLE...
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import duckdb
import pyarrow.dataset


def main(out: str, *tables: str) -> int:
    facts = {}
    began = time.perf_counter()
    for table in tables:
        folder = Path(out) / table
        facts[f"pyarrow {table}"] = pyarrow.dataset.dataset(folder, partitioning="hive").count_rows()
        query = "SELECT count(*) FROM read_parquet(?, hive_partitioning = true)"
        row = duckdb.execute(query, [f"{folder}/**/*.parquet"]).fetchone()
        facts[f"duckdb {table}"] = row[0] if row else 0
    print(json.dumps({"seconds": [time.perf_counter() - began], "facts": facts}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
