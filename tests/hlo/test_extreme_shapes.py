"""Programs whose shapes are too large for 64 bits: their sizes and costs are null, with a row in import_log, and every
analysis and table is computed all the same."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from gate import few
from hlo_builder import Op, Program, f32, shape, tuple_of
from large_modules import captured, entry_names

import fastprof

LARGE, LARGEST = 2**62, 2**63 - 1


def program(of: bytes, opcode: str = "add") -> Program:
    made = Program("extreme")
    made.entry(Op("x", "parameter", of), Op("y", "parameter", of), Op("r", opcode, of, ["x", "y"]))
    return made


def nested(of: bytes, depth: int) -> bytes:
    for _ in range(depth):
        of = tuple_of(of, f32(2))
    return of


UNKNOWN: dict[str, Callable[[], Program]] = {
    "two large dimensions": lambda: program(f32(LARGE, LARGE)),
    "the largest dimension": lambda: program(f32(LARGEST)),
    "rank 1000": lambda: program(f32(*[2] * 1000)),
    "rank 1000 of the largest": lambda: program(f32(*[LARGEST] * 1000)),
    "in full tiles": lambda: program(shape("bf16", LARGEST, LARGEST, tiles=((8, 128), (2, 1)))),
    "in nested tuples": lambda: program(nested(f32(LARGE, LARGE), 60), "tuple"),
    "a sum over a tuple": lambda: program(tuple_of(*[f32(2**59)] * 9), "tuple"),
}
"""Programs whose instruction r has a result of unknown size."""
NONE: dict[str, Callable[[], Program]] = {
    "no elements": lambda: program(f32(0, LARGEST, LARGEST)),
    "dimensions below 0": lambda: program(f32(-1, -5)),
    "large tiles": lambda: program(shape("bf16", 8, 8, tiles=((LARGEST, LARGEST), (2, 1)))),
}
TABLES = ("hlo_modules", "hlo_computations", "hlo_instructions", "hlo_buffers", "hlo_allocations", "hlo_heap_events",
          "hlo_costs")  # fmt: skip
ANALYSES = ("hlo_stats", "roofline", "memory_viewer", "op_profile", "op_stats", "overview", "communication")


@pytest.mark.parametrize("on_error", ["raise", "salvage"])
@pytest.mark.parametrize("name", UNKNOWN)
def test_what_does_not_fit_64_bits_is_null_with_a_row(name: str, on_error: str) -> None:
    made = UNKNOWN[name]()
    p = fastprof.load(captured(made, entry_names(made)), on_error=on_error)
    cost = next(row for row in p.hlo_costs.to_pylist() if row["name"] == "r")
    assert (cost["hbm_read_bytes"], cost["hbm_written_bytes"]) == (None, None)
    result = next(row for row in p.hlo_instructions.to_pylist() if row["name"] == "r")
    assert (result["shape_bytes"], result["padded_bytes"]) == (None, None)
    reasons = [row["example"] for row in p.import_log.to_pylist() if row["code"] == "size_overflow"]
    assert len(reasons) == 1 and "do not fit 64 bits" in reasons[0] and "extreme" in reasons[0]


@pytest.mark.parametrize("name", few([*UNKNOWN, *NONE], 5))
def test_every_table_and_analysis_is_computed(name: str) -> None:
    made = (UNKNOWN | NONE)[name]()
    p = fastprof.load(captured(made, entry_names(made)))
    assert [getattr(p, table).num_rows >= 0 for table in TABLES] == [True] * len(TABLES)
    for report in p.reports(*ANALYSES).values():
        json.loads(report.to_json())
        if report.analysis != "communication":
            json.loads(report.to_xprof())
