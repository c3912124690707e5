"""Captures with millions of tiny messages: one takes two bytes, and hundreds in memory."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from gate import few
from trace_builder import event, int_field, len_field, line, plane, xspace

import fastprof

MIB = 1 << 20
GOOD = xspace(plane("good", [line("thread", [event("a", 1, 2)])]))
REFUSED = r"more memory than 64 MiB plus 4 bytes per byte of the capture \(--max-unpacked .*\), reading "


def many(make: Callable[[int], bytes]) -> bytes:
    """A mebibyte of messages."""
    parts, size = [], 0
    while size < MIB:
        parts.append(make(len(parts)))
        size += len(parts[-1])
    return b"".join(parts)


def in_plane(fields: bytes, name: str = "p") -> bytes:
    return len_field(1, len_field(2, name) + fields)


def in_metadata(fields: bytes) -> bytes:
    return in_plane(len_field(4, int_field(1, 1) + len_field(2, fields)))


def metadata(number: int, kind: int = 4, name: str = "") -> bytes:
    return len_field(kind, int_field(1, number) + len_field(2, len_field(2, name)))


TINY: dict[str, Callable[[], bytes]] = {
    "XSpace.planes": lambda: many(lambda i: in_plane(b"", f"{i}")),
    "XSpace.errors": lambda: len_field(2, b"") * (MIB // 2),
    "XSpace.warnings": lambda: many(lambda i: len_field(3, f"{i}")) * 2,
    "XSpace.hostnames": lambda: len_field(4, b"") * (MIB // 2),
    "XPlane.lines": lambda: in_plane(len_field(3, b"") * (MIB // 2)),
    "XPlane.event_metadata": lambda: in_plane(len_field(4, b"") * (MIB // 2)),
    "XPlane.stat_metadata": lambda: in_plane(len_field(5, b"") * (MIB // 2)),
    "XPlane.stats": lambda: in_plane(many(lambda i: len_field(6, int_field(1, i))), "Task Environment"),
    "XEventMetadata.child_id": lambda: in_metadata(len_field(6, b"\1" * 5 * MIB)),
    "XEventMetadata.stats": lambda: in_metadata(len_field(5, b"") * (5 * MIB)),
}  # fmt: skip
"""Captures with too many messages of a kind, made when a test wants one."""


@cache
def tiny(kind: str) -> bytes:
    return TINY[kind]()


@pytest.mark.parametrize("kind", TINY)
def test_memory_is_in_proportion_to_the_bytes(kind: str) -> None:
    """The first message that takes more is an error, at the same byte whether the capture is compressed or not."""
    data = GOOD + tiny(kind)
    offsets = []
    for given in (data, gzip.compress(data, 1)):
        with pytest.raises(fastprof.CaptureError, match=REFUSED + re.escape(kind)) as caught:
            fastprof.load(given)
        offsets.append(caught.value.offset)
    assert offsets[0] == offsets[1] and len(GOOD) < offsets[0] < len(data)


@pytest.mark.parametrize("kind", few(TINY, 4))
def test_salvage_keeps_the_first_and_counts_the_others(kind: str) -> None:
    profile = fastprof.load(GOOD + tiny(kind), on_error="salvage")
    assert profile.events["name"].to_pylist() == ["a"]
    (row,) = (row for row in profile.import_log.to_pylist() if row["code"] == "too_many")
    assert (row["severity"], row["example"].endswith(f"reading {kind}")) == ("data_loss", True)
    assert row["count"] > 1000 and row["first_offset"] > len(GOOD)


def test_a_raised_limit_reads_all() -> None:
    kind = "XPlane.event_metadata"
    assert fastprof.load(tiny(kind), max_unpacked=17 << 30).planes.num_rows == 1


def test_larger_messages_may_be_as_many() -> None:
    """Names as programs have them, each with an event, beyond the memory that any capture may take."""
    names = b"".join(metadata(i, 4, f"fused_computation.{i:07d}") for i in range(1000)) * 250
    events = len_field(4, int_field(1, 1) + int_field(2, 5) + int_field(3, 5)) * 250_000
    assert fastprof.load(in_plane(len_field(3, events) + names)).planes["event_count"].to_pylist() == [250_000]


def test_names_that_clash_in_merged_planes_take_memory_in_proportion() -> None:
    pieces = [in_plane(b"".join(metadata(i, 4, f"{x}{i}") for i in range(50_000))) for x in "ab"]
    assert fastprof.load(pieces[0] * 2).event_metadata.num_rows == 50_000
    with pytest.raises(fastprof.CaptureError, match=REFUSED + re.escape("XEventMetadata.name")):
        fastprof.load(b"".join(pieces))


def test_stats_without_metadata_take_memory_in_proportion() -> None:
    stats = b"".join(len_field(4, int_field(1, i)) for i in range(130_000))
    profile = fastprof.load(GOOD + in_plane(len_field(3, len_field(4, stats))))
    with pytest.raises(fastprof.CaptureError, match=REFUSED + re.escape("XStat.metadata_id")):
        len(profile.event_stats)


def test_skip_leaves_the_file_out(tmp_path: Path) -> None:
    (tmp_path / "a.xplane.pb").write_bytes(GOOD)
    (tmp_path / "b.xplane.pb").write_bytes(tiny("XSpace.planes"))
    profile = fastprof.load(tmp_path, on_error="skip")
    assert profile.hosts["host"].to_pylist() == ["a"]
    (row,) = profile.import_log.to_pylist()
    assert row["path"].endswith("b.xplane.pb") and "more memory than 64 MiB plus 4 bytes per byte" in row["example"]


MEASURED = """
import resource, sys
import fastprof

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

fastprof.load(sys.argv[1]).lines
for path in sys.argv[2:]:
    before = peak()
    fastprof.load(path, on_error="salvage").lines
    print(peak() - before)
"""
"""A program that prints the growth of peak memory for each file after a good one."""


@pytest.mark.parametrize("kind", few(TINY, 3))
def test_what_is_held_is_what_was_counted(kind: str, tmp_path: Path) -> None:
    good, damaged = tmp_path / "good.xplane.pb", tmp_path / "tiny.xplane.pb"
    good.write_bytes(GOOD)
    damaged.write_bytes(tiny(kind))
    command = [sys.executable, "-P", "-c", MEASURED, str(good), str(damaged)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    assert int(done.stdout) < 4 * len(tiny(kind)) + (66 << 20)


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
