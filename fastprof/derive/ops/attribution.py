"""Which op each event of a GPU belongs to, also where the event itself does not say so; where nothing does, why not.

An event's op is, of these the first that is known:

    ""                        what its own stats name
    "annotation"              what its own annotation names
    "graph node"              what other events name that are of the same node of a CUDA graph
    "launch"                  what the call that launched it names (correlation_id)
    "enclosing event"         what the nearest event around that call names
    "kernel name in module"   the instruction that the kernel is named after: of the program that the launch or what
                              encloses it tells, else of the one that ran before and after it on its line, else of the
                              only one that has such an instruction; where no other
                              may run as the same kernel. Of what a graph launches this counts before the
                              launch, which is that of all the graph

All else is a row for each kernel or copy, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.ops.clues import NO_OPS, Clue, Clues
from fastprof.derive.ops.gpu_ops import (
    GpuOp,
    GpuOpEvents,
    OpList,
    framework_op,
    instructions,
    named_op_events,
    on_op_lines,
    op_lines,
)
from fastprof.derive.ops.kernel_names import KernelNames, copy_category
from fastprof.derive.ops.launches import Launches, enclosing, launches
from fastprof.derive.ops.stat_values import stat_places
from fastprof.derive.steps.links import first_of, numbered
from fastprof.hlo.modules import Modules
from fastprof.hlo.work import NOTHING
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.tables.host_events import HostEvents

WAYS: Final = ("", "annotation", "graph node", "launch", "enclosing event", "kernel name in module")
"""How an op is known, by code."""
_ITSELF, _ANNOTATION, _GRAPH_NODE, _LAUNCH, _ENCLOSING, _KERNEL_NAME = range(len(WAYS))
UNATTRIBUTED: Final = len(WAYS)
"""The code of events whose op is not known."""

KERNEL: Final = "kernel"
"""Category of kernels whose op is not known."""
_CONTAINERS = frozenset({"call", "while", "conditional", "async-start", "async-done", "command_buffer"})
"""Instructions that run others."""


def attributed(events: HostEvents, modules: Modules) -> GpuOpEvents:
    """The op of each event of a GPU: every event on a line that a GPU recorded has one."""
    named = named_op_events(events, modules)
    found = OpList(list(named.ops), {(one.is_hlo, one.program_id, one.name): i for i, one in enumerate(named.ops)})
    work = _Attribution(events, found, KernelNames(modules), named.op.copy(), np.zeros(len(events), np.uint8))
    vague = np.array([one.provenance in NO_OPS for one in named.ops] + [False])  # XLA writes so on all kernels
    rows = np.flatnonzero(on_op_lines(events) & ((named.op < 0) | vague[named.op]))
    if len(rows):
        work.op[rows] = -1
        work.run(rows.astype(np.int64))
    ops = [_with_category(one) for one in found.ops]
    return GpuOpEvents(ops, work.op, np.array([one.is_hlo for one in ops], bool), work.way)


def _with_category(op: GpuOp) -> GpuOp:
    """Copies are copies, whatever the type of the framework's op that they are for."""
    category = copy_category(op.name.rpartition("/")[2]) if op.provenance and not op.is_hlo else ""
    return replace(op, category=category) if category else op


