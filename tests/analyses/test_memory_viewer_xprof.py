"""The page of XProf's memory viewer. Expected values are XProf 2.24.2's."""

from __future__ import annotations

import json
from typing import Any

from hlo_builder import Op, Program, f32, shape, tuple_of
from plan_builder import Plan
from trace_builder import Metadata, event, int_field, len_field, line, plane, xspace

import fastprof

KIB = 1024
SOURCE = len_field(3, "model.py") + int_field(4, 7) + int_field(15, 1)
FRAMES = (
    len_field(1, "model.py")
    + len_field(2, "step")
    + len_field(3, int_field(1, 1) + int_field(2, 1) + int_field(3, 7) + int_field(4, 3))
    + len_field(4, int_field(1, 1) + int_field(2, 2))
    + len_field(4, int_field(1, 9))
)
"""A frame in model.py, called by one whose place is unknown."""


def made() -> bytes:
    """``a`` is freed, and its memory taken again by ``c``; ``b`` is in it meanwhile with ``d``."""
    program = Program("jit_f", stack_frames=FRAMES)
    program.entry(
        Op("x", "parameter", f32(64, 128), op_name="x"),
        Op("pair", "custom-call", tuple_of(f32(64, 128), tuple_of(shape("pred", 3), shape("s4", 5))), ["x"]),
        Op("a", "fusion", shape("bf16", 100, 100, tiles=[(8, 128), (2, 1)]), ["x"], metadata=SOURCE),
        Op("y", "add", f32(64, 128), ["x"], op_name="jit(f)/add",
           raw=len_field(43, '{"used_scoped_memory_configs":[{"memory_space":"1","size":"4096"}]}')),
    )  # fmt: skip
    plan = Plan(program)
    x, y = plan.buffer("x", 32 * KIB), plan.buffer("y", 32 * KIB)
    a, b, c = plan.buffer("a", 26 * KIB), plan.buffer("pair", 32 * KIB, (0,)), plan.buffer("a", 26 * KIB)
    d, e = plan.buffer("pair", 512, (1, 1)), plan.buffer("pair", 16)
    plan.allocation(32 * KIB, [x], parameter=0)
    plan.allocation(32 * KIB, [b, y], output=True)
    plan.allocation(4, [plan.buffer("y", 4)], constant=True)
    plan.allocation(8, [plan.buffer("y", 8)], on_threads=True)
    plan.allocation(60 * KIB, [a, (c, 0), (d, 26 * KIB), (e, 59 * KIB)], is_tuple=True)
    plan.allocation(512, [plan.buffer("a", 512, space=1)], 1)
    plan.trace(
        ("alloc", a, "a"), ("alloc", d, "pair"), ("free", a, "pair"), ("share", c, "y", a), ("alloc", e, "y"),
        ("free", d, "y"), ("free", c, "y"),
    )  # fmt: skip
    listed = Metadata("jit_f(1)", 1, stats={"Hlo Proto": program.proto(plan.proto())})
    device = plane("/device:TPU:0", lines=[line("XLA Ops", [event("e", 0, 10)])])
    return xspace(device, plane("/host:metadata", event_metadata=[listed]))


def page(space: str = "0") -> Any:
    return json.loads(fastprof.load(made()).memory_viewer(memory_space=space).to_xprof())


def test_sizes_are_mebibytes() -> None:
    answer = page()
    assert answer["moduleName"] == "jit_f" and answer["entryComputationName"] == "main"
    wanted = {
        "peakHeapMib": 0.08839797973632812,
        "peakUnpaddedHeapMib": 0.08160781860351562,
        "entryComputationParametersMib": 0.03125,
        "nonReusableMib": 0.05860137939453125,
        "maybeLiveOutMib": 0.03125,
        "totalBufferAllocationMib": 0.12109756469726562,
        "indefiniteBufferAllocationMib": 0.06250381469726562,
        "peakHeapSizePosition": 4,
    }
    assert {name: answer[name] for name in wanted} == wanted


