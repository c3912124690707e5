"""The memory viewer: what programs take of each memory, what is alive at the peak, and what it says of it."""

from __future__ import annotations

import pickle
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pytest
from gate import few, typical_captures
from hlo_builder import Op, Program, f32, shape
from plan_builder import Plan
from reports import rows
from trace_builder import Metadata, event, len_field, line, plane, xspace

import fastprof
from fastprof.analyses.contract import AnalysisReport
from fastprof.errors import UsageError
from fastprof.render import report_graphics, report_text
from fastprof.render.table_forms import Look

TPU = plane("/device:TPU:0", lines=[line("XLA Ops", [event("e", 0, 10)])])
MIB = 1 << 20


def capture(*protos: bytes | tuple[str, int, bytes], device: Any = TPU) -> bytes:
    """A capture of programs, as ``jit_f(1)``, ``jit_f(2)``, …, or with the given names and numbers."""
    programs = [one if isinstance(one, tuple) else (f"jit_f({n})", n, one) for n, one in enumerate(protos, 1)]
    entries = [Metadata(name, id, stats={"Hlo Proto": proto}) for name, id, proto in programs]
    return xspace(device, plane("/host:metadata", event_metadata=entries))


def viewed(data: bytes | Path | Sequence[Any], **params: Any) -> AnalysisReport:
    return fastprof.load(data).report("memory_viewer", **params).answer


def value(report: AnalysisReport, name: str) -> Any:
    return report.scalars[name].value


def text_of(report: AnalysisReport) -> str:
    return "\n".join(report_text.lines(report, Look())) + "\n"


def texts(report: AnalysisReport) -> str:
    return "\n".join(f"{one.severity}: {one.text}" for one in report.notices)


TILED = shape("f32", 8, 3, tiles=[(8, 128)])


def training_step() -> bytes:
    """A parameter, an output of its shape, and two temporaries, one of them padded, alive together."""
    program = Program("jit_step")
    program.entry(
        Op("w", "parameter", f32(512, 1024), op_name="params['layer_0']['w']"),
        Op("h.1", "fusion", TILED, ["w"], op_name="jit(step)/layer_0/dot"),
        Op("h.2", "fusion", TILED, ["w"], op_name="jit(step)/layer_1/dot"),
        Op("new_w", "add", f32(512, 1024), ["w", "w"], op_name="jit(step)/update"),
    )
    plan = Plan(program)
    w, first, second = plan.buffer("w", 2 * MIB), plan.buffer("h.1", 4 * MIB), plan.buffer("h.2", 4 * MIB)
    plan.allocation(2 * MIB, [w], parameter=0)
    plan.allocation(2 * MIB, [plan.buffer("new_w", 2 * MIB)], output=True)
    plan.allocation(9 * MIB, [first, (second, 5 * MIB)])
    plan.allocation(64, [plan.buffer("h.1", 64, space=1)], 1)
    plan.trace(("alloc", first, "h.1"), ("alloc", second, "h.2"), ("free", first, "h.2"), ("free", second, "new_w"))
    return program.proto(plan.proto())


def test_the_peak_is_what_lives_throughout_and_the_most_of_the_heap() -> None:
    report = viewed(capture(training_step()))
    assert value(report, "peak_bytes") == (2 + 2 + 8) * MIB
    assert value(report, "peak_instruction") == "h.2" and value(report, "peak_point") == 1
    assert value(report, "allocated_bytes") == 13 * MIB and value(report, "fragmentation_bytes") == MIB
    assert value(report, "whole_run_bytes") == 4 * MIB and value(report, "temporary_bytes") == 9 * MIB
    assert value(report, "memory_space_name") == "HBM"
    unpadded = 512 * 1024 * 4 * 2 + 8 * 3 * 4 * 2
    assert value(report, "unpadded_peak_bytes") == unpadded
    assert value(report, "padding_bytes") == 12 * MIB - unpadded


def test_what_is_alive_at_the_peak_is_reported_largest_first() -> None:
    report = viewed(capture(training_step()))
    listed = rows(
        report, "buffers_at_peak", "buffer", "category", "bytes", "position", "start", "end", "end_instruction"
    )
    assert listed == [
        ("h.1", "Temporary", 4 * MIB, 2, 0, 2, "h.2"),
        ("h.2", "Temporary", 4 * MIB, 3, 1, 3, "new_w"),
        ("w", "Parameter", 2 * MIB, 0, None, None, None),
        ("new_w", "Output", 2 * MIB, 1, None, None, None),
    ]
    assert rows(report, "buffers_at_peak", "shape", "padded_shape")[0] == ("f32[8,3]{1,0:T(8,128)}", "f32[8,128]")
    by_op = rows(report, "peak_by_op", "category", "op", "buffer_count", "bytes")
    assert by_op[0] == ("Temporary", "jit(step)/layer_*/dot", 2, 8 * MIB)


