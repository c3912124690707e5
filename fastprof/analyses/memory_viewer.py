"""Memory of compiled programs: the peak, the buffers alive at it, padding, lifetimes, allocations.

The compiler plans the memory of a program before it runs: its buffers, their addresses and lifetimes. The
capture has this plan with the program (HLO). Definitions: docs/analyses/memory-viewer.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from fastprof import hlo
from fastprof.analyses.contract import (
    NO_PROGRAMS_OF_TORCH,
    AnalysisReport,
    Evidence,
    Known,
    Notice,
    Opening,
    ScalarSpec,
    Section,
    has_rows,
    is_known,
    make_scalars,
)
from fastprof.decode.plane_kinds import find_device_of_plane
from fastprof.derive.host import CPU_ONLY, GPU, TPU, Host
from fastprof.errors import CaptureError
from fastprof.hlo import program_memory_tables as tables_of
from fastprof.hlo.module import HloModule
from fastprof.hlo.program_memory import (
    DEVICE,
    OUTPUT,
    PARAMETER,
    TOO_LARGE,
    MemorySpace,
    ProgramMemory,
    find_scoped_vmem,
    format_space,
    get_space_name,
    list_signature_rows,
    parse_space,
)
from fastprof.hlo.program_memory_tables import TABLES as TABLES
from fastprof.hlo.program_memory_tables import Alive, Buffers, ModuleRow, find_alive_at_peak, list_module_rows
from fastprof.schema.columns import Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.needs import Needs
from fastprof.tables.program_choice import find_named_programs, match_programs
from fastprof.wording.quantities import format_size

if TYPE_CHECKING:
    from fastprof.hlo.programs import Modules
    from fastprof.hlo.programs import Program as Undecoded
    from fastprof.tables.host_events import HostEvents

NAME = "memory_viewer"
OF_ALL_THREADS = OF_PROGRAMS = True
READS = Needs(planes=hlo.PLANES, metadata_stats=hlo.METADATA_STATS)
AFTER: tuple[str, ...] = ()
REMEDY = "Profile a program that XLA compiles, while it runs. memory_profile shows allocators."
CONTENT = Evidence("No programs: the capture carries no compiled programs.", programs=True)
NOT_OF_TORCH = f"{NO_PROGRAMS_OF_TORCH} The report memory_profile shows the memory of its allocators."


@dataclass(frozen=True, slots=True)
class Params:
    module: str | int | None = field(
        default=None,
        metadata={
            "help": "program to show: its title, with parentheses, its name, or its id (default: the largest)",
            "metavar": "NAME",
            "type": "name",
        },
    )
    memory_space: str | int = field(
        default="0",
        metadata={
            "help": "memory space to show: a number, optionally as S(5), or device, hbm, vmem, sflag, cmem, smem, "
            "host, sparsecore",
            "metavar": "SPACE",
            "type": "name",
        },
    )


_TRACED = "null: no trace of the heap"
SCALARS = {
    "module": ScalarSpec(None, "the program shown", "program"),
    "host": ScalarSpec(None, "host of the program, the first one if several hosts have it"),
    "memory_space": ScalarSpec(None, "number of the memory space shown"),
    "memory_space_name": ScalarSpec(None, "name of the memory space shown", "memory"),
    "peak_bytes": ScalarSpec("bytes", "peak memory in use: what lives throughout, plus the heap peak",
                             "peak"),
    "peak_instruction": ScalarSpec(None, f"instruction at which the heap is fullest; {_TRACED}", "peak at"),
    "peak_point": ScalarSpec(None, f"number of the heap event that reaches the peak, from 0; {_TRACED}"),
    "unpadded_peak_bytes": ScalarSpec("bytes", "peak_bytes without padding", "peak without padding"),
    "padding_bytes": ScalarSpec("bytes", "peak_bytes - unpadded_peak_bytes", "padding at the peak"),
    "padding_share": ScalarSpec("share", "padding_bytes / peak_bytes", "padding share"),
    "allocated_bytes": ScalarSpec("bytes", "memory that the program takes when it runs: all allocations, except "
                                  "thread-local ones", "allocated"),
    "fragmentation_bytes": ScalarSpec("bytes", "allocated_bytes - peak_bytes", "fragmentation"),
    "fragmentation_share": ScalarSpec("share", "fragmentation_bytes / temporary_bytes", "fragmentation share"),
    "whole_run_bytes": ScalarSpec("bytes", "allocations of parameters, outputs and constants, which live throughout",
                                  "alive throughout"),
    "parameter_bytes": ScalarSpec("bytes", "parameter allocations", "parameters"),
    "aliased_bytes": ScalarSpec("bytes", "parameter allocations that outputs overwrite (donated), part of "
                                "parameter_bytes", "donated parameters"),
    "output_bytes": ScalarSpec("bytes", "output allocations that are not parameters", "outputs"),
    "constant_bytes": ScalarSpec("bytes", "constant allocations", "constants"),
    "temporary_bytes": ScalarSpec("bytes", "temporary allocations, which do not live throughout", "temporaries"),
    "thread_local_bytes": ScalarSpec("bytes", "allocations of computations on threads, which allocated_bytes does not "
                                     "contain", "on threads"),
    "program_points": ScalarSpec(None, "events of the heap traces: allocations, frees and shares", "program points"),
    "scoped_vmem_bytes": ScalarSpec("bytes", "most scoped VMEM that one instruction takes for itself while it runs "
                                    "(its backend_config); only for VMEM", "scoped VMEM"),
    "scoped_vmem_instruction": ScalarSpec(None, "instruction that takes the most scoped VMEM", "taken by"),
}  # fmt: skip
_SHOWN = ("peak_bytes", "peak_instruction", "unpadded_peak_bytes", "padding_bytes", "allocated_bytes",
          "fragmentation_bytes", "whole_run_bytes", "parameter_bytes", "aliased_bytes", "output_bytes",
          "constant_bytes", "temporary_bytes", "thread_local_bytes")  # fmt: skip


# Memory spaces have names only where the hardware is known; otherwise sections show their numbers.


def _has_several(*, named: bool) -> Callable[[AnalysisReport], bool]:
    """Return a predicate: whether there are several programs, with or without named memory spaces."""
    return lambda report: (
        len(report.tables["modules"]["module"].unique()) > 1
        and (report.tables["modules"]["memory_space_name"].null_count < report.tables["modules"].num_rows) == named
    )


def _has_memory(*, named: bool) -> Callable[[AnalysisReport], bool]:
    """Return a predicate: whether the program has anything in the memory space, with or without a name."""
    return lambda report: _has_figures(report) and (report.scalars["memory_space_name"].value is not None) == named


def _has_figures(report: AnalysisReport) -> bool:
    return report.scalars["allocated_bytes"].value is not None and report.tables["allocations"].num_rows > 0


def _has_no_figures(report: AnalysisReport) -> bool:
    return report.scalars["module"].value is not None and not _has_figures(report)


_SPACES = (("memory_space_name", True), ("memory_space", False))
OPENING = Opening(
    (
        "{module} needs {peak_bytes} of {memory_space_name} at its peak.",
        "{module} needs {peak_bytes} at its peak.",
    ),
    (
        "peak_bytes", "allocated_bytes", "temporary_bytes", "parameter_bytes", "output_bytes", "fragmentation_bytes",
    ),
)  # fmt: skip

SECTIONS = (
    *(Section("Programs, most memory first", "modules", ("module", space, "peak_bytes", "allocated_bytes",
              "parameter_bytes", "output_bytes", "temporary_bytes", "fragmentation_bytes"), rows=12,
              shown=_has_several(named=named)) for space, named in _SPACES),
    *(Section("Memory", scalars=("module", space, *_SHOWN), shown=_has_memory(named=named))
      for space, named in _SPACES),
    Section("Program", scalars=("module", "memory_space"), shown=_has_no_figures),
    Section("Scoped VMEM, in addition to the allocations", scalars=("scoped_vmem_bytes", "scoped_vmem_instruction"),
            shown=is_known("scoped_vmem_bytes")),
    Section("Alive at the peak, similar op names merged", "peak_by_op", ("category", "op", "bytes", "share",
            "buffer_count", "padding_bytes", "source"), "share", 12, shown=has_rows("peak_by_op")),
    Section("Alive at the peak, largest first", "buffers_at_peak", ("buffer", "category", "bytes", "share",
            "padding_bytes", "shape", "op_name", "source"), "share", 15, shown=has_rows("buffers_at_peak")),
    Section("Memory by use", "by_allocation_type", ("memory_space_name", "memory_space", "category",
            "allocation_count", "bytes", "share"), "share", 16, shown=has_rows("by_allocation_type")),
    Section("Allocations", "allocations", ("allocation", "category", "bytes", "peak_bytes", "buffer_count", "buffer",
            "shape", "op_name"), rows=10, shown=has_rows("allocations")),
)  # fmt: skip


# ---- what is kept of a host


@dataclass(frozen=True, slots=True)
class ViewedProgram:
    """Program of one or more hosts. ``hosts``: hosts with exactly this program. ``own``: the undecoded program, or None
    if it is not requested or does not decode. ``rows``: its rows of the table modules."""

    title: str
    program_id: int
    hosts: tuple[str, ...]
    hardware: str
    own: Undecoded | None = None
    rows: tuple[ModuleRow, ...] = ()

    def space_number(self, params: Params) -> int:
        """Return the number of the requested memory space."""
        return parse_space(str(params.memory_space), self.hardware)


HostPrograms = tuple[list[ViewedProgram], list[str]]
"""Programs of a host, and sentences on what could not be read."""


def of_host(given: Host, params: Params) -> HostPrograms:
    hardware = _get_hardware(given.raw)
    parse_space(str(params.memory_space), hardware)
    modules = given.modules
    listed = [(number, modules.title(number) or "") for number in modules.program_ids]
    requested = listed if params.module is None else match_programs(listed, str(params.module))
    problems: list[str] = []
    programs = [ViewedProgram(title, number, (given.name,), hardware) for number, title in listed]
    programs = [
        _read_program(program, modules, problems) if (program.program_id, program.title) in requested else program
        for program in programs
    ]
    return programs, [*modules.problems, *problems]


def _get_hardware(events: HostEvents) -> str:
    """Return the hardware by plane names; "" if unknown, as for files of programs alone."""
    kinds = {find_device_of_plane(name)[0] for name in events.plane_names}
    return GPU if GPU in kinds else TPU if TPU in kinds else CPU_ONLY if "CPU" in kinds else ""


def _read_program(program: ViewedProgram, modules: Modules, problems: list[str]) -> ViewedProgram:
    module = modules.module(program.program_id)
    if module is None:
        return program
    try:
        return replace(
            program, own=modules.program(program.program_id), rows=tuple(list_module_rows(ProgramMemory(module)))
        )
    except CaptureError as error:
        at = f", at byte {error.offset:,} of its HLO" if error.offset is not None else ""
        problems.append(f"the memory of the program {program.title} does not decode: {error.message}{at}")
        return program


# ---- the report


@dataclass(frozen=True, slots=True)
class ShownProgram:
    """Shown program and memory space."""

    program: ViewedProgram
    memory: ProgramMemory
    space: MemorySpace


def run(kept: Sequence[HostPrograms], params: Params, after: Mapping[str, AnalysisReport]) -> AnalysisReport:
    programs = [program for program in _deduplicate(kept) if program.own is not None]
    if params.module is not None:
        programs = _find_named(programs, kept, str(params.module))
    ordered = sorted(programs, key=lambda program: _make_sort_key(program, params), reverse=True)
    shown = _make_shown(ordered[0], params) if ordered else None
    tables = {name: schema.empty() for name, schema in TABLES.items()} | {
        "modules": _build_modules_table(ordered, params)
    }
    if shown is not None:
        tables |= _build_tables(shown)
    values = _compute_figures(shown, kept)
    notices = tuple(_list_notices(kept, ordered, shown, params))
    return AnalysisReport(NAME, tables, make_scalars(SCALARS, values), notices, after, shown)


def _deduplicate(kept: Sequence[HostPrograms]) -> list[ViewedProgram]:
    """Merge programs of several hosts that are equal to the byte."""
    distinct: dict[Any, ViewedProgram] = {}
    for program in chain.from_iterable(programs for programs, _ in kept):
        same = b"" if program.own is None else program.own.digest
        key = (program.title, program.program_id, same)
        first = distinct.get(key)
        distinct[key] = program if first is None else replace(first, hosts=first.hosts + program.hosts)
    return list(distinct.values())


def _find_named(programs: Sequence[ViewedProgram], kept: Sequence[HostPrograms], requested: str) -> list[ViewedProgram]:
    """Return the programs of a name on all hosts, all with one id; none if it does not decode, which notices report.
    UsageError: no program has the name, or several."""
    listed = list(dict.fromkeys((program.program_id, program.title) for own, _ in kept for program in own))
    matches = find_named_programs(listed, requested, _NO_PROGRAMS)
    return [program for program in programs if (program.program_id, program.title) in matches]


def _measure_taken(row: ModuleRow) -> int:
    """Return the size that orders programs: the peak, or else the allocated bytes, plus scoped VMEM."""
    taken: int = row["peak_bytes"] if row["peak_bytes"] is not None else row["allocated_bytes"] or 0
    return taken + (row["scoped_vmem_bytes"] or 0)


def _make_sort_key(program: ViewedProgram, params: Params) -> tuple[int, int]:
    """Return the sort key of a program: its size in the memory space, then in all."""
    number = program.space_number(params)
    of_space = max((_measure_taken(row) for row in program.rows if row["memory_space"] in (number, None)), default=-1)
    return of_space, sum(map(_measure_taken, program.rows))


def _make_shown(program: ViewedProgram, params: Params) -> ShownProgram:
    assert program.own is not None
    memory = ProgramMemory(HloModule(program.own.data))
    return ShownProgram(replace(program, own=None), memory, memory.space(program.space_number(params)))


def _build_modules_table(ordered: Sequence[ViewedProgram], params: Params) -> pa.Table:
    """List the rows of each program: the requested memory space first."""
    rows = []
    for program in ordered:
        of_program = {
            "host": program.hosts[0],
            "host_count": len(program.hosts),
            "module": program.title,
            "program_id": program.program_id,
        }
        number = program.space_number(params)
        for row in sorted(program.rows, key=lambda row: (row["memory_space"] != number, row["memory_space"] or 0)):
            space = row["memory_space"]
            name = None if space is None else get_space_name(space, program.hardware)
            rows.append({**of_program, "memory_space_name": name, **row})
    return pa.Table.from_pylist(rows, TABLES["modules"].arrow())


def _build_tables(shown: ShownProgram) -> dict[str, pa.Table]:
    if shown.memory.unknown:
        rows = list_signature_rows(shown.memory, shown.space.number)
        return {"allocations": pa.Table.from_pylist(rows, TABLES["allocations"].arrow())}
    return {
        "buffers_at_peak": tables_of.make_peak_table(shown.space),
        "peak_by_op": tables_of.make_peak_by_op_table(shown.space),
        "by_allocation_type": tables_of.make_by_type_table(shown.memory, shown.program.hardware),
        "heap": tables_of.make_heap_table(shown.space),
        "allocations": tables_of.make_allocations_table(shown.space),
        "lifetimes": tables_of.make_lifetimes_table(shown.space),
    }


_NO_PROGRAMS = "the capture carries no compiled programs"
_NO_HARDWARE = "the hardware is unknown, so memory spaces have no names: program files do not record it"
_CONTRADICTION = "the memory plan is contradictory: more is in use at the peak than is allocated"


def _compute_figures(shown: ShownProgram | None, kept: Sequence[HostPrograms]) -> dict[str, Known]:
    if shown is None:
        why = "no program of the capture decodes" if any(programs for programs, _ in kept) else _NO_PROGRAMS
        return dict.fromkeys(SCALARS, (None, why))
    values: dict[str, Known] = dict.fromkeys(SCALARS, (None, shown.memory.unknown))
    values |= {
        "module": shown.program.title,
        "host": shown.program.hosts[0],
        "memory_space": shown.space.number,
        "memory_space_name": get_space_name(shown.space.number, shown.program.hardware)
        or (None, "it has no public name on this hardware" if shown.program.hardware else _NO_HARDWARE),
    }
    if not shown.memory.unknown:
        values |= _compute_space_figures(shown.space)
        values |= find_scoped_vmem(shown.memory, shown.space.number)
    return values


def _compute_space_figures(space: MemorySpace) -> dict[str, Known]:
    (row,) = list_module_rows(space.program, space.number) or ({},)
    peak = space.peak
    unknown = (None, peak.reason or "")
    known = {name: unknown if row.get(name) is None else row[name] for name in SCALARS if name in row}
    if row.get("fragmentation_bytes") is None and peak.bytes is not None:
        known["fragmentation_bytes"] = (None, _CONTRADICTION)
    padding = None if peak.bytes is None or peak.unpadded is None else peak.bytes - peak.unpadded
    traced = space.traced
    heap = traced[0][1] if len(traced) == 1 else None
    why = peak.known_by or (f"{len(traced)} heaps are traced" if traced else peak.reason or "no heap is traced")
    return known | {
        "whole_run_bytes": space.whole_run_bytes,
        "padding_bytes": unknown if padding is None else padding,
        "padding_share": padding / peak.bytes if padding is not None and peak.bytes else (None, "there is no peak"),
        "fragmentation_share": _compute_share(
            row.get("fragmentation_bytes"), row["temporary_bytes"], peak.reason or _CONTRADICTION
        ),
        "peak_point": (None, why) if heap is None else heap.peak_event,
        "peak_instruction": (None, why) if heap is None else _find_peak_instruction(space, heap.peak_event),
    }


def _compute_share(part: int | None, total: int, reason: str) -> float | tuple[None, str]:
    if part is None:
        return None, reason
    return part / total if total > 0 else (None, "there are no temporaries")


def _find_peak_instruction(space: MemorySpace, event: int) -> str | tuple[None, str]:
    ((_, heap),) = space.traced
    if not len(heap.events):
        return None, "the heap's trace is empty"
    name = space.program.buffers.text(int(heap.events["instruction_name"][event]))
    return name or (None, "the trace does not name it")


def _list_notices(
    kept: Sequence[HostPrograms], ordered: Sequence[ViewedProgram], shown: ShownProgram | None, params: Params
) -> Iterator[Notice]:
    for problem in dict.fromkeys(problem for _, problems in kept for problem in problems):
        yield Notice("warning", f"{problem[:1].upper()}{problem[1:]}.")
    if not any(programs for programs, _ in kept):
        yield Notice("warning", f"No programs: {_NO_PROGRAMS if kept else 'no host is selected'}.")
    for program in ordered[1:]:
        if any(row["reason"] == TOO_LARGE for row in program.rows):
            yield Notice("warning", f"The memory of the program {program.title} is unknown: {TOO_LARGE}.")
    if shown is None:
        return
    yield from (Notice(*remark) for remark in _describe_shown(ordered, shown, params))
    yield from (Notice(*remark) for remark in make_remarks(shown.space, main=shown.space.number == DEVICE))


def _describe_shown(ordered: Sequence[ViewedProgram], shown: ShownProgram, params: Params) -> Iterator[Remark]:
    """Say which of several programs is shown, and whether it has nothing in the requested memory."""
    nothing = not len(shown.space.allocations) and not shown.memory.unknown
    requested = format_space(shown.space.number, shown.program.hardware)
    if nothing and params.module is None and _make_sort_key(ordered[0], params)[0] <= 0:
        numbers = {row["memory_space"] for program in ordered for row in program.rows} - {None}
        yield (
            "warning",
            f"No program has anything in {requested}; there are: {_format_spaces(numbers, shown.program.hardware)}.",
        )
        return
    if params.module is None and len(ordered) > 1:
        text = f"Showing {shown.program.title}, the largest of {len(ordered):,} programs; "
        yield "info", text + "choose another with --module NAME."
    elif len(ordered) > 1:
        hosts = ", ".join(program.hosts[0] for program in ordered[:4])
        text = f"Showing the largest of {len(ordered):,} programs called {shown.program.title} (hosts {hosts}), that "
        yield "info", text + f"of {shown.program.hosts[0]}; choose another with --host NAME."
    if nothing:
        numbers = {number for number in shown.memory.spaces if number != shown.space.number}
        others = _format_spaces(numbers, shown.program.hardware)
        yield "warning", f"The program has nothing in {requested}; its memory spaces are: {others}."


def _format_spaces(numbers: set[int], hardware: str) -> str:
    return ", ".join(f"{format_space(number, hardware)} ({number})" for number in sorted(numbers)) or "none"


WORTH_SAYING: Final = 0.05
"""Share of the peak, or of temporaries, from which a remark is made."""
LEAST_BYTES: Final = 1 << 20
"""No remark is made about less."""

Remark = tuple[str, str]
"""Severity and text."""


def make_remarks(space: MemorySpace, *, main: bool) -> Iterator[Remark]:
    """Yield remarks. ``main``: whether the space is the device's main memory, in which parameters and outputs lie."""
    unknown = space.program.unknown
    if unknown:
        reason = unknown[:1].upper() + unknown[1:]
        yield "warning", f"{reason}: only its parameters and outputs are shown, with the sizes of their layouts."
        return
    yield from _find_contradictions(space)
    if space.peak.reason is not None:
        yield "info", f"The peak is unknown: {space.peak.reason}."
    yield from _describe_padding(space)
    yield from _describe_fragmentation(space)
    if main:
        yield from _find_not_donated(space)


