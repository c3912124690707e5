"""Captures past 4 GiB and past 8 GiB: sparse files, whose holes lie in fields that nobody knows.

Offsets and lengths of planes, lines and events all pass 32 bits. What is skipped is not touched, so this is quick,
and the files take a few blocks of disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from trace_builder import double_field, int_field, len_field, tag, varint

import fastprof

GIB = 1 << 30
UNKNOWN = 99


@dataclass(frozen=True, slots=True)
class Hole:
    """Zeros that take no room."""

    size: int


Parts = tuple[bytes | Hole, ...]


def size_of(parts: Parts) -> int:
    return sum(part.size if isinstance(part, Hole) else len(part) for part in parts)


def wrapped(number: int, *parts: bytes | Hole) -> Parts:
    """A length-delimited field around the parts."""
    return (tag(number, 2) + varint(size_of(parts)), *parts)


def skipped(size: int) -> Parts:
    """An unknown field of this size in bytes, without its tag and length."""
    return wrapped(UNKNOWN, Hole(size))


def event(name: int, start: int, duration: int, *rest: bytes | Hole) -> Parts:
    return wrapped(4, int_field(1, name) + int_field(2, start) + int_field(3, duration), *rest)


def stat(name: int, value: bytes) -> bytes:
    return len_field(4, int_field(1, name) + value)


def named(field: int, number: int, name: str | bytes) -> bytes:
    """A row of a metadata map."""
    return len_field(field, int_field(1, number) + len_field(2, int_field(1, number) + len_field(2, name)))


def line(number: int, name: str, *events: Parts) -> Parts:
    return wrapped(3, int_field(1, number) + len_field(2, name), *(part for parts in events for part in parts))


def plane(name: str, *fields: Parts) -> Parts:
    return wrapped(1, len_field(2, name), *(part for parts in fields for part in parts))


NAMES: Parts = (
    named(4, 1, "step") + named(4, 2, "größer"),
    named(5, 1, "number") + named(5, 2, "text") + named(5, 3, "ratio") + named(5, 4, "a text behind it all"),
)


def sample(fault: Parts = (), name: bytes = b"far") -> Parts:
    """Lines before, around and behind the holes; ``fault`` lies in the last line, among its events."""
    near = line(1, "near", event(1, 0, 5, stat(1, int_field(4, 7))), event(2, 2, 1))
    long = line(
        2, "longer than 4 GiB", event(1, 10, 5), skipped(4 * GIB + 5), event(2, 20, 5, stat(2, len_field(5, "x")))
    )
    wide = line(
        3, "an event as long", event(1, 1, 9, *skipped(4 * GIB + 9), stat(3, double_field(2, 0.5))), event(2, 3, 2)
    )
    unsorted = line(
        4, "out of order", event(1, 90, 1, stat(2, int_field(7, 4))), event(2, 30, 1), fault, event(1, 60, 1)
    )
    last = line(1, "l", event(7, 8, 9, stat(2, len_field(5, "far text"))))
    far = wrapped(1, len_field(2, name), *last, named(5, 2, "text"), named(4, 7, "seven"))
    return (*plane("p", near, skipped(3 * GIB), long, wide, unsorted, NAMES), *skipped(GIB), *far)


EVENTS = [
    ("near", "step", 0, 5),
    ("near", "größer", 2, 1),
    ("longer than 4 GiB", "step", 10, 5),
    ("longer than 4 GiB", "größer", 20, 5),
    ("an event as long", "step", 1, 9),
    ("an event as long", "größer", 3, 2),
    ("out of order", "größer", 30, 1),
    ("out of order", "step", 60, 1),
    ("out of order", "step", 90, 1),
    ("l", "seven", 8, 9),
]
STATS = [
    (0, "number", "int64", 7, None, None),
    (3, "text", "str", None, None, "x"),
    (4, "ratio", "double", None, 0.5, None),
    (8, "text", "ref", None, None, "a text behind it all"),
    (9, "text", "str", None, None, "far text"),
]

Write = Callable[[Parts], Path]


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Write]:
    """Writes parts to a file with holes; skips where the file system has none."""

    def write(parts: Parts) -> Path:
        path = tmp_path / "vm.xplane.pb"
        with path.open("wb") as file:
            for part in parts:
                if isinstance(part, Hole):
                    file.seek(part.size, 1)
                else:
                    file.write(part)
            file.truncate(size_of(parts))
        if path.stat().st_blocks * 512 > 1 << 20:
            path.unlink()
            pytest.skip("the file system has no sparse files: captures past 4 GiB are not tested")
        return path

    yield write
    (tmp_path / "vm.xplane.pb").unlink(missing_ok=True)


def rows(profile: fastprof.Profile) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    tables = profile.read("events", "event_stats")
    events = tables["events"].select(["line", "name", "start_ps", "duration_ps"]).to_pylist()
    columns = ["event_id", "stat", "kind", "int_value", "double_value", "str_value"]
    stats = tables["event_stats"].select(columns).to_pylist()
    return [tuple(row.values()) for row in events], [tuple(row.values()) for row in stats]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("mode", ["raise", "salvage"])
def test_events_past_4_and_8_gib(threads: int, mode: str, write: Write) -> None:
    path = write(sample())
    begun = time.monotonic()
    profile = fastprof.load(path, threads=threads, on_error=mode)
    assert rows(profile) == (EVENTS, STATS)
    assert profile.hosts["size_bytes"].to_pylist() == [path.stat().st_size]
    assert path.stat().st_size > 12 * GIB
    assert profile.lines["name"].to_pylist() == ["near", "longer than 4 GiB", "an event as long", "out of order", "l"]
    assert profile.nesting["depth"].to_pylist() == [0, 1, 0, 0, 0, 1, 0, 0, 0, 0]
    assert profile.import_log.num_rows == 0
    assert time.monotonic() - begun < 5, "what is skipped has been read"
    assert path.stat().st_blocks * 512 < 1 << 20


def test_it_is_exported_and_selected(write: Write, tmp_path: Path) -> None:
    profile = fastprof.load(write(sample()))
    profile.to_parquet(tmp_path / "out", tables=["events", "event_stats", "nesting"], layout="paths")
    events = ds.dataset(tmp_path / "out" / "events", partitioning="hive").to_table()
    assert [
        tuple(row.values()) for row in events.select(["line", "name", "start_ps", "duration_ps"]).to_pylist()
    ] == EVENTS
    assert [ds.dataset(tmp_path / "out" / name).count_rows() for name in ("event_stats", "nesting")] == [5, 10]
    chosen = profile.select(lines="longer|order", names="step")
    assert chosen.events["event_id"].to_pylist() == [2, 7, 8]
    assert chosen.event_table([], ["text"])["text"].to_pylist() == [None, None, "a text behind it all"]


# ---- faults -----------------------------------------------------------------------------------------

BAD_EVENT = len_field(4, int_field(1, 1) + b"\x0e\x01")
BAD_TEXT = b"not \xff UTF-8"


def offset_of(parts: Parts, mark: bytes) -> int:
    """Where these bytes lie last."""
    end = size_of(parts)
    for part in reversed(parts):
        end -= size_of((part,))
        if isinstance(part, bytes) and mark in part:
            return end + part.rindex(mark)
    raise AssertionError("the bytes are nowhere")


def cut(parts: Parts, less: int) -> Parts:
    assert isinstance(parts[-1], bytes)
    return (*parts[:-1], parts[-1][:-less])


FAULTS: dict[str, tuple[Parts, bytes]] = {
    "in an event": (sample((BAD_EVENT,)), BAD_EVENT),
    "in a name": (sample(name=BAD_TEXT), BAD_TEXT),
    "in the capture": ((*sample(), b"\x0e"), b"\x0e"),
    "at its end": (cut(sample(), 3), len_field(2, "seven")[:-3]),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("fault", FAULTS)
def test_offsets_of_faults(fault: str, threads: int, write: Write) -> None:
    parts, mark = FAULTS[fault]
    at = offset_of(parts, mark)
    assert at > 8 * GIB
    path = write(parts)
    with pytest.raises(fastprof.CaptureError) as caught:
        rows(fastprof.load(path, threads=threads))
        fastprof.load(path, threads=threads).planes  # noqa: B018
    assert caught.value.offset is not None
    assert at - 32 <= caught.value.offset <= at + len(mark)
    assert f"(at byte {caught.value.offset:,})" in str(caught.value)
    profile = fastprof.load(path, threads=threads, on_error="salvage")
    events, stats = rows(profile)
    seven = [("l", "seven" if fault != "at its end" else "", 8, 9)]
    assert events == EVENTS[:-1] + seven and stats == STATS
    lost = [row for row in profile.import_log.to_pylist() if row["severity"] == "data_loss"]
    assert lost and all(at - 32 <= row["first_offset"] <= at + len(mark) for row in lost)
