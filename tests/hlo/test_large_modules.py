"""Programs of any size and form take time in proportion to their size, and no stack of Python's."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from functools import cache

import pytest
from effort import takes_less
from gate import few
from large_modules import LARGE, buffers, captured, entry_names

import fastprof
from fastprof.hlo.cost import CostModel
from fastprof.hlo.module import HloModule
from fastprof.hlo.program_memory import BufferAssignment
from fastprof.hlo.text.instruction_text import LONG, SHORT, format_expression
from fastprof.hlo.text.module_text import format_module

SMALL, FOUR_TIMES = 500, 2000
DEEP = 3_000
REPORTS = ("op_profile", "hlo_stats", "roofline", "memory_viewer")


@cache
def proto_of(form: str, count: int) -> bytes:
    program = LARGE[form](count)
    return program.proto(buffers(program))


@cache
def capture_of(form: str, count: int) -> bytes:
    program = LARGE[form](count)
    return captured(program, entry_names(program))


def sources(proto: bytes) -> None:
    module = HloModule(proto)
    for row in range(len(module)):
        module.source_of(row)


def costs(proto: bytes) -> None:
    module = HloModule(proto)
    model = CostModel(module)
    for row in range(len(module)):
        model.cost(row)


def expressions(proto: bytes) -> None:
    module = HloModule(proto)
    for row in range(len(module)):
        format_expression(module, row)


def short_text(proto: bytes) -> None:
    assert sum(map(len, format_module(HloModule(proto), SHORT)))


def long_text(proto: bytes) -> None:
    assert sum(map(len, format_module(HloModule(proto), LONG)))


def heap(proto: bytes) -> None:
    assert len(BufferAssignment(proto).events)


ON_PROTOS = (sources, costs, expressions, short_text, long_text, heap)


@pytest.fixture
def shallow_stack() -> Iterator[None]:
    """As if the caller were deep in its own calls already: what recurses on data fails soon."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 300)
    yield
    sys.setrecursionlimit(limit)


def assert_linear(work: Callable[[int], object], what: str) -> None:
    """Four times as much takes about four times as long, not sixteen times; what takes a few milliseconds is noise."""
    assert takes_less(lambda: work(FOUR_TIMES), 11, lambda: work(SMALL), noise_s=0.05), what


@pytest.mark.parametrize("form", few(LARGE, 3))
def test_programs_are_read_and_printed_in_linear_time(form: str) -> None:
    for count in (SMALL, FOUR_TIMES):
        proto_of(form, count)
    for work in ON_PROTOS:
        assert_linear(lambda count: work(proto_of(form, count)), work.__name__)  # noqa: B023 - called at once


@pytest.mark.parametrize("form", few(LARGE, 2))
def test_programs_are_analysed_in_linear_time(form: str) -> None:
    for count in (SMALL, FOUR_TIMES):
        capture_of(form, count)
    for report in REPORTS:
        assert_linear(lambda count: fastprof.load(capture_of(form, count)).report(report), report)  # noqa: B023


@pytest.mark.usefixtures("shallow_stack")
@pytest.mark.parametrize("form", few(["a chain", "nested calls", "nested fusions", "nested loops", "a deep tuple"], 2))
def test_nothing_recurses_on_what_a_program_nests(form: str) -> None:
    proto = proto_of(form, DEEP)
    for work in ON_PROTOS:
        work(proto)
    for report in REPORTS:
        fastprof.load(capture_of(form, DEEP)).report(report)


def test_tables_of_a_large_program_are_complete() -> None:
    tables = fastprof.load(capture_of("layers", FOUR_TIMES)).tables
    module = HloModule(proto_of("layers", FOUR_TIMES))
    assert tables["hlo_instructions"].num_rows == len(module)
    assert tables["hlo_computations"].num_rows == len(module.computations)
    assert tables["hlo_buffers"].num_rows == len(module)
