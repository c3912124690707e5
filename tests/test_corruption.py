"""Bad input: an error that says where, or tables and a log of what was lost; never anything else."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import random
import struct
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from gate import few, rounds
from random_spaces import random_space
from slow_reader import WireError, parse
from slow_tables import Source, tables
from trace_builder import (
    Metadata,
    StatMetadata,
    Wire,
    aggregated,
    event,
    int_field,
    len_field,
    line,
    plane,
    ref,
    stat,
    task_environment,
    u64,
    varint,
    xspace,
)

import fastprof

ALL = (
    "hosts",
    "planes",
    "plane_stats",
    "lines",
    "events",
    "event_stats",
    "event_metadata",
    "event_metadata_stats",
    "stat_metadata",
    "import_log",
    "nesting",
)
Check = Callable[..., None]


def read(what: Any, **options: Any) -> dict[str, pa.Table]:
    """Every table, decoded."""
    found: dict[str, pa.Table] = fastprof.load(what, **options).read(*ALL)
    for table in found.values():
        table.validate(full=True)
    return found


def attempt(what: Any, size: int, **options: Any) -> dict[str, pa.Table] | None:
    """The tables, or None where a CaptureError says path and offset. Any other exception goes through."""
    try:
        return read(what, **options)
    except fastprof.CaptureError as error:
        assert error.path is not None
        assert error.offset is not None and 0 <= error.offset <= size, error
        assert str(error.path) in str(error) and error.message
        return None


def small_capture() -> bytes:
    """A bit of everything, in few bytes."""
    events = [
        event("a", 5, 90, {"i": -1, "u": u64(7), "d": 0.5, "s": "text", "b": b"\0\1", "r": ref("ref")}),
        event("b", 10, 20, {"_a": 1}),
        event("a", 7, 9),
        aggregated("b", 3, 30),
    ]
    metadata = [Metadata("a", None, "A", b"raw", {"f": 2.5}, (1, 300), wire=Wire(after=int_field(9, 1)))]
    texts = [StatMetadata("i", description="it")]
    lines = [line("t", events, timestamp_ns=3, display_name="T"), line("u", [event("c")])]
    return xspace(
        plane("/host:CPU", lines, id=1, stats={"n": 1}, event_metadata=metadata, stat_metadata=texts),
        task_environment(1_700_000_000_000_000_000),
        warnings=["w"],
        hostnames=["vm"],
    )


# ---- truncations and flips ------------------------------------------------------------------------


def expected_of(data: bytes, found: dict[str, pa.Table]) -> dict[str, Any] | None:
    """What the slow reader says; None where the bytes are no XSpace."""
    try:
        space = parse(data)
    except (WireError, UnicodeDecodeError):
        return None
    host, path = (found["hosts"][name][0].as_py() for name in ("host", "path"))
    return tables([Source(host, path, len(data), space)])


def is_sound(data: bytes) -> bool:
    try:
        parse(data)
    except (WireError, UnicodeDecodeError):
        return False
    return True


def test_cut_at_every_byte(check_tables: Check) -> None:
    data = small_capture()
    sound = 0
    for size in range(len(data)):
        cut = data[:size]
        outcome = attempt(cut, size)
        assert (outcome is not None) == (is_sound(cut) and size > 0), f"cut to {size} bytes"
        if outcome is not None:
            sound += 1
            check_tables(outcome, expected_of(cut, outcome))
    assert 2 < sound < 10  # at the ends of planes, and of the texts after them


@pytest.mark.parametrize("mode", ["raise", "skip", "salvage"])
def test_cut_streams_and_files(mode: str, tmp_path: Path) -> None:
    data = small_capture()
    path = tmp_path / "vm.xplane.pb"
    for size in range(0, len(data), rounds(5, 17)):
        path.write_bytes(data[:size])
        for what in (path, io.BytesIO(data[:size]), gzip.compress(data[:size])):
            outcome = attempt(what, size, on_error=mode)
            if mode == "salvage" and size > 0:
                assert outcome is not None
                assert is_sound(data[:size]) or lost(outcome), size


def lost(found: dict[str, pa.Table]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = found["import_log"].to_pylist()
    return [row for row in rows if row["severity"] in ("data_loss", "error")]


@pytest.mark.parametrize("bit", few(range(8), 2))
def test_flipped_bits(bit: int, check_tables: Check) -> None:
    data = small_capture()
    for at in range(bit % 3, len(data), rounds(3, 7)):
        bad = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
        outcome = attempt(bad, len(bad), threads=1 + at % 2)
        assert (outcome is not None) == is_sound(bad), f"bit {bit} of byte {at}"
        if outcome is not None:
            check_tables(outcome, expected_of(bad, outcome))
        if at % 2 == bit % 2:
            salvaged = attempt(bad, len(bad), on_error="salvage")
            assert salvaged is not None
            assert outcome is not None or lost(salvaged), f"bit {bit} of byte {at}"


@pytest.mark.parametrize("block", few(range(4), 1))
def test_damaged_random_captures(block: int) -> None:
    """Bytes overwritten, taken out and put in."""
    for seed in range(block * 50, block * 50 + 50):
        chosen = random.Random(seed)
        bad = bytearray(random_space(seed) or b"\n\0")
        for _ in range(chosen.randint(1, 4)):
            at = chosen.randrange(len(bad))
            bad[at : at + chosen.randint(0, 3)] = chosen.randbytes(chosen.randint(0, 3))
        assert attempt(bytes(bad), len(bad), threads=2) is None or is_sound(bytes(bad)) or not bad, seed
        attempt(bytes(bad), len(bad), on_error="salvage")


# ---- not a capture at all -------------------------------------------------------------------------

FOREIGN: dict[str, bytes] = {
    "empty": b"",
    "JSON": json.dumps({"version": 1, "nodes": []}).encode(),
    "JSON list": b'[ {"a": 1}, {"b": 2} ]',
    "text": b"this is not a profile, it is a sentence\n" * 20,
    "HTML": b"<!DOCTYPE html><html></html>",
    "PNG": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
    "ZIP": b"PK\x03\x04" + bytes(100),
    "zeros": bytes(4096),
    "ones": b"\xff" * 4096,
    "a group that never ends": b"\x0b" * 5000,
    "a length of exabytes": b"\x0a" + varint(1 << 62) + b"abc",
    "a plane of gigabytes": b"\x0a" + varint(1 << 31) + b"abc",
    "other protobuf": b"".join(int_field(15, number) for number in range(50)),
    "gzip of text": gzip.compress(b"hello, world\n" * 100),
    "gzip of nothing": gzip.compress(b""),
    "gzip of noise": gzip.compress(random.Random(1).randbytes(5000)),
    "gzip cut short": gzip.compress(small_capture())[:-20],
    "gzip of a cut capture": gzip.compress(small_capture()[:-1]),
    "gzip header alone": b"\x1f\x8b\x08\x00",
    "gzip with a damaged body": gzip.compress(small_capture() * 50)[:60] + b"\0" * 40,
    "zstd of text": pa.compress(b"hello, world\n" * 100, "zstd", asbytes=True),
    "zstd cut short": pa.compress(small_capture() * 9, "zstd", asbytes=True)[:-9],
    "zstd magic alone": b"\x28\xb5\x2f\xfd",
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_is_not_a_capture(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "vm.xplane.pb"
    path.write_bytes(FOREIGN[kind])
    for what in (FOREIGN[kind], path, io.BytesIO(FOREIGN[kind])):
        with pytest.raises(fastprof.CaptureError) as caught:
            read(what)
        assert isinstance(caught.value, ValueError)
        assert caught.value.path and (str(path) == caught.value.path) == (what is path)
        if "cut short" not in kind and "damaged" not in kind and "alone" not in kind:
            assert caught.value.offset is not None
        again = pickle.loads(pickle.dumps(caught.value))
        assert (type(again), str(again)) == (type(caught.value), str(caught.value))
        try:
            read(what if what is not path else str(path), on_error="salvage")
        except fastprof.FastprofError as error:
            assert error.path


@pytest.mark.parametrize("kind", ["JSON", "text", "ZIP"])
def test_the_error_says_what_it_looks_like(kind: str) -> None:
    with pytest.raises(fastprof.CaptureError, match=kind):
        read(FOREIGN[kind])


def test_a_broken_host_is_left_out(tmp_path: Path) -> None:
    good = small_capture()
    (tmp_path / "a.xplane.pb").write_bytes(good)
    (tmp_path / "b.xplane.pb").write_bytes(good[:-30])
    (tmp_path / "c.xplane.pb").write_bytes(b"")
    with pytest.raises(fastprof.CaptureError, match=r"b\.xplane\.pb"):
        read(tmp_path)
    tables = read(tmp_path, on_error="skip")
    assert tables["hosts"]["host"].to_pylist() == ["a"]
    assert {Path(row["path"]).name for row in lost(tables)} == {"b.xplane.pb", "c.xplane.pb"}
    assert tables["events"].num_rows == read(good)["events"].num_rows


# ---- salvage --------------------------------------------------------------------------------------

LOST = 500
"""The number of the event that is damaged."""


def long_capture(damaged: bytes | None = None) -> bytes:
    """Four lines of 400 events with stats; event LOST is these bytes, or, with none, left out."""
    lines = []
    for number in range(4):
        events: list[Any] = [
            event(f"e{at % 7}", at * 10, 5, {"x": at, "s": f"text {at % 9}"})
            for at in range(number * 400, number * 400 + 400)
        ]
        if number == LOST // 400:
            events[LOST % 400 : LOST % 400 + 1] = [] if damaged is None else [damaged]
        lines.append(line(f"t{number}", events))
    names = {f"e{number}": number + 1 for number in range(7)}
    built = plane("/host:CPU", lines, event_ids=names, stat_ids={"x": 1, "s": 2}, stats={"n": 5})
    return xspace(plane("before", stats={"n": 1}), built, plane("after", [line("t", [event("z")])]), hostnames=["vm"])


GOOD = int_field(1, 3) + int_field(2, 5000) + int_field(3, 5)
DAMAGED: dict[str, bytes] = {
    "field number 0": GOOD + b"\x00\x01",
    "wire type 6": GOOD + b"\x0e\x01",
    "a varint that does not end": GOOD + b"\x20" + b"\x80" * 5,
    "a varint of eleven bytes": GOOD[:-1] + b"\x80" * 11 + b"\x01",
    "a stat that runs over the end": GOOD + b"\x22\x7f\x08\x01",
    "an open group": GOOD + b"\x3b\x08\x01",
    "a stat with field number 0": GOOD + len_field(4, int_field(1, 1) + b"\x00\x01"),
    "a text of a stat cut off": GOOD + len_field(4, int_field(1, 2) + b"\x2a\x05abc"),
    "a double cut off": GOOD + len_field(4, int_field(1, 2) + b"\x11" + struct.pack("<d", 1.5)[:5]),
}


@cache
def others() -> dict[str, Any]:
    """The tables without the damaged event."""
    expected = expected_of(long_capture(), read(long_capture()))
    assert expected is not None
    return expected


@pytest.mark.parametrize("damage", DAMAGED)
def test_every_other_event_survives(damage: str, check_tables: Check) -> None:
    bad = long_capture(DAMAGED[damage])
    fault_at = bad.index(DAMAGED[damage])
    for threads in (1, 4):
        with pytest.raises(fastprof.CaptureError) as caught:
            read(bad, threads=threads)
        assert caught.value.offset in range(fault_at, fault_at + len(DAMAGED[damage]) + 1)
        tables = read(bad, on_error="salvage", threads=threads)
        check_tables(tables, others(), only=[name for name in ALL if name not in ("hosts", "import_log")])
        [row] = lost(tables)
        assert row["count"] == 1
        assert fault_at <= row["first_offset"] <= fault_at + len(DAMAGED[damage])


def test_a_wrong_length_costs_what_it_spans() -> None:
    """An event's length is too long: its line resumes behind what it spans, others are untouched."""
    bad = bytearray(long_capture(GOOD))
    at = bytes(bad).index(len_field(4, GOOD)) + 1
    bad[at] = 0x7F
    with pytest.raises(fastprof.CaptureError):
        read(bytes(bad))
    tables = read(bytes(bad), on_error="salvage")
    assert lost(tables)
    starts = set(tables["events"]["start_ps"].to_pylist())
    assert {number * 10 for number in range(LOST)} <= starts
    after = {number * 10 for number in range(LOST + 1, 1600)}
    assert len(after - starts) <= 10


