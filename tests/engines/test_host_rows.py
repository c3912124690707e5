"""host_rows: the rows of a table, a file at a time, are those of the file loaded alone, with run and host in front."""

import pickle
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import fastprof
from fastprof.engines import host_rows
from fastprof.tables.table_set import TABLES

POD, RUN = "demo/pod", "2026_11_21_12_00_00"


def test_rows_of_each_table():
    for table in TABLES:
        for rows, host in zip(pickle.loads(pickle.dumps(host_rows(POD, table))), ["host0", "host1"], strict=True):
            alone = fastprof.load(f"{POD}/plugins/profile/{RUN}/{host}.xplane.pb").tables[table].to_pylist()
            expected = [{"run": RUN, "host": host, **row, "run": RUN} for row in alone]  # noqa: F601  the first place counts
            found = rows.to_arrow()
            assert found.column_names[:2] == ["run", "host"]
            if table not in ("hosts", "import_log"):  # which have the path, and remarks of the run
                assert found.to_pylist() == expected, table


def test_columns_and_hosts():
    (rows,) = host_rows(POD, columns=["name", "host", "duration_ps"], hosts=["host1"])
    events = fastprof.load(POD).select(hosts="host1").events
    assert rows.to_arrow().to_pylist() == events.select(["name", "host", "duration_ps"]).to_pylist()
    (keys,) = host_rows(POD, columns=["run"], hosts=["host0"])
    assert keys.to_arrow().to_pydict() == {"run": [RUN] * (fastprof.load(POD).events.num_rows - events.num_rows)}


def test_rows_by_plane(tmp_path: Path):
    for table in ("events", "event_stats"):
        for rows in host_rows(POD, table):
            parts = pickle.loads(pickle.dumps(rows.by_plane()))
            tables = [part.to_arrow() for part in parts]
            assert pa.concat_tables(tables).equals(rows.to_arrow())
            assert len(tables) > 2 and all(len(one) for one in tables)
    with pytest.raises(fastprof.UsageError, match="events and event_stats are split by plane; lines are not"):
        host_rows(POD, "lines")[0].by_plane()
    (tmp_path / "vm.xplane.pb").write_bytes(b"no capture")
    (rows,) = host_rows(tmp_path)
    assert rows.by_plane() == [rows]


def test_errors(tmp_path: Path):
    with pytest.raises(fastprof.UsageError, match="no table 'event'"):
        host_rows(POD, "event")
    with pytest.raises(fastprof.UsageError, match=r"events have no column 'nam'; .* did you mean 'name'"):
        host_rows(POD, columns=["nam"])
    with pytest.raises(fastprof.NotFoundError, match="no file of a host 'host2'; there are: host0, host1"):
        host_rows(POD, hosts=["host2"])
    shutil.copytree(POD, tmp_path / "pod")
    (broken,) = tmp_path.glob("pod/**/host1.xplane.pb")
    broken.write_bytes(broken.read_bytes()[:-100])
    first, second = host_rows(tmp_path / "pod")
    assert first.to_arrow().num_rows == 288
    with pytest.raises(fastprof.CaptureError, match="host1"):
        second.to_arrow()
    assert [rows.to_arrow().num_rows for rows in host_rows(tmp_path / "pod", on_error="skip")] == [288, 0]