def test_the_heap_is_reported_event_by_event() -> None:
    report = viewed(capture(training_step()))
    listed = rows(report, "heap", "point", "event", "instruction", "buffer", "heap_bytes", "total_bytes")
    assert listed == [
        (0, "alloc", "h.1", "h.1", 4 * MIB, 8 * MIB),
        (1, "alloc", "h.2", "h.2", 8 * MIB, 12 * MIB),
        (2, "free", "h.2", "h.1", 4 * MIB, 8 * MIB),
        (3, "free", "new_w", "h.2", 0, 4 * MIB),
    ]
    lives = rows(report, "lifetimes", "buffer", "start", "end", "timeline_bytes", "is_at_peak")
    assert ("h.2", 1, 3, 5 * MIB, True) in lives and ("w", None, None, None, True) in lives


def test_each_memory_space_is_reported() -> None:
    report = viewed(capture(training_step()), memory_space="vmem")
    assert value(report, "memory_space") == 1 and value(report, "peak_bytes") == 64
    kinds = rows(report, "by_allocation_type", "memory_space_name", "category", "bytes")
    assert kinds == [
        ("HBM", "Parameter", 2 * MIB),
        ("HBM", "Output", 2 * MIB),
        ("HBM", "Temporary", 9 * MIB),
        ("VMEM", "Temporary", 64),
    ]
    assert rows(report, "modules", "memory_space", "peak_bytes") == [(1, 64), (0, 12 * MIB)]


def test_a_space_that_the_program_does_not_use_is_reported_so() -> None:
    report = viewed(capture(training_step()), memory_space="7")
    assert "No program has anything in memory space 7; there are: HBM (0), VMEM (1)." in texts(report)
    assert "largest of" not in texts(report)
    named = viewed(capture(training_step()), module=1, memory_space=7)
    assert "nothing in memory space 7; its memory spaces are: HBM (0), VMEM (1)" in texts(named)
    for each in (report, named):
        assert "\nMemory\n" not in text_of(each) and "program       jit_f(1)\n" in text_of(each)
        assert value(each, "peak_bytes") == 0
    with pytest.raises(UsageError, match="did you mean 'vmem'"):
        viewed(capture(training_step()), memory_space="vmen")


@pytest.mark.parametrize("asked", [1, "1", "S(1)", "s(1)", "VMEM"])
def test_a_space_is_asked_for_by_number_layout_or_name(asked: int | str) -> None:
    assert value(viewed(capture(training_step()), memory_space=asked), "memory_space") == 1


def test_a_space_has_the_name_that_the_hardware_gives_it() -> None:
    for name, found in (("/host:CPU", 0), ("/device:GPU:0", 5), ("/device:TPU:0", 5)):
        device = plane(name, lines=[line("XLA Ops", [event("e", 0, 10)])])
        assert value(viewed(capture(other(4), device=device), memory_space="host"), "memory_space") == found


def test_a_space_that_no_program_has_puts_the_largest_program_first() -> None:
    report = viewed(capture(other(10), other(30), other(20)), memory_space="vmem")
    assert rows(report, "modules", "module", "peak_bytes") == [("jit_f(2)", 30), ("jit_f(3)", 20), ("jit_f(1)", 10)]
    assert texts(report) == "warning: No program has anything in VMEM; there are: HBM (0)."


# ---- what it says


def test_padding_fragmentation_and_parameters_that_could_be_donated_are_reported() -> None:
    said = texts(viewed(capture(training_step())))
    assert "recommendation: 8.000 MiB of the peak, 67 %, is padding, most of it for f32[8,3]{1,0:T(8,128)}" in said
    assert "f32[8,128]" in said
    assert "info: The temporaries take 9.000 MiB, 1.000 MiB more than is ever in use: there are gaps" in said
    assert "recommendation: 1 output has the shape of a parameter and memory of its own, 2.000 MiB" in said


