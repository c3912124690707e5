"""Every table is as the schema promises: metadata, descriptions, units, narrow indices, nothing unsigned."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from random_spaces import START_UNIX_NS, random_space
from trace_builder import event, line, plane, task_environment, xspace

import fastprof
from fastprof.schema.tables import TEXT, VERSION, Column, TableSchema, encode_texts
from fastprof.tables.table_set import TABLES


def flat(kind: pa.DataType) -> list[pa.DataType]:
    """A type and the types in it."""
    if pa.types.is_dictionary(kind):
        return [kind, kind.index_type, *flat(kind.value_type)]
    return [kind, *(inner for at in range(kind.num_fields) for inner in flat(kind.field(at).type))]


def profile_of_many() -> fastprof.Profile:
    return fastprof.load([random_space(seed) for seed in (4, 5, 6)])


def test_metadata_of_every_table(tmp_path: Path) -> None:
    data = xspace(plane("p", [line("l", [event("e", 0, 1, {"x": 1})])]), task_environment(START_UNIX_NS))
    later = xspace(task_environment(START_UNIX_NS + 9), plane("p"))
    paths = [tmp_path / "ä b.xplane.pb", tmp_path / "z.xplane.pb"]
    for path, content in zip(paths, (data, later), strict=True):
        path.write_bytes(content)
    profile = fastprof.load(tmp_path)
    expected = {
        b"fastprof.schema_version": VERSION.encode(),
        b"fastprof.version": fastprof.__version__.encode(),
        b"session_start_unix_ns": str(START_UNIX_NS).encode(),
    }
    tables = [*profile.tables.values(), profile.event_table(["name"], ["x"]), profile.event_summary()]
    tables += [profile.select(names="zzz").events, pa.Table.from_batches(profile.scan())]
    for table in tables:
        metadata = dict(table.schema.metadata)
        sources = json.loads(metadata.pop(b"sources"))
        assert metadata == expected
        assert sources == [
            {"path": str(path), "size_bytes": len(content)}
            for path, content in reversed([*zip(paths, (data, later), strict=True)])
        ]
    assert fastprof.load(xspace(plane("p"))).lines.schema.metadata[b"session_start_unix_ns"] == b""


@pytest.mark.parametrize("name", TABLES)
def test_fields(name: str) -> None:
    for profile in (profile_of_many(), fastprof.load(xspace(errors=["nothing else"]))):
        table = profile.tables[name]
        assert table.column_names == TABLES[name].names()
        for field, column in zip(table.schema, TABLES[name].columns, strict=True):
            metadata = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
            wanted = {"description": column.description} | ({"unit": column.unit} if column.unit else {})
            assert metadata == wanted, field.name
            assert column.description and not column.description.endswith(".")
            assert field.nullable == column.nullable
            assert column.nullable or not table[field.name].null_count
            unsigned = [kind for kind in flat(field.type) if pa.types.is_unsigned_integer(kind)]
            assert not unsigned, field


def test_units_are_in_the_names() -> None:
    for table in TABLES.values():
        for column in table.columns:
            ending = re.search(r"_(ps|ns|us|bytes)$", column.name)
            others = {"first_offset": "bytes", "allocator_bytes_in_use": "bytes"}
            assert column.unit == (ending[1] if ending else others.get(column.name)), column.name


def test_stats_beside_events_say_what_they_are() -> None:
    data = xspace(plane("p", [line("l", [event("e", 0, 1, {"flops": 2})])]))
    table = fastprof.load(data).event_table(["start_ps"], ["flops"])
    assert table.schema.field("flops").metadata == {b"description": b"stat flops: the event's own, else its metadata's"}
    assert table.schema.field("start_ps").metadata[b"unit"] == b"ps"


@pytest.mark.parametrize(
    ("count", "index"),
    [(1, pa.int8()), (128, pa.int8()), (129, pa.int16()), (32768, pa.int16()), (32769, pa.int32())],
)
def test_indices_are_as_narrow_as_can_be(count: int, index: pa.DataType) -> None:
    """Names of events, and texts of stats, of ``count`` different values; the last one is not lost."""
    events = [event(f"n{i}", i, 1, {"s": f"t{i}"}) for i in range(count)]
    profile = fastprof.load(xspace(plane("p", [line("l", events)])))
    tables = profile.read("events", "event_stats")
    name, wide = tables["events"]["name"], profile.event_table([], ["s"])["s"]
    assert name.type.index_type == wide.type.index_type == index
    assert name.to_pylist() == [f"n{i}" for i in range(count)]
    assert wide.to_pylist() == tables["event_stats"]["str_value"].to_pylist() == [f"t{i}" for i in range(count)]
    assert tables["events"]["line"].type.index_type == tables["event_stats"]["kind"].type.index_type == pa.int8()
    if count in (1, 129, 32769):  # the table of texts has the stat's own name besides
        assert tables["event_stats"]["str_value"].type.index_type == index


def test_a_copy_of_a_table_schema_has_its_own_arrow_schema() -> None:
    schema = TABLES["events"]
    assert schema.arrow() is schema.arrow() and schema.empty().schema == schema.arrow()
    assert replace(schema, columns=schema.columns[:2]).arrow().names == schema.arrow().names[:2]


def test_many_lines_planes_and_hosts() -> None:
    captures = [xspace(plane("p", [line("l", [event("e")])]), hostnames=[f"h{i}"]) for i in range(130)]
    profile = fastprof.load(captures)
    assert profile.events["host"].type.index_type == profile.planes["host"].type.index_type == pa.int16()
    assert profile.events["host"].to_pylist() == [f"h{i}" for i in range(130)]
    lines = xspace(*[plane(f"p{i}", [line(f"l{i}", [event("e")])]) for i in range(200)])
    found = fastprof.load(lines).events
    assert {found[name].type.index_type for name in ("plane", "line")} == {pa.int16()}
    assert found["name"].type.index_type == found["host"].type.index_type == pa.int8()
    assert found["line"].to_pylist() == [f"l{i}" for i in range(200)]


def test_a_table_is_built_by_its_columns_formulas() -> None:
    schema = TableSchema(
        "sizes",
        "a size",
        (
            Column("name", TEXT, "name", of=lambda rows: [name for name, _ in rows]),
            Column("size", pa.int64(), "size; null: below 0", True, "bytes", of=lambda rows: [size for _, size in rows],
                   null=lambda rows: np.array([size < 0 for _, size in rows])),
            Column("letters", TEXT, "name; null: empty", True,
                   of=lambda rows: encode_texts([name or None for name, _ in rows],
                   np.arange(len(rows)))),
        ),
    )  # fmt: skip
    table = schema.of([("a", 3), ("", -1)])
    assert table.schema.equals(schema.arrow(), check_metadata=True)
    assert table.to_pydict() == {"name": ["a", ""], "size": [3, None], "letters": ["a", None]}
    assert schema.empty().schema == table.schema and not schema.empty().num_rows


def test_a_column_without_a_formula_is_the_attribute_of_its_name() -> None:
    assert Column("size", pa.int64(), "size").array(SimpleNamespace(size=[1, 2])).to_pylist() == [1, 2]


def test_the_tables_of_several_parts_are_one() -> None:
    schema = TableSchema("sizes", "a size", (Column("name", TEXT, "name"),))
    parts = [SimpleNamespace(name=["a"]), SimpleNamespace(name=["b", "a"])]
    assert schema.of_parts(parts)["name"].to_pylist() == ["a", "b", "a"]
    assert schema.of_parts([]).num_rows == 0