def test_the_heap_is_reported_before_each_event_and_at_the_end() -> None:
    answer = page()
    assert answer["heapSizes"] == [
        0.06250381469726562, 0.08789443969726562, 0.08838272094726562, 0.06299209594726562, 0.08838272094726562,
        0.08839797973632812, 0.08790969848632812, 0.06251907348632812,
    ]  # fmt: skip
    assert answer["unpaddedHeapSizes"][1:3] == [0.08157730102539062, 0.08159255981445312]
    assert answer["hloInstructionNames"] == ["a", "pair", "pair", "y", "y", "y", "y", ""]
    assert answer["logicalBufferSpans"] == {
        "3": {"limit": 2},
        "5": {"start": 3, "limit": 6},
        "6": {"start": 1, "limit": 5},
        "7": {"start": 4, "limit": 6},
    }


def test_what_is_alive_at_the_peak_is_what_took_its_memory_last_and_small_buffers_are_one() -> None:
    answer = page()
    buffers = [(one["label"], one["logicalBufferId"], one["logicalBufferSizeMib"]) for one in answer["maxHeap"]]
    assert buffers == [
        ("x: f32[64,128]{1,0} # x", 1, 0.03125),
        ("pair: f32[64,128]{1,0} # ", 4, 0.03125),
        ("a: bf16[100,100]{1,0:T(8,128)(2,1)} # ", 5, 0.025390625),
        ("small (<16384 bytes)", -1, 0.000507354736328125),
    ]
    assert answer["maxHeap"][2] == {
        "numbered": 2,
        "label": "a: bf16[100,100]{1,0:T(8,128)(2,1)} # ",
        "logicalBufferId": 5,
        "logicalBufferSizeMib": 0.025390625,
        "unpaddedShapeMib": 0.019073486328125,
        "instructionName": "a",
        "shapeString": "bf16[100,100]{1,0:T(8,128)(2,1)}",
        "groupName": "Temporary",
        "opCode": "fusion",
        "sourceInfo": {"fileName": "model.py", "lineNumber": 7, "stackFrame": "model.py:7:3\n:-1:-1"},
    }
    assert answer["bySizeToMaxHeap"] == answer["maxHeapToBySize"] == [0, 1, 2, 3]
    assert answer["maxHeapBySize"] == answer["maxHeap"]


def test_what_lives_throughout_lists_all_its_buffers() -> None:
    lifetimes = page()["indefiniteLifetimes"]
    assert [(one.get("id"), one["attributes"]) for one in lifetimes] == [
        (None, ["entry computation parameter", "reusable"]),
        ("1", ["may-be live out", "reusable"]),
        ("2", ["reusable"]),
    ]
    assert lifetimes[1]["commonShape"] == "f32[64,128]{1,0}"
    assert lifetimes[1]["logicalBuffers"][0] == {
        "id": "4", "shape": "f32[64,128]{1,0}", "sizeMib": 0.03125, "hloName": "pair", "shapeIndex": ["0"],
    }  # fmt: skip


def test_blocks_lie_where_and_when_their_buffers_have_the_memory() -> None:
    names = ("logicalBufferId", "name", "offset", "size", "startStep", "endStep", "unpaddedSize", "color")
    blocks = [tuple(one.get(name, 0) for name in names) for one in page()["bufferBlocks"]]
    assert blocks == [
        (-1, "Temporary", 0, 61440, 0, 7, 0, "#ffffff"),
        (3, "a", 0, 26624, 0, 2, 20000, "#2196f3"),
        (5, "a", 0, 26624, 3, 6, 20000, "#81c784"),
        (6, "pair{1,1}", 26624, 512, 1, 5, 16, "#4dd0e1"),
        (7, "pair", 60416, 16, 4, 6, 16, "#3f51b5"),
    ]
    assert (
        page()["bufferBlocks"][3]["shapeString"] == "(pred[3]{0}, s4[5]{0})"
    )  # of pair{1}: one level alone is looked at


def test_other_memory_records_scoped_vmem_and_no_defaults() -> None:
    assert page("1") == {
        "moduleName": "jit_f",
        "entryComputationName": "main",
        "totalBufferAllocationMib": 0.00048828125,
        "maxScopedVmemAllocationMib": 0.00390625,
        "maxScopedVmemInstructionName": "y",
    }


def test_without_programs_the_page_is_empty() -> None:
    profile = fastprof.load(xspace(plane("/host:CPU", lines=[line("main", [event("e", 0, 10)])])))
    assert json.loads(profile.memory_viewer().to_xprof()) == {}