def _find_contradictions(space: MemorySpace) -> Iterator[Remark]:
    plan = space.program.buffers
    below = int(plan.odd_buffers.sum() + plan.odd_allocations.sum())
    if below:
        sizes = "1 size in the plan of memory is" if below == 1 else f"{below:,} sizes in the plan of memory are"
        yield "warning", f"{sizes} below 0 and count{'s' if below == 1 else ''} as 0."
    if space.misfits:
        single = "1 buffer does not fit into its allocation"
        misfits = single if space.misfits == 1 else f"{space.misfits:,} buffers do not fit into their allocations"
        yield "warning", f"{misfits}: the plan contradicts itself."
    odd = sum(heap.passed_over for _, heap in space.traced)
    if odd:
        yield "warning", f"{odd:,} heap trace events make no sense, such as a second free; they are ignored."


def _describe_padding(space: MemorySpace) -> Iterator[Remark]:
    peak = space.peak
    if peak.bytes is None or peak.unpadded is None:
        return
    padding = peak.bytes - peak.unpadded
    if padding < max(LEAST_BYTES, WORTH_SAYING * peak.bytes):
        return
    alive = find_alive_at_peak(space)
    worst = _find_most_padded(space, alive)
    text = f"{format_size(padding)} of the peak, {100 * padding / peak.bytes:.0f} %, is padding"
    if worst is not None:
        text += f", most of it for {worst}"
    yield (
        "recommendation",
        f"{text}. Tiles pad the last dimensions of an array: use multiples of the tile size, or another order of "
        f"dimensions.",
    )


