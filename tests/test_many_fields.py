"""Captures with more planes or lines than any program has: an empty one takes two bytes, and hundreds in memory."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
from trace_builder import event, len_field, line, plane, xspace

import fastprof

MOST = 1 << 20
GOOD = xspace(plane("good", [line("thread", [event("a", 1, 2)])]))
EMPTY_LINE, EMPTY_STAT = len_field(3, b""), len_field(6, b"")
KINDS = {
    "XSpace.planes": (len_field(1, b""), False),
    "XSpace.errors": (len_field(2, b""), False),
    "XSpace.warnings": (len_field(3, b""), False),
    "XSpace.hostnames": (len_field(4, b""), False),
    "XPlane.lines": (EMPTY_LINE, True),
    "XPlane.stats": (EMPTY_STAT, True),
}


def capture(kind: str, count: int) -> bytes:
    """A good plane, then that number of empty fields, inside of a plane or of the capture."""
    field, inside = KINDS[kind]
    return GOOD + (len_field(1, field * count) if inside else field * count)


@pytest.mark.parametrize("kind", KINDS)
def test_too_many_of_a_kind_are_an_error_at_the_first_beyond(kind: str) -> None:
    known = 1 if kind in ("XSpace.planes", "XPlane.lines") else 0
    data = capture(kind, MOST - known + 5)
    with pytest.raises(fastprof.CaptureError, match=f"more than the 1,048,576 that are read .*{kind}") as caught:
        fastprof.load(gzip.compress(data, 1))
    assert caught.value.offset == len(data) - 2 * 5


def test_salvage_keeps_the_first_and_counts_the_others() -> None:
    for kind, code in (("XSpace.planes", "merged_planes"), ("XPlane.lines", "merged_lines")):
        profile = fastprof.load(capture(kind, MOST + 6), on_error="salvage")
        assert profile.events["name"].to_pylist() == ["a"]
        log = {row["code"]: row for row in profile.import_log.to_pylist()}
        assert (log["too_many"]["severity"], log["too_many"]["count"]) == ("data_loss", 7)
        assert kind in log["too_many"]["example"]
        assert log[code]["count"] == MOST - 2  # all but the good one are one


def test_skip_leaves_the_file_out(tmp_path: Path) -> None:
    (tmp_path / "a.xplane.pb").write_bytes(GOOD)
    (tmp_path / "b.xplane.pb").write_bytes(capture("XSpace.planes", MOST))
    profile = fastprof.load(tmp_path, on_error="skip")
    assert profile.hosts["host"].to_pylist() == ["a"]
    (row,) = profile.import_log.to_pylist()
    assert row["path"].endswith("b.xplane.pb") and "more than the 1,048,576" in row["example"]


INFO = """
import resource, subprocess, sys
code = subprocess.call([sys.executable, "-m", "fastprof", "info", sys.argv[1]])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""
"""Writes the peak memory of a process that a small one started: it begins with the memory of the one that forks."""


def test_memory_does_not_grow_with_fields_that_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "lines.xplane.pb"
    path.write_bytes(gzip.compress(capture("XPlane.lines", 10 * MOST), 1))
    done = subprocess.run([sys.executable, "-c", INFO, path], capture_output=True, text=True, check=False)
    assert done.returncode == 4 and "that are read of a capture" in done.stderr
    assert int(done.stdout.split()[-1]) < 600 << 10  # 1,300 MB without a limit


def test_a_long_run_of_zeros_is_one_fault(tmp_path: Path) -> None:
    """Planes behind a hole of a sparse file, which is many windows long, are found."""
    path = tmp_path / "hole.xplane.pb"
    with path.open("wb") as file:
        file.write(GOOD)
        file.seek(40 << 20)
        file.write(GOOD * 4)
    profile = fastprof.load(path, on_error="salvage")
    assert profile.events["name"].to_pylist() == ["a"] * 5
    (row,) = (row for row in profile.import_log.to_pylist() if row["severity"] == "data_loss")
    assert (row["code"], row["count"], row["first_offset"]) == ("bad_tag", 1, len(GOOD))
