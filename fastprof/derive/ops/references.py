"""What events name as the op that they run or launch: in stats of several profilers, in annotations, by their names.

TensorFlow's CUDA tracer writes annotations, ``scope/MatMul:MatMul#shape=(f32[2])#``; several are joined by ``::``, the
innermost last. XLA's have ``hlo_op=…,hlo_module=…,program_id=…`` between the ``#``.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.devices.kineto_categories import is_kineto, may_launch
from fastprof.derive.devices.op_names import Framework, parse
from fastprof.derive.ops.gpu_ops import last_name
from fastprof.derive.ops.kernel_rows import NO_OPS
from fastprof.derive.ops.stat_values import distinct_rows, stat_beside, stat_places
from fastprof.schema.array_types import Bools, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents
from fastprof.wording.patterns import pattern_of

TEXTS: Final = ("hlo_op", "hlo_module", "tf_op", "annotation")
_OF_XLA = pattern_of(r"[#,](hlo_op|hlo_module|program_id)=([^,#]*)")
_DETAILS = pattern_of(r"#[^#]*(?:#|$)")
_LARGEST = 1 << 64


@dataclass(frozen=True, slots=True)
class Reference:
    """What an event names. ``hlo_op``, ``module``, ``tf_op``, ``torch_op``: "" if not named."""

    hlo_op: str = ""
    program_id: int | None = None
    module: str = ""
    tf_op: str = ""
    torch_op: str = ""
    from_annotation: bool = False

    @property
    def names_op(self) -> bool:
        return bool(self.hlo_op or self.tf_op or self.torch_op)

    @property
    def names_program(self) -> bool:
        return self.program_id is not None or bool(self.module)


def of_annotation(text: str) -> Reference:
    """What an annotation names; of several ops the innermost."""
    of_xla = dict(_OF_XLA.findall(text))
    parts = [part.rstrip("#") for part in _DETAILS.sub("#", text).split("::")]
    names = [name for name in parts if name and name.partition(":")[0] not in ("XlaModule", "Thunk", "XlaOp")]
    typed = [name for name in names if ":" in name]
    program = of_xla.get("program_id", "")
    known = program.isascii() and program.isdigit() and len(program) <= 20 and int(program) < _LARGEST
    return Reference(
        last_name(of_xla.get("hlo_op", "")),
        _signed(int(program)) if known else None,
        of_xla.get("hlo_module", ""),
        (typed or names or [""])[-1],
        from_annotation=True,
    )


def _signed(value: int) -> int:
    return value - _LARGEST if value >> 63 else value


@dataclass(slots=True)
class References:
    """Reads references off events, each distinct one once."""

    events: HostEvents
    each: list[Reference] = field(default_factory=list)
    _numbers: dict[Reference, int] = field(default_factory=dict)

    def of_rows(self, rows: Int64s, *, by_name: bool = False) -> npt.NDArray[np.int32]:
        """The places in ``each`` of what these events refer to; -1: nothing. ``by_name``: their names count too."""
        if not len(rows):
            return np.zeros(0, np.int32)
        columns = [stat_beside(*self.events.texts(name), rows) for name in TEXTS]
        at, programs = self.events.ints("program_id")
        columns += [stat_places(at, rows)[0], stat_beside(at, programs, rows, 0)]
        columns.append(self._names_at(rows) if by_name else np.full(len(rows), -1, np.int64))
        first, number = distinct_rows(columns)
        places = [self._number(*(int(column[at]) for column in columns)) for at in first.tolist()]
        return np.array(places, np.int32)[number]

    def possible(self) -> Bools:
        """By row, whether an event has any stat that may name something, or the name of an op of TensorFlow, or is an
        op of PyTorch."""
        named = self._names_op()[self.events.meta]
        for stat in TEXTS:
            named[self.events.texts(stat)[0]] = True
        return named

    def _names_at(self, rows: Int64s) -> Int64s:
        """The metadata of events that are named as ops of TensorFlow, or are ops of PyTorch."""
        metas = self.events.meta[rows].astype(np.int64)
        return np.where(self._names_op()[metas], metas, -1)

    def _names_op(self) -> Bools:
        """By row of metadata."""
        if is_kineto(self.events):
            return may_launch(self.events)
        return np.array([_is_tensorflow(name) for name in self.events.names], bool)

    def _number(self, hlo: int, module: int, tf_op: int, annotation: int, has: int, program: int, name: int) -> int:
        op, of_module, framework_op, annotated = (
            "" if number < 0 else self.events.text(number) for number in (hlo, module, tf_op, annotation)
        )
        framework_op = "" if framework_op in NO_OPS else framework_op
        reference = Reference(last_name(op), program if has else None, of_module, framework_op)
        if not reference.names_op:
            other = of_annotation(annotated)
            reference = other if other.names_op or (other.names_program and not reference.names_program) else reference
        if not reference.names_op and name >= 0:
            own = self.events.names[name]
            of_torch = is_kineto(self.events)
            reference = replace(reference, tf_op="" if of_torch else own, torch_op=own if of_torch else "")
        if not reference.names_op and not reference.names_program:
            return -1
        place = self._numbers.setdefault(reference, len(self.each))
        if place == len(self.each):
            self.each.append(reference)
        return place


def _is_tensorflow(name: str) -> bool:
    return ":" in name and parse(name).framework is Framework.TENSORFLOW
