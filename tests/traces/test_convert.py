"""fastprof export xspace: what it writes loads into the tables of what it read."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from gate import few
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.cli.main import main
from fastprof.schema.capture_tables import CAPTURE_TABLES

CAPTURES = Path(__file__).resolve().parents[3] / "shared" / "captures"
PATTERNS = ("chrome/*/*.json*", "tf1/timeline-*.json", "riegeli/*.xplane.riegeli", "xspace/cpu-jax-train/vm.*")
FILES = sorted(path for pattern in PATTERNS for path in CAPTURES.glob(pattern))
OF_THE_FILE = {"hosts": ["host", "run", "path", "size_bytes"]}
TRACE = {"traceEvents": [{"ph": "X", "name": "a", "pid": 1, "tid": 2, "ts": 5, "dur": 1}, {"ph": "?"}]}


def contents(profile: fastprof.Profile, name: str) -> pa.Table:
    """A table without what is known of its file, and without dictionaries, whose order is not a promise."""
    table = profile.tables[name].drop_columns(OF_THE_FILE.get(name, []))
    if "host" in table.column_names:
        table = table.drop_columns(["host"])
    fields = [
        pa.field(field.name, field.type.value_type if pa.types.is_dictionary(field.type) else field.type)
        for field in table.schema
    ]
    return table.cast(pa.schema(fields)).combine_chunks()


def same(table: pa.Table, other: pa.Table) -> bool:
    """Whether tables are equal, NaN to NaN."""
    return table.schema.equals(other.schema) and [repr(row) for row in table.to_pylist()] == [
        repr(row) for row in other.to_pylist()
    ]


@pytest.mark.captures
@pytest.mark.parametrize("path", few(FILES, 8), ids=lambda path: path.name)
def test_what_is_written_has_the_tables_of_what_was_read(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.xplane.pb"
    assert main(["convert", str(path), "-o", str(out), "-q"]) == 0

    read, written = fastprof.load(path), fastprof.load(out)
    assert read.events.num_rows > 0
    for name in CAPTURE_TABLES:
        if name != "import_log":
            assert same(contents(read, name), contents(written, name)), name


def test_captures_become_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.pt.trace.json").write_text(json.dumps(TRACE))
    (tmp_path / "b.pt.trace.json.gz").write_bytes(gzip.compress(json.dumps(TRACE).encode()))
    out = tmp_path / "logs" / "plugins" / "profile" / "run"
    assert main(["convert", str(tmp_path), "-o", str(out)]) == 0

    assert sorted(path.name for path in out.iterdir()) == ["a.xplane.pb", "b.xplane.pb"]
    assert fastprof.load(tmp_path / "logs").tables["hosts"]["host"].to_pylist() == ["a", "b"]
    said = capsys.readouterr().err
    assert "unknown_phase" in said or "phase" in said, "what was left out is remarked"
    assert main(["convert", str(tmp_path), "-o", str(out)]) == 3
    assert "already exists" in capsys.readouterr().err
    assert main(["convert", str(tmp_path), "-o", str(out), "--force"]) == 0
    (out / "notes.txt").write_text("mine")
    assert main(["convert", str(tmp_path), "-o", str(out), "--force"]) == 3
    assert (out / "notes.txt").read_text() == "mine"


def test_programs_beside_captures_go_with_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    space = xspace(plane("/host:CPU", [line("python", [event("a", 0, 1)])]))
    (tmp_path / "vm.xplane.pb").write_bytes(space)
    (tmp_path / "jit_f(12).hlo_proto.pb").write_bytes(b"\x0a\x02\x0a\x00")
    assert main(["convert", str(tmp_path), "-o", str(tmp_path / "run")]) == 0
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["jit_f(12).hlo_proto.pb", "vm.xplane.pb"]
    assert (tmp_path / "run" / "vm.xplane.pb").read_bytes() == space
    assert main(["convert", str(tmp_path), "-o", str(tmp_path / "vm2.pb")]) == 0
    assert "left out 1 compiled program beside the capture" in capsys.readouterr().err


def test_one_file_is_of_one_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.trace.json").write_text(json.dumps(TRACE))
    out = tmp_path / "out.pb"
    assert main(["convert", str(tmp_path), "-o", str(out)]) == 2
    assert "give the name of a directory" in capsys.readouterr().err
    assert main(["convert", str(tmp_path), "-o", str(out), "--host", "b"]) == 0
    assert fastprof.load(out).events.num_rows == 1
    assert main(["convert", str(tmp_path), "-o", str(out), "--host", "b"]) == 3
    assert main(["convert", str(tmp_path), "-o", str(tmp_path / "out.json")]) == 2


def test_a_capture_is_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "vm.xplane.pb"
    path.write_bytes(xspace(plane("/host:CPU", [line("python", [event("a", 0, 1)])])))
    assert main(["convert", str(path), "-o", str(path), "--force"]) == 3
    assert main(["convert", str(path), "-o", str(tmp_path), "--force"]) == 3
    assert capsys.readouterr().err.count("a capture is never overwritten") == 2
    assert fastprof.load(path).events.num_rows == 1


def test_standard_output(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(TRACE))
    ran = subprocess.run(
        [sys.executable, "-m", "fastprof", "convert", str(path), "-o", "-"], capture_output=True, check=True
    )
    assert fastprof.load(ran.stdout).events.num_rows == 1


def test_progress_counts_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(TRACE))
    assert main(["convert", str(path), "-o", str(tmp_path / "a.pb"), "--progress", "plain"]) == 0
    assert "fastprof: converting:   0%\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("hosts", "names"),
    [
        (["a", "b#2"], ["a", "b#2"]),
        (["a/b", "a_b"], ["a_b", "a_b#2"]),
        (["a\x1b[31m\n", "b\x7f\x9b"], ["a_[31m_", "b__"]),
        (["", ".", "..", ".hidden"], ["unknown", "_", "_.", "_hidden"]),
        (["a\u202egnp.exe", "\u2066b\u2069\u061c\u2028"], ["a_gnp.exe", "_b___"]),
        (["x" * 300, "x" * 299 + "y"], ["x" * 183 + "~0d4e2ca9e9cbced7", "x" * 183 + "~d71979b42315c20d"]),
        (["é" * 101], ["é" * 91 + "~96cbf977549895b3"]),
    ],
)
def test_names_of_files(hosts: list[str], names: list[str]) -> None:
    from fastprof.export.xspace_files import name_files

    assert name_files(hosts) == [f"{name}.xplane.pb" for name in names]
