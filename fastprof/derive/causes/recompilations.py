"""Recompilations: what changed when a function was compiled again?

The program of a compilation is the first program of this name that runs after it and did not run before. It is compared
with the nearest earlier program of the name: the one with the fewest different arguments, the last if several are tied.

    compilation  |======|        |======|
    program               |f(7)|          |f(9)| |f(7)|

PyTorch records no programs. The ops of the compiled code are compared instead, with their input shapes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import PurePath
from typing import Any, Final

import numpy as np

from fastprof.derive.causes import compilations
from fastprof.derive.causes.compilations import (
    Compilation,
    find_call_compilations,
    find_frame_compilations,
    find_frame_function,
    find_regions,
    make_key,
    parse_function,
)
from fastprof.derive.devices.op_names import ARGUMENTS as ARGUMENT_STATS
from fastprof.derive.devices.op_names import TENSORFLOW
from fastprof.derive.host import Host
from fastprof.derive.steps.step_source import AUTO
from fastprof.errors import CaptureError
from fastprof.hlo import METADATA_STATS
from fastprof.hlo.module import HloModule
from fastprof.hlo.program_changes import (
    ARGUMENTS,
    CONSTANT,
    FUNCTION,
    INSTRUCTIONS,
    NOTHING,
    SHAPE,
    TYPE,
    Argument,
    Change,
    compare_arguments,
    compare_programs,
    list_arguments,
)
from fastprof.hlo.programs import Modules, parse_program_id
from fastprof.schema.columns import find_last_started, find_least_by, number_values
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import MODULE_LINES, HostEvents
from fastprof.tables.needs import Needs, unite_needs
from fastprof.wording.traced_arguments import split_tensor

READS: Final = unite_needs([
    Host.GROUPING, Needs(stats=(*compilations.STATS, "program_id", *ARGUMENT_STATS), metadata_stats=METADATA_STATS)
])  # fmt: skip

NO_PROGRAM: Final = "the capture has no compiled program of the function"
NO_EARLIER: Final = "the capture has no earlier program of the function"
DAMAGED: Final = "a program of the function does not decode"
OTHER_FUNCTION: Final = "earlier programs of this name have other arguments: likely another function"
NO_SHAPES: Final = "op input shapes are not recorded"
NO_EARLIER_TRACE: Final = "the capture has no earlier trace of the function"
NO_ARGUMENTS: Final = "TensorFlow's profiler does not record the arguments"
NOT_RUN: Final = "the code of this compilation did not run in the capture"
EARLIER_NOT_RUN: Final = "the code of earlier compilations did not run in the capture"


def find_compilations(host: Host) -> list[Compilation]:
    """Return the compilations of a host, or of its chosen steps, in order of time, with their changes."""
    every = host.entire
    groups = every.groups_from(AUTO)
    events = groups.events
    compared = [*_compare_calls(events, every, find_call_compilations(events)), *_compare_frames(events)]
    if not compared:
        return []
    database = every.steps_from(AUTO).database
    steps, begins = database.step, database.extent_begin_ps[database.present]
    first_ps = int(begins.min()) if len(begins) else -(1 << 63)  # before all events
    chosen = steps if host is every else host.groups_from(AUTO).group_id
    group = groups.group_id[[each.row for each in compared]]
    known, ours = np.isin(group, steps).tolist(), np.isin(group, chosen).tolist()
    placed = [
        replace(each, step=step if is_step else -1, is_early=not is_step and each.start_ps < first_ps)
        for each, step, is_step, is_ours in zip(compared, group.tolist(), known, ours, strict=True)
        if host is every or is_ours
    ]
    return sorted(placed, key=lambda each: each.start_ps)


# ---- their programs


@dataclass(slots=True)
class _Program:
    """A program of a function. ``first_ps``: start of its first run, or None. ``arguments``: None if damaged."""

    number: int
    title: str
    first_ps: int | None
    arguments: list[Argument] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(argument.name for argument in self.arguments or ())


def _compare_calls(events: HostEvents, host: Host, calls: Sequence[Compilation]) -> Iterator[Compilation]:
    """Yield the compilations with their changes."""
    of_function: dict[str, list[Compilation]] = {}
    for call in calls:
        of_function.setdefault(make_key(call.function), []).append(call)
    programs = _list_programs(events, host, set(of_function) - {""}) if calls else {}
    for key, own in of_function.items():
        own.sort(key=lambda each: each.ready_ps)
        if key:
            yield from _compare_function(own, programs.get(key, []), host.modules)
        else:
            yield from own


def _list_programs(events: HostEvents, host: Host, keys: set[str]) -> dict[str, list[_Program]]:
    """List the programs of these functions that the capture has, or that ran, by number."""
    first, titles = _find_first_runs(events)
    titles |= {number: host.modules.title(number) or "" for number in host.modules.program_ids}
    programs: dict[str, list[_Program]] = {}
    for number, title in titles.items():
        key = make_key(parse_function(title)[1])
        if key in keys:
            programs.setdefault(key, []).append(_Program(number, title, first.get(number)))
    for own in programs.values():  # XLA numbers programs in order, except on TPUs
        own.sort(key=lambda program: program.number)
    return programs


def _find_first_runs(events: HostEvents) -> tuple[dict[int, int], dict[int, str]]:
    """Return the start of each program's first run, and the titles that runs have, by id."""
    titles: dict[int, str] = {}
    rows, numbers = events.ints("program_id")
    known, place = number_values(numbers)
    first = dict(zip(known.tolist(), find_least_by(place, events.start_ps[rows], len(known)).tolist(), strict=True))
    for line in events.lines:
        if line.name not in MODULE_LINES or line.is_derived:
            continue
        metas, place = number_values(events.meta[line.first : line.last])
        starts = find_least_by(place, events.start_ps[line.first : line.last], len(metas))
        for meta, start in zip(metas.tolist(), starts.tolist(), strict=True):
            number = parse_program_id(events.names[meta])
            if number is not None:
                first[number] = min(first.get(number, start), start)
                titles[number] = events.names[meta]
    return first, titles


