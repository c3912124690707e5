"""The compiled programs of captures as tables."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from gate import typical_captures
from hlo_builder import Op, Program, f32, packed, shape, tuple_of
from plan_builder import Plan
from slow_programs import COLUMNS, rows_of
from trace_builder import Metadata, event, int_field, len_field, line, plane, u64, xspace

import fastprof
from fastprof.errors import CaptureError
from fastprof.hlo import capture_tables
from fastprof.hlo.module import HloModule
from fastprof.tables.table_set import TABLES

TILED = shape("bf16", 5, 130, tiles=((8, 128), (2, 1)))


def program(name: str = "jit_f", root: str = "y") -> bytes:
    made = Program(name)
    fused = made.computation(
        "fused", Op("p", "parameter", f32(4)), Op("e", "exponential", f32(4), ["p"], op_name="jit(f)/exp"), fused=True
    )
    made.entry(
        Op("x", "parameter", f32(4)),
        Op("pair", "custom-call", tuple_of(f32(4), TILED), ["x"], target="thing"),
        Op("t", "get-tuple-element", TILED, ["pair"], tuple_index=1, raw=len_field(43, '{"a":1}')),
        Op("r", "all-reduce", f32(4), ["x"], raw=int_field(26, 3) + len_field(49, packed(1, [0, 1]))),
        Op(root, "fusion", f32(4), ["x"], calls=[fused], fusion_kind="kLoop", op_name="jit(f)/exp"),
    )
    return made.proto()


def entry(name: str, id: int, proto: bytes) -> Metadata:
    return Metadata(name, id, stats={"Hlo Proto": proto})


def capture(*entries: Metadata) -> bytes:
    return xspace(
        plane("/host:metadata", event_metadata=entries), plane("/device:GPU:0", [line("l", [event("k", 0, 1)])])
    )


def rows(table: pa.Table, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.select(list(columns)).to_pylist()]


@pytest.fixture(scope="module")
def profile() -> fastprof.Profile:
    return fastprof.load(capture(entry("jit_f(12)", 12, program()), entry("jit_g(13)", 13, program("jit_g", "z"))))


def test_a_module_a_row(profile: fastprof.Profile) -> None:
    columns = ("program_id", "module", "name", "module_id", "entry_computation", "computation_count")
    columns += ("instruction_count", "is_scheduled", "embedded", "problem")
    assert rows(profile.hlo_modules, *columns) == [
        (12, "jit_f(12)", "jit_f", 7, "main", 2, 7, False, True, None),
        (13, "jit_g(13)", "jit_g", 7, "main", 2, 7, False, True, None),
    ]
    assert profile.hlo_modules["size_bytes"].to_pylist() == [len(program()), len(program("jit_g", "z"))]


def test_a_computation_a_row(profile: fastprof.Profile) -> None:
    columns = ("computation", "is_entry", "is_fusion", "root", "parameter_count", "instruction_count")
    assert rows(profile.hlo_computations.slice(0, 2), *columns) == [
        ("fused", False, True, "e", 1, 2),
        ("main", True, False, "y", 1, 5),
    ]


def test_an_instruction_a_row_with_those_that_it_refers_to(profile: fastprof.Profile) -> None:
    columns = ("computation", "name", "opcode", "category", "operands", "called_computations", "is_entry", "is_root")
    assert rows(profile.hlo_instructions.slice(0, 7), *columns) == [
        ("fused", "p", "parameter", "parameter", [], [], False, False),
        ("fused", "e", "exponential", "non-fusion elementwise", ["p"], [], False, True),
        ("main", "x", "parameter", "parameter", [], [], True, False),
        ("main", "pair", "custom-call", "custom-call", ["x"], [], True, False),
        ("main", "t", "get-tuple-element", "get-tuple-element", ["pair"], [], True, False),
        ("main", "r", "all-reduce", "all-reduce", ["x"], [], True, False),
        ("main", "y", "fusion", "loop fusion", ["x"], ["fused"], True, True),
    ]
    assert profile.hlo_instructions["name"].to_pylist()[7:] == ["p", "e", "x", "pair", "t", "r", "z"]


def test_what_only_some_instructions_have_is_null_for_others(profile: fastprof.Profile) -> None:
    columns = ("parameter_number", "tuple_index", "fusion_kind", "custom_call_target", "channel_id", "replica_groups")
    columns += ("backend_config", "op_name")
    nothing: tuple[Any, ...] = (None,) * 8
    wanted = [nothing] * 7
    wanted[0] = wanted[2] = (0, *nothing[1:])
    wanted[1] = (*nothing[:7], "jit(f)/exp")
    wanted[3] = (None, None, None, "thing", *nothing[4:])
    wanted[4] = (None, 1, None, None, None, None, '{"a":1}', None)
    wanted[5] = (None, None, None, None, 3, "{{0,1}}", None, None)
    wanted[6] = (None, None, "kLoop", *nothing[3:7], "jit(f)/exp")
    assert rows(profile.hlo_instructions.slice(0, 7), *columns) == wanted


def test_shapes_with_their_layouts_and_what_padding_adds(profile: fastprof.Profile) -> None:
    columns = ("shape", "element_type", "dimensions", "tile", "memory_space", "shape_bytes", "padded_bytes")
    assert rows(profile.hlo_instructions.slice(2, 3), *columns) == [
        ("f32[4]{0}", "f32", [4], None, 0, 16, 16),
        ("(f32[4]{0}, bf16[5,130]{1,0:T(8,128)(2,1)})", "tuple", None, None, None, 16 + 1300, 16 + 8 * 256 * 2),
        ("bf16[5,130]{1,0:T(8,128)(2,1)}", "bf16", [5, 130], "(8,128)(2,1)", 0, 1300, 4096),
    ]


def test_costs_are_by_the_general_model_and_null_where_it_knows_nothing(profile: fastprof.Profile) -> None:
    columns = ("name", "flops", "accessed_bytes", "hbm_read_bytes", "hbm_written_bytes")
    found = {row[0]: row[1:] for row in rows(profile.hlo_costs.slice(0, 7), *columns)}
    assert found["e"] == (4, 32, 16, 16) and found["y"] == (4, 32, 16, 16)
    assert found["pair"] == (None, None, None, None)


def test_bytes_of_containers_have_no_place_and_those_of_parts_are_not_reported() -> None:
    made = Program("f")
    body = made.computation("body", Op("p", "parameter", f32(4)), Op("e", "exponential", f32(4), ["p"]))
    made.entry(
        Op("x", "parameter", f32(4)),
        Op("c", "call", f32(4), ["x"], calls=[body]),
        Op("s", "copy-start", tuple_of(f32(4), f32(4), shape("u32")), ["c"]),
        Op("d", "copy-done", f32(4), ["s"]),
    )
    found = fastprof.load(capture(entry("f(1)", 1, made.proto()))).hlo_costs
    assert rows(found.slice(3), "name", "flops", "accessed_bytes", "hbm_read_bytes", "hbm_written_bytes") == [
        ("c", 4, 32, None, None),
        ("s", 0, None, None, None),
        ("d", 0, None, None, None),
    ]


def test_costs_that_are_cut_to_fit_are_unknown() -> None:
    made = Program("f")
    inner = made.computation("c0", Op("p", "parameter", f32(4)), Op("e", "exponential", f32(4), ["p"]))
    for depth in range(1, 70):
        calls = [Op(name, "call", f32(4), ["p"], calls=[inner]) for name in ("a", "b")]
        inner = made.computation(f"c{depth}", Op("p", "parameter", f32(4)), *calls)
    made.entry(Op("x", "parameter", f32(4)), Op("r", "call", f32(4), ["x"], calls=[inner]))
    found = fastprof.load(capture(entry("f(1)", 1, made.proto()))).hlo_costs
    flops = found["flops"].to_pylist()
    assert flops[:8] == [0, 4, 0, 4, 4, 0, 8, 8] and flops[-1] is None
    assert max(one for one in flops if one is not None) == 2**58  # 32 bytes each time: 2**61


def test_parameters_that_results_are_written_to_are_aliased() -> None:
    made = Program("f")
    x, y = (Op(name, "parameter", f32(4)) for name in ("x", "y"))
    made.entry(x, y, Op("t", "add", f32(4), ["x", "y"]))
    plan = Plan(made)
    for parameter, output in ((0, False), (1, True), (2, False), (None, True)):
        plan.allocation(16, parameter=parameter, output=output)
    plan.allocations[0] += int_field(13, 1)  # is_parameter_aliased_with_output
    profile = fastprof.load(capture(entry("f(1)", 1, made.proto(plan.proto()))))
    assert profile.hlo_allocations["is_aliased"].to_pylist() == [True, True, False, False]
    (row,) = profile.memory_viewer().tables["modules"].to_pylist()
    assert row["aliased_bytes"] == 32


def test_without_a_plan_what_is_written_to_a_parameter_counts_there_alone() -> None:
    def alias(output: list[int], parameter: int) -> bytes:
        return len_field(1, packed(1, output) + int_field(2, parameter) + int_field(4, 1))

    made = Program("f")
    x, y = Op("x", "parameter", f32(4)), Op("y", "parameter", f32(8), raw=int_field(9, 1))
    made.entry(x, y, Op("t", "tuple", tuple_of(f32(4), f32(8)), ["x", "y"]))
    bare = bytes(HloModule(made.proto()).proto)
    data = len_field(1, bare + len_field(8, alias([1], 1)))
    table = fastprof.load(capture(entry("f(1)", 1, data))).memory_viewer().tables["allocations"]
    assert rows(table, "category", "buffer", "bytes", "is_aliased", "is_output") == [
        ("Parameter", "x", 16, False, False),
        ("Parameter", "y", 32, True, True),
        ("Output", "t", 16, False, True),
    ]


def test_operands_that_are_not_there_are_null() -> None:
    made = Program("f")
    made.entry(Op("x", "negate", f32(), raw=packed(36, [1, 77])))
    profile = fastprof.load(capture(entry("f(1)", 1, made.proto())))
    assert profile.hlo_instructions["operands"].to_pylist() == [["x", None]]


def test_long_names_that_are_referred_to_often_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_tables, "LETTERS", 1000)
    made = Program("f")
    made.entry(Op("ä" * 300, "parameter", f32()), Op("y", "tuple", f32(), raw=packed(36, [1] * 50)))
    found = fastprof.load(capture(entry("f(1)", 1, made.proto()))).hlo_instructions
    assert found["operands"].to_pylist() == [[], ["äääää"] * 50]
    assert found["name"].to_pylist() == ["ä" * 300, "y"]


def test_only_long_names_are_cut_where_that_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_tables, "LETTERS", 8 << 20)
    made = Program("f")
    long, plain = Op("a" * 5000, "parameter", f32()), Op("b" * 100, "parameter", f32())
    made.entry(long, plain, Op("y", "tuple", f32(), raw=packed(36, [1, 2] * 500)))
    found = fastprof.load(capture(entry("f(1)", 1, made.proto()))).hlo_instructions
    assert found["operands"].to_pylist()[2] == ["a" * 1024, "b" * 100] * 500


def test_a_program_that_does_not_decode_is_reported_and_the_others_are_there() -> None:
    data = capture(entry("f(1)", 1, program()[:-1]), entry("g(2)", 2, program("jit_g")))
    profile = fastprof.load(data)
    problem = (
        "the program f(1) does not decode: a length that runs past the end of the enclosing message, reading HloProto"
    )
    assert rows(profile.hlo_modules, "module", "name", "instruction_count", "problem") == [
        ("f(1)", None, None, f"{problem}, at byte 0 of its HLO"),
        ("g(2)", "jit_g", 7, None),
    ]
    assert set(profile.hlo_instructions["module"].to_pylist()) == {"g(2)"}
    assert profile.import_log.equals(fastprof.load(data).import_log)
    remarks = [row for row in profile.import_log.to_pylist() if row["code"] == "broken_program"]
    assert [(row["severity"], row["count"], row["example"]) for row in remarks] == [("data_loss", 1, problem)]
    assert remarks[0]["first_offset"] > 0


@pytest.mark.parametrize("name", [name for name in TABLES if name.startswith("hlo_")])
def test_captures_without_programs_have_empty_tables_of_the_same_columns(name: str) -> None:
    table = fastprof.load(xspace(plane("p"))).tables[name]
    assert table.num_rows == 0 and table.column_names == TABLES[name].names()


def test_programs_are_those_of_the_selected_hosts_whatever_else_is_selected(tmp_path: Path) -> None:
    (tmp_path / "a.xplane.pb").write_bytes(capture(entry("f(1)", 1, program())))
    (tmp_path / "b.xplane.pb").write_bytes(capture(entry("g(2)", 2, program())))
    every = fastprof.load(tmp_path)
    assert rows(every.hlo_modules, "host", "module") == [("a", "f(1)"), ("b", "g(2)")]
    assert rows(every.select(hosts="b", planes="GPU", names="nothing").hlo_modules, "host", "module") == [("b", "g(2)")]


def test_tables_are_exported_by_host(tmp_path: Path, profile: fastprof.Profile) -> None:
    import pyarrow.parquet as pq

    profile.to_parquet(tmp_path / "out", tables=["hlo_modules", "hlo_instructions", "hlo_costs"], layout="paths")
    read = pq.read_table(tmp_path / "out" / "hlo_instructions")
    assert read.num_rows == 14 and "host" in read.column_names
    assert read["shape"].cast(pa.string()).to_pylist() == profile.hlo_instructions["shape"].to_pylist()


def test_events_join_by_program_and_name() -> None:
    named = event("k", 0, 5, stats={"hlo_op": "y", "program_id": u64(12)})
    space = xspace(
        plane("/host:metadata", event_metadata=[entry("jit_f(12)", 12, program())]),
        plane("/device:GPU:0", [line("l", [named])]),
    )
    profile = fastprof.load(space)
    events = profile.event_table(["duration_ps"], ["program_id", "hlo_op"])
    key = events.to_pylist()[0]
    is_it = pc.and_(
        pc.equal(profile.hlo_instructions["program_id"], key["program_id"]),
        pc.equal(profile.hlo_instructions["name"].cast(pa.string()), key["hlo_op"]),
    )
    assert profile.hlo_instructions.filter(is_it)["category"].to_pylist() == ["loop fusion"]


# ---- against an oracle


@typical_captures
def test_instructions_of_real_captures_are_those_of_a_slow_reader(capture: Path) -> None:
    wanted = rows_of(capture.read_bytes())
    found = fastprof.load(capture).hlo_instructions
    assert found.select(list(COLUMNS)).to_pylist() == [{name: row[name] for name in COLUMNS} for row in wanted]


@typical_captures
def test_memory_of_real_captures_adds_up(capture: Path) -> None:
    found = fastprof.load(capture).read("hlo_buffers", "hlo_allocations", "hlo_heap_events", "hlo_modules")
    buffers, allocations = found["hlo_buffers"], found["hlo_allocations"]
    lying = buffers.filter(pc.is_valid(buffers["allocation"]))
    sizes = {(row["module"], row["allocation"]): row["size_bytes"] for row in allocations.to_pylist()}
    for row in lying.to_pylist():
        assert row["offset_bytes"] + row["size_bytes"] <= sizes[row["module"], row["allocation"]]
        assert row["unpadded_bytes"] is None or row["unpadded_bytes"] <= row["size_bytes"]
    counts = dict.fromkeys(sizes, 0)
    for row in lying.to_pylist():
        counts[row["module"], row["allocation"]] += 1
    assert list(counts.values()) == allocations["buffer_count"].to_pylist()
    if found["hlo_heap_events"].num_rows:
        kinds = set(found["hlo_heap_events"]["kind"].to_pylist())
        assert kinds <= {"alloc", "free", "share"}


# ---- programs in files


def test_a_file_of_a_program_is_a_session_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "jit_f(12).hlo_proto.pb"
    path.write_bytes(program())
    profile = fastprof.load(path)
    assert rows(profile.hosts, "host", "path", "size_bytes") == [("unknown", str(path), len(program()))]
    assert rows(profile.hlo_modules, "host", "program_id", "module", "path", "embedded") == [
        ("unknown", 12, "jit_f(12)", str(path), False)
    ]
    assert profile.hlo_instructions.num_rows == 7 and profile.events.num_rows == 0
    assert profile.sources == [str(path)]


def test_programs_beside_a_capture_count_where_it_has_none_of_their_id(tmp_path: Path) -> None:
    (tmp_path / "vm.xplane.pb").write_bytes(capture(entry("jit_f(12)", 12, program())))
    (tmp_path / "jit_f(12).hlo_proto.pb").write_bytes(b"never opened")
    (tmp_path / "jit_g(13).hlo_proto.pb").write_bytes(program("jit_g"))
    (tmp_path / "NO_MODULE.hlo_proto.pb").write_bytes(b"")
    profile = fastprof.load(tmp_path)
    assert rows(profile.hlo_modules, "host", "module", "embedded") == [
        ("vm", "jit_f(12)", True),
        ("vm", "jit_g(13)", False),
    ]
    assert profile.import_log.num_rows == 0
    assert fastprof.load(tmp_path / "vm.xplane.pb").hlo_modules.num_rows == 1


def test_a_damaged_file_beside_a_capture_is_reported_and_the_rest_goes_on(tmp_path: Path) -> None:
    (tmp_path / "vm.xplane.pb").write_bytes(capture(entry("jit_f(12)", 12, program())))
    (tmp_path / "jit_g(13).hlo_proto.pb").write_bytes(program()[:-5])
    (tmp_path / "without_id.hlo_proto.pb").write_bytes(program()[:-5])
    (tmp_path / "empty(1).hlo_proto.pb").write_bytes(b"")
    profile = fastprof.load(tmp_path)
    assert rows(profile.hlo_modules, "module", "instruction_count") == [("jit_f(12)", 7), ("jit_g(13)", None)]
    log = {(Path(row["path"]).name, row["code"]) for row in profile.import_log.to_pylist()}
    assert log == {
        ("jit_g(13).hlo_proto.pb", "broken_program"),
        ("without_id.hlo_proto.pb", "broken_program"),
        ("empty(1).hlo_proto.pb", "unreadable_program"),
    }


def test_a_module_without_the_message_around_it_is_a_program(tmp_path: Path) -> None:
    bare = HloModule(program()).proto
    path = tmp_path / "dumped.hlo_proto.pb"
    path.write_bytes(bare)
    profile = fastprof.load(path)
    assert rows(profile.hlo_modules, "program_id", "name", "size_bytes", "problem") == [(7, "jit_f", len(bare), None)]
    assert profile.hlo_instructions.num_rows == 7
    path.write_bytes(bare[:-3])
    with pytest.raises(CaptureError, match="does not end, reading HloModuleProto") as refused:
        fastprof.load(path)
    assert refused.value.offset is not None and refused.value.offset < len(bare)


@pytest.mark.parametrize("bare", [False, True])
def test_a_program_that_is_not_called_one_is_reported_how_it_would_be(tmp_path: Path, bare: bool) -> None:
    path = tmp_path / "weird.pb"
    path.write_bytes(HloModule(program()).proto if bare else program())
    with pytest.raises(CaptureError, match=r"a compiled program \(HLO\); rename it to NAME.hlo_proto.pb to read it"):
        fastprof.load(path)


def test_text_where_a_program_should_be_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "f(1).hlo_proto.pb"
    path.write_text("HloModule jit_f, is_scheduled=true")
    with pytest.raises(CaptureError, match="looks like plain text"):
        fastprof.load(path)


def test_of_two_programs_of_one_id_the_first_counts_and_the_log_reports_the_other() -> None:
    profile = fastprof.load(capture(entry("f(1)", 1, program()), entry("g(1)", 2, program("jit_g"))))
    assert rows(profile.hlo_modules, "module", "name") == [("f(1)", "jit_f")]
    assert rows(profile.import_log, "severity", "code", "example") == [
        ("data_loss", "duplicate_program",
         "two programs have the id 1: g(1) is ignored, and the earlier f(1) is used"),
    ]  # fmt: skip
    same = fastprof.load(capture(entry("f(1)", 1, program()), entry("g(1)", 2, program())))
    assert same.import_log.num_rows == 0 and same.hlo_modules.num_rows == 1


def test_programs_named_beside_a_capture_go_with_it(tmp_path: Path) -> None:
    (tmp_path / "vm.xplane.pb").write_bytes(capture(entry("jit_f(12)", 12, program())))
    (tmp_path / "module_0001.hlo.pb").write_bytes(program("dumped"))
    profile = fastprof.load([tmp_path / "vm.xplane.pb", tmp_path / "module_0001.hlo.pb"])
    assert rows(profile.hlo_modules, "host", "program_id", "module") == [
        ("vm", 12, "jit_f(12)"),
        ("vm", 7, "module_0001"),
    ]


def test_a_directory_of_programs_only_is_read_where_it_is_named(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"f({number}).hlo_proto.pb.gz").write_bytes(gzip.compress(program(f"f_{number}")))
    for what in (tmp_path, f"{tmp_path}/*.hlo_proto.pb.gz", sorted(tmp_path.iterdir())):
        profile = fastprof.load(what)
        assert rows(profile.hlo_modules, "program_id", "name") == [(1, "f_1"), (2, "f_2")]
    (tmp_path / "f(0).hlo_proto.pb").write_bytes(b"damaged")
    assert rows(fastprof.load(tmp_path).hlo_modules, "program_id", "name") == [(0, None), (1, "f_1"), (2, "f_2")]
    with pytest.raises(fastprof.NotFoundError, match="no captures, only compiled programs"):
        fastprof.runs(tmp_path)


@pytest.mark.parametrize(
    ("data", "says"), [(b"", "XProf writes an empty file"), (b"\x0a\x05abc", "past the end"), (b"\x10\x01", "no comp")]
)
def test_a_file_that_is_not_a_program_is_refused_when_it_is_loaded(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "f(1).hlo_proto.pb"
    path.write_bytes(data)
    with pytest.raises(CaptureError, match=says) as refused:
        fastprof.load(path)
    assert refused.value.path == str(path)
