"""What events tell of the op that they run, or launch: in stats of several profilers, in annotations, by their names.

TensorFlow's CUDA tracer writes annotations, ``scope/MatMul:MatMul#shape=(f32[2])#``, of which several may follow each
other between ``::``, the innermost last. XLA's have ``hlo_op=…,hlo_module=…,program_id=…`` between the ``#``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.devices.op_names import Framework, parse
from fastprof.derive.ops.gpu_ops import last_name
from fastprof.derive.ops.stat_values import stat_beside, stat_places
from fastprof.derive.steps.links import first_of, numbered
from fastprof.schema.array_types import Bools, Int64s
from fastprof.tables.host_events import HostEvents

TEXTS: Final = ("hlo_op", "hlo_module", "tf_op", "annotation")
NO_OPS: Final = ("", "(null)", "XlaModule", "XlaModule:")
"""What is written where no op of a framework is known."""
_OF_XLA = re.compile(r"[#,](hlo_op|hlo_module|program_id)=([^,#]*)")
_DETAILS = re.compile(r"#[^#]*(?:#|$)")
_LARGEST = 1 << 64


@dataclass(frozen=True, slots=True)
class Clue:
    """``hlo_op``, ``module``, ``tf_op``: "" where not told. ``from_annotation``: whether an annotation tells it."""

    hlo_op: str = ""
    program_id: int | None = None
    module: str = ""
    tf_op: str = ""
    from_annotation: bool = False

    @property
    def names_op(self) -> bool:
        return bool(self.hlo_op or self.tf_op)

    @property
    def names_program(self) -> bool:
        return self.program_id is not None or bool(self.module)


def of_annotation(text: str) -> Clue:
    """What an annotation tells; of several ops the innermost."""
    told = dict(_OF_XLA.findall(text))
    parts = [part.rstrip("#") for part in _DETAILS.sub("#", text).split("::")]
    names = [name for name in parts if name and name.partition(":")[0] not in ("XlaModule", "Thunk", "XlaOp")]
    typed = [name for name in names if ":" in name]
    program = told.get("program_id", "")
    known = program.isascii() and program.isdigit() and len(program) <= 20 and int(program) < _LARGEST
    return Clue(
        last_name(told.get("hlo_op", "")),
        _signed(int(program)) if known else None,
        told.get("hlo_module", ""),
        (typed or names or [""])[-1],
        from_annotation=True,
    )


def _signed(value: int) -> int:
    return value - _LARGEST if value >> 63 else value


@dataclass(slots=True)
class Clues:
    """Reads clues off events, each distinct one once."""

    events: HostEvents
    found: list[Clue] = field(default_factory=list)
    _numbers: dict[Clue, int] = field(default_factory=dict)

    def of_rows(self, rows: Int64s, *, by_name: bool = False) -> npt.NDArray[np.int32]:
        """The places in ``found`` of what these events tell; -1: nothing. ``by_name``: their names count too."""
        if not len(rows):
            return np.zeros(0, np.int32)
        columns = [self._texts_at(name, rows) for name in TEXTS]
        columns += [*self._programs_at(rows), self._names_at(rows) if by_name else np.full(len(rows), -1, np.int64)]
        number, count = numbered([numbered(columns[:4])[0].astype(np.int64), *columns[4:]])
        first = first_of(number, count)
        places = [self._number(*(int(column[at]) for column in columns)) for at in first.tolist()]
        return np.array(places, np.int32)[number]

    def telling(self) -> Bools:
        """By row, whether an event has any stat that may tell something."""
        told = np.zeros(len(self.events), bool)
        for name in TEXTS:
            told[self.events.texts(name)[0]] = True
        return told

    def named(self) -> Bools:
        """By row of event metadata, whether the name is that of an op of TensorFlow."""
        return np.array([_is_tensorflow(name) for name in self.events.names], bool)

    def _texts_at(self, stat: str, rows: Int64s) -> Int64s:
        at, numbers = self.events.texts(stat)
        return stat_beside(at, numbers, rows)

    def _programs_at(self, rows: Int64s) -> tuple[Int64s, Int64s]:
        at, values = self.events.ints("program_id")
        has, place = stat_places(at, rows)
        program = np.zeros(len(rows), np.int64)
        program[has] = values[place]
        return has.astype(np.int64), program

    def _names_at(self, rows: Int64s) -> Int64s:
        """The metadata of events that are named as ops of TensorFlow."""
        metas, place = np.unique(self.events.meta[rows].astype(np.int64), return_inverse=True)
        named = [one if _is_tensorflow(self.events.names[one]) else -1 for one in metas.tolist()]
        return np.array(named, np.int64)[place]

    def _number(self, hlo: int, module: int, tf_op: int, annotation: int, has: int, program: int, name: int) -> int:
        text: Any = lambda number: "" if number < 0 else self.events.text(number)  # noqa: E731
        clue = Clue(last_name(text(hlo)), program if has else None, text(module), _op(text(tf_op)))
        if not clue.names_op:
            told = of_annotation(text(annotation))
            clue = told if told.names_op or (told.names_program and not clue.names_program) else clue
        if not clue.names_op and name >= 0:
            clue = Clue(clue.hlo_op, clue.program_id, clue.module, self.events.names[name])
        if not clue.names_op and not clue.names_program:
            return -1
        place = self._numbers.setdefault(clue, len(self.found))
        if place == len(self.found):
            self.found.append(clue)
        return place


def _op(tf_op: str) -> str:
    return "" if tf_op in NO_OPS else tf_op


def _is_tensorflow(name: str) -> bool:
    return ":" in name and parse(name).framework is Framework.TENSORFLOW
