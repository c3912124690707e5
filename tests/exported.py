"""What the tests of exports share: a session with a bit of everything, and exports read back by pyarrow."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from trace_builder import (
    Event,
    Metadata,
    StatMetadata,
    aggregated,
    event,
    line,
    plane,
    ref,
    task_environment,
    u64,
    xspace,
)

import fastprof
from fastprof.tables.table_set import TABLES

START_NS = 10**18 + 5

DEFAULT_TABLES = tuple(name for name, table in TABLES.items() if not table.derived)
"""Those of an XSpace."""


def capture(host: int, steps: int = 6) -> bytes:
    """Every kind of stat and of column. Events of `main` nest, and those of `queue` are out of order."""
    main: list[Event] = []
    for step in range(steps):
        main.append(event("step", 1000 * step, 600, {"step": step, "host": f"h{host}", "raw": bytes([0, step, 255])}))
        main.append(event(f"op.{step}", 1000 * step + 100, 200, {"flops": 2.5 * step, "r": ref(f"text {step}")}))
        main.append(event("a,\"b\"\n'c'", 1000 * step + 150, 50, {"big": u64(2**63 + step), "none": None}))
    queue = [event("late", 900 - 7 * i, i, {"_a": 1}) for i in range(steps)] + [aggregated("sum", 5, 9)]
    return xspace(
        plane(
            "/host:CPU",
            [line("main", main, timestamp_ns=2), line("queue", queue, display_name="größer"), line("idle")],
            stats={"cores": 8, "cpu": "fast"},
            event_metadata=[Metadata("step", 1, "Step", b"\0raw", {"kind": "user"}, (2, 300))],
            stat_metadata=[StatMetadata("step", description="number")],
        ),
        plane("/device:TPU:0", [line("XLA Ops", [event("fusion", 7, 3, {"host": "日本語"})])], id=1),
        task_environment(START_NS + host, START_NS + 99, note='say "hi"'),
        hostnames=[f"vm{host}"],
        errors=["out of space"] if host else [],
        warnings=["dropped"],
    )


def put_run(folder: Path, hosts: Sequence[str] = ("vm0", "vm1")) -> Path:
    """A run directory of these hosts."""
    folder.mkdir(parents=True)
    for number, host in enumerate(hosts):
        (folder / f"{host}.xplane.pb").write_bytes(capture(number))
    return folder


def files(out: Path) -> list[str]:
    """The files of tables below a folder."""
    paths = (path.relative_to(out).as_posix() for path in out.rglob("*") if not path.is_dir())
    return sorted(path for path in paths if path != "session.json")


def plain(table: pa.Table) -> pa.Table:
    """The table without dictionaries, metadata and chunks: values and types count, not how long a text may be.
    Doubles are their bits."""
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        kind = pa.string() if pa.types.is_large_string(kind) else kind
        array = pa.concat_arrays([pa.array([], kind), *(chunk.cast(kind) for chunk in column.chunks)])
        columns[name] = array.view(pa.int64()) if pa.types.is_floating(kind) else array
    return pa.table(columns)


def read_back(out: Path, table: str, keys: Sequence[str] = ("host",), suffix: str = "parquet") -> pa.Table:
    """A table of an export as pyarrow.dataset finds it: the partition keys come last."""
    partitioning = ds.partitioning(pa.schema([(key, pa.string()) for key in keys]), flavor="hive")
    found = ds.dataset(out / table, partitioning=partitioning, format=suffix).to_table()
    order = [name for name in found.column_names if name not in keys]
    return plain(found.select([*order, *keys]))


def expected(profile: fastprof.Profile, table: str) -> pa.Table:
    """A table of a profile, host by host, with the host as its last column."""
    parts = []
    for host in profile.hosts["host"].to_pylist():
        rows = plain(profile.select(hosts=host).tables[table])
        rows = rows.drop_columns([name for name in ("host",) if name in rows.column_names])
        parts.append(rows.append_column("host", pa.array([host] * rows.num_rows, pa.string())))
    return pa.concat_tables(parts).combine_chunks()


def log_rows(table: pa.Table) -> list[tuple[str, int, int | None]]:
    """Codes, counts and offsets; the example of a remark depends on what was read first."""
    return sorted(zip(*(table[name].to_pylist() for name in ("code", "count", "first_offset")), strict=True), key=str)


def check_export(out: Path, profile: fastprof.Profile, tables: Sequence[str] = tuple(TABLES)) -> None:
    """Each table of an export without runs is that of the profile, with the host of each row."""
    for name in tables:
        found, whole = read_back(out, name), plain(profile.tables[name])
        if name == "import_log":
            assert log_rows(found) == log_rows(whole), (log_rows(found), log_rows(whole))
            continue
        hosts = [found.filter(pc.equal(found["host"], host)) for host in profile.hosts["host"].to_pylist()]
        found = pa.concat_tables(hosts).combine_chunks()
        same = [column for column in whole.column_names if column != "host"]
        assert found.equals(expected(profile, name)), name
        assert found.select(same).equals(whole.select(same)), name


_STOPPED = """\
import os, signal, sys
import fastprof
from fastprof.export.destinations import StoreFolder
left = int(sys.argv[3])
def count(real):
    def method(*args):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args)
    return method
for name in sys.argv[4:]:
    owner, _, method = name.partition(".")
    setattr(globals()[owner], method, count(getattr(globals()[owner], method)))
fastprof.load(sys.argv[1]).to_parquet(sys.argv[2], tables=["hosts", "lines", "events", "import_log"])
"""


def kill_export(source: Path, out: str | Path, step: int, *counted: str) -> None:
    """Export in a process that ends itself at call ``step`` of the functions ``counted``, such as os.replace."""
    command = [sys.executable, "-c", _STOPPED, str(source), str(out), str(step), *counted]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL
