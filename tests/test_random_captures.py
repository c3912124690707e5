"""Captures drawn by lot: tables, selections and batches are what the slow reader's rows say."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from gate import few, rounds
from random_spaces import random_space
from slow_reader import Space, parse
from slow_tables import Source, Tables, tables

import fastprof

Check = Callable[..., None]
Rows = dict[str, list[Any]]
Row = dict[str, Any]
BLOCKS, PER_BLOCK = few(range(10), 2), 30


def space_of(seed: int) -> bytes:
    """Each third is written plainly, so that the decoder's fast paths are drawn too."""
    return random_space(seed, well_written=seed % 3 == 0)


def oracle(profile: Any, *captures: bytes) -> Tables:
    named = zip(*(profile.hosts[name].to_pylist() for name in ("host", "path", "run")), captures, strict=True)
    return tables([Source(host, path, len(data), parse(data), run) for host, path, run, data in named])


def drawn(seeds: Iterable[int], **options: Any) -> Iterator[tuple[int, Any, Tables]]:
    """Seed, profile and expected tables; a file without any field of an XSpace is an error and is left out."""
    for seed in seeds:
        data = space_of(seed)
        if parse(data) != Space():
            profile = fastprof.load(data, **options)
            yield seed, profile, oracle(profile, data)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("block", BLOCKS)
def test_tables(block: int, threads: int, check_tables: Check) -> None:
    for seed, profile, expected in drawn(range(block * PER_BLOCK, (block + 1) * PER_BLOCK), threads=threads):
        try:
            check_tables(profile.tables, expected)
        except AssertionError as fault:
            raise AssertionError(f"seed {seed}: {fault}") from None


class RaggedReads(io.RawIOBase):
    """A file object that gives one to forty bytes at a time, as the seed has it."""

    def __init__(self, data: bytes, seed: int) -> None:
        self._inner = io.BytesIO(data)
        self._random = random.Random(seed)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        most = self._random.randint(1, 40)
        return self._inner.read(most if size < 0 else min(size, most))


def test_ragged_reads(check_same: Check) -> None:
    for seed, profile, _ in drawn(range(rounds(40, 15))):
        found = fastprof.load(RaggedReads(space_of(seed), seed))
        check_same(found.tables, profile.tables, ("hosts", "import_log"))


@pytest.mark.parametrize("block", BLOCKS)
def test_sessions_of_several_captures(block: int, check_tables: Check, tmp_path: Path) -> None:
    """Ids run on from host to host; the order of the files is that of fastprof's hosts."""
    first = block * PER_BLOCK
    spaces = {f"host{seed}": space_of(seed) for seed in range(first, first + 5)}
    captures = {host: data for host, data in spaces.items() if parse(data) != Space()}
    for host, data in captures.items():
        (tmp_path / f"{host}.xplane.pb").write_bytes(data)
    profile = fastprof.load(tmp_path, threads=3)
    hosts = profile.hosts["host"].to_pylist()
    assert sorted(hosts) == sorted(captures)
    check_tables(profile.tables, oracle(profile, *(captures[host] for host in hosts)))


# ---- selections -----------------------------------------------------------------------------------


def kept(rows: Rows, keep: Callable[[Row], bool]) -> Rows:
    count = len(next(iter(rows.values())))
    places = [at for at in range(count) if keep({name: values[at] for name, values in rows.items()})]
    return {name: [values[at] for at in places] for name, values in rows.items()}


def of_events(expected: Tables, events: Rows) -> Tables:
    """These events and what belongs to them."""
    ids = set(events["event_id"])
    return {
        "events": events,
        "event_stats": kept(expected["event_stats"], lambda row: row["event_id"] in ids),
        "nesting": kept(expected["nesting"], lambda row: row["event_id"] in ids),
    }


SELECTIONS: dict[str, tuple[dict[str, Any], Callable[[Row], Any]]] = {
    "a plane": ({"planes": "GPU|TPU"}, lambda row: re.search("GPU|TPU", row["plane"])),
    "planes": ({"planes": ["^/host", "TPU"]}, lambda row: re.search("^/host|TPU", row["plane"])),
    "a line": ({"lines": "^main$"}, lambda row: row["line"] == "main"),
    "a name": ({"names": "ö"}, lambda row: "ö" in (row["name"] or "")),
    "names": ({"names": ["^step$", r"\."]}, lambda row: re.search(r"^step$|\.", row["name"] or "")),
    "names of a line": (
        {"names": "mat", "lines": "work"},
        lambda row: "mat" in (row["name"] or "") and "work" in row["line"],
    ),
}


@cache
def drawn_once() -> list[tuple[int, Any, Tables]]:
    return [*drawn(range(40), threads=2)]


@pytest.mark.parametrize("selection", SELECTIONS)
def test_selections(selection: str, check_tables: Check) -> None:
    asked, keep = SELECTIONS[selection]
    found = 0
    for seed, profile, expected in drawn_once():
        events = kept(expected["events"], lambda row: bool(keep(row)))
        selected = profile.select(**asked).read("events", "event_stats", "nesting")
        check_tables(selected, of_events(expected, events))
        assert profile.events.num_rows == len(expected["events"]["event_id"]), seed
        found += len(events["event_id"])
    assert found