def test_donated_parameters_are_not_reported_to_be_donated() -> None:
    program = Program("jit_step")
    program.entry(Op("w", "parameter", f32(64)), Op("new_w", "add", f32(64), ["w", "w"]))
    plan = Plan(program)
    plan.allocation(4 * MIB, [plan.buffer("w", 4 * MIB), plan.buffer("new_w", 4 * MIB)], parameter=0, output=True)
    report = viewed(capture(program.proto(plan.proto())))
    assert value(report, "aliased_bytes") == 4 * MIB and value(report, "output_bytes") == 0
    assert "donated" not in texts(report)


def test_events_that_make_no_sense_are_reported() -> None:
    program = Program("jit_f")
    program.entry(Op("x", "parameter", f32(4)))
    plan = Plan(program)
    x = plan.buffer("x", 16)
    plan.allocation(16, [x])
    plan.trace(("free", x, "x"), ("alloc", x, "x"), ("alloc", x, "x"))
    report = viewed(capture(program.proto(plan.proto())))
    assert value(report, "peak_bytes") == 16
    assert "2 heap trace events make no sense" in texts(report)


# ---- unknown values


def untraced(*sizes: tuple[int, int]) -> bytes:
    """A program with temporaries of (allocation, buffer in it) bytes, none of them traced."""
    program = Program("jit_f")
    program.entry(Op("x", "parameter", f32(4)))
    plan = Plan(program)
    plan.allocation(100, [plan.buffer("x", 100)], parameter=0)
    for size, inside in sizes:
        plan.allocation(size, [plan.buffer("x", inside)])
    return program.proto(plan.proto())


def test_without_temporaries_the_peak_needs_no_trace() -> None:
    report = viewed(capture(untraced()))
    assert value(report, "peak_bytes") == 100
    assert report.scalars["peak_point"].reason == "there are no temporaries"


def test_one_buffer_that_fills_the_temporaries_is_alive_at_the_peak() -> None:
    report = viewed(capture(untraced((64, 64))))
    assert value(report, "peak_bytes") == 164
    assert rows(report, "buffers_at_peak", "bytes") == [(100,), (64,)]


@pytest.mark.parametrize("sizes", [[(64, 32)], [(64, 64), (64, 64)]])
def test_else_the_peak_is_not_known_but_its_bounds_are(sizes: list[tuple[int, int]]) -> None:
    report = viewed(capture(untraced(*sizes)))
    assert value(report, "peak_bytes") is None
    most = 100 + 64 * len(sizes)
    assert f"it is at least 100 and at most {most} bytes" in str(report.scalars["peak_bytes"].reason)
    assert "The peak is unknown" in texts(report)
    assert sum(size for (size,) in rows(report, "buffers_at_peak", "bytes")) == most


def test_a_program_without_a_plan_records_its_parameters_and_outputs() -> None:
    program = Program("jit_f")
    program.entry(
        Op("x", "parameter", TILED, op_name="x"), Op("h", "parameter", shape("f32", 4, space=5)), Op("y", "add", f32(4))
    )
    report = viewed(capture(program.proto()))
    assert "carries no plan of its memory" in texts(report)
    listed = rows(report, "allocations", "category", "buffer", "bytes", "parameter_number")
    assert listed == [("Parameter", "x", 4096, 0), ("Parameter", "h", 0, 1), ("Output", "y", 16, None)]
    assert value(report, "peak_bytes") is None
    assert rows(report, "modules", "module", "allocated_bytes") == [("jit_f(1)", None)]
    program_part = text_of(report).split("Program\n")[1].split("\n\n")[0]
    assert program_part.split() == ["program", "jit_f(1)", "memory", "space", "0"]


def test_a_capture_without_programs_says_so() -> None:
    report = viewed(xspace(TPU))
    assert texts(report).startswith("warning: No programs: the capture carries no compiled programs")
    assert all(not table.num_rows for table in report.tables.values())


@pytest.mark.parametrize("broken", [b"\x0a\x7f", len_field(1, "ok") + b"\x1a\x03\x0a\x7f\x00"])
def test_a_program_that_does_not_decode_is_reported_and_the_others_are_read(broken: bytes) -> None:
    report = viewed(capture(broken, training_step()))
    assert value(report, "module") == "jit_f(2)"
    assert "jit_f(1) does not decode" in texts(report)


