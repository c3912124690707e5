"""Sums of ops take work and memory in proportion to a capture, however many programs and memories it names. Counted in
rows of ops that are gathered, and in rows of sums."""

from __future__ import annotations

import tracemalloc

import pytest
from trace_builder import Event, Metadata, event, int_field, len_field, line, plane, u64, xspace

import fastprof
from fastprof.derive.ops.op_table import OpTable
from fastprof.schema.columns import Int64s

US = 1_000_000
PEAKS = {"peak_teraflops_per_second": 10.0, "peak_hbm_bw_gigabytes_per_second": 10.0}


def capture(metadata: list[Metadata]) -> bytes:
    """A core that runs each of these ops once."""
    ran: list[Event] = [event(one.name, k * US, US) for k, one in enumerate(metadata)]
    core = plane("/device:TPU:0", [line("XLA Ops", ran, id=3)], event_metadata=metadata, stats=PEAKS)
    return xspace(core, hostnames=["vm"])


def op(number: int, program: int, **stats: object) -> Metadata:
    known = {"program_id": u64(program), "symbol_id": u64(number), "hlo_category": "loop fusion", "flops": u64(9)}
    return Metadata(f"fusion.{number}", number, display_name=f"fusion.{number}", stats=known | stats)


def a_program_each(count: int) -> bytes:
    return capture([op(number, program=number) for number in range(1, count + 1)])


def a_memory_each(count: int) -> bytes:
    """Each op moves bytes to a memory that no other op names."""

    def moved(number: int) -> bytes:
        return len_field(1, int_field(1, 1) + int_field(2, 3000 + number) + int_field(3, 8))

    ops = [op(number, 1, memory_access_breakdown=moved(number)) for number in range(1, count + 1)]
    return capture(ops)


def test_ops_are_gathered_a_few_times_each_however_many_programs_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    gathered, take = [0], OpTable.take

    def counted(self: OpTable, rows: Int64s) -> OpTable:
        gathered[0] += len(self)
        return take(self, rows)

    monkeypatch.setattr(OpTable, "take", counted)
    count = 400
    report = fastprof.load(a_program_each(count)).roofline()
    assert report.tables["ops"].num_rows == count
    report.to_xprof()
    assert count < gathered[0] < 20 * count


def test_memory_is_in_proportion_however_many_memories_ops_name() -> None:
    data = a_memory_each(1500)
    fastprof.load(a_memory_each(2)).roofline()  # what is imported does not count

    def measure() -> int:
        tracemalloc.start()
        try:
            fastprof.load(data).roofline()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert min(measure() for _ in range(3)) < 40 * len(data), "threads of other tests may allocate meanwhile"


def test_memories_without_a_code_are_apart_by_op() -> None:
    table = fastprof.load(a_memory_each(5)).roofline().tables["memory"]
    spaces = [f"layout space {2001 + k}" for k in range(5)]
    assert sorted(zip(table["space"].to_pylist(), table["bytes"].to_pylist(), strict=True)) == [
        (space, 8.0) for space in spaces
    ]