def _compare_function(calls: list[Compilation], programs: list[_Program], modules: Modules) -> Iterator[Compilation]:
    """Yield the compilations of a function. ``calls``: in order of time."""
    for program in programs if len(programs) > 1 else ():
        module = modules.module(program.number)
        try:
            program.arguments = None if module is None else list_arguments(module)
        except (LookupError, ValueError, CaptureError):
            program.arguments = None
    ran = sorted((program for program in programs if program.first_ps is not None), key=lambda each: each.first_ps or 0)
    matched = _match_programs(calls, [program.first_ps or 0 for program in ran])
    aside = [program for program in programs if program.first_ps is None] if min(matched) >= 0 else []
    for place, (call, at) in enumerate(zip(calls, matched, strict=True)):
        is_repeated = call.is_repeated or place > 0 or at > 0 or bool(aside)
        if not is_repeated:
            yield call
        elif at < 0:
            yield _compare_trace(replace(call, is_repeated=True), calls[:place])
        else:
            named = replace(call, is_repeated=True, program=ran[at].title)
            earlier = [*aside[-_MOST_COMPARED:], *ran[max(at - _MOST_COMPARED, 0) : at]]
            yield _compare(named, ran[at], earlier, modules)


def _match_programs(calls: Sequence[Compilation], first_ps: Sequence[int]) -> list[int]:
    """Return the position of each compilation's program, or -1. This is the first program that began to run after the
    compilation, but not after the next one, unless there are enough programs for all. ``first_ps``: starts of the
    programs' first runs, ascending."""
    matched: list[int] = []
    after = 0
    for place, call in enumerate(calls):
        while after < len(first_ps) and first_ps[after] < call.ready_ps:
            after += 1
        left = len(first_ps) - after
        late = place + 1 < len(calls) and left > 0 and first_ps[after] >= calls[place + 1].ready_ps
        is_matched = left > 0 and not (late and left < len(calls) - place)
        matched.append(after if is_matched else -1)
        after += is_matched
    return matched


