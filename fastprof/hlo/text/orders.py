"""The order of computations and instructions in HLO text: callees before callers, operands before users."""

from __future__ import annotations

from fastprof.hlo.message import Message
from fastprof.hlo.module import HloModule

_CHANNEL = 26
_DEVICE_ASSIGNMENT, _COMPUTATION_COUNT = 15, 2
_PARTITIONED = frozenset(("all-reduce", "all-gather", "all-to-all", "collective-broadcast", "collective-permute",
                          "ragged-all-to-all", "reduce-scatter"))  # fmt: skip
"""Opcodes whose instructions of one channel keep their order."""
_NEW, _OPEN, _DONE = range(3)


# ---- computations


def computation_order(module: HloModule) -> list[int]:
    """Rows of computations: those that no other calls, in the order of their ids, each behind those that it calls.
    Computations that call each other in a circle, in damaged modules, come last."""
    by_id = sorted(range(len(module.computation_ids)), key=module.computation_ids.__getitem__)
    called = _called(module)
    inner = {call for calls in called for together in calls for call in together}
    order: dict[int, None] = {}
    for computation in by_id:
        if computation not in inner:
            order |= dict.fromkeys(_embedded(called, computation, order))
            order[computation] = None
    return [*order, *(computation for computation in by_id if computation not in order)]


def _called(module: HloModule) -> list[list[list[int]]]:
    """By computation, for each of its instructions that calls any: the computations called."""
    called: list[list[list[int]]] = []
    ignored = ("async-update", "async-done")
    for computation in range(len(module.computation_ids)):
        rows = [row for row in module.rows_of(computation) if module.opcodes[row] not in ignored]
        of_rows = ([call for call in module.calls_of(row) if call >= 0] for row in rows)
        called.append([calls for calls in of_rows if calls])
    return called


def _embedded(called: list[list[list[int]]], root: int, known: dict[int, None]) -> list[int]:
    """What a computation calls, directly or not, callees first, without what is ``known``. Without recursion. The calls
    of one instruction are visited together, so that none comes earlier because of what the others call."""
    order: list[int] = []
    met = {root}
    stack = [(root, iter(called[root]))]
    while stack:
        computation, calls = stack[-1]
        together = next(calls, None)
        if together is None:
            order.append(computation)
            stack.pop()
            continue
        for call in reversed(together):
            if call not in met and call not in known:
                met.add(call)
                stack.append((call, iter(called[call])))
    return order[:-1]


# ---- instructions


def instruction_order(module: HloModule, computation: int) -> list[int]:
    """Rows of a computation's instructions: as scheduled, else operands first. Instructions in a circle, in damaged
    modules, come anywhere, each once."""
    scheduled = module.schedule_of(computation)
    if scheduled is not None:
        return scheduled
    rows = module.rows_of(computation)
    before = _earlier_of_channel(module, rows)
    used = {operand for row in rows for operand in module.operands_of(row)}
    states = bytearray(len(rows))
    order: list[int] = []
    for start in (*(row for row in rows if row not in used), *rows):
        if states[start - rows.start] == _NEW:
            _walk(module, rows, start, before, states, order)
    return order


def _walk(
    module: HloModule, rows: range, start: int, before: dict[int, int], states: bytearray, order: list[int]
) -> None:
    """Appends what ``start`` needs, and then itself."""
    first = rows.start
    stack = [start]
    while stack:
        row = stack[-1]
        state = states[row - first]
        if state != _NEW:
            stack.pop()
            if state == _OPEN:
                states[row - first] = _DONE
                order.append(row)
            continue
        states[row - first] = _OPEN
        waiting = [before[row]] if row != start and row in before else []
        waiting += reversed(module.operands_of(row))
        waiting += module.control_predecessors(row)
        stack += [one for one in waiting if one in rows and states[one - first] != _DONE]


def _earlier_of_channel(module: HloModule, rows: range) -> dict[int, int]:
    """The previous collective of the channel of each; empty where the module is for one partition."""
    collectives = [row for row in rows if module.opcodes[row] in _PARTITIONED]
    if len(collectives) < 2 or _is_one_partition(module):
        return {}
    before: dict[int, int] = {}
    last: dict[int, int] = {}
    for row in collectives:
        channel = Message(module.proto_of(row)).integer(_CHANNEL)
        if channel > 0:
            if channel in last:
                before[row] = last[channel]
            last[channel] = row
    return before


def _is_one_partition(module: HloModule) -> bool:
    proto = Message(module.proto)
    return _DEVICE_ASSIGNMENT in proto and proto.message(_DEVICE_ASSIGNMENT).integer(_COMPUTATION_COUNT) == 1
