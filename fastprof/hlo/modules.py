"""The compiled programs of a host, each read at first use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from fastprof.errors import CaptureError
from fastprof.hlo.shapes import TYPE_NAMES
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.decode.import_log import ImportLog
    from fastprof.hlo.cost import CostModel
    from fastprof.hlo.module import HloModule
    from fastprof.hlo.programs import Program
    from fastprof.hlo.work import Cost, Counting


T = TypeVar("T")
_OF_TWO: Final = frozenset(("dot", "convolution", "custom-call"))
"""Opcodes of instructions whose further operands are scales, biases and results so far."""
_LOOKED_INTO: Final = 8 << 20
"""Bytes of programs that are read only to check that they decode, which takes some hundredths of a second."""


@dataclass(frozen=True, slots=True)
class Found:
    """An instruction with all that device ops show of it. Figures are for one execution."""

    name: str
    category: str
    framework_op: str
    """``op_name:op_type``, "" where unknown."""
    cost: Cost
    long_name: str
    """The instruction in full."""
    deduplicated_name: str
    source: tuple[str, int, str]
    """File, line and stack; "", -1 and "" where unknown."""
    device_cost: Cost
    """``cost``, plus what XLA's model of GPUs leaves out."""


class Modules:
    """Programs by program id, a uint64 as an int64 (two's complement), from the capture and from files beside it.
    Events must have been read with the stats ``METADATA_STATS`` of metadata.

    ``problems``: what could not be read, in words; it grows as modules are read.
    """

    def __init__(self, programs: Iterable[Program], log: ImportLog) -> None:
        self.problems: list[str] = []
        self._log = log
        self._programs: dict[int, Program] = {program.id: program for program in programs}
        self._read: dict[int, HloModule | None] = {}
        self._costs: dict[tuple[int, Counting], CostModel] = {}

    def __len__(self) -> int:
        return len(self._programs)

    @property
    def program_ids(self) -> list[int]:
        return list(self._programs)

    def title(self, program_id: int) -> str | None:
        """How the capture lists the program: ``jit_f(12)``; None: no such program."""
        program = self._programs.get(program_id)
        return None if program is None else program.title

    def program(self, program_id: int) -> Program:
        """Undecoded. KeyError: it is unknown."""
        return self._programs[program_id]

    def module(self, program_id: int) -> HloModule | None:
        """None: there is no such program, or it does not decode."""
        if program_id not in self._read:
            program = self._programs.get(program_id)
            self._read[program_id] = None if program is None else self._opened(program)
        return self._read[program_id]

    def _opened(self, program: Program) -> HloModule | None:
        try:
            return program.read(self._log)
        except CaptureError as error:
            self.problems.append(program.problem(error))
            return None

    def look_into(self) -> None:
        """Reads the first programs, up to a total size, so that ``problems`` covers them even where none is needed."""
        left = _LOOKED_INTO
        for number, program in self._programs.items():
            left -= program.length
            if left < 0:
                return
            self.module(number)

    # ---- instructions

    def op_name(self, program_id: int, instruction: str) -> str | None:
        """The framework's name of the op of an instruction, "": unknown; None: no such instruction."""
        module = self.module(program_id)
        row = -1 if module is None else int(module.find([instruction])[0])
        return None if module is None or row < 0 else module.op_name(row)

    def types_read(self, program_id: int, instruction: str) -> frozenset[str]:
        """Types, as XLA writes them, of the arrays that an instruction reads, or makes if it reads none. Of a product,
        a convolution or a call of a library: of the first two. Empty: no such program or instruction, or it is
        damaged."""
        module = self.module(program_id)
        row = -1 if module is None else int(module.find([instruction])[0])
        if module is None or row < 0:
            return frozenset()
        try:
            one = module.instruction(row)
            operands = one.operands[:2] if one.opcode in _OF_TWO else one.operands
            shapes = [module.instruction(operand).shape for operand in operands if operand >= 0] or [one.shape]
            leaves = [leaf.element_type for shape in shapes for _, leaf in shape.leaves()]
        except (LookupError, ValueError, CaptureError):
            return frozenset()
        return frozenset(TYPE_NAMES[number].lower() for number in leaves if 0 < number < len(TYPE_NAMES))

    def find(
        self, program_id: int, instructions: Sequence[str], counting: Counting | None = None
    ) -> list[Found | None]:
        """The instructions of a program; None: no such program or instruction. ``counting``: what counts as an
        operation; None: as XLA counts for GPUs."""
        return self._each(_found, program_id, instructions, counting)

    def costs(self, program_id: int, instructions: Sequence[str], counting: Counting) -> list[tuple[str, Cost] | None]:
        """Opcode and cost of instructions of a program; None: no such program or instruction."""

        def cost(model: CostModel, row: int) -> tuple[str, Cost]:
            return model.module.instruction(row).opcode, model.cost(row)

        return self._each(cost, program_id, instructions, counting)

    def _each(
        self, of: Callable[[CostModel, int], T], program_id: int, instructions: Sequence[str], counting: Counting | None
    ) -> list[T | None]:
        from fastprof.hlo.cost import CostModel
        from fastprof.hlo.work import OF_GPUS

        module = self.module(program_id)
        if module is None:
            return [None] * len(instructions)
        key = program_id, counting or OF_GPUS
        if key not in self._costs:
            self._costs[key] = CostModel(module, key[1])
        model = self._costs[key]
        return [None if row < 0 else of(model, row) for row in module.find(instructions).tolist()]

    def metadata_ops(self) -> Iterator[tuple[str, str]]:
        """(op_name, op_type) of the instructions of all programs, each pair once per program."""
        for program_id in self._programs:
            module = self.module(program_id)
            if module is not None:
                yield from module.framework_ops()


def _found(costs: CostModel, row: int) -> Found:
    from fastprof.hlo.cost import device_cost
    from fastprof.hlo.opcodes import category
    from fastprof.hlo.text.instruction_text import expression

    module = costs.module
    one, source = module.instruction(row), module.source_of(row)
    return Found(
        one.name,
        category(one),
        module.framework_op(row),
        costs.cost(row),
        expression(module, row),
        module.text(module.instructions["deduplicated_name"][row]),
        (source.file, source.line, source.stack),
        device_cost(costs, row),
    )