def test_nothing_is_selected() -> None:
    for _, profile, _ in drawn(range(20)):
        nothing = profile.select(names="no such name")
        assert [nothing.tables[name].num_rows for name in ("events", "event_stats", "nesting")] == [0, 0, 0]


def window(events: Rows, seed: int) -> tuple[int, int] | None:
    """A span of time whose edges are no edge of an event, so that what overlaps it is beyond doubt."""
    spans = zip(events["start_ps"], events["duration_ps"], strict=True)
    edges = {edge for start, duration in spans if start is not None for edge in (start, start + duration, start - 1)}
    free = [edge + 2 for edge in sorted(edges) if edge + 2 not in edges and edge < 1 << 60]
    if len(free) < 2:
        return None
    first, last = sorted(random.Random(seed).sample(free, 2))
    return first, last


def overlaps(row: Row, span: tuple[int, int]) -> bool:
    start = row["start_ps"]
    return start is not None and start < span[1] and start + row["duration_ps"] > span[0]


def test_selections_of_time(check_tables: Check) -> None:
    found = 0
    for seed, profile, expected in drawn(range(60)):
        span = window(expected["events"], seed)
        if span is None:
            continue
        events = kept(expected["events"], lambda row, span=span: overlaps(row, span))  # type: ignore[misc]
        selected = profile.select(time_ps=span).read("events", "event_stats")
        of_span = of_events(expected, events)
        check_tables(selected, of_span, only=("events", "event_stats"))
        found += len(events["event_id"])
    assert found


def test_batches_are_the_events() -> None:
    for seed, profile, expected in drawn(range(30)):
        batches = list(profile.scan(batch_rows=7))
        assert all(0 < batch.num_rows <= 7 for batch in batches) or [batch.num_rows for batch in batches] == [0]
        for name, values in expected["events"].items():
            assert [value for batch in batches for value in batch[name].to_pylist()] == values, (seed, name)


# ---- stats beside events --------------------------------------------------------------------------

_CLASSES = {
    "int64": "int",
    "uint64": "int",
    "double": "double",
    "str": "text",
    "ref": "text",
    "bytes": "bytes",
}
_VALUES = ("int_value", "double_value", "str_value", "bytes_value")
Found = dict[tuple[Any, ...], tuple[str, Any]]


def first_of(stats: Rows, key: tuple[str, ...], name: str) -> Found:
    """Kind and value of the first stat of this name, by owner."""
    found: Found = {}
    owners = zip(*(stats[column] for column in key), strict=True)
    values = zip(*(stats[column] for column in _VALUES), strict=True)
    for owner, stat, kind, value in zip(owners, stats["stat"], stats["kind"], values, strict=True):
        if stat == name and kind != "none":
            found.setdefault(owner, (kind, next((part for part in value if part is not None), None)))
    return found


def looked_up(expected: Tables, name: str) -> list[tuple[str, Any] | None]:
    """For each event: its own stat of this name, else its metadata's."""
    own = first_of(expected["event_stats"], ("event_id",), name)
    shared = first_of(expected["event_metadata_stats"], ("plane_id", "metadata_id"), name)
    events = expected["events"]
    keys = zip(events["event_id"], events["plane_id"], events["metadata_id"], strict=True)
    return [own.get((event,)) or shared.get((plane, meta)) for event, plane, meta in keys]


def test_stats_beside_events() -> None:
    """Columns of one kind of value; the tables do not say which of joined planes a metadata belongs to."""
    compared = 0
    for seed, profile, expected in drawn(range(0, 450, 3)):
        if len(expected["planes"]["name"]) < len(parse(space_of(seed)).planes):
            continue
        names = {*expected["event_stats"]["stat"], *expected["event_metadata_stats"]["stat"]}
        for name in sorted(name for name in names if not name.startswith("#")):
            values = looked_up(expected, name)
            kinds = {_CLASSES[value[0]] for value in values if value}
            leads_nowhere = any(value and value[0] == "ref" and isinstance(value[1], int) for value in values)
            if len(kinds) != 1 or leads_nowhere:
                continue
            column = profile.event_table(columns=["event_id"], stats=[name])[name]
            assert repr(column.to_pylist()) == repr([value and value[1] for value in values]), (seed, name)
            compared += 1
    assert compared > 100


def test_summary_by_name() -> None:
    """Names that aggregated events have are left out: what they count is not this test's."""
    for seed, profile, expected in drawn(range(40)):
        events, self_times = expected["events"], expected["nesting"]["self_time_ps"]
        sums = {n for n, start in zip(events["name"], events["start_ps"], strict=True) if start is None}
        rows = zip(events["name"], events["duration_ps"], self_times, strict=True)
        by_name: dict[str, list[tuple[int, int]]] = {}
        for name, duration, self_time in rows:
            if name is not None and name not in sums:
                by_name.setdefault(name, []).append((duration, self_time))
        found = {row["name"]: row for row in profile.event_summary().to_pylist()}
        for name, times in by_name.items():
            durations, selfs = zip(*times, strict=True)
            wanted = {
                "count": len(times),
                "total_ps": sum(durations),
                "self_ps": sum(selfs),
                "min_ps": min(durations),
                "max_ps": max(durations),
            }
            assert {key: found[name][key] for key in wanted} == wanted, (seed, name)
