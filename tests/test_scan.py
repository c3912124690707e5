"""Scanning: the rows of event_table as record batches of one schema, in bounded memory."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from gate import few, rounds
from random_spaces import random_space
from slow_reader import Space, parse
from small_cuts import cut_small
from trace_builder import (
    Metadata,
    StatMetadata,
    Value,
    Wire,
    aggregated,
    event,
    int_field,
    len_field,
    line,
    plane,
    ref,
    task_environment,
    u64,
    xspace,
)

import fastprof

Batches = list[pa.RecordBatch]
STATS = ("int", "double", "text", "raw", "number", "mixed", "shared", "nothing")
MIXED: tuple[Value, ...] = (1, "a", 0.5, b"\xff", ref("b"), u64(2**64 - 1), ref(999))


def host_of(host: int) -> bytes:
    """Two planes; lines in order and out of order, of one segment and of none; every kind of stat."""
    events = [
        event(
            f"e{i % 3}",
            10 * i,
            5,
            {
                "int": u64(2**64 - i) if i % 2 else i,
                "double": i / 8,
                "number": i / 2 if i % 2 else i,
                "raw": bytes([i]),
                "mixed": MIXED[i % len(MIXED)],
            }
            if i % 5
            else {"text": f"t{i}"},
        )
        for i in range(30)
    ]
    metadata = [Metadata(f"e{i}", stats={"text": f"m{i}", "raw": b"m", "shared": i}) for i in range(2)]
    first = [line("in order", [*events, aggregated("e0", 3, 9)]), line("empty"), line("reversed", events[::-1])]
    return xspace(
        task_environment(10**18 + host),
        plane("a", first, event_metadata=metadata, stat_metadata=[StatMetadata("nothing")]),
        plane("b", [line("in order", [event("lone", 99, 1, {"text": ref("r"), "mixed": f"h{host}"})])]),
        hostnames=[f"vm{host}"],
    )


HOSTS = [host_of(0), host_of(1)]


@pytest.fixture(params=[1, 60, 4 << 20], ids=["blocks of one event", "blocks of a few events", "one block"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param < 4 << 20:
        cut_small(monkeypatch, segment_bytes=request.param, block_bytes=request.param, run_events=4)


def check_batches(batches: Batches, table: pa.Table, batch_rows: int = 1 << 18) -> None:
    """The batches are the rows of the table, in batches of one schema that says what the table's says."""
    assert batches
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema.equals(batches[0].schema, check_metadata=True)
        assert 0 < batch.num_rows <= batch_rows or (len(batches) == 1 and not table.num_rows)
    assert batches[0].schema.names == table.column_names
    for name in table.column_names:
        values = [value for batch in batches for value in batch.column(name).to_pylist()]
        assert repr(values) == repr(table[name].to_pylist()), name
        field, promised = batches[0].schema.field(name), table.schema.field(name)
        assert (field.metadata, field.nullable) == (promised.metadata, promised.nullable)
        if pa.types.is_dictionary(promised.type):
            assert field.type == pa.dictionary(pa.int32(), promised.type.value_type)
        else:
            assert field.type == promised.type
    assert batches[0].schema.metadata == table.schema.metadata


# ---- rows and batches -------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_rows", few([1, 2, 7, 61, 10**6], 3))
@pytest.mark.usefixtures("blocks")
def test_batches_are_the_event_table(batch_rows: int) -> None:
    profile = fastprof.load(HOSTS)
    for columns in (None, ["name", "duration_ps", "event_id"], []):
        batches = list(profile.scan(columns, STATS, batch_rows=batch_rows))
        check_batches(batches, profile.event_table(columns, STATS), batch_rows)
        assert sum(batch.num_rows for batch in batches) == 124
    check_batches(list(profile.scan(batch_rows=batch_rows)), profile.events, batch_rows)