def _find_most_padded(space: MemorySpace, alive: Alive) -> str | None:
    """Return the shape with the most padding at the peak, with its size in full tiles."""
    buffers = Buffers(space.program, alive.buffer)
    unpadded = buffers.unpadded()
    padding = np.where(unpadded < 0, 0, alive.bytes - unpadded)
    by_shape: Counter[str] = Counter()
    for shape, size in zip(buffers.shapes().to_pylist(), padding.tolist(), strict=True):
        if shape and size > 0:
            by_shape[shape] += size
    if not by_shape:
        return None
    shape, _ = by_shape.most_common(1)[0]
    place = buffers.shapes().to_pylist().index(shape)
    padded = buffers.padded_shapes()[place].as_py()
    return f"{shape}, which takes as much as {padded}" if padded else shape


def _describe_fragmentation(space: MemorySpace) -> Iterator[Remark]:
    for row, heap in space.traced:
        size = int(space.program.buffers.allocations["size"][row])
        lost = size - heap.peak_bytes
        if lost >= max(LEAST_BYTES, WORTH_SAYING * size):
            yield (
                "info",
                f"The temporaries take {format_size(size)}, {format_size(lost)} more than is ever in use: "
                "there are gaps "
                "between buffers.",
            )


def _find_not_donated(space: MemorySpace) -> Iterator[Remark]:
    """Remark on outputs that have the shape of a parameter and memory of their own."""
    category = space.program.buffers.category[space.allocations]
    live_out = space.program.buffers.allocations["live_out"][space.allocations] != 0
    own = space.allocations[(category == OUTPUT) & (space.program.buffers.allocations["tuple"][space.allocations] == 0)]
    held = space.allocations[(category == PARAMETER) & ~live_out]
    free = Counter(_find_shapes(space, held))
    count, size = 0, 0
    for row, shape in zip(own.tolist(), _find_shapes(space, own), strict=True):
        if shape and free[shape] > 0:
            free[shape] -= 1
            count += 1
            size += int(space.program.buffers.allocations["size"][row])
    if size < max(LEAST_BYTES, WORTH_SAYING * space.allocated_bytes):
        return
    outputs = "1 output has the shape of a parameter" if count == 1 else f"{count:,} outputs have shapes of parameters"
    yield (
        "recommendation",
        f"{outputs} and memory of {'its' if count == 1 else 'their'} own, {format_size(size)}. Parameters that are "
        f"not needed after the call can be donated (donate_argnums in JAX): outputs then use their memory.",
    )


def _find_shapes(space: MemorySpace, allocations: Int64s) -> list[str | None]:
    """Return the shape of the last buffer that is as large as its allocation: outputs may hold other values before."""
    buffers = space.program.buffers
    rows = []
    for row in allocations.tolist():
        inside = buffers.inside(row)
        full = inside[buffers.buffers["size"][inside] == buffers.allocations["size"][row]]
        rows.append(int(full[-1]) if len(full) else -1)
    shapes: list[str | None] = Buffers(space.program, np.array(rows, np.int64)).shapes().to_pylist()
    return shapes
