"""What an event is an execution of: its instruction in its program, and the rows of op stats that it counts in.

Events of TPUs have this in their metadata, those of GPUs as op stats attributes them (derive/ops/attribution.py), those
of host threads in their names, derived ones in the names of their lines.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fastprof.decode.plane_kinds import device_of, is_gpu_plane
from fastprof.decode.stat_values import METADATA, EventStats
from fastprof.derive.devices.op_names import Framework, parse
from fastprof.errors import CaptureError
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS
from fastprof.tables.host_reader import read_host
from fastprof.viewer.computed_once import ComputedOnce

if TYPE_CHECKING:
    from fastprof.derive.ops.gpu_ops import GpuOp
    from fastprof.hlo.module import HloModule
    from fastprof.hlo.programs import Program
    from fastprof.schema.array_types import Int32s
    from fastprof.tables.table_set import TableSet

_TPU, _SPARSE_CORE = "/device:TPU:", " SparseCore "
_MODULES, _OPS = "XLA Modules", "XLA Ops"
_FRAMEWORK_OPS: Final = ("Framework Ops", "TensorFlow Ops")
_MOST_LETTERS: Final = 300
"""Of the words that rows are searched by: a part of a name matches as well."""
_KEPT_MODULES: Final = 8


@dataclass(frozen=True, slots=True)
class Seen:
    """An event of host ``number``: ``name`` as it is shown, ``long_name`` in full; ``row`` of its host, None if it is
    derived. ``line``: its track, by the title of all of its kind. ``gpu_programs``: see ``HostFacts``."""

    number: int
    plane: str
    line: str
    row: int | None
    name: str
    long_name: str
    stats: EventStats
    gpu_programs: frozenset[int] = frozenset()

    def stat(self, name: str, of: str | None = None) -> str | None:
        """The value of a stat, of the event before its metadata; None: it has none, or an empty one."""
        return next(filter(None, self.stats.values(name, of)), None)


@dataclass(frozen=True, slots=True)
class _Op:
    """``program``: an int64, else ``title``: a text that names it. ``search``, ``device``, ``host``: names of rows in
    the tables of op stats, of the framework's ops, of device ops and of host ops; "": there is none. ``of_program``:
    those of the program, if it has any."""

    program: int | None = None
    title: str = ""
    instruction: str = ""
    name: str = ""
    category: str = ""
    search: str = ""
    device: str = ""
    host: str = ""
    of_program: bool = False


class EventOps:
    """The ops of the events of a session. What several events need is computed once, when the first of them needs it;
    events that need something else do not wait."""

    def __init__(self, tables: TableSet) -> None:
        self._tables = tables
        self._once: ComputedOnce[Hashable, Any] = ComputedOnce()
        self._modules: ComputedOnce[int, HloModule | None] = ComputedOnce(_KEPT_MODULES)

    def document(self, seen: Seen) -> dict[str, Any] | None:
        """As JSON takes it; None: it is no op. ``hlo``: how the page of programs finds it, None if the capture does not
        have the program. ``op_stats``: what the tables of op stats are filtered by, None if it has no row there."""
        op = self._op(seen)
        if op is None:
            return None
        programs = self._programs(seen.number)
        program = _program(programs, op)
        number = op.program if program is None else program.id
        has_ops = op.of_program and program is not None and self._has_ops(seen, program.id)
        return {
            "program_id": None if number is None else str(number % 2**64),
            "module": op.title or seen.stat("hlo_module") if program is None else program.title,
            "instruction": op.instruction or None,
            "name": op.name or None,
            "category": op.category or None,
            "hlo": None if program is None else self._hlo(programs, program, op.instruction),
            "op_stats": _searches(op, program, has_ops),
        }

    def _op(self, seen: Seen) -> _Op | None:
        if seen.line == _MODULES:
            return _Op(_number(seen.stat("program_id")), seen.long_name, of_program=True)
        if seen.row is None:
            return _of_derived(seen)
        if is_gpu_plane(seen.plane):
            return self._of_gpu(seen, seen.row) or _of_derived(seen)
        if seen.plane.startswith(_TPU):
            return _of_tpu(seen)
        return self._of_host(seen) if seen.plane == HOST_THREADS else None

    def _of_gpu(self, seen: Seen, row: int) -> _Op | None:
        places, ops = self._gpu_ops(seen.number)
        place = int(places[row]) if row < len(places) else -1
        if place < 0:
            return None
        op = ops[place]
        name = parse(op.provenance).name if op.provenance else ""
        return _Op(
            op.program_id or None,
            instruction=op.name if op.is_hlo else "",
            name=name,
            category=op.category,
            search=name or op.name,
            device=op.name,
        )

    def _of_host(self, seen: Seen) -> _Op | None:
        """From the name of the event, else its stats: a stage of a pipeline, an op of a framework, an instruction."""
        instruction = (seen.stat("hlo_op") or "").rpartition("::")[2]
        program = _number(seen.stat("program_id")) if instruction else None
        own, recorded = parse(seen.long_name), seen.stat("tf_op")
        name = ""
        if recorded:
            name = parse(recorded).name
        elif seen.stat("_ipl_stage_id") and seen.stat("_ipl_stage_cat"):
            name = seen.long_name
        elif own.framework is not Framework.UNKNOWN:
            name = own.name
        elif instruction and not self._has_devices(seen.number):
            name = seen.stat("hlo_op") or ""
        if not name and not instruction:
            return None
        title = seen.stat("hlo_module") or "" if instruction else ""
        return _Op(program, title, instruction, "" if name == instruction else name, search=name, host=name)

    def _hlo(self, programs: dict[int, Program], program: Program, instruction: str) -> dict[str, str | None]:
        """The text that names the program among all, and the instruction if the program has it."""
        titles = [one.title for one in programs.values()]
        title = program.title if titles.count(program.title) == 1 else str(program.id % 2**64)
        module = self._module(program) if instruction else None
        has = module is not None and int(module.find([instruction])[0]) >= 0
        return {"module": title, "instruction": instruction if has else None}

    # ---- what several events need

    def _programs(self, number: int) -> dict[int, Program]:
        """Those of a host, by id."""
        name = self._tables.session.hosts[number]
        found: dict[int, Program] = self._once.of(
            ("programs", number), lambda: {one.id: one for host, one in self._tables.programs() if host == name}
        )
        return found

    def _module(self, program: Program) -> HloModule | None:
        """None: it does not decode."""

        def read() -> HloModule | None:
            try:
                return program.read(self._tables.session.log)
            except CaptureError:
                return None

        return self._modules.of(id(program), read)  # the list of programs is kept

    def _gpu_ops(self, number: int) -> tuple[Int32s, list[GpuOp]]:
        found: tuple[Int32s, list[GpuOp]] = self._once.of(("gpu", number), lambda: _gpu_ops(self._tables, number))
        return found

    def _has_ops(self, seen: Seen, program: int) -> bool:
        """Whether devices of the kind ran instructions of a program that op stats counts."""
        number = seen.number
        if is_gpu_plane(seen.plane):
            return program in seen.gpu_programs or any(one.program_id == program for one in self._gpu_ops(number)[1])
        return program in self._once.of(("tpu", number), lambda: _tpu_programs(self._tables, number))

    def _has_devices(self, number: int) -> bool:
        """Whether the host has planes of GPUs or of TPUs."""
        planes = self._tables.session.captures[number].plane_keys
        return any(device_of(name)[0] in ("GPU", "TPU") for name, _ in planes)


def _searches(op: _Op, program: Program | None, has_ops: bool) -> dict[str, str] | None:
    title = "" if program is None else program.title
    device = f"{title} {op.device}".strip() if op.device else title if has_ops else ""
    found = {"search": op.search, "device_search": device, "host_search": op.host}
    return {key: text[:_MOST_LETTERS] for key, text in found.items() if text} or None


def _of_derived(seen: Seen) -> _Op | None:
    """Derived lines of instructions name program and instruction, ``3/fusion.1``, those of ops the framework's op."""
    if seen.line == _OPS:
        program, _, instruction = seen.long_name.rpartition("/")
        return _Op(_number(program), program, instruction or seen.name, device=instruction or seen.name)
    if seen.line in _FRAMEWORK_OPS:
        name = parse(seen.long_name).name
        return _Op(name=name, search=name)
    return None


