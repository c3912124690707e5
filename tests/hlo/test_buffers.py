"""The memory plans of programs, as columns, and the heaps that follow from them."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from gate import few
from hlo_builder import Op, Program, f32, shape, tuple_of
from plan_builder import KINDS, Plan
from slow_heaps import slow_heap

from fastprof._native.hlo import BUFFER_SIZES
from fastprof.errors import CaptureError
from fastprof.hlo import program_memory
from fastprof.hlo.module import HloModule
from fastprof.hlo.program_memory import BufferAssignment, Heap, ProgramMemory


def small_program() -> Program:
    program = Program("jit_f")
    pair = tuple_of(f32(4), tuple_of(shape("s4", 3), shape("bf16", 8, 3, tiles=[(8, 128)])))
    program.entry(
        Op("x", "parameter", f32(4)), Op("pair", "custom-call", pair, ["x"]), Op("y", "add", f32(4), ["x", "x"])
    )
    return program


@pytest.mark.parametrize("name", sorted(BUFFER_SIZES))
def test_records_are_as_large_as_the_structs_of_c(name: str) -> None:
    assert getattr(program_memory, name).itemsize == BUFFER_SIZES[name]


def test_a_plan_is_read_as_it_was_written() -> None:
    program = small_program()
    plan = Plan(program)
    x, element = plan.buffer("x", 16), plan.buffer("pair", 512, (1, 1), 1)
    plan.allocation(16, [x], parameter=3, element=(0, 2))
    plan.allocation(1024, [(element, 512)], 1, is_tuple=True, output=True)
    plan.trace(("alloc", element, "pair"), ("free", element, "y"))
    assignment = BufferAssignment(program.proto(plan.proto()))
    assert assignment.is_there
    assert assignment.buffers["size"].tolist() == [16, 512] and assignment.buffers["color"].tolist() == [0, 1]
    assert assignment.index(assignment.buffers[1]) == (1, 1) and assignment.index(assignment.allocations[0]) == (0, 2)
    assert assignment.allocation_of.tolist() == [0, 1] and assignment.offset_of.tolist() == [0, 512]
    assert [program_memory.CATEGORIES[kind] for kind in assignment.category] == ["Parameter", "Output"]
    assert assignment.allocations["parameter_number"].tolist() == [3, 0]
    assert assignment.events["kind"].tolist() == [program_memory.ALLOC, program_memory.FREE]
    assert [assignment.text(number) for number in assignment.events["instruction_name"]] == ["pair", "y"]


def test_a_program_without_a_plan_has_empty_columns() -> None:
    assignment = BufferAssignment(small_program().proto())
    assert not assignment.is_there
    assert not len(assignment.buffers) and not len(assignment.allocations) and not len(assignment.events)


def test_a_broken_plan_is_refused_with_its_place() -> None:
    proto = small_program().proto(b"\x0a\x7f")
    with pytest.raises(CaptureError) as caught:
        BufferAssignment(proto)
    assert caught.value.offset == len(proto) - 2


@pytest.mark.parametrize("kind", [0, 1, 2, 3])
def test_what_an_allocation_is_for_is_the_first_that_applies(kind: int) -> None:
    program = small_program()
    plan = Plan(program)
    plan.allocation(4, parameter=0 if kind == 0 else None, output=kind < 2, on_threads=kind < 3, constant=True)
    assignment = BufferAssignment(program.proto(plan.proto()))
    assert (
        program_memory.CATEGORIES[assignment.category[0]] == ("Parameter", "Output", "Thread-local", "Constant")[kind]
    )
    assert assignment.whole_run.tolist() == [True]


# ---- buffers and instructions


def test_buffers_know_their_instruction_shape_and_size_without_padding() -> None:
    program = small_program()
    plan = Plan(program)
    for index, size in (((), 24), ((0,), 16), ((1, 0), 4), ((1, 1), 2048), ((1, 7), 8)):
        plan.buffer("pair", size, index)
    memory = ProgramMemory(HloModule(program.proto(plan.proto())))
    assert [memory.name(row) for row in range(5)] == ["pair", "pair{0}", "pair{1,0}", "pair{1,1}", "pair{1,7}"]
    assert memory.unpadded.tolist() == [16, 16, 3, 48, -1]
    texts = [memory.shape_text(memory.shape(row)) for row in range(5)]
    assert texts[1:] == ["f32[4]{0}", "s4[3]{0}", "bf16[8,3]{1,0:T(8,128)}", ""]


def test_more_bytes_than_a_buffer_takes_are_not_known() -> None:
    program = small_program()
    plan = Plan(program)
    plan.buffer("x", 15)
    memory = ProgramMemory(HloModule(program.proto(plan.proto())))
    assert memory.unpadded.tolist() == [-1] and memory.at_least.tolist() == [15]


def test_older_plans_name_instructions_and_record_no_ids() -> None:
    program = small_program()
    plan = Plan(program)
    program.ids.clear()
    plan.buffer("y", 16)
    plan.buffer("gone", 16)
    memory = ProgramMemory(HloModule(program.proto(plan.proto())))
    assert memory.instruction.tolist() == [2, -1]
    assert [memory.instruction_name(row) for row in range(2)] == ["y", "gone"]


# ---- heaps


def random_plan(dice: Random, program: Program) -> Plan:
    """Events in any order; most make sense."""
    plan = Plan(program)
    ids = [plan.buffer("x", dice.choice([0, 1, 16, 4096])) for _ in range(dice.randint(1, 12))]
    plan.allocation(1 << 20, ids[: dice.randint(1, len(ids))])
    events = [
        (dice.choice([*KINDS, "alloc", "free", "odd"]), dice.choice([*ids, 77]), "x", dice.choice(ids))
        for _ in range(dice.randint(0, 40))
    ]
    plan.trace(*events)
    return plan


@pytest.mark.parametrize("seed", few(range(60), 12))
def test_heaps_are_what_their_definition_says(seed: int) -> None:
    program = small_program()
    assignment = BufferAssignment(program.proto(random_plan(Random(seed), program).proto()))
    heap = Heap(assignment, 0, assignment.buffers["size"] // 2)
    wanted = slow_heap(assignment)
    assert heap.bytes.tolist() == wanted.bytes
    assert (heap.peak_bytes, heap.peak_event) == (max(wanted.bytes), max(wanted.bytes.index(max(wanted.bytes)) - 1, 0))
    assert sum(assignment.buffers["size"][heap.owners].tolist()) == heap.peak_bytes
    owners = dict(zip(heap.rows.tolist(), heap.rows[heap.root].tolist(), strict=True))
    assert [owners.get(row, row) for row in range(len(assignment.buffers))] == wanted.owner
    assert heap.passed_over == wanted.passed_over


def test_a_long_chain_of_shares_is_followed() -> None:
    program = small_program()
    plan = Plan(program)
    ids = [plan.buffer("x", 8) for _ in range(5000)]
    plan.allocation(8, ids)
    shares = [("share", one, "x", before) for before, one in pairwise(ids)]
    plan.trace(("alloc", ids[0], "x"), *shares, *(("free", one, "x") for one in ids))
    heap = ProgramMemory(HloModule(program.proto(plan.proto()))).heap(0)
    assert heap.peak_bytes == 8 and heap.bytes[-2] == 8 and heap.bytes[-1] == 0 and heap.passed_over == 0
    assert heap.rows.tolist() == list(range(5000)) and np.all(heap.root == 0)
