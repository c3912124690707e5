"""Lines derived for TPUs: each expected table is what XProf 2.24.2 shows of the capture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from timelines import args_of, derived, host_of, tables_of
from trace_builder import Event, Metadata, Value, event, line, plane, u64, xspace

from fastprof._native import records
from fastprof.derive.timeline.derived_lines import derive_timeline
from fastprof.xprof.trace.trace_forms import write_trace

PLANE = "/device:TPU:0"


def op(number: int, name: str, shown: str = "", **stats: Value) -> Metadata:
    return Metadata(name, number, display_name=shown or name, stats=stats)


def core(metas: list[Metadata], *events: Event, steps: tuple[Event, ...] = ()) -> bytes:
    lines = [line("Steps", steps, id=1)] if steps else []
    return xspace(plane(PLANE, [*lines, line("XLA Ops", events, id=3)], id=2, event_metadata=metas))


def track(capture: bytes, name: str) -> list[tuple[str, int, int]]:
    return derived(capture).get(f"{PLANE} {name}", [])


OPS = [
    op(1, "%mul", tf_op="jit(f)/layer/mul:", source="model.py:3"),
    op(2, "%add", tf_op="jit(f)/layer/add:", source="model.py:4"),
    op(3, "%async", tf_op="jit(f)/layer/mul:", _a=1),
]


def test_scopes_ops_and_source_lines_are_made_of_the_ops() -> None:
    capture = core(OPS, event(1, 0, 5000), event(2, 5000, 5000), event(3, 6000, 9000), event(1, 12000, 5000))
    assert track(capture, "Framework Name Scope") == [("jit(f)", 0, 17000), ("layer", 0, 16000)]
    assert track(capture, "Framework Ops") == [("mul", 0, 5000), ("add", 5000, 5000), ("mul", 12000, 5000)]
    assert track(capture, "Source code") == [
        ("model.py:3", 0, 5000),
        ("model.py:4", 5000, 5000),
        ("model.py:3", 12000, 5000),
    ]
    named = args_of(derive_timeline(host_of(capture)), "Framework Ops")
    assert named[0] == {"long_name": "jit(f)/layer/mul:"}


def test_without_a_group_an_op_goes_on_over_gaps_of_twice_its_time() -> None:
    near = core(OPS, event(1, 0, 100), event(1, 300, 100))
    far = core(OPS, event(1, 0, 100), event(1, 301, 100))
    assert track(near, "Source code") == [("model.py:3", 0, 400)]
    assert track(far, "Source code") == [("model.py:3", 0, 100), ("model.py:3", 301, 100)]


def test_in_a_step_an_op_goes_on_over_any_gap() -> None:
    steps = (event("0", 0, 1000), event("1", 2000, 1000))
    capture = core(OPS, event(1, 0, 10), event(1, 900, 10), event(1, 2000, 10), steps=steps)
    assert track(capture, "Source code") == [("model.py:3", 0, 910), ("model.py:3", 2000, 10)]


def test_what_an_event_says_itself_counts_more_than_its_metadata() -> None:
    capture = core(OPS, event(1, 0, 10, {"tf_op": "own/op:", "source": "own.py:1"}))
    assert track(capture, "Framework Ops") == [("op", 0, 10)]
    assert track(capture, "Source code") == [("own.py:1", 0, 10)]


COPIES = [
    op(1, "%copy-start.4 = f32[8]{0:S(5)} copy-start(%x)", "copy-start.4", shape_with_layout="f32[8]{0:S(5)}"),
    op(2, "%copy-done.4 = f32[8] copy-done(%x:S(5))", "copy-done.4", raw_bytes_accessed=32),
    op(3, "%dynamic-slice-start = f32[8]{0:S(5)} dynamic-slice-start(%x)", "dynamic-slice-start"),
    op(4, "%dynamic-slice-done = f32[8] dynamic-slice-done(%x:S(5))", "dynamic-slice-done", raw_bytes_accessed=u64(16)),
    op(5, "%copy-start.5 = f32[8] copy-start(%x)", "copy-start.5"),
]


def test_transfers_to_the_host_last_from_their_start_to_their_end_each_on_a_free_row() -> None:
    capture = core(
        COPIES, event(1, 0, 1), event(3, 5, 1), event(5, 6, 1), event(2, 20, 10), event(4, 30, 1), event(1, 40, 1),
        event(2, 50, 5), event(2, 60, 5),
    )  # fmt: skip
    assert track(capture, "Host Offload Ops row 0") == [("offload-copy.4", 0, 30), ("offload-copy.4", 40, 15)]
    assert track(capture, "Host Offload Ops row 1") == [("offload-dynamic-slice.0", 5, 26)]
    timeline = derive_timeline(host_of(capture))
    expected = {"_a": 1, "long_name": "", "raw_bytes_accessed": 32, "shape_with_layout": "f32[8]{0:S(5)}"}
    assert args_of(timeline, "Host Offload Ops row 0") == [expected, expected]
    assert args_of(timeline, "Host Offload Ops row 1") == [{"_a": 1, "long_name": "", "raw_bytes_accessed": 16}]
    (unsigned,) = [arg for arg in timeline.args if arg.kinds is not None and records.UINT64 in arg.kinds]
    assert unsigned.values.tolist() == [16]  # type: ignore[union-attr]
    events = json.loads(b"".join(write_trace(tables_of(capture))))["traceEvents"]
    (in_xprof,) = [one["args"] for one in events if one.get("name") == "offload-dynamic-slice.0"]
    assert in_xprof["raw_bytes_accessed"] == "0"


@pytest.mark.parametrize(
    ("core_number", "counts"),
    [
        (0, (208, 104, 104, 164, 165, 164, 107)),
        (1, (206, 103, 103, 150, 151, 150, 149)),
        (2, (206, 103, 103, 176, 176, 175, 73)),
    ],
)
def test_a_real_capture_has_the_lines_that_xprof_shows(
    captures: Path, core_number: int, counts: tuple[int, ...]
) -> None:
    found = derived(captures / "xspace" / "tpu-v6e-jax-inference" / "host0.xplane.pb")
    names = ["Framework Name Scope", "Framework Ops", "Source code", *(f"Host Offload Ops row {i}" for i in range(4))]
    assert tuple(len(found[f"/device:TPU:{core_number} {name}"]) for name in names) == counts