def test_captures_drawn_by_lot(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_small(monkeypatch, run_events=3)
    rows = 0
    for seed in range(rounds(100, 40)):
        data = random_space(seed, well_written=seed % 2 == 0)
        if parse(data) == Space():
            continue
        profile = fastprof.load(data)
        batches = list(profile.scan(batch_rows=1 + seed % 9))
        check_batches(batches, profile.events, 1 + seed % 9)
        rows += sum(batch.num_rows for batch in batches)
    assert rows > rounds(1000, 400)


@pytest.mark.captures
def test_real_captures(captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_small(monkeypatch, segment_bytes=5000, block_bytes=20000)
    for name in ("cpu-jax-train", "synthetic-tpu-pod", "gpu-mi300x-jax08-gemm"):
        profile = fastprof.load(captures / "xspace" / name)
        stats = profile.event_stats["stat"].unique().to_pylist()[:4]
        table = profile.event_table(None, stats)
        batches = list(profile.scan(None, stats, batch_rows=333))
        assert len(batches) > 1 or len(table) <= 333
        assert [repr(row) for b in batches for row in b.to_pylist()] == [repr(row) for row in table.to_pylist()]


def test_small_blocks_share_a_batch() -> None:
    """Lines out of order are blocks of their own; a batch holds as many as it has room for."""
    lines = [line(f"l{i}", [event("e", 5 - k, 1) for k in range(5)]) for i in range(20)]
    profile = fastprof.load(xspace(plane("p", lines)))
    for batch_rows, size in ((9, 5), (10, 10), (14, 10), (15, 15)):
        sizes = [batch.num_rows for batch in profile.scan(batch_rows=batch_rows)]
        assert set(sizes[:-1]) == {size} and sum(sizes) == 100


def test_batches_outlive_the_scan() -> None:
    profile = fastprof.load(HOSTS)
    wanted = [repr(row) for row in profile.event_table(None, STATS).to_pylist()]
    batches = list(profile.scan(None, STATS, batch_rows=9))
    del profile
    gc.collect()
    assert [repr(row) for batch in batches for row in batch.to_pylist()] == wanted


def test_batches_go_where_streams_go() -> None:
    batches = list(fastprof.load(HOSTS).scan(["host", "name"], ["mixed"], batch_rows=10))
    table = pa.RecordBatchReader.from_batches(batches[0].schema, batches).read_all()
    assert table["name"].combine_chunks().value_counts().field("counts").to_pylist() == [42, 40, 40, 2]


# ---- one schema -------------------------------------------------------------------------------------

TYPES: dict[str, tuple[list[Value], pa.DataType]] = {
    "integers": ([1, u64(2**63), None], pa.int64()),
    "doubles": ([0.5, None, 1.0], pa.float64()),
    "doubles, later than integers": ([1, 2, 0.5], pa.float64()),
    "texts": (["a", "b", ref("a"), None], pa.dictionary(pa.int32(), pa.string())),
    "texts, later than integers": ([1, "a"], pa.dictionary(pa.int32(), pa.string())),
    "refs that lead nowhere, later than others": ([ref("a"), ref(999)], pa.dictionary(pa.int32(), pa.string())),
    "refs that lead nowhere": ([ref(999), ref(998)], pa.dictionary(pa.int32(), pa.string())),
    "bytes": ([b"a", None, b""], pa.large_binary()),
    "bytes, later than texts": (["a", b"\xff", "b"], pa.dictionary(pa.int32(), pa.string())),
    "bytes, later than doubles": ([0.5, None, b""], pa.dictionary(pa.int32(), pa.string())),
    "nothing": ([None, None], pa.int64()),
}


@pytest.mark.parametrize("case", TYPES)
@pytest.mark.parametrize("shared", [False, True], ids=["own", "of metadata"])
def test_a_batch_has_the_type_that_all_events_give(case: str, shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_small(monkeypatch)
    values, kind = TYPES[case]
    names = [f"e{i}" for i in range(len(values))]
    own = [event(name, i, 1, {} if shared else {"s": values[i]}) for i, name in enumerate(names)]
    metadata = [Metadata(name, stats={"s": values[i]} if shared else {}) for i, name in enumerate(names)]
    declared = [StatMetadata("s")]
    profile = fastprof.load(xspace(plane("p", [line("l", own)], event_metadata=metadata, stat_metadata=declared)))
    batches = list(profile.scan(["name"], ["s"], batch_rows=1))
    assert [batch.num_rows for batch in batches] == [1] * len(values)
    assert {batch.schema.field("s").type for batch in batches} == {kind}
    check_batches(batches, profile.event_table(["name"], ["s"]))
    assert next(profile.select(names="nothing").scan([], ["s"])).schema.field("s").type == kind


def test_types_of_all_hosts_hold_for_each() -> None:
    hosts = [xspace(plane("p", [line("l", [event("e", 0, 1, {"s": value})])])) for value in (1, 0.5, "a")]
    batches = list(fastprof.load(hosts).scan(["host"], ["s"], batch_rows=1))
    assert [batch.column("s").to_pylist() for batch in batches] == [["1"], ["0.5"], ["a"]]


def test_doubles_and_inexact_integers_have_no_type_in_batches() -> None:
    """That they mix badly shows too late, when batches of doubles have been given."""
    values: list[Value] = [0.5, 2**53, 2**53 + 1]
    own = [event(f"e{i}", i, 1, {"s": value}) for i, value in enumerate(values)]
    profile = fastprof.load(xspace(plane("p", [line("l", [one], id=i) for i, one in enumerate(own)])))
    assert profile.event_table([], ["s"])["s"].to_pylist() == ["0.5", "9007199254740992", "9007199254740993"]
    with pytest.raises(fastprof.UsageError, match=r"the stat 's' has doubles and integers above 2\*\*53; read event_"):
        list(profile.scan([], ["s"]))
    found = list(profile.select(names="[01]").scan([], ["s"]))
    assert repr(found[0].column("s").to_pylist()) == "[0.5, 9007199254740992.0]"


@pytest.mark.parametrize("batch_rows", [1, 100])
def test_nothing_found_is_one_empty_batch(batch_rows: int) -> None:
    profile = fastprof.load(HOSTS)
    some = next(profile.scan(None, STATS, batch_rows))
    for nothing in (
        profile.select(names="no such name"),
        profile.select(time_ps=(10**9, None)),
        profile.select(lines="empty"),
        profile.select(hosts=[]),
    ):
        (batch,) = nothing.scan(None, STATS, batch_rows)
        assert batch.num_rows == 0 and batch.schema.names == some.schema.names
        assert batch.schema.remove_metadata().equals(some.schema.remove_metadata())
        assert batch.schema.metadata == nothing.events.schema.metadata
    (batch,) = fastprof.load(xspace(plane("p", [line("l")], stat_metadata=[StatMetadata("s")]))).scan(stats=["s"])
    assert batch.num_rows == 0 and batch.schema.names == [*profile.events.column_names, "s"]


# ---- selections and arguments -----------------------------------------------------------------------

SELECTIONS: dict[str, dict[str, Any]] = {
    "host": {"hosts": "vm1"},
    "plane": {"planes": "^a"},
    "line": {"lines": ["in order"]},
    "line out of order": {"lines": "reversed"},
    "name": {"names": "e[01]"},
    "time": {"time_ps": (33, 205)},
    "all": {"hosts": ["vm0"], "planes": "a", "lines": "rev", "names": ["e1", "e2"], "time_ps": (None, 200)},
}


@pytest.mark.parametrize("case", SELECTIONS)
@pytest.mark.usefixtures("blocks")
def test_selections(case: str, tmp_path: Path) -> None:
    """The method gives what event_table gives; the function what the method gives."""
    for host, data in enumerate(HOSTS):
        (tmp_path / f"vm{host}.xplane.pb").write_bytes(data)
    profile = fastprof.load(tmp_path)
    chosen = profile.select(**SELECTIONS[case])
    table = chosen.event_table(["event_id", "name"], ["text"])
    assert 0 < len(table) < 124
    batches = list(chosen.scan(["event_id", "name"], ["text"], batch_rows=4))
    check_batches(batches, table, 4)
    direct = list(
        fastprof.scan(tmp_path, columns=["event_id", "name"], stats=["text"], batch_rows=4, **SELECTIONS[case])
    )
    assert direct == batches


def test_the_function_loads_as_load_does(tmp_path: Path) -> None:
    (tmp_path / "vm0.xplane.pb").write_bytes(HOSTS[0])
    (tmp_path / "vm1.xplane.pb").write_bytes(HOSTS[1][:-9])
    with pytest.raises(fastprof.CaptureError, match="vm1"):
        fastprof.scan(tmp_path)
    alone = list(fastprof.load(tmp_path / "vm0.xplane.pb").scan(["event_id"]))
    assert [batch.to_pylist() for batch in fastprof.scan(tmp_path, columns=["event_id"], on_error="skip")] == [
        batch.to_pylist() for batch in alone
    ]
    for arguments, message in (
        ({"threads": 0}, "threads"),
        ({"on_error": "x"}, "on_error"),
        ({"batch_rows": 0}, "batch_rows must be an integer of at least 1"),
        ({"stats": ["name"]}, "requested twice: name"),
    ):
        with pytest.raises(fastprof.UsageError, match=message):
            fastprof.scan(HOSTS[0], **arguments)
    with pytest.raises(fastprof.NotFoundError, match="no such run"):
        fastprof.scan(tmp_path, run="no such run")


def test_what_makes_no_sense_fails_at_the_call() -> None:
    """Not at the first batch."""
    profile = fastprof.load(HOSTS)
    for arguments, message in (
        ({"batch_rows": 0}, "batch_rows must be an integer of at least 1"),
        ({"batch_rows": -5}, "batch_rows"),
        ({"columns": ["nam"]}, "no column 'nam'"),
        ({"stats": ["s", "s"]}, "requested twice: s"),
        ({"stats": "s"}, "list of names"),
    ):
        with pytest.raises(fastprof.UsageError, match=message):
            profile.scan(**arguments)


# ---- several at once, and given up ------------------------------------------------------------------


def test_scans_do_not_disturb_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_small(monkeypatch, run_events=4)
    profile = fastprof.load(HOSTS)
    one, other = profile.scan(["event_id"], ["text"], 7), profile.select(planes="a").scan(["event_id"], ["mixed"], 3)
    taken: tuple[Batches, Batches] = ([], [])
    while True:
        steps = [next(one, None), next(other, None)]
        for batch, batches in zip(steps, taken, strict=True):
            batches += [] if batch is None else [batch]
        if steps == [None, None]:
            break
    check_batches(taken[0], profile.event_table(["event_id"], ["text"]), 7)
    check_batches(taken[1], profile.select(planes="a").event_table(["event_id"], ["mixed"]), 3)


def in_a_thread(work: Callable[[], Any]) -> Any:
    """What the work gives in a thread of its own; a lock that is held would stop it."""
    found: list[Any] = []
    worker = threading.Thread(target=lambda: found.append(work()), daemon=True)
    worker.start()
    worker.join(60)
    assert not worker.is_alive(), "stuck"
    return found[0]


def open_files() -> int:
    """How many this process has open; 0 if the system does not say."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


@pytest.mark.parametrize("threads", [1, 3])
def test_a_scan_given_up_leaves_nothing_behind(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread, no lock, and not the temporary file that a line out of order is sorted in."""
    cut_small(monkeypatch, segment_bytes=2000, block_bytes=2000, run_events=1500)
    data = xspace(plane("p", [line("l", [event("e", 5000 - i, 1, {"text": f"t{i % 9}"}) for i in range(5000)])]))
    expected = fastprof.load(data, threads=1).read("events", "event_stats", "nesting")
    running, opened = threading.active_count(), open_files()
    profile = fastprof.load(data, threads=threads)
    scans = [profile.scan(stats=["text"], batch_rows=100) for _ in range(3)]
    for batches in scans:
        assert [next(batches).num_rows for _ in range(3)] == [100] * 3
        assert in_a_thread(lambda: profile.select(time_ps=(3, 5)).read("events"))["events"].num_rows == 2
    assert open_files() in (opened + 3, 0)
    for batches in scans[1:]:
        batches.close()  # type: ignore[attr-defined]
    del batches, scans  # the first one is dropped as it is
    gc.collect()
    assert (threading.active_count(), open_files()) == (running, opened)
    found = in_a_thread(lambda: profile.read("events", "event_stats", "nesting"))
    assert [name for name in expected if not found[name].equals(expected[name])] == []


# ---- memory -----------------------------------------------------------------------------------------


def long_line(megabytes: int, out_of_order: bool) -> bytes:
    """One line of equal events but the first, which may be out of order."""
    own = len_field(
        4, int_field(1, 1) + int_field(2, 7) + int_field(3, 5) + len_field(4, int_field(1, 1) + int_field(4, 300))
    )
    count = (megabytes << 20) // len(own)
    raw = Wire(after=own * count)
    first = [event("e", 10**6 if out_of_order else 0, 1, {"s": 1})]
    return xspace(plane("p", [line("l", first, wire=raw)]))


def peak_of(data: bytes, stats: Sequence[str]) -> tuple[int, int]:
    """Rows scanned, and the most memory that was held meanwhile, in bytes."""
    profile = fastprof.load(data, threads=1)
    rows, arrow = 0, pa.total_allocated_bytes()
    most = 0
    tracemalloc.start()
    try:
        for batch in profile.scan(["event_id", "start_ps", "duration_ps", "name"], stats, batch_rows=10_000):
            rows += batch.num_rows
            most = max(most, pa.total_allocated_bytes() - arrow)
        return rows, tracemalloc.get_traced_memory()[1] + most
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("out_of_order", [False, True])
def test_memory_does_not_grow_with_the_number_of_events(out_of_order: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers, which NumPy and Arrow allocate, are those of a block, however long the line is."""
    cut_small(monkeypatch, segment_bytes=1 << 18, block_bytes=1 << 20, run_events=1 << 16)
    few, small = peak_of(long_line(4, out_of_order), ["s"])
    many, large = peak_of(long_line(16, out_of_order), ["s"])
    assert many > 3.9 * few and many > 700_000
    assert large < 1.2 * small
    assert large < many * 28 / 2  # far from the table, whose rows have 28 bytes and more
