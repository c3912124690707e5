"""What an event is an execution of: its instruction in its program, and the rows of op stats that it counts in.

Events of TPUs tell it by their metadata, those of GPUs as op stats attributes them (op_metrics/attribution.py), those
of host threads by their names, derived ones by what they are derived as.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from fastprof.decode.plane_kinds import device_of
from fastprof.decode.single_event import METADATA, EventFacts, StatValue
from fastprof.derive.devices.op_names import Framework, parse
from fastprof.errors import CaptureError
from fastprof.tables.host_events import HOST_THREADS
from fastprof.viewer.computed_once import ComputedOnce

if TYPE_CHECKING:
    from fastprof.derive.ops.gpu_ops import GpuOp
    from fastprof.hlo.module import HloModule
    from fastprof.hlo.programs import Program
    from fastprof.schema.array_types import Int32s
    from fastprof.tables.open_session import OpenSession
    from fastprof.tables.table_set import TableSet

_GPU, _TPU, _SPARSE_CORE = "/device:GPU:", "/device:TPU:", " SparseCore "
_MODULES, _OPS = "XLA Modules", "XLA Ops"
_FRAMEWORK_OPS: Final = ("Framework Ops", "TensorFlow Ops")
_MOST_LETTERS: Final = 300
"""Of what rows are looked for by: a part of a name finds it as well."""
_KEPT_MODULES: Final = 8


@dataclass(frozen=True, slots=True)
class Seen:
    """An event: ``name`` as it is shown, ``long_name`` in full; ``row`` of its host, None where it is derived.
    ``line``: its track, by the title of all of its kind."""

    number: int
    plane: str
    line: str
    row: int | None
    name: str
    long_name: str
    stats: tuple[StatValue, ...]

    @classmethod
    def of(
        cls,
        number: int,
        plane: str,
        track: str,
        row: int | None,
        name: str,
        stats: Iterable[StatValue],
        facts: EventFacts | None,
    ) -> Seen:
        """``row``, ``facts``: None where the event is derived."""
        stats = tuple(stats)
        long_name = facts.name if facts else next((one.value for one in stats if one.name == "long_name"), "")
        return cls(number, plane, track.partition(" - from ")[0], row, name, long_name or name, stats)

    def stat(self, name: str, of: str | None = None) -> str | None:
        """The value of a stat, of the event before its metadata; None: it has none, or an empty one."""
        found = [one for one in self.stats if one.name == name and of in (None, one.of) and one.value]
        return min(found, key=lambda one: one.of == METADATA).value if found else None


@dataclass(frozen=True, slots=True)
class _Op:
    """``program``: an int64, else ``title``: a text that names it. ``search``, ``device``, ``host``: names of rows in
    the tables of op stats, of the framework's ops, of device ops and of host ops; "": there is none. ``of_program``:
    those of the program, where it has any."""

    program: int | None = None
    title: str = ""
    instruction: str = ""
    name: str = ""
    category: str = ""
    search: str = ""
    device: str = ""
    host: str = ""
    of_program: bool = False


def op_document(tables: TableSet, seen: Seen) -> dict[str, Any] | None:
    """As JSON takes it; None: it is no op. ``hlo``: what the page of programs shows of it, None where the capture does
    not have the program. ``op_stats``: what the tables of op stats are filtered by, None where it has no row there."""
    op = _op(tables, seen)
    if op is None:
        return None
    programs = _of_session(tables).programs(tables, seen.number)
    program = _program(programs, op)
    number = op.program if program is None else program.id
    has_ops = op.of_program and program is not None and _of_session(tables).has_ops(tables, seen, program.id)
    return {
        "program_id": None if number is None else str(number % 2**64),
        "module": op.title or seen.stat("hlo_module") if program is None else program.title,
        "instruction": op.instruction or None,
        "name": op.name or None,
        "category": op.category or None,
        "hlo": None if program is None else _hlo(tables, programs, program, op.instruction),
        "op_stats": _searches(op, program, has_ops),
    }


def _searches(op: _Op, program: Program | None, has_ops: bool) -> dict[str, str] | None:
    title = "" if program is None else program.title
    device = f"{title} {op.device}".strip() if op.device else title if has_ops else ""
    found = {"search": op.search, "device_search": device, "host_search": op.host}
    return {key: text[:_MOST_LETTERS] for key, text in found.items() if text} or None


def _op(tables: TableSet, seen: Seen) -> _Op | None:
    if seen.line == _MODULES:
        return _Op(_number(seen.stat("program_id")), seen.long_name, of_program=True)
    if seen.row is None:
        return _of_derived(seen)
    if seen.plane.startswith(_GPU):
        return _of_gpu(tables, seen, seen.row) or _of_derived(seen)
    if seen.plane.startswith(_TPU):
        return _of_tpu(seen)
    return _of_host(tables, seen) if seen.plane == HOST_THREADS else None


# ---- by where it lies


def _of_derived(seen: Seen) -> _Op | None:
    """Derived lines of instructions name program and instruction, ``3/fusion.1``, those of ops the framework's op."""
    if seen.line == _OPS:
        program, _, instruction = seen.long_name.rpartition("/")
        return _Op(_number(program), program, instruction or seen.name, device=instruction or seen.name)
    if seen.line in _FRAMEWORK_OPS:
        name = parse(seen.long_name).name
        return _Op(name=name, search=name)
    return None