@dataclass(slots=True)
class _Attribution:
    """``op``, ``way``: by row of the events; they are filled."""

    events: HostEvents
    found: OpList
    names: KernelNames
    op: Int32s
    way: npt.NDArray[np.uint8]
    clues: Clues = field(init=False)

    def __post_init__(self) -> None:
        self.clues = Clues(self.events)

    def run(self, rows: Int64s) -> None:
        """Finds the ops of these rows."""
        self._by_clues(rows, self.clues.of_rows(rows), _ITSELF)
        self._by_graph_nodes(rows)
        left = self._left(rows)
        sought = launches(self.events, left)
        calls = np.flatnonzero(sought.row >= 0)
        clue = np.full(len(left), -1, np.int32)
        clue[calls] = self.clues.of_rows(sought.row[calls].astype(np.int64), by_name=True)
        self._by_names_in_graphs(left, clue, sought.shared)
        self._by_clues(left, clue, _LAUNCH)
        around = self._around(left, sought)
        self._by_clues(left, around, _ENCLOSING)
        self._by_kernel_names(left, np.where(clue >= 0, clue, around))
        self._leave(left, sought, np.where(clue >= 0, clue, around))

    def _left(self, rows: Int64s) -> Int64s:
        return rows[self.op[rows] < 0]

    # ---- by what events tell

    def _by_clues(self, rows: Int64s, clue: Int32s, way: int) -> None:
        """``clue``: beside the rows, the place of what is told of each."""
        wanted = (clue >= 0) & (self.op[rows] < 0)
        rows, clue = rows[wanted], clue[wanted]
        if not len(rows):
            return
        number, count = numbered([clue.astype(np.int64), self.events.meta[rows].astype(np.int64)])
        first = first_of(number, count)
        pairs = zip(clue[first].tolist(), self.events.meta[rows[first]].tolist(), strict=True)
        ops = [self._told(self.clues.found[place], self.events.names[meta]) for place, meta in pairs]
        of_own = (way, _ANNOTATION if way == _ITSELF else way)
        ways = [of_own[self.clues.found[clue[at]].from_annotation] for at in first.tolist()]
        self._write(rows, np.array(ops, np.int32)[number], np.array(ways, np.uint8)[number])

    def _write(self, rows: Int64s, op: Int32s, way: npt.NDArray[np.uint8] | int) -> None:
        known = op >= 0
        self.op[rows[known]] = op[known]
        self.way[rows[known]] = way if isinstance(way, int) else way[known]

    def _told(self, clue: Clue, kernel: str) -> int:
        """The place of the op that a clue names; -1: it names none."""
        if clue.hlo_op:
            return self._instruction(clue.hlo_op, self._program(clue))
        return self.found.add(framework_op(clue.tf_op, kernel)) if clue.tf_op else -1

    def _instruction(self, name: str, program_id: int) -> int:
        known = instructions(self.names.modules, program_id, [name])[0]
        return self.found.add(known or GpuOp(program_id, name, "", "", NOTHING, is_hlo=True))

    def _program(self, clue: Clue) -> int:
        """The program that a clue names, by its id, else by the name of its module where only one that is called so
        has the instruction; 0: it is not known."""
        if clue.program_id is not None:
            return clue.program_id
        modules = self.names.modules
        of_name = [one for one in modules.program_ids if (modules.title(one) or "").rpartition("(")[0] == clue.module]
        having = [one for one in of_name if not clue.hlo_op or modules.find(one, [clue.hlo_op])[0] is not None]
        return having[0] if len(having) == 1 else 0

    def _around(self, rows: Int64s, sought: Launches) -> Int32s:
        """What the events around the launches tell, where the launches themselves name no op."""
        around = np.full(len(rows), -1, np.int32)
        asked = np.flatnonzero((self.op[rows] < 0) & (sought.row >= 0))
        above = enclosing(self.events, sought.row[asked], self.clues)
        there = above >= 0
        around[asked[there]] = self.clues.of_rows(above[there].astype(np.int64), by_name=True)
        return around

    # ---- by nodes of graphs

    def _by_graph_nodes(self, rows: Int64s) -> None:
        """Where all events of a node that name an op name the same one, the others run it too."""
        at, nodes = self.events.ints("cuda_graph_node_id")
        rows = self._left(rows)
        if not len(at) or not len(rows):
            return
        of_event = self.op[at].copy()
        silent = np.flatnonzero(of_event < 0)
        clue = self.clues.of_rows(at[silent].astype(np.int64))
        told = [self._told(one, "") if one.hlo_op else -1 for one in self.clues.found] + [-1]
        of_event[silent] = np.array(told, np.int32)[clue]
        number, count = numbered([nodes])
        known = of_event >= 0
        least, most = np.full(count, np.iinfo(np.int32).max, np.int32), np.full(count, -1, np.int32)
        np.minimum.at(least, number[known], of_event[known])
        np.maximum.at(most, number[known], of_event[known])
        has, place = stat_places(at, rows)
        self._write(rows[has], np.where(least == most, most, -1)[number[place]], _GRAPH_NODE)

    # ---- by names of kernels

    def _by_names_in_graphs(self, rows: Int64s, clue: Int32s, shared: Bools) -> None:
        """Of what one launch ran many of, the instructions of the launch's program that kernels are named after."""
        inner = np.array([self._is_container(one) for one in self.clues.found] + [False])
        asked = (clue >= 0) & (shared | inner[clue])
        self._named_after(rows[asked], clue[asked], np.zeros((int(asked.sum()), 0), np.int64))

    def _is_container(self, clue: Clue) -> bool:
        """Whether a clue is of what runs others; of one that the capture does not have, by its name."""
        if not clue.hlo_op:
            return clue.names_program
        module = self.names.modules.module(self._program(clue))
        row = -1 if module is None else int(module.find([clue.hlo_op])[0])
        opcode = clue.hlo_op.split(".")[0] if module is None or row < 0 else module.instruction(row).opcode
        return opcode in _CONTAINERS

    def _by_kernel_names(self, rows: Int64s, clue: Int32s) -> None:
        left = self.op[rows] < 0
        rows, clue = rows[left], clue[left]
        if len(rows) and len(self.names.modules):
            self._named_after(rows, clue, self._neighbours(rows))

    def _named_after(self, rows: Int64s, clue: Int32s, near: Int64s) -> None:
        """``near``: beside each row the places of ops of programs that ran before and after it; -1: none did."""
        if not len(rows):
            return
        meta = self.events.meta[rows].astype(np.int64)
        number, count = numbered([clue.astype(np.int64), meta, *near.T])
        ops = []
        for at in first_of(number, count).tolist():
            told = self.clues.found[clue[at]] if clue[at] >= 0 else None
            nearby = [self.found.ops[place].program_id for place in near[at].tolist() if place >= 0]
            ops.append(self._kernel(self.events.names[meta[at]], told, nearby))
        self._write(rows, np.array(ops, np.int32)[number], _KERNEL_NAME)

    def _kernel(self, kernel: str, clue: Clue | None, nearby: list[int]) -> int:
        """The place of the instruction that a kernel is named after, -1: there is none, or it is not clear which."""
        if clue is not None and clue.names_program:
            candidates = [self._program(clue)]
        else:
            candidates = self.names.programs(kernel)
            candidates = [one for one in dict.fromkeys(nearby) if one in candidates] or candidates
        if len(candidates) != 1 or not (name := self.names.instruction(candidates[0], kernel)):
            return -1
        return self._instruction(name, candidates[0])

    def _neighbours(self, rows: Int64s) -> Int64s:
        """Beside each row, the ops of the last event before and of the first after it on its line that are instructions
        of a program; -1: there is none. [n, 2]"""
        is_hlo = np.array([one.is_hlo for one in self.found.ops] + [False])
        near = np.full((len(rows), 2), -1, np.int64)
        for plane in self.events.planes_of("GPU"):
            for line in op_lines(plane):
                mine = slice(*np.searchsorted(rows, [line.first, line.last]).tolist())
                if mine.stop == mine.start:
                    continue
                of_program = line.first + np.flatnonzero(is_hlo[self.op[line.first : line.last]])
                place = np.searchsorted(of_program, rows[mine])
                ops = np.concatenate([[-1], self.op[of_program], [-1]])
                near[mine, 0], near[mine, 1] = ops[place], ops[place + 1]
        return near

    # ---- what is left

    def _leave(self, rows: Int64s, sought: Launches, clue: Int32s) -> None:
        """A row for each name and program, with the reason. ``clue``: beside the rows, of the launch or around it."""
        left = self.op[rows] < 0
        rows = rows[left]
        if not len(rows):
            return
        own = self.clues.of_rows(rows)
        program = self._programs()[np.where(own >= 0, own, clue[left])]
        call = sought.row[left]
        call_meta = np.where(call >= 0, self.events.meta[call], -1)
        meta = self.events.meta[rows].astype(np.int64)
        correlated = sought.correlated[left].astype(np.int64)
        number, count = numbered([meta, program, call_meta.astype(np.int64), correlated])
        first = first_of(number, count)
        ops = []
        for at in first.tolist():
            launch = "" if call[at] < 0 else self.events.names[call_meta[at]]
            name = self.events.names[meta[at]]
            reason = self._reason(name, launch, bool(sought.correlated[left][at]))
            op = _unattributed(name, launch, reason)
            ops.append(self.found.add(replace(op, program_id=int(program[at]))))
        self.op[rows] = np.array(ops, np.int32)[number]
        self.way[rows] = UNATTRIBUTED

    def _programs(self) -> Int64s:
        """The program that each clue tells of, and a 0 for none."""
        return np.array([self._program(one) if one.names_program else 0 for one in self.clues.found] + [0], np.int64)

    def _reason(self, kernel: str, launch: str, is_correlated: bool) -> str:
        if not is_correlated:
            why = "the event names no op, and has no correlation_id that leads to its launch"
        elif not launch:
            why = "the event names no op, and the capture does not have its launch"
        else:
            why = f"launch {launch} names no op, nor do the event itself and those around the launch"
        several = self.names.programs(kernel) if len(self.names.modules) else []
        if len(several) > 1:
            return f"{why}; {len(several)} programs have an instruction of its name"
        is_shared = len(several) == 1 and not self.names.instruction(several[0], kernel)
        return f"{why}; several instructions may run as a kernel of its name" if is_shared else why


def _unattributed(name: str, launch: str, reason: str) -> GpuOp:
    category = copy_category(name)
    if category in ("", "copy") and (told := copy_category(launch)) and (category or told == "memset"):
        return GpuOp(0, f"{name} {told.partition(' ')[2]}".rstrip(), told, "", NOTHING, reason=reason)
    return GpuOp(0, name, category or KERNEL, "", NOTHING, reason=reason)