def test_a_cut_capture_keeps_all_before_the_cut() -> None:
    whole = long_capture(GOOD)
    begins = [whole.index(int_field(2, at * 10) + int_field(3, 5)) for at in range(1, 1600)]
    for size in range(begins[10], len(whole), 997):
        tables = read(whole[:size], on_error="salvage")
        assert lost(tables)
        complete = {at * 10 for at, begin in enumerate(begins) if begin <= size}
        assert complete <= set(tables["events"]["start_ps"].to_pylist()), size


def test_text_that_is_not_utf8() -> None:
    """An error by default, with the place; salvage puts U+FFFD for bytes that are not characters, and logs it."""
    bad = b"a\xffb\xc3"
    fixed = "a\ufffdb\ufffd"
    name = Wire(after=len_field(2, bad))
    text = len_field(5, bad)
    places: dict[str, tuple[bytes, str, str]] = {
        "plane": (xspace(plane(bad)), "planes", "name"),
        "line": (xspace(plane("p", [line(bad)])), "lines", "name"),
        "display name": (xspace(plane("p", [line("t", display_name=bad)])), "lines", "display_name"),
        "event": (
            xspace(plane("p", [line("t", [event("a")])], event_metadata=[Metadata("a", wire=name)])),
            "events",
            "name",
        ),
        "event metadata": (
            xspace(plane("p", event_metadata=[Metadata("a", wire=name)])),
            "event_metadata",
            "name",
        ),
        "stat metadata": (
            xspace(plane("p", stat_metadata=[StatMetadata("a", wire=name)])),
            "stat_metadata",
            "name",
        ),
        "stat name": (
            xspace(
                plane(
                    "p",
                    [line("t", [event("a", stats={"x": 1})])],
                    stat_metadata=[StatMetadata("x", wire=name)],
                )
            ),
            "event_stats",
            "stat",
        ),
        "stat value": (
            xspace(plane("p", [line("t", [event("a", stats=[stat("x", "y", Wire(after=text))])])])),
            "event_stats",
            "str_value",
        ),
        "plane stat value": (
            xspace(plane("p", stats=[stat("x", "y", Wire(after=text))])),
            "plane_stats",
            "str_value",
        ),
    }
    for place, (data, table, column) in places.items():
        with pytest.raises(fastprof.CaptureError) as caught:
            read(data)
        assert caught.value.offset is not None, place
        assert abs(caught.value.offset - data.index(bad)) <= len(bad) + 2, place
        tables = read(data, on_error="salvage")
        assert tables[table][column].to_pylist() == [fixed], place
        assert [row["code"] for row in lost(tables)] == ["bad_utf8"], place
        assert abs(lost(tables)[0]["first_offset"] - data.index(bad)) <= len(bad) + 2, place
    for number, column in ((2, "errors"), (3, "warnings"), (4, "hostnames")):
        data = xspace(plane("p")) + len_field(number, bad)
        with pytest.raises(fastprof.CaptureError):
            read(data)
        assert read(data, on_error="salvage")["hosts"][column].to_pylist() == [[fixed]]


