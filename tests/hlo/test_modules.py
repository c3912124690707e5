"""The programs of a capture, by program id."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hlo_builder import Op, Program, f32
from trace_builder import Metadata, Plane, Value, plane, u64, xspace

import fastprof
from fastprof.hlo import METADATA_STATS
from fastprof.hlo.programs import Modules
from fastprof.tables.host_events import HostEvents
from fastprof.tables.host_reader import read_host
from fastprof.tables.program_choice import match_programs

LARGE = 12190760917235803885
"""A program id that is not an int64."""


def program(name: str, op_name: str = "") -> bytes:
    made = Program(name)
    made.entry(Op("x", "negate", f32(4), op_name=op_name, op_type="neg" if op_name else ""))
    return made.proto()


def entry(name: str, id: int, **stats: Value) -> Metadata:
    return Metadata(
        name, id, stats={key.replace("_", " ") if key != "program_id" else key: v for key, v in stats.items()}
    )


def modules_in(events: HostEvents) -> Modules:
    return Modules(events.programs, events.capture.log)


def modules_of(*planes: Plane, selected: Sequence[str] = ()) -> Modules:
    profile = fastprof.load(xspace(*planes))
    return modules_in(read_host(profile.table_set, 0, tuple(selected), (), METADATA_STATS))


def metadata(*entries: Metadata) -> Plane:
    return plane("/host:metadata", event_metadata=entries)


def name_of(modules: Modules, program_id: int) -> str:
    module = modules.module(program_id)
    assert module is not None
    return module.name


def test_a_program_is_known_by_the_id_of_its_metadata() -> None:
    modules = modules_of(metadata(entry("jit_f", 5, Hlo_Proto=program("jit_f"))))
    assert modules.program_ids == [5] and len(modules) == 1
    assert (name_of(modules, 5), modules.title(5)) == ("jit_f", "jit_f")
    assert modules.module(6) is None and modules.title(6) is None


def test_the_number_in_the_name_and_the_stat_program_id_go_before_the_id() -> None:
    named = entry(f"a(b)({LARGE})", 5, Hlo_Proto=program("a(b)"))
    by_stat = entry("c(8)", 6, Hlo_Proto=program("c"), program_id=u64(LARGE - 1))
    modules = modules_of(metadata(named, by_stat))
    assert modules.program_ids == [LARGE - 2**64, LARGE - 1 - 2**64]
    assert name_of(modules, LARGE - 2**64) == "a(b)"


def test_numbers_that_are_no_program_id_are_part_of_the_name() -> None:
    modules = modules_of(
        metadata(entry(f"a({2**64})", 5, Hlo_Proto=program("a")), entry("b()", 6, Hlo_Proto=program("b")))
    )
    assert modules.program_ids == [5, 6]


def test_a_text_names_programs_by_title_id_or_the_name_of_the_module() -> None:
    listed = [(3, "jit_f(3)"), (4, "jit_f(4)"), (LARGE - 2**64, f"g({LARGE})")]
    assert match_programs(listed, "jit_f(4)") == listed[1:2] and match_programs(listed, "3") == listed[:1]
    assert match_programs(listed, "jit_f") == listed[:2]
    assert (
        match_programs(listed, str(LARGE))
        == match_programs(listed, str(LARGE - 2**64))
        == match_programs(listed, "g")
        == listed[2:]
    )
    assert match_programs(listed, "jit_f(") == match_programs(listed, "") == []


def test_older_captures_spell_the_stat_in_capitals() -> None:
    assert name_of(modules_of(metadata(entry("f(3)", 3, HLO_Proto=program("f")))), 3) == "f"


def test_of_two_programs_of_one_id_the_first_counts() -> None:
    modules = modules_of(metadata(entry("a(3)", 1, Hlo_Proto=program("a")), entry("b(3)", 2, Hlo_Proto=program("b"))))
    assert name_of(modules, 3) == "a"


def test_what_is_not_a_bytes_or_of_another_plane_is_not_a_program() -> None:
    wrong = plane("/host:CPU", event_metadata=[entry("g(4)", 4, Hlo_Proto=program("g"))])
    assert modules_of(metadata(entry("f(3)", 3, Hlo_Proto="text")), wrong).program_ids == []


def test_programs_are_found_where_their_plane_is_not_selected() -> None:
    space = metadata(entry("f(3)", 3, Hlo_Proto=program("f"))), plane("/device:GPU:0")
    assert name_of(modules_of(*space, selected=["/device:GPU:"]), 3) == "f"


def test_a_program_that_does_not_decode_is_as_if_it_were_not_there_and_said() -> None:
    modules = modules_of(
        metadata(entry("f(3)", 3, Hlo_Proto=program("f")[:-1]), entry("g(4)", 4, Hlo_Proto=program("g")))
    )
    assert modules.problems == []  # it has not been looked at yet
    assert modules.module(3) is None and modules.find(3, ["x"]) == [None] and modules.op_name(3, "x") is None
    assert list(modules.metadata_ops()) == [("", "")]
    assert modules.problems == [
        "the program f(3) does not decode: a length that runs past the end of the enclosing message, reading HloProto, "
        "at byte 0 of its HLO"
    ]


def test_instructions_record_their_framework_op_category_and_cost() -> None:
    modules = modules_of(metadata(entry("f(3)", 3, Hlo_Proto=program("f", "jit(f)/neg"))))
    found, missing = modules.find(3, ["x", "y"])
    assert missing is None and found is not None
    assert (found.name, found.category, found.framework_op) == ("x", "non-fusion elementwise", "jit(f)/neg:neg")
    assert (found.cost.flops, found.cost.bytes_accessed) == (12, 16)
    assert modules.op_name(3, "x") == "jit(f)/neg" and modules.op_name(3, "y") is None
    assert list(modules.metadata_ops()) == [("jit(f)/neg", "neg")]


@pytest.mark.parametrize(
    ("session", "count"), [("cpu-jax-train", 6), ("tpu-v6e-jax-inference", 4), ("gpu-v100x8-tf", 0)]
)
def test_programs_of_real_captures(captures: Path, session: str, count: int) -> None:
    profile = fastprof.load(captures / "xspace" / session)
    modules = modules_in(read_host(profile.table_set, 0, (), (), METADATA_STATS))
    assert len(modules) == count
    for program_id in modules.program_ids:
        title = modules.title(program_id)
        assert title == f"{name_of(modules, program_id)}({program_id % 2**64})"
    assert modules.problems == []