def _of_tpu(seen: Seen) -> _Op | None:
    """Op stats counts events of op lines whose metadata have a program and a symbol."""
    from fastprof.derive.devices.device_events import OP_LINES

    of_metadata = partial(seen.stat, of=METADATA)
    program = _number(of_metadata("program_id"))
    if program is None:
        return None
    provenance = of_metadata("tf_op")
    name = parse(provenance).name if provenance else ""
    counted = seen.line in OP_LINES and _SPARSE_CORE not in seen.plane and of_metadata("symbol_id") not in (None, "0")
    return _Op(
        program,
        instruction=seen.stat("hlo_op") or seen.name,
        name=name,
        category=seen.stat("hlo_category") or "",
        search=(name or seen.name) if counted else "",
        device=seen.name if counted else "",
    )


def _number(text: str | None) -> int | None:
    """A program id as captures have it, an int64 that stands for a uint64."""
    if not text or not text.removeprefix("-").isascii() or not text.removeprefix("-").isdigit() or len(text) > 20:
        return None
    number = int(text) % 2**64
    return number if number < 2**63 else number - 2**64


def _program(programs: dict[int, Program], op: _Op) -> Program | None:
    """By id, else by title or by the name of the module, if only one has it."""
    if op.program is not None:
        return programs.get(op.program)
    if not op.title:
        return None
    titled = [one for one in programs.values() if one.title == op.title]
    named = titled or [one for one in programs.values() if one.title.rpartition("(")[0] == op.title]
    return named[0] if len(named) == 1 else None


def _gpu_ops(tables: TableSet, number: int) -> tuple[Int32s, list[GpuOp]]:
    """By row of the host's events the place of its op, -1: none; and the ops."""
    from fastprof import hlo
    from fastprof.derive.ops import gpu
    from fastprof.derive.ops.device_ops import GPU_STATS
    from fastprof.derive.steps.forest import STATS
    from fastprof.hlo.modules import Modules

    stats = tuple(dict.fromkeys((*STATS, *GPU_STATS)))
    try:
        events = read_host(tables, number, (), stats, hlo.METADATA_STATS)
        ops = gpu.op_events(events, Modules(events.programs, events.capture.log))
    except CaptureError:  # op stats reports it; the event has its details without an op
        return np.zeros(0, np.int32), []
    return ops.op, ops.ops


def _tpu_programs(tables: TableSet, number: int) -> set[int]:
    """The ids of programs whose instructions TPUs ran."""
    from fastprof.derive.devices.device_events import op_events
    from fastprof.derive.ops import tpu

    try:
        events = read_host(tables, number, tpu.PLANES, tpu.EVENT_STATS, tpu.METADATA_STATS)
        op_tables = [tpu.op_table(events, op_events(events, plane), 0)[0] for plane in events.planes_of("TPU")]
    except CaptureError:
        return set()
    return {program for table in op_tables for program in table.program_id.tolist()}