@pytest.mark.parametrize("seed", few(range(60), 12))
def test_damaged_programs_give_a_report_in_every_form(seed: int) -> None:
    dice, damaged = Random(seed), bytearray(training_step())
    for _ in range(dice.randint(1, 5)):
        damaged[dice.randrange(len(damaged))] = dice.choice([0, 1, 127, 128, 255])
    for space in ("0", "1"):
        report = fastprof.load(capture(bytes(damaged))).memory_viewer(memory_space=space)
        assert report.to_text() and report.to_json() and report.to_xprof() and report.to_svg()
        peak = report.scalars["peak_bytes"].value
        assert peak is None or sum(report.tables["buffers_at_peak"]["bytes"].to_pylist()) == peak


# ---- which program


def other(size: int) -> bytes:
    program = Program("jit_other")
    program.entry(Op("x", "parameter", f32(4)))
    plan = Plan(program)
    plan.allocation(size, [plan.buffer("x", size)], parameter=0)
    return program.proto(plan.proto())


LARGE = 2**64 - 5


def test_the_program_that_takes_most_is_reported_unless_one_is_named() -> None:
    data = capture(("a(1)", 1, other(10)), (f"b({LARGE})", 2, other(30)), ("a(3)", 3, other(20)))
    report = viewed(data)
    assert value(report, "module") == f"b({LARGE})"
    assert rows(report, "modules", "module", "program_id", "peak_bytes") == [
        (f"b({LARGE})", -5, 30),
        ("a(3)", 3, 20),
        ("a(1)", 1, 10),
    ]
    assert "the largest of 3 programs; choose another with --module NAME." in texts(report)
    for asked, found in (
        ("a(1)", "a(1)"),
        ("3", "a(3)"),
        (3, "a(3)"),
        (str(LARGE), f"b({LARGE})"),
        (LARGE, f"b({LARGE})"),
        (-5, f"b({LARGE})"),
        ("b", f"b({LARGE})"),
    ):
        assert value(viewed(data, module=asked), "module") == found
    with pytest.raises(UsageError, match=r"several programs are called 'a': a\(1\), a\(3\); name one"):
        viewed(data, module="a")
    for odd in (True, 3.0, [3]):
        with pytest.raises(UsageError, match=r"module: .* is not a name or an integer"):
            viewed(data, module=odd)


def test_a_name_means_one_program_over_all_hosts(tmp_path: Path) -> None:
    folder = tmp_path / "plugins" / "profile" / "run"
    folder.mkdir(parents=True)
    for host, id in (("a", 1), ("b", 2)):
        (folder / f"{host}.xplane.pb").write_bytes(capture((f"f({id})", id, other(10 * id))))
    with pytest.raises(UsageError, match=r"several programs are called 'f': f\(1\), f\(2\); name one"):
        viewed(tmp_path, module="f")
    assert value(viewed(tmp_path, module="f(1)"), "peak_bytes") == 10


def test_a_program_that_is_not_there_is_refused_with_what_is_meant() -> None:
    with pytest.raises(UsageError, match=r"no program 'jit_g\(1\)'; there are: jit_f\(1\); did you mean 'jit_f\(1\)'"):
        viewed(capture(other(4)), module="jit_g(1)")
    with pytest.raises(UsageError, match="carries no compiled programs"):
        viewed(xspace(TPU), module="jit_f(1)")


def test_a_program_of_several_hosts_is_one_where_it_is_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "plugins" / "profile" / "run"
    folder.mkdir(parents=True)
    for host, size in (("a", 10), ("b", 10), ("c", 30)):
        (folder / f"{host}.xplane.pb").write_bytes(capture(other(size)))
    report = viewed(tmp_path, module="jit_f(1)")
    assert rows(report, "modules", "host", "host_count", "peak_bytes") == [("c", 1, 30), ("a", 2, 10)]
    assert "Showing the largest of 2 programs called jit_f(1) (hosts c, a), that of c;" in texts(report)


def test_what_a_cpu_or_a_gpu_computes_in_has_its_own_name() -> None:
    gpu = plane("/device:GPU:0", lines=[line("Stream #1", [event("k", 0, 10)])])
    cpu = plane("/host:CPU", lines=[line("main", [event("f", 0, 10)])])
    assert value(viewed(capture(other(4), device=gpu)), "memory_space_name") == "device"
    assert value(viewed(capture(other(4), device=cpu)), "memory_space_name") == "host"


