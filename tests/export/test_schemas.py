"""Schemas of datasets against those of the versions before: columns are only added, at the end, nullable."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastprof
from fastprof.analyses import ANALYSES
from fastprof.export import exports
from fastprof.profile.exported_reports import list_report_schemas
from fastprof.schema.tables import VERSION
from fastprof.tables.table_set import TABLES

FOLDER = Path(__file__).resolve().parents[1] / "schemas"
"""A file per version. ``python -m pytest tests/export/test_schemas.py`` says how to write a new one."""

Columns = dict[str, list[list[object]]]


def current() -> Columns:
    """Name, type and nullability of each column of each table."""
    schemas = exports.make_schemas([*TABLES], list_report_schemas(["all"]), flat=False)
    return {
        name: [[field.name, str(field.type), field.nullable] for field in schema]
        for name, schema in sorted(schemas.items())
    }


def list_breaks(before: Columns, now: Columns) -> list[str]:
    """What readers of datasets of ``before`` would not read in those of ``now``."""
    broken = []
    for name, columns in before.items():
        if name not in now:
            broken.append(f"{name} is gone")
            continue
        same = now[name][: len(columns)]
        broken += [
            f"{name}.{old[0]} was {old[1:]}, is {new}" for old, new in zip(columns, same, strict=False) if old != new
        ]
        broken += [f"{name}.{old[0]} is gone" for old in columns[len(same) :]]
        broken += [f"{name}.{new[0]} is not nullable" for new in now[name][len(columns) :] if not new[2]]
    return broken


def test_columns_are_only_added() -> None:
    known = {int(path.stem): json.loads(path.read_text()) for path in FOLDER.glob("*.json")}
    assert int(VERSION) in known, f"write the schemas of version {VERSION} to tests/schemas/{VERSION}.json: write()"
    assert list_breaks(known[int(VERSION)], current()) == []


def write() -> None:
    """Write the schemas of the current version: when the version goes up, or a column was added."""
    lines = [f" {json.dumps(name)}: {json.dumps(columns)}" for name, columns in current().items()]
    (FOLDER / f"{VERSION}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


@pytest.mark.parametrize("flat", [False, True])
def test_files_have_these_schemas(flat: bool, tmp_path: Path) -> None:
    fastprof.load("demo/xla").to_parquet(tmp_path, tables=[*TABLES], reports=["all"], flat=flat)
    schemas = exports.make_schemas([*TABLES], list_report_schemas(["all"]), flat)
    assert {path.name for path in tmp_path.iterdir()} == {*schemas, "_fastprof"}
    for table, schema in schemas.items():
        (file,) = (tmp_path / table).rglob("*.parquet")
        for column, expected in zip(pq.read_schema(file), schema, strict=True):
            assert (column.name, column.type) == (expected.name, expected.type), table
            assert column.metadata[b"description"] == expected.metadata[b"description"]


@pytest.mark.parametrize(
    ("now", "says"),
    [
        ([["a", "int64", False], ["b", "string", True], ["c", "int64", True]], []),
        ([["a", "int64", False], ["b", "string", True], ["c", "int64", False]], ["t.c is not nullable"]),
        ([["a", "int64", False]], ["t.b is gone"]),
        ([["a", "int32", False], ["b", "string", True]], ["t.a was ['int64', False], is ['a', 'int32', False]"]),
        ([["b", "string", True], ["a", "int64", False]], 2),
    ],
)
def test_what_breaks_is_named(now: list[list[object]], says: list[str] | int) -> None:
    breaks = list_breaks({"t": [["a", "int64", False], ["b", "string", True]]}, {"t": now})
    assert breaks == says or len(breaks) == says
    assert list_breaks({"t": []}, {}) == ["t is gone"]


def test_no_column_is_unsigned_or_a_small_float() -> None:
    """Iceberg, Delta and BigQuery lack them."""
    for name, schema in exports.make_schemas([*TABLES], list_report_schemas([*ANALYSES]), flat=False).items():
        for field in schema:
            assert not pa.types.is_unsigned_integer(field.type) and not pa.types.is_float32(field.type), (name, field)
