"""Programs joined to events, as docs/hlo.md describes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hlo_builder import Op, Program, f32
from trace_builder import Metadata, event, line, plane, u64, xspace

import fastprof

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "hlo.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
ID = 2**63 + 12


def joined(code: str, profile: fastprof.Profile, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[int, int]]:
    """(runs, self time) by category: what a block of the page prints."""
    shown: list[Any] = []
    monkeypatch.setattr(fastprof, "load", lambda _: profile)
    exec(compile(code, "hlo.md", "exec"), {"print": shown.append, "p": profile, "duckdb": duckdb})  # our own page
    (found,) = shown
    return {category: (runs, int(self_ps)) for category, runs, self_ps in found.fetchall()}


def test_on_tpus_the_time_of_ops_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = fastprof.load(ROOT / "demo" / "xla")
    ops = profile.hlo_stats().tables["ops"]
    wanted: dict[str, tuple[int, int]] = {}
    for row in ops.select(["category", "occurrences", "self_ps"]).to_pylist():
        runs, self_ps = wanted.get(row["category"], (0, 0))
        wanted[row["category"]] = runs + row["occurrences"], self_ps + row["self_ps"]
    places = joined(BLOCKS[0], profile, monkeypatch)
    assert sum(runs for runs, _ in places.values()) == 1070  # events of the lines XLA Ops
    assert sum(self_ps for _, self_ps in places.values()) == sum(self_ps for _, self_ps in wanted.values())
    assert places["all-reduce-start"] == wanted["all-reduce-start"]


def named(op: str, start: int, duration: int) -> Any:
    return event("k", start, duration, stats={"hlo_op": op, "program_id": u64(ID)})


def capture(*planes: bytes) -> fastprof.Profile:
    made = Program("jit_f")
    fused = made.computation("fused", Op("p", "parameter", f32(4)), Op("e", "exponential", f32(4), ["p"]))
    made.entry(
        Op("x", "parameter", f32(4)),
        Op("run", "call", f32(4), ["x"], calls=[fused]),
        Op("y", "fusion", f32(4), ["run"], calls=[fused], fusion_kind="kLoop"),
    )
    program = Metadata("jit_f(1)", 1, stats={"Hlo Proto": made.proto(), "program_id": u64(ID)})
    return fastprof.load(xspace(plane("/host:metadata", event_metadata=[program]), *planes))


def test_on_cpus_what_encloses_others_counts_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [named("run", 0, 100), named("y", 10, 30), named("run::y", 200, 7), event("other", 300, 5)]
    places = joined(BLOCKS[1], capture(plane("/host:CPU", [line("thread", events)])), monkeypatch)
    assert places == {"call": (1, 70), "loop fusion": (2, 37)}


def test_on_gpus_launches_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    launches = plane("/host:CPU", [line("thread", [named("y", 0, 100)])])
    kernels = plane("/device:GPU:0", [line("stream", [named("y", 50, 3)])])
    code = BLOCKS[1].replace("/host:CPU", "/device:GPU:")  # as the page says
    assert joined(code, capture(launches, kernels), monkeypatch) == {"loop fusion": (1, 3)}


def test_ids_keep_all_their_digits_as_tables() -> None:
    profile = fastprof.load(ROOT / "demo" / "xla")
    ids = profile.event_table(["event_id"], ["program_id"])["program_id"]
    assert ids.type == pa.int64() and set(ids.to_pylist()) >= {7311650934521873002}