def test_the_memory_of_a_program_without_a_capture_has_a_number_alone(tmp_path: Path) -> None:
    path = tmp_path / "jit_other(5).hlo_proto.pb"
    path.write_bytes(other(4))
    report = viewed(path)
    assert value(report, "module") == "jit_other(5)" and value(report, "peak_bytes") == 4
    assert value(report, "memory_space") == 0 and value(report, "memory_space_name") is None
    assert "program files do not record it" in str(report.scalars["memory_space_name"].reason)
    assert "memory space          0\n" in text_of(report)


def test_the_most_scoped_vmem_is_reported_with_its_instruction() -> None:
    configs = [
        '{"used_scoped_memory_configs":[{"memory_space":"1","size":"300"}]}',
        '{"used_scoped_memory_configs":[{"memory_space":1,"size":400},{"memory_space":2,"size":9000}]}',
        "used_scoped_memory_configs, but no JSON",
        "[" * 100_000 + '"used_scoped_memory_configs"',
        '{"used_scoped_memory_configs":[{"memory_space":1,"size":400}]}',
    ]
    program = Program("jit_f")
    program.entry(*(Op(f"op.{n}", "fusion", f32(4), raw=len_field(43, one)) for n, one in enumerate(configs)))
    data = capture(program.proto(Plan(program).proto() + len_field(3, b"")))
    report = viewed(data, memory_space="vmem")
    assert (value(report, "scoped_vmem_bytes"), value(report, "scoped_vmem_instruction")) == (400, "op.1")
    assert value(viewed(data), "scoped_vmem_bytes") is None


# ---- every capture


def views(path: Path) -> list[AnalysisReport]:
    """Of every program and memory space."""
    first = fastprof.load(path).report("memory_viewer").answer
    return [
        fastprof.load(path).report("memory_viewer", module=module, memory_space=str(space)).answer
        for module, space in rows(first, "modules", "module", "memory_space")
        if space is not None
    ]


@typical_captures
def test_what_is_alive_at_the_peak_adds_up_to_it(capture: Path) -> None:
    for report in views(capture):
        peak = report.tables["buffers_at_peak"]
        assert sum(peak["bytes"].to_pylist()) == value(report, "peak_bytes")
        padding = [size for size in peak["padding_bytes"].to_pylist() if size is not None]
        assert all(size >= 0 for size in padding) and sum(padding) == value(report, "padding_bytes")
        assert sum(report.tables["peak_by_op"]["bytes"].to_pylist()) == value(report, "peak_bytes")


@typical_captures
def test_heaps_stay_within_their_allocations_and_end_empty(capture: Path) -> None:
    for report in views(capture):
        for size, peak in rows(report, "allocations", "bytes", "peak_bytes"):
            assert peak is None or 0 <= peak <= size
        heap = report.tables["heap"]["heap_bytes"].to_pylist()
        assert not heap or (min(heap) >= 0 and heap[-1] == 0)
        assert "make no sense" not in texts(report)


@typical_captures
def test_buffers_that_live_at_the_same_time_do_not_overlap(capture: Path) -> None:
    for report in views(capture):
        space = report.detail.space
        for row, heap in space.traced:
            named = heap.rows[heap.held >= 0]
            own = named[space.program.buffers.allocation_of[named] == row]
            lives = dict(zip(own.tolist(), zip(*heap.spans(own), strict=True), strict=True))
            places = space.program.buffers.offset_of
            sizes = space.program.buffers.buffers["size"]
            for a, b in combinations(lives, 2):
                together = lives[a][0] < lives[b][1] and lives[b][0] < lives[a][1]
                beside = places[a] + sizes[a] <= places[b] or places[b] + sizes[b] <= places[a]
                assert beside or not together


# ---- the drawing, and reports that travel


def test_a_report_travels_to_another_process() -> None:
    report = fastprof.load(capture(training_step())).memory_viewer()
    again = pickle.loads(pickle.dumps(report))
    assert again.to_json() == report.to_json() and again.to_svg() == report.to_svg()
    assert again.to_xprof() == report.to_xprof()


@pytest.mark.parametrize("space", ["hbm", "vmem", "7"])
def test_the_drawing_is_a_document_that_names_the_buffers(space: str) -> None:
    text = report_graphics.draw_report(viewed(capture(training_step()), memory_space=space))
    root = ElementTree.fromstring(text)
    assert root.tag.endswith("svg")
    assert ("h.1" in text) == (space != "7")


def test_captures_and_programs_without_memory_are_drawn_too() -> None:
    for data in (xspace(TPU), capture(untraced()), capture(Program("jit_f").proto())):
        ElementTree.fromstring(report_graphics.draw_report(viewed(data)))