def _compare(call: Compilation, program: _Program, earlier: Sequence[_Program], modules: Modules) -> Compilation:
    """Compare the program of a compilation with an earlier one."""
    if not earlier:
        return replace(call, reason=NO_EARLIER)
    readable = [each for each in earlier[-_MOST_COMPARED:] if each.arguments is not None]
    if program.arguments is None or not readable:
        kept = {each.number for each in (program, *earlier)} <= set(modules.program_ids)
        return replace(call, reason=DAMAGED if kept else NO_PROGRAM)
    nearest = _choose_nearest(program, readable)
    if nearest is None:
        return replace(call, reason=OTHER_FUNCTION)
    before, after = modules.module(nearest.number), modules.module(program.number)
    if before is None or after is None:
        return replace(call, reason=DAMAGED)
    scalars = tuple(argument.name for argument in program.arguments if argument.is_scalar)
    source = _find_source(after, call.function)
    try:
        changes = compare_programs(before, after)
        return replace(call, compared_program=nearest.title, changes=changes, scalars=scalars, source=source)
    except (LookupError, ValueError, CaptureError):
        return replace(call, reason=DAMAGED)


def _compare_trace(call: Compilation, earlier: Sequence[Compilation]) -> Compilation:
    """Compare a call that has no program: calls of a tf.function without XLA by their recorded arguments."""
    if call.framework != TENSORFLOW:
        return replace(call, reason=NO_PROGRAM)
    if call.tracings == 1 and earlier:
        return replace(call, changes=(Change(FUNCTION),))
    known = [each.arguments for each in earlier[-_MOST_COMPARED:] if each.arguments]
    if not call.arguments or not known:
        return replace(call, reason=NO_EARLIER_TRACE if call.arguments else NO_ARGUMENTS)
    differences = []
    for before in reversed(known):
        pairs = [(name, before.get(name, ""), call.arguments.get(name, "")) for name in {**before, **call.arguments}]
        changes = (Change(_judge_kind(old, new), name, old, new) for name, old, new in pairs if old != new)
        differences.append(tuple(changes))
    return replace(call, changes=min(differences, key=len) or (Change(NOTHING),))


def _judge_kind(old: str, new: str) -> str:
    """Return the kind of change between two texts of an argument."""
    if not old or not new:
        return ARGUMENTS
    (old_type, old_sizes), (new_type, new_sizes) = split_tensor(old), split_tensor(new)
    if old_sizes != new_sizes:
        return SHAPE
    return TYPE if old_type or new_type else CONSTANT


def _find_source(module: HloModule, function: str) -> str | None:
    """Return file and line of the call of a function, from the stack of the first instruction that has one, or None.
    Stacks have no library frames, and deep stacks only the innermost frames: then the innermost line counts."""
    ids = module.instructions["stack_frame_id"]
    frames = module.stack_frames.stack(int(ids[(ids > 0).argmax()])) if (ids > 0).any() else ()
    own = [place for place, frame in enumerate(frames) if frame.function.rpartition(".")[2] == function]
    outside = frames[own[-1] + 1 :] if own else frames
    frame = next(iter(outside or frames), None)
    return f"{PurePath(frame.file).name}:{frame.line}" if frame is not None and frame.file else None


_MOST_COMPARED: Final = 32
"""Most earlier programs that are searched for the nearest."""


def _choose_nearest(program: _Program, earlier: Sequence[_Program]) -> _Program | None:
    """Return the earlier program with the fewest different arguments, the last if several are tied; None if none of
    them shares an argument name."""
    names = program.names
    similar = [each for each in earlier if not names or not each.names or not set(each.names).isdisjoint(names)]
    own = program.arguments or []
    return min(reversed(similar), key=lambda each: len(compare_arguments(each.arguments or [], own)), default=None)


# ---- PyTorch


def _compare_frames(events: HostEvents) -> Iterator[Compilation]:
    """Yield the compilations of torch.compile, with the first difference between the ops of their code."""
    frames = find_frame_compilations(events)
    regions = find_regions(events) if frames else {}
    functions: dict[str, str] = {}
    for number, region in regions.items():
        if name := find_frame_function(events, region):
            functions[number.partition("/")[0]] = name
    ops = {number: _read_ops(events, region) for number, region in regions.items()}
    for each in frames:
        if each.program is None:
            yield each
            continue
        frame, _, place = each.program.partition("/")
        named = replace(each, function=functions.get(frame, f"frame {frame}"))
        earlier = [f"{frame}/{number}" for number in range(max(int(place) - _MOST_COMPARED, 0), int(place))]
        yield _compare_ops(named, ops, earlier) if each.is_repeated else named


_Op = tuple[str, list[str], list[str]]
"""Name of an op, its inputs, such as ``float[16,32]``, and the numbers among them, "" for tensors."""