def test_the_mangled_capture(captures: Path) -> None:
    """A real upload in which every byte that is not UTF-8 was replaced by EF BF BD."""
    path = captures / "corrupt" / "utf8_mangled.xplane.pb"
    for threads in (1, 4):
        with pytest.raises(fastprof.CaptureError) as caught:
            read(path, threads=threads)
        assert caught.value.path == str(path)
        assert caught.value.offset is not None and 0 < caught.value.offset < path.stat().st_size
    begun = time.monotonic()
    tables = read(path, on_error="salvage", threads=4)
    assert time.monotonic() - begun < 20
    losses = lost(tables)
    assert losses and all(row["severity"] == "data_loss" and row["path"] == str(path) for row in losses)
    assert tables["planes"].num_rows > 0
    assert tables["events"].num_rows > 0
    for name, table in read(path, on_error="salvage", threads=1).items():
        assert table.equals(tables[name]), name


def test_damage_does_not_take_long() -> None:
    """Resuming is not quadratic: a megabyte of noise within a line, and within a plane."""
    noise = random.Random(2).randbytes(1 << 20)
    for bad in (
        xspace(plane("p", [line("t", [event("a")], wire=Wire(after=noise))])),
        xspace(plane("p", wire=Wire(after=noise))),
        xspace(plane("p")) + noise,
        xspace(plane("p", [line("t", wire=Wire(after=b"\x0e" + b"\x22\x81\x80" * 300_000))])),
        xspace(plane("p", [line("t", wire=Wire(after=b"\x0e" + b"\x22\x04" * 500_000))])),
    ):
        begun = time.monotonic()
        attempt(bad, len(bad), on_error="salvage")
        assert time.monotonic() - begun < 10