def _of_gpu(tables: TableSet, seen: Seen, row: int) -> _Op | None:
    op = _of_session(tables).gpu_op(tables, seen.number, row)
    if op is None:
        return None
    name = parse(op.provenance).name if op.provenance else ""
    return _Op(
        op.program_id or None,
        instruction=op.name if op.is_hlo else "",
        name=name,
        category=op.category,
        search=name or op.name,
        device=op.name,
    )


def _of_tpu(seen: Seen) -> _Op | None:
    """Op stats counts events of op lines whose metadata tell program and symbol."""
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


def _of_host(tables: TableSet, seen: Seen) -> _Op | None:
    """What the name of the event says, else its stats: a stage of a pipeline, an op of a framework, an instruction."""
    instruction = (seen.stat("hlo_op") or "").rpartition("::")[2]
    program = _number(seen.stat("program_id")) if instruction else None
    own, told = parse(seen.long_name), seen.stat("tf_op")
    name = ""
    if told:
        name = parse(told).name
    elif seen.stat("_ipl_stage_id") and seen.stat("_ipl_stage_cat"):
        name = seen.long_name
    elif own.framework is not Framework.UNKNOWN:
        name = own.name
    elif instruction and not _has_devices(tables, seen.number):
        name = seen.stat("hlo_op") or ""
    if not name and not instruction:
        return None
    title = seen.stat("hlo_module") or "" if instruction else ""
    return _Op(program, title, instruction, "" if name == instruction else name, search=name, host=name)


def _number(text: str | None) -> int | None:
    """A program id as captures have it, an int64 that stands for a uint64."""
    if not text or not text.removeprefix("-").isascii() or not text.removeprefix("-").isdigit() or len(text) > 20:
        return None
    number = int(text) % 2**64
    return number if number < 2**63 else number - 2**64


# ---- programs


def _program(programs: dict[int, Program], op: _Op) -> Program | None:
    """By id, else by title or by the name of the module, where one only is called so."""
    if op.program is not None:
        return programs.get(op.program)
    if not op.title:
        return None
    titled = [one for one in programs.values() if one.title == op.title]
    named = titled or [one for one in programs.values() if one.title.rpartition("(")[0] == op.title]
    return named[0] if len(named) == 1 else None


def _hlo(tables: TableSet, programs: dict[int, Program], program: Program, instruction: str) -> dict[str, str | None]:
    """The text that names the program among all, and the instruction where the program has it."""
    titles = [one.title for one in programs.values()]
    title = program.title if titles.count(program.title) == 1 else str(program.id % 2**64)
    module = _of_session(tables).module(tables, program) if instruction else None
    has = module is not None and int(module.find([instruction])[0]) >= 0
    return {"module": title, "instruction": instruction if has else None}


