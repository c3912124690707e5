"""What costs take grows with the size of a program, also where a few bytes of it refer to much."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from effort import takes_less
from gate import few
from hlo_builder import TOKEN, Op, Program, f32, packed, tuple_of
from trace_builder import Metadata, int_field, len_field, plane, xspace

import fastprof
from fastprof.hlo import METADATA_STATS, cost
from fastprof.hlo.cost import CostModel
from fastprof.hlo.module import HloModule
from fastprof.hlo.opcodes import WindowDimension, count_valid_positions
from fastprof.hlo.programs import Modules
from fastprof.hlo.work import NOTHING, Cost
from fastprof.tables.host_reader import read_host

TINY = f32(2)


def names(letter: str, count: int) -> list[str]:
    return [f"{letter}{i}" for i in range(count)]


def chain_of_roots(count: int) -> Program:
    """Each of a chain of instructions is also used as a whole, and so is a root to all those before it."""
    program = Program("f")
    links = [Op(f"e{i}", "negate", f32(9), [f"e{i - 1}" if i else "p"]) for i in range(count)]
    uses = [Op(f"u{i}", "reverse", f32(9), [f"e{i}"]) for i in range(count)]
    last = Op("t", "tuple", tuple_of(f32(9)), names("u", count))
    body = program.computation("fused", Op("p", "parameter", f32(9)), *links, *uses, last)
    program.entry(Op("x", "parameter", f32(9)), Op("r0", "fusion", f32(9), ["x"], calls=[body], fusion_kind="kLoop"))
    return program


def one_tuple_many_times(opcode: str, shape: bytes, count: int) -> Program:
    program = Program("f")
    operand = Op("x", "parameter", tuple_of(*[TINY] * count))
    program.entry(operand, Op("r0", opcode, shape, ["x"] * count))
    return program


def elements_of_a_tuple(count: int) -> Program:
    program = Program("f")
    both = tuple_of(*[TINY] * count)
    taken = [Op(f"g{i}", "get-tuple-element", TINY, ["p"], tuple_index=count + i) for i in range(count)]
    body = program.computation("fused", Op("p", "parameter", both), *taken)
    program.entry(Op("x", "parameter", both), Op("r0", "fusion", TINY, ["x"], calls=[body], fusion_kind="kLoop"))
    return program


def calls_of(opcode: str, count: int, kind: str = "", last: Op | None = None) -> Program:
    """Many instructions call one large computation."""
    program = Program("f")
    ops = [Op(f"e{i}", "exponential", TINY, ["p"]) for i in range(count)]
    end = last or Op("t", "tuple", TINY, names("e", count))
    body = program.computation("body", Op("p", "parameter", TINY), *ops, end)
    calls = [body] * (2 if opcode == "while" else 1)
    results = [Op(f"r{i}", opcode, TINY, ["x"], calls=calls, fusion_kind=kind) for i in range(count)]
    program.entry(Op("x", "parameter", TINY), *results)
    return program


def costs_of(program: Program) -> list[Cost]:
    """Of the instructions r0, r1, …"""
    module = HloModule(program.proto())
    rows = [row for row in module.find(names("r", len(module))).tolist() if row >= 0]
    costs = CostModel(module)
    return [costs.cost(row) for row in rows]


FAILING = Op("bad", "fusion", TINY, [], calls=[99])
PROGRAMS: dict[str, tuple[int, Callable[[int], Program]]] = {
    "roots of a fusion": (1000, chain_of_roots),
    "leaves of operands": (500, lambda n: one_tuple_many_times("add", TINY, n)),
    "leaves sent away": (500, lambda n: one_tuple_many_times("outfeed", int_field(2, TOKEN), n)),
    "elements of a tuple": (500, elements_of_a_tuple),
    "fusions of one computation": (250, lambda n: calls_of("fusion", n, "kLoop")),
    "custom fusions of one computation": (500, lambda n: calls_of("fusion", n, "kCustom")),
    "calls": (500, lambda n: calls_of("call", n)),
    "loops": (500, lambda n: calls_of("while", n)),
    "calls of what fails": (500, lambda n: calls_of("call", n, last=FAILING)),
}


def grows_with_size(work: Callable[[int], Callable[[], object]], size: int) -> bool:
    """Four times as much takes about four times as long, not sixteen times."""
    return takes_less(work(4 * size), 9, work(size))


@pytest.mark.parametrize("name", few(PROGRAMS, 3))
def test_the_time_that_costs_take_grows_with_the_program(name: str) -> None:
    size, program = PROGRAMS[name]

    def work(count: int) -> Callable[[], object]:
        module = HloModule(program(count).proto())
        rows = module.find(names("r", count)).tolist()

        def measure() -> None:
            costs = CostModel(module)
            for row in rows:
                if row >= 0:
                    costs.cost(row)

        return measure

    assert grows_with_size(work, size)


def test_what_many_refer_to_costs_each_of_them_the_same() -> None:
    (first, *others) = costs_of(calls_of("fusion", 40, "kLoop"))
    assert first == Cost(40 * 86 * 2, 40 * 86 * 2, 16, 8, 8, is_known=True) and others == [first] * 39
    (first, *others) = costs_of(calls_of("call", 40))
    assert first.model_flops == 40 * 86 * 2 and others == [first] * 39
    assert costs_of(calls_of("call", 40, last=FAILING)) == [NOTHING] * 40
    assert costs_of(one_tuple_many_times("outfeed", int_field(2, TOKEN), 12))[0].hbm_read_bytes == 12 * 12 * 8


@pytest.mark.parametrize("count", [3, 63, 64, 65, 200])
def test_roots_count_alike_whether_they_are_listed_or_not(count: int) -> None:
    """The first link is computed for itself and for each link after it."""
    per_element = 3 * sum(range(1, count + 1))
    (found,) = costs_of(chain_of_roots(count))
    assert found.model_flops == 9 * per_element


def test_roots_without_measure_are_not_counted() -> None:
    """Each link uses the two before it, and each set of roots would have to be put together from two."""
    program = Program("f")
    links = [Op("e0", "negate", TINY, ["p"]), Op("e1", "negate", TINY, ["e0"])]
    links += [Op(f"e{i}", "add", TINY, [f"e{i - 1}", f"e{i - 2}"]) for i in range(2, 1000)]
    uses = [Op(f"u{i}", "reverse", TINY, [f"e{i}"]) for i in range(1000)]
    last = Op("t", "tuple", tuple_of(TINY), names("u", 1000))
    body = program.computation("fused", Op("p", "parameter", TINY), *links, *uses, last)
    program.entry(Op("x", "parameter", TINY), Op("r0", "fusion", TINY, ["x"], calls=[body], fusion_kind="kLoop"))
    assert costs_of(program) == [NOTHING]


# ---- windows


def convolutions(kernels: list[int]) -> Program:
    window = int_field(1, 1) + int_field(2, 3) + int_field(5, 2) + int_field(6, 7)
    numbers = int_field(7, 0) + int_field(8, 1) + int_field(10, 1) + packed(6, [2]) + packed(11, [2]) + packed(12, [2])
    raw = len_field(15, len_field(1, window)) + len_field(16, numbers)
    program = Program("f")
    ops = [Op("x", "parameter", f32(1, 1, 1 << 22))]
    for i, size in enumerate(kernels):
        ops.append(Op(f"w{i}", "parameter", f32(1, 1, size)))
        ops.append(Op(f"r{i}", "convolution", f32(1, 1, 1 << 22), ["x", f"w{i}"], raw=raw))
    program.entry(*ops)
    return program


def test_windows_are_counted_once_and_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    def counting(window: WindowDimension) -> int:
        counted.append(window.kernel)
        return count_valid_positions(window)

    monkeypatch.setattr(cost, "count_valid_positions", counting)
    alike = costs_of(convolutions([1 << 12] * 50))
    assert counted == [1 << 12] and alike == alike[:1] * 50 and alike[0].model_flops > 0

    counted.clear()
    found = costs_of(convolutions([(1 << 21) - i for i in range(20)]))
    assert counted == [1 << 21, (1 << 21) - 1]
    assert [one.model_flops > 0 for one in found] == [True] * 2 + [False] * 18


# ---- names


def test_the_time_that_names_take_grows_with_the_program() -> None:
    def work(count: int) -> Callable[[], object]:
        program = Program("f")
        program.entry(*(Op(f"add.{i}", "add", TINY, op_name=f"o/{i}") for i in range(count)))
        entry = Metadata("f(5)", 5, stats={"Hlo Proto": program.proto()})
        profile = fastprof.load(xspace(plane("/host:metadata", event_metadata=[entry])))
        events = read_host(profile.table_set, 0, (), (), METADATA_STATS)

        def ask() -> None:
            modules = Modules(events.programs, events.capture.log)
            assert modules.op_name(5, f"add.{count - 1}") == f"o/{count - 1}"
            for i in range(count):
                modules.op_name(5, f"add.{i}")

        return ask

    assert grows_with_size(work, 1000)
