"""The files of an export: Parquet as it should be for readers that skip, Arrow, CSV; and what their schemas say."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from exported import START_NS, expected, files, plain, put_run
from small_cuts import cut_small
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.export import folders, hive
from fastprof.schema import tables as schema
from fastprof.tables.table_set import TABLES

EVERY = tuple(TABLES)
SUFFIXES = ("parquet", "arrow", "csv")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return put_run(tmp_path / "run")


@pytest.fixture
def in_small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hive, "ROW_GROUP", 8)
    cut_small(monkeypatch)


def part(out: Path, table: str, suffix: str = "parquet", host: str = "vm0") -> Path:
    return out / table / f"host={host}" / f"part-0.{suffix}"


def of_host(profile: fastprof.Profile, table: str) -> pa.Table:
    """What the file of a table of the host vm0 holds."""
    if table == "import_log":
        return plain(profile.import_log)
    return expected(profile.select(hosts="vm0"), table).drop_columns(["host"])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_are_called_after_their_format(suffix: str, run: Path, tmp_path: Path) -> None:
    out = folders.write(fastprof.load(run), tmp_path / "out", format=suffix, tables=EVERY)
    assert files(out) == sorted(f"{table}/host={h}/part-0.{suffix}" for table in EVERY for h in ("vm0", "vm1"))


# ---- Parquet ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("in_small_groups")
def test_row_groups_have_that_many_events_in_order(run: Path, tmp_path: Path) -> None:
    """Their minima and maxima let readers skip: lines follow one another, and starts within a line ascend."""
    out = folders.write(fastprof.load(run), tmp_path / "out", tables=EVERY)
    events = pq.ParquetFile(part(out, "events")).metadata
    groups = [events.row_group(number) for number in range(events.num_row_groups)]
    assert [group.num_rows for group in groups] == [8, 8, 2, 8]  # a line that has to be sorted is in one piece
    ranges = []
    for group in groups:
        columns = {group.column(i).path_in_schema: group.column(i).statistics for i in range(group.num_columns)}
        assert columns["name"].has_min_max and columns["start_ps"].has_min_max
        ids = columns["event_id"]
        ranges.append((ids.min, ids.max, columns["line_id"].min, columns["line_id"].max))
    assert ranges == [(0, 7, 0, 0), (8, 15, 0, 0), (16, 17, 0, 0), (18, 25, 1, 3)]
    stats = pq.ParquetFile(part(out, "event_stats")).metadata
    assert stats.num_row_groups == 4 and stats.num_rows == fastprof.load(run).select(hosts="vm0").event_stats.num_rows
    assert pq.ParquetFile(part(out, "nesting")).metadata.num_row_groups == 4


def test_encodings(run: Path, tmp_path: Path) -> None:
    """zstd throughout; text by dictionary, times and ids by their differences."""
    out = folders.write(fastprof.load(run), tmp_path / "out", tables=EVERY)
    met = set()
    for table in EVERY:
        group = pq.ParquetFile(part(out, table)).metadata.row_group(0)
        for i in range(group.num_columns):
            column = group.column(i)
            assert column.compression == "ZSTD", (table, column.path_in_schema)
            name = column.path_in_schema
            if not group.num_rows:
                continue
            if name in ("event_id", "start_ps", "duration_ps", "self_time_ps", "parent_id", "int_value"):
                assert "DELTA_BINARY_PACKED" in column.encodings, (table, name)
                met.add(name)
            elif name in ("name", "line", "plane", "stat", "kind", "str_value"):
                assert "RLE_DICTIONARY" in column.encodings, (table, name)
                met.add(name)
    assert len(met) == 12


@pytest.mark.usefixtures("in_small_groups")
def test_a_row_group_has_the_texts_that_occur_in_it(tmp_path: Path) -> None:
    """However many there are in the capture; readers see one schema all the same."""
    names = [f"name {number:04}" for number in range(300)]
    data = xspace(plane("p", [line("l", [event(name, i, 1, {"s": f"v{i}"}) for i, name in enumerate(names)])]))
    folders.write(fastprof.load(data), tmp_path / "out", tables=["events", "event_stats"])
    file = pq.ParquetFile(part(tmp_path / "out", "events", host="unknown"))
    assert file.num_row_groups == 38
    assert file.read()["name"].to_pylist() == names
    as_written = pq.ParquetFile(part(tmp_path / "out", "events", host="unknown"), read_dictionary=["name"])
    groups = [as_written.read_row_group(number)["name"].chunk(0) for number in (0, 20, 37)]
    assert [len(group.dictionary) for group in groups] == [8, 8, 4]
    name = file.schema_arrow.names.index("name")
    statistics = file.metadata.row_group(20).column(name).statistics
    assert (statistics.min, statistics.max) == ("name 0160", "name 0167")
    stats = pq.ParquetFile(part(tmp_path / "out", "event_stats", host="unknown")).read()
    assert stats["str_value"].to_pylist() == [f"v{i}" for i in range(300)]


# ---- what schemas say -------------------------------------------------------------------------------


def schema_of(path: Path) -> pa.Schema:
    return pq.read_schema(path) if path.suffix == ".parquet" else pa.ipc.open_file(path).schema


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_schemas_keep_descriptions_units_and_sources(suffix: str, run: Path, tmp_path: Path) -> None:
    """Of tables without rows too."""
    for number, profile in enumerate((fastprof.load(run), fastprof.load(run).select(names="nothing", planes="none"))):
        out = folders.write(profile, tmp_path / str(number), format=suffix, tables=EVERY)
        for table in EVERY:
            found = schema_of(part(out, table, suffix))
            about = {key.decode(): value.decode() for key, value in (found.metadata or {}).items()}
            assert about["fastprof.schema_version"] == schema.VERSION, table
            assert about["fastprof.version"] == fastprof.__version__
            assert about["session_start_unix_ns"] == str(START_NS)
            path = run / "vm0.xplane.pb"
            assert json.loads(about["sources"]) == [{"path": str(path), "size_bytes": path.stat().st_size}]
            columns = [column for column in TABLES[table].columns if column.name != "host"]
            assert found.names == [column.name for column in columns]
            for column in columns:
                field = found.field(column.name)
                notes = {key.decode(): value.decode() for key, value in field.metadata.items() if b"PARQUET" not in key}
                assert notes == {"description": column.description, **({"unit": column.unit} if column.unit else {})}
                assert field.nullable == column.nullable, (table, column.name)


def test_the_folder_lists_all_sources_once(run: Path, tmp_path: Path) -> None:
    out = folders.write(fastprof.load(run), tmp_path / "out", tables=["lines"])
    about = json.loads((out / "session.json").read_text("utf-8"))
    assert about["session_start_unix_ns"] == START_NS and about["fastprof.version"] == fastprof.__version__
    assert about["sources"] == [
        {"run": "run", "host": path.name.split(".")[0], "path": str(path), "size_bytes": path.stat().st_size}
        for path in sorted(run.iterdir())
    ]
    folders.write(fastprof.load(run), out, tables=["planes"], force=True)  # it is part of an export


def test_the_size_of_a_file_does_not_depend_on_other_hosts(tmp_path: Path) -> None:
    few, many = (put_run(tmp_path / str(count), [f"vm{n:03}" for n in range(count)]) for count in (2, 40))
    sizes = [
        part(folders.write(fastprof.load(run), tmp_path / f"out{run.name}", tables=["lines"]), "lines", host="vm000")
        .stat()
        .st_size
        for run in (few, many)
    ]
    assert abs(sizes[1] - sizes[0]) < 100


# ---- Arrow ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("in_small_groups")
def test_arrow_files_read_back(run: Path, tmp_path: Path) -> None:
    """A batch a row group; text is plain there, as dictionaries may not change within a file."""
    out = folders.write(fastprof.load(run), tmp_path / "out", format="arrow", tables=EVERY)
    profile = fastprof.load(run)
    for table in EVERY:
        if table != "import_log":
            assert plain(pa.ipc.open_file(part(out, table, "arrow")).read_all()).equals(of_host(profile, table)), table
    file = pa.ipc.open_file(part(out, "events", "arrow"))
    assert [file.get_batch(number).num_rows for number in range(file.num_record_batches)] == [8, 8, 2, 8]
    assert file.schema.field("name").type == pa.large_string()
    assert pa.ipc.open_file(part(out, "event_stats", "arrow")).schema.field("bytes_value").type == pa.large_binary()


# ---- CSV --------------------------------------------------------------------------------------------


def read_csv(path: Path, table: str) -> pa.Table:
    """Every value as text; null where nothing is written, which is not the empty text."""
    names = [name for name in TABLES[table].names() if name != "host"]
    text = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parse = pa.csv.ParseOptions(newlines_in_values=True)
    return pa.csv.read_csv(path, convert_options=text, parse_options=parse)


def as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


@pytest.mark.usefixtures("in_small_groups")
def test_csv_reads_back(run: Path, tmp_path: Path) -> None:
    """Commas, quotes, line ends and texts of any language are whole; bytes are base64; null is not the empty text."""
    out = folders.write(fastprof.load(run), tmp_path / "out", format="csv", tables=EVERY)
    profile = fastprof.load(run)
    for table in EVERY:
        found = read_csv(part(out, table, "csv"), table)
        assert found.column_names == [name for name in TABLES[table].names() if name != "host"]
        if table == "import_log":
            continue
        rows = of_host(profile, table)
        for name in rows.column_names:
            kind = TABLES[table][name].type
            if pa.types.is_nested(kind):
                continue
            cells, values = found[name].to_pylist(), profile.select(hosts="vm0").tables[table][name].to_pylist()
            if pa.types.is_floating(kind):
                assert [None if cell is None else float(cell) for cell in cells] == values, (table, name)
            else:
                assert cells == [as_text(value) for value in values], (table, name)
    assert "a,\"b\"\n'c'" in read_csv(part(out, "events", "csv"), "events")["name"].to_pylist()
    assert (
        base64.b64encode(b"\0raw").decode()
        in read_csv(part(out, "event_metadata", "csv"), "event_metadata")["metadata"].to_pylist()
    )


def test_csv_texts_that_spreadsheets_would_compute_begin_with_an_apostrophe(tmp_path: Path) -> None:
    """Numbers do not; bytes as base64 do; removing one apostrophe gives back the texts."""
    names = ["=1+1", "+1", "-2", "@a", "\t=1", "\r1", "'quoted'", "'", "a=b", " -x", "\xa0=1", "\u2003\uff0b"]
    events = [event(name, i, 1, {"s": name, "n": -5, "b": b"\xfb\xff"}) for i, name in enumerate(names)]
    data = xspace(plane("p", [line("=l", events)]))
    out = folders.write(fastprof.load(data), tmp_path / "out", format="csv", tables=["events", "event_stats"])
    cells = read_csv(part(out, "events", "csv", "unknown"), "events")
    written = [
        "'=1+1",
        "'+1",
        "'-2",
        "'@a",
        "'\t=1",
        "'\r1",
        "''quoted'",
        "''",
        "a=b",
        "' -x",
        "'\xa0=1",
        "'\u2003\uff0b",
    ]
    assert cells["name"].to_pylist() == written
    assert [cell.removeprefix("'") for cell in written] == names
    assert cells["line"].to_pylist() == ["'=l"] * len(names)
    stats = read_csv(part(out, "event_stats", "csv", "unknown"), "event_stats").to_pylist()
    assert [row["str_value"] for row in stats if row["stat"] == "s"] == written
    assert {row["int_value"] for row in stats if row["stat"] == "n"} == {"-5"}
    assert {row["bytes_value"] for row in stats if row["stat"] == "b"} == {"'+/8="}


def test_lists_and_maps_in_csv_are_json(run: Path, tmp_path: Path) -> None:
    out = folders.write(fastprof.load(run), tmp_path / "out", format="csv", tables=["hosts", "event_metadata"])
    [host] = read_csv(part(out, "hosts", "csv", "vm1"), "hosts").to_pylist()
    assert [json.loads(host[name]) for name in ("hostnames", "errors", "warnings")] == [
        ["vm1"], ["out of space"], ["dropped"],
    ]  # fmt: skip
    environment = dict(json.loads(host["task_environment"]))
    assert environment == {
        "profile_start_time": str(START_NS + 1), "profile_stop_time": str(START_NS + 99), "note": 'say "hi"',
    }  # fmt: skip
    children = read_csv(part(out, "event_metadata", "csv"), "event_metadata")["child_ids"].to_pylist()
    assert json.loads(children[0]) == [2, 300]
