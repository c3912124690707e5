"""The compiled programs that a host's capture carries, each read when it is first asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastprof._native import records
from fastprof.errors import CaptureError
from fastprof.host_events import HostEvents

if TYPE_CHECKING:
    from fastprof.hlo.cost import Cost, CostModel
    from fastprof.hlo.module import HloModule

METADATA_PLANE = "/host:metadata"
_PROTO_STATS = ("Hlo Proto", "HLO Proto")
_NAMED = re.compile(r".*\((\d+)\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Found:
    """An instruction, and all that device ops show of it. Figures are those of one execution."""

    name: str
    category: str
    framework_op: str
    """``op_name:op_type``, "" where unknown."""
    cost: Cost


class Modules:
    """Programs by program id, an int64 that stands for a uint64 (two's complement). Of several programs of one id the
    first counts. Reads the stats ``METADATA_STATS``.

    ``problems``: what could not be read, in words; it grows as modules are.
    """

    def __init__(self, events: HostEvents) -> None:
        self.problems: list[str] = []
        self._protos: dict[int, memoryview] = {}
        self._titles: dict[int, str] = {}
        self._read: dict[int, HloModule | None] = {}
        self._costs: dict[int, CostModel] = {}
        self._find_protos(events)

    def _find_protos(self, events: HostEvents) -> None:
        own_ids = events.meta_stat("program_id").of_kinds((records.INT64, records.UINT64))
        own = dict(zip(own_ids.rows.tolist(), own_ids.value.tolist(), strict=True))
        protos: dict[int, memoryview] = {}
        for stat in reversed(_PROTO_STATS):
            protos |= events.meta_bytes(stat)
        for row in sorted(protos):
            plane = int(events.meta_plane[row])
            if plane >= 0 and events.planes[plane].name != METADATA_PLANE:
                continue
            name = events.names[row]
            program = own.get(row, _program_id(name, int(events.metadata_ids[row])))
            self._protos.setdefault(program, protos[row])
            self._titles.setdefault(program, name)

    def __len__(self) -> int:
        return len(self._protos)

    @property
    def program_ids(self) -> list[int]:
        return list(self._protos)

    def title(self, program_id: int) -> str | None:
        """How the capture lists the program: ``jit_f(12)``; None: no such program."""
        return self._titles.get(program_id)

    def module(self, program_id: int) -> HloModule | None:
        """None: there is no such program, or it does not decode."""
        if program_id not in self._read:
            proto = self._protos.get(program_id)
            self._read[program_id] = None if proto is None else self._opened(program_id, proto)
        return self._read[program_id]

    def _opened(self, program_id: int, proto: memoryview) -> HloModule | None:
        from fastprof.hlo.module import HloModule  # most captures carry no programs

        try:
            return HloModule(proto)
        except CaptureError as error:
            title, at = self._titles[program_id], f"at byte {error.offset or 0:,} of its HLO"
            self.problems.append(f"the program {title} does not decode: {error.message}, {at}")
            return None

    def name(self, program_id: int) -> str | None:
        """The name of the module: ``jit_f``; None: as ``module``."""
        module = self.module(program_id)
        return None if module is None else module.name

    # ---- instructions

    def op_name(self, program_id: int, instruction: str) -> str | None:
        """What the framework calls the op of an instruction, "" where it says nothing; None: no such instruction."""
        module = self.module(program_id)
        row = -1 if module is None else int(module.find([instruction])[0])
        return None if module is None or row < 0 else module.op_name(row)

    def find(self, program_id: int, instructions: Sequence[str]) -> list[Found | None]:
        """What is known of instructions of a program; None where there is no such program or instruction."""
        from fastprof.hlo.cost import CostModel

        module = self.module(program_id)
        if module is None:
            return [None] * len(instructions)
        costs = self._costs.setdefault(program_id, CostModel(module))
        rows = module.find(instructions).tolist()
        return [None if row < 0 else _found(module, costs, row) for row in rows]

    def metadata_ops(self) -> Iterator[tuple[str, str]]:
        """(op_name, op_type) of the instructions of all programs, each pair once a program."""
        for program_id in self._protos:
            module = self.module(program_id)
            if module is not None:
                yield from module.framework_ops()


def _found(module: HloModule, costs: CostModel, row: int) -> Found:
    from fastprof.hlo.category import category

    one = module.instruction(row)
    return Found(one.name, category(one), module.framework_op(row), costs.cost(row))


def _program_id(name: str, metadata_id: int) -> int:
    """The number in parentheses at the end of a name, else the id of the metadata, which is the same number."""
    named = _NAMED.fullmatch(name)
    if named is None or len(named.group(1)) > 20 or (number := int(named.group(1))) >= 1 << 64:
        return metadata_id
    return number - (1 << 64) if number >> 63 else number
