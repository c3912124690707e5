"""Compressed captures that unpack to more than a disk should hold."""

from __future__ import annotations

import gzip
import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from exported import capture
from trace_builder import len_field

import fastprof
from fastprof.cli.main import main
from fastprof.inputs import open_files

DATA = capture(0, steps=40)
SKIPPED = len_field(1000, bytes(32 << 20))
"""A field that no XSpace has, of 32 MiB: it compresses to a thousandth."""


class Usage(NamedTuple):
    """As shutil has it."""

    total: int
    used: int
    free: int


class Written(io.FileIO):
    """A spool that counts."""

    total = 0

    def write(self, data: Any) -> int:
        Written.total += len(data)
        return len(data)


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


@pytest.mark.parametrize("pack", [lambda data: gzip.compress(data, 1), zstd], ids=["gzip", "zstd"])
def test_a_compressed_capture_stops_at_the_limit(
    pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    Written.total = 0
    monkeypatch.setattr("tempfile.TemporaryFile", lambda: Written("/dev/null", "w+"))
    with pytest.raises(fastprof.UnreadableError, match=r"unpacks to more than 4.000 MiB.*--max-unpacked SIZE"):
        fastprof.load(pack(SKIPPED + DATA), max_unpacked=4 << 20)
    assert Written.total <= 4 << 20


def test_a_higher_limit_reads_it() -> None:
    packed = gzip.compress(SKIPPED + DATA, 1)
    assert fastprof.load(packed, max_unpacked=40 << 20).events.num_rows == fastprof.load(DATA).events.num_rows


def test_the_usual_limit_is_16_gib() -> None:
    assert open_files.MOST_UNPACKED == 16 << 30
    assert open_files.check_limit(None) == 16 << 30


def test_plain_captures_have_no_such_limit() -> None:
    events = fastprof.load(DATA).events.num_rows
    assert fastprof.load(DATA, max_unpacked=1).events.num_rows == events
    assert fastprof.load(io.BytesIO(DATA), max_unpacked=1).events.num_rows == events


@pytest.mark.parametrize("on_error", ["skip", "salvage"])
def test_other_hosts_are_read(tmp_path: Path, on_error: str) -> None:
    (tmp_path / "a.xplane.pb").write_bytes(DATA)
    (tmp_path / "b.xplane.pb.gz").write_bytes(gzip.compress(SKIPPED, 1))
    profile = fastprof.load(tmp_path, on_error=on_error, max_unpacked=1 << 20)
    assert profile.hosts.num_rows == 1
    assert ("error", "skipped_host") in zip(
        *(profile.import_log[name].to_pylist() for name in ("severity", "code")), strict=True
    )


def test_the_disk_keeps_some_free_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_files, "_STRIDE", 8 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1 << 40, 0, 1 << 29))
    monkeypatch.setattr("tempfile.TemporaryFile", lambda: Written("/dev/null", "w+"))
    Written.total = 0
    with pytest.raises(fastprof.UnreadableError, match=r"less than 1.000 GiB are free in .* \(TMPDIR sets"):
        fastprof.load(gzip.compress(SKIPPED, 1))
    assert Written.total <= 9 << 20


def test_a_small_capture_is_read_on_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1 << 40, 0, 1 << 20))
    assert fastprof.load(gzip.compress(DATA)).events.num_rows


@pytest.mark.parametrize("limit", [0, -1, 1.5, "1GiB", True])
def test_a_limit_is_a_number_of_bytes(limit: Any) -> None:
    with pytest.raises(fastprof.UsageError, match="max_unpacked must be a number of bytes above 0"):
        fastprof.load(DATA, max_unpacked=limit)


def test_the_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.xplane.pb.gz"
    path.write_bytes(gzip.compress(SKIPPED + DATA, 1))
    assert main(["info", str(path), "--max-unpacked", "1MiB"]) == 3
    assert "unpacks to more than 1.000 MiB" in capsys.readouterr().err
    assert main(["info", str(path), "--max-unpacked", "40MiB"]) == 0
