"""Traces in JSON are read as captures are: from files, bytes, streams, compressed or not."""

from __future__ import annotations

import gzip
import io
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import fastprof
from fastprof.inputs.formats import find_format

TRACE = b"""{"traceEvents": [
{"ph": "M", "pid": 7, "name": "process_name", "args": {"name": "trainer"}},
{"ph": "X", "pid": 7, "tid": 8, "ts": 1000.5, "dur": 2, "name": "op", "cat": "cpu", "args": {"n": 1, "of": [1, 2]}},
{"ph": "X", "pid": 7, "tid": 8, "ts": 1001, "dur": 0.25, "name": "part"},
{"ph": "s", "pid": 7, "tid": 8, "ts": 1001, "id": 1, "name": "flow"}
], "otherData": {"version": "2"}}"""


def read(what: object) -> fastprof.Profile:
    return fastprof.load(what)  # type: ignore[arg-type]


def test_a_trace_has_the_tables_of_a_capture(tmp_path: Path) -> None:
    path = tmp_path / "worker.pt.trace.json.gz"
    path.write_bytes(gzip.compress(TRACE))
    profile = read(path)
    [host] = profile.hosts.to_pylist()
    assert (host["host"], host["size_bytes"], host["start_unix_ns"]) == ("worker", len(TRACE), None)
    rows = profile.events.select(["plane", "line", "name", "start_ps", "duration_ps"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("trainer", "8", "op", 0, 2_000_000),
        ("trainer", "8", "part", 500_000, 250_000),
    ]
    assert set(profile.lines.column("timestamp_ns").to_pylist()) == {1_000_500}
    stats = profile.tables["event_stats"].select(["stat", "kind", "int_value", "str_value"]).to_pylist()
    assert [tuple(row.values()) for row in stats] == [("n", "int64", 1, None), ("of", "str", None, "[1,2]")]
    assert profile.import_log["code"].to_pylist() == ["unmatched_flow"]


def test_files_bytes_and_streams_are_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(TRACE)
    packed = pa.compress(TRACE, "zstd", asbytes=True)
    for what in (path, TRACE, gzip.compress(TRACE), packed, io.BytesIO(TRACE), b"\xef\xbb\xbf \n" + TRACE):
        assert read(what).events.select(["name", "start_ps"]).equals(read(TRACE).events.select(["name", "start_ps"]))


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"{}", "chrome"),
        (b' [\n{"', "chrome"),
        (b"[]", "chrome"),
        (b"[project]", None),
        (b"{ braces }", None),
        (b"\n\x7b\x08\x01\x12", None),  # a plane of 123 bytes
        (b"\n\x7b\x22\x0a\x08\x01", None),  # one that begins with event metadata
        (b"", None),
    ],
)
def test_formats_are_known_by_content(head: bytes, name: str | None) -> None:
    form = find_format(head)
    assert (form.NAME if form else None) == name


def test_damage_is_an_error_with_its_place_or_a_row() -> None:
    damaged = TRACE.replace(b'"dur": 0.25', b'"dur": }}}')
    with pytest.raises(fastprof.CaptureError) as caught:
        read(damaged)
    assert caught.value.offset == damaged.index(b"}}}")
    profile = fastprof.load(damaged, on_error="salvage")
    assert profile.events.column("name").to_pylist() == ["op"]
    [row] = [row for row in profile.import_log.to_pylist() if row["code"] != "unmatched_flow"]
    assert (row["code"], row["severity"], row["first_offset"]) == (
        "lost_bytes", "data_loss", damaged.index(b'{"ph": "X", "pid": 7, "tid": 8, "ts": 1001')
    )  # fmt: skip


@pytest.mark.captures
def test_the_trace_that_xprof_wrote_has_the_events_of_its_capture(captures: Path) -> None:
    """To the picosecond, but for durations of 0, which were written as 1 ps."""
    folder = captures / "xspace" / "cpu-jax-train"

    def found(path: Path) -> Counter[tuple[object, ...]]:
        rows = fastprof.load(path).events.select(["line", "name", "start_ps", "duration_ps"]).to_pylist()
        return Counter((row["line"], row["name"], row["start_ps"], row["duration_ps"] or 1) for row in rows)

    trace, capture = found(folder / "vm.trace.json.gz"), found(folder / "vm.xplane.pb")
    assert trace.total() == 752
    assert not trace - capture