def _compare_ops(compilation: Compilation, ops: dict[str, list[_Op]], earlier: Sequence[str]) -> Compilation:
    """Compare the ops of a compilation with those of the nearest earlier one of its frame."""
    after = ops.get(compilation.program or "")
    ran = [number for number in reversed(earlier) if number in ops]
    if after is None or not ran:
        return replace(compilation, reason=compilation.reason or (NOT_RUN if after is None else EARLIER_NOT_RUN))
    known = [number for number in ran if any(inputs for _, inputs, _ in ops[number])]
    if not known or not any(inputs for _, inputs, _ in after):
        return replace(compilation, reason=NO_SHAPES)
    changes = {number: _find_first_change(ops[number], after) for number in known}
    nearest = min(changes, key=lambda number: _ORDER.get(changes[number][0].kind, len(changes[number])))
    return replace(compilation, compared_program=nearest, changes=changes[nearest])


_ORDER: Final = {NOTHING: 0, INSTRUCTIONS: 1 << 31}
"""Distance between compilations with such a change; for other changes, the number of different inputs."""


def _find_first_change(before: list[_Op], after: list[_Op]) -> tuple[Change, ...]:
    """Return the differences of the first op that differs. Later ops differ as a consequence."""
    pairs = zip_longest(before, after)
    pair = next((pair for pair in pairs if pair[0] is None or pair[1] is None or pair[0][:2] != pair[1][:2]), None)
    if pair is None:
        return _find_changed_numbers(before, after) or (Change(NOTHING),)
    old, new = pair
    if old is None or new is None or old[0] != new[0] or len(old[1]) != len(new[1]):
        return (Change(INSTRUCTIONS, None, "" if old is None else old[0], "" if new is None else new[0]),)
    inputs = enumerate(zip(old[1], new[1], strict=True))
    return tuple(
        Change(TYPE if first.partition("[")[2] == second.partition("[")[2] else SHAPE, f"input {place} of {new[0]}",
               first, second)
        for place, (first, second) in inputs
        if first != second
    )  # fmt: skip


def _find_changed_numbers(before: list[_Op], after: list[_Op]) -> tuple[Change, ...]:
    """Return the changed numbers of the first op that has any. Ops, types and shapes are equal."""
    for (name, _, old), (_, _, new) in zip(before, after, strict=True):
        pairs = enumerate(zip(old, new, strict=False))
        changes = [Change(CONSTANT, f"input {place} of {name}", *pair) for place, pair in pairs if pair[0] != pair[1]]
        if changes:
            return tuple(changes)
    return ()


def _read_ops(events: HostEvents, region: tuple[int, int]) -> list[_Op]:
    """Return the outermost ops in a region, with the recorded types and shapes of their inputs."""
    first, last = region
    columns = []
    for name in ARGUMENT_STATS:
        rows, numbers = events.texts(name)
        begin, end = (find_last_started(rows, np.array([first, last]) - 1) + 1).tolist()
        columns.append(dict(zip(rows[begin:end].tolist(), numbers[begin:end].tolist(), strict=True)))
    dims, old_dims, types, concrete = columns
    ops: list[_Op] = []
    until = int(events.start_ps[first])
    for row in sorted({*dims, *old_dims} - {first}):
        name, start = events.names[events.meta[row]], int(events.start_ps[row])
        if "::" in name and start >= until:
            until = start + max(int(events.duration_ps[row]), 0)
            shape = events.text(dims[row] if row in dims else old_dims[row])
            inputs = _format_inputs(shape, events.text(types[row]) if row in types else "")
            values = _parse_list(events.text(concrete[row])) if row in concrete else None
            ops.append((name, inputs, [str(value) for value in values or ()]))
    return ops


def _format_inputs(dims: str, types: str) -> list[str]:
    """Return the inputs of an op, such as ``float[16,32]``, or [] if they cannot be read."""
    shapes, named = _parse_list(dims), _parse_list(types) if types else []
    if shapes is None or named is None:
        return []
    kinds = [str(kind).removeprefix("c10::") for kind in named] + [""] * (len(shapes) - len(named))
    return [f"{kind}{json.dumps(shape, separators=(',', ':'))}" for shape, kind in zip(shapes, kinds, strict=False)]


def _parse_list(text: str) -> list[Any] | None:
    """Return a JSON list, or None if it is none."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, list) else None