# ---- what is kept of a session


class _Session:
    """What is computed of a session for its first event that needs it; events that need something else do not wait."""

    def __init__(self) -> None:
        self._programs: ComputedOnce[int, dict[int, Program]] = ComputedOnce()
        self._modules: ComputedOnce[int, HloModule | None] = ComputedOnce(_KEPT_MODULES)
        self._gpus: ComputedOnce[int, tuple[Int32s, list[GpuOp]]] = ComputedOnce()
        self._tpu_programs: ComputedOnce[int, set[int]] = ComputedOnce()

    def programs(self, tables: TableSet, number: int) -> dict[int, Program]:
        """Those of a host, by id."""
        name = tables.session.hosts[number]
        return self._programs.of(number, lambda: {one.id: one for host, one in tables.programs() if host == name})

    def module(self, tables: TableSet, program: Program) -> HloModule | None:
        """None: it does not decode."""

        def read() -> HloModule | None:
            try:
                return program.read(tables.session.log)
            except CaptureError:
                return None

        return self._modules.of(id(program), read)  # the list of programs is kept

    def gpu_op(self, tables: TableSet, number: int, row: int) -> GpuOp | None:
        """The op of an event of a GPU; read once for all of a host."""
        places, ops = self._gpus.of(number, lambda: _gpu_ops(tables, number))
        place = int(places[row]) if row < len(places) else -1
        return ops[place] if place >= 0 else None

    def has_ops(self, tables: TableSet, seen: Seen, program: int) -> bool:
        """Whether devices of the kind ran instructions of a program that op stats counts."""
        number = seen.number
        if seen.plane.startswith(_GPU):
            _, ops = self._gpus.of(number, lambda: _gpu_ops(tables, number))
            return any(one.program_id == program for one in ops)
        return program in self._tpu_programs.of(number, lambda: _tpu_programs(tables, number))


def _has_devices(tables: TableSet, number: int) -> bool:
    """Whether the host has planes of GPUs or of TPUs."""
    return any(device_of(name)[0] in ("GPU", "TPU") for name, _ in tables.session.captures[number].plane_keys)


def _gpu_ops(tables: TableSet, number: int) -> tuple[Int32s, list[GpuOp]]:
    """By row of the host's events the place of its op, -1: none; and the ops."""
    from fastprof import hlo
    from fastprof.derive.ops import gpu
    from fastprof.derive.ops.device_ops import GPU_STATS
    from fastprof.derive.steps.forest import STATS
    from fastprof.hlo.modules import Modules
    from fastprof.tables.host_events import read_host

    stats = tuple(dict.fromkeys((*STATS, *GPU_STATS)))
    try:
        events = read_host(tables, number, (), stats, hlo.METADATA_STATS)
        found = gpu.op_events(events, Modules(events.programs, events.capture.log))
    except CaptureError:  # op stats says it; the event has its details without an op
        return np.zeros(0, np.int32), []
    return found.op, found.ops


def _tpu_programs(tables: TableSet, number: int) -> set[int]:
    """The programs of which TPUs ran instructions, by id."""
    from fastprof.derive.devices.device_events import op_events
    from fastprof.derive.ops import tpu
    from fastprof.tables.host_events import read_host

    try:
        events = read_host(tables, number, tpu.PLANES, tpu.EVENT_STATS, tpu.METADATA_STATS)
        found = [tpu.op_table(events, op_events(events, plane), 0)[0] for plane in events.planes_of("TPU")]
    except CaptureError:
        return set()
    return {program for table in found for program in table.program_id.tolist()}


_sessions: WeakKeyDictionary[OpenSession, _Session] = WeakKeyDictionary()
_lock = threading.Lock()


def _of_session(tables: TableSet) -> _Session:
    with _lock:
        return _sessions.setdefault(tables.session, _Session())
